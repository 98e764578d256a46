// Helpers that the verifiers share: shapes and element types of "scalar or tile" values, and checks that many ops need.
// For dialects/tile and the dialects built on it. Messages read "expected X (because Y), got Z".
#pragma once
#include "dialects/tile/TileOps.h"

namespace kiln::tile {

/// The shape of a tile; empty for a scalar.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Type type) {
  auto tile = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tile ? tile.getShape() : llvm::ArrayRef<int64_t>();
}

/// The element type of a tile; a scalar's own type.
inline mlir::Type elementOf(mlir::Type type) {
  auto tile = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tile ? tile.getElementType() : type;
}

/// The pointee of a pointer or tile of pointers.
inline mlir::Type pointeeOf(mlir::Type type) { return llvm::cast<PtrType>(elementOf(type)).getPointee(); }

/// `element` in the shape of `like`: a tile, or `element` itself when `like` is a scalar.
inline mlir::Type withElement(mlir::Type like, mlir::Type element) {
  auto tile = llvm::dyn_cast<mlir::RankedTensorType>(like);
  return tile ? mlir::RankedTensorType::get(tile.getShape(), element, tile.getEncoding()) : element;
}

/// "shape [64, 32]", or "a scalar".
std::string shapeText(mlir::Type type);

/// Fails unless `type` is `expected`, layouts aside; `what` names the value, `why` the reason.
llvm::LogicalResult expectType(mlir::Operation *op, llvm::StringRef what, mlir::Type expected, llvm::StringRef why,
                               mlir::Type type);

/// Fails unless `type` has the shape of `like`.
llvm::LogicalResult expectShape(mlir::Operation *op, llvm::StringRef what, mlir::Type like, llvm::StringRef why,
                                mlir::Type type);

/// Fails unless `count` is `expected`.
llvm::LogicalResult expectCount(mlir::Operation *op, llvm::StringRef what, int64_t expected, llvm::StringRef why,
                                int64_t count);

/// Fails unless 0 <= axis < rank.
llvm::LogicalResult expectAxis(mlir::Operation *op, llvm::StringRef what, int64_t axis, int64_t rank);

/// Fails unless `order` is a permutation of 0..rank-1.
llvm::LogicalResult expectPermutation(mlir::Operation *op, llvm::ArrayRef<int32_t> order, int64_t rank);

/// Fails unless the only block of `region` takes `arguments` and ends in a tile.yield of `results`; `each` says what
/// the yielded values belong to.
llvm::LogicalResult expectRegion(mlir::Operation *op, llvm::StringRef what, mlir::Region &region,
                                 llvm::ArrayRef<mlir::Type> arguments, llvm::StringRef argumentsWhy,
                                 llvm::ArrayRef<mlir::Type> results, llvm::StringRef resultsWhy);

} // namespace kiln::tile
