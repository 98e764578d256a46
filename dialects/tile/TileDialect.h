// The tile dialect, its types and enums. Include TileOps.h for the ops.
#pragma once
#include "dialects/tile/MemoryType.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/tile/TileDialect.h.inc"
#include "dialects/tile/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.h.inc"

namespace kiln::tile {

/// The largest odd factor a side of a tile may have (a side is 2^k * m with m odd).
constexpr int64_t kMaxOddFactor = 31;
/// The most elements one tile may have.
constexpr int64_t kMaxTileElements = 1 << 20;

/// True when `side` is 2^k * m, m odd and at most kMaxOddFactor.
bool isLegalSide(int64_t side);

// The resources of memory effects. Each op declares its effects once; analyses ask for them and keep no lists of ops.

/// Global memory, through the pointer, descriptor or map that is the effect's value; without a value, anywhere.
struct GlobalMemory : mlir::SideEffects::Resource::Base<GlobalMemory> {
  llvm::StringRef getName() final { return "tile.global"; }
};
/// Reports to the host: prints and assertions.
struct Report : mlir::SideEffects::Resource::Base<Report> {
  llvm::StringRef getName() final { return "tile.report"; }
};
/// No memory at all: keeps an op in its place among those with effects. For barriers, promises, prefetches, and ops
/// that order launches.
struct Order : mlir::SideEffects::Resource::Base<Order> {
  llvm::StringRef getName() final { return "tile.order"; }
};

} // namespace kiln::tile
