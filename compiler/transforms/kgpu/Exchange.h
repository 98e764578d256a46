// Lowering of exchanges: the code that the rewrites share. There is one file per op (Exchange<Op>.cpp) with an add…()
// function that registers its rewrite in the table; kiln-lower-exchanges runs them.
//
// A rewrite looks at the layouts of one op. If elements have to cross warps or ctas, it replaces the op by stores to
// and loads from shared memory and an op that stays inside the warp. It never creates a barrier.
#pragma once
#include "compiler/target/Target.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Conversion.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <functional>

namespace kiln::kgpu {

class Exchanges {
public:
  Exchanges(mlir::func::FuncOp function);

  using Rewrite = mlir::LogicalResult (*)(Exchanges &, mlir::Operation *);
  /// Inserts at the op being rewritten, with its location.
  mlir::ImplicitLocOpBuilder b;
  const Target &target() const { return machine; }
  /// Ctas of one program instance.
  int64_t cluster() const { return ctas; }

  /// `tile` in `layout`: unchanged, through a `kgpu.convert` that stays inside warps, or through shared memory.
  mlir::Value convert(mlir::Value tile, const layout::Layout &layout);
  /// `tile` in `layout`, through a store to memory of layout `memory` and a load.
  mlir::Value throughMemory(mlir::Value tile, const layout::Layout &memory, const layout::Layout &layout);
  /// Memory for a tile of this shape and element type.
  mlir::Value allocate(mlir::Type element, const layout::Layout &memory, bool mbarrier = false);
  void store(mlir::Value tile, mlir::Value memory);
  mlir::Value load(mlir::Value memory, mlir::Type type);
  mlir::Value load(mlir::Value memory, const layout::Layout &layout);

  /// A part of a memory, starting at element `offset`, as memory of layout `layout`.
  mlir::Value view(mlir::Value memory, int64_t offset, const layout::Layout &layout);

  /// Row-major memory with a complete copy in each cta. The last dimension is the fastest unless others are named.
  layout::Layout wholeInEachCta(llvm::ArrayRef<int64_t> shape, std::optional<unsigned> fastest = std::nullopt,
                                std::optional<unsigned> slowest = std::nullopt) const;
  /// Copies the region of a tile op into a kgpu op.
  void copyCombine(mlir::Region &from, mlir::Region &to);
  /// Replaces an op by values, one per result.
  void replace(mlir::Operation *op, mlir::ValueRange values);

private:
  Target machine;
  int64_t ctas = 1;
};

/// A layout over the threads of `like` in which `axis` lies inside one warp: `vector` adjacent registers, then lanes,
/// then further registers. Ctas and groups keep their place unless they are on the axis.
layout::Layout axisInWarp(const layout::Layout &like, unsigned axis, int64_t vector);

/// The tile type with this layout.
inline mlir::RankedTensorType tileType(mlir::Type element, const layout::Layout &layout) {
  return mlir::RankedTensorType::get(layout.shape(), element, layout::MapAttr::get(element.getContext(), layout));
}

using ExchangeTable = llvm::StringMap<Exchanges::Rewrite>;
// One per file.
void addConvertExchange(ExchangeTable &table);
void addReduceExchange(ExchangeTable &table);
void addScanExchange(ExchangeTable &table);
void addAtomicExchanges(ExchangeTable &table);
void addLoadExchange(ExchangeTable &table);
void addShapeExchanges(ExchangeTable &table);
void addGatherExchange(ExchangeTable &table);
void addHistogramExchange(ExchangeTable &table);
void addDotExchange(ExchangeTable &table);

} // namespace kiln::kgpu
