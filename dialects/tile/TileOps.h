// The ops of the tile dialect.
#pragma once
#include "dialects/tile/TileDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln::tile {

/// Checks tile_c1 to tile_c4 on every tile among the operands and results of `op`.
llvm::LogicalResult verifyTiles(mlir::Operation *op);

/// A trait of every tile op, which checks the rules for tiles in one place.
template <typename ConcreteType> struct TileSideRule : mlir::OpTrait::TraitBase<ConcreteType, TileSideRule> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyTiles(op); }
};

} // namespace kiln::tile

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.h.inc"
