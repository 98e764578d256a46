// Structural facts about tile values that need no dataflow analysis: which ops are evaluated lazily, along which
// dimensions a value is uniform, and its stride from one element to the next.
#pragma once
#include "dialects/tile/TileOps.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace kiln::cpu {

inline bool isTile(mlir::Type type) { return mlir::isa<mlir::RankedTensorType>(type); }
inline bool isTile(mlir::Value value) { return isTile(value.getType()); }
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline mlir::Type elementOf(mlir::Type type) {
  auto tile = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tile ? tile.getElementType() : type;
}
inline mlir::Type elementOf(mlir::Value value) { return elementOf(value.getType()); }

using tile::memoryBytes;
/// As tile::memoryType, except that all narrow floats are integers of their width: every vector load, masked load and
/// gather of LLVM accepts those.
mlir::Type memoryType(mlir::Type element);

/// True for tile-valued ops that are evaluated at an index wherever they are needed (see RATIONALE.md, "lazy tiles").
bool isLazy(mlir::Operation *op);
/// True for lazy ops that map element to element of equal shape: an index passes through them unchanged.
bool isElementwise(mlir::Operation *op);
/// True for lazy ops whose repeated evaluation costs more than a store and a load.
bool isExpensive(mlir::Operation *op);
/// True for ops that may write memory that a tile load could read, themselves or in a region.
bool writesMemory(mlir::Operation *op);
/// True for a reshape that only adds or removes dimensions of size 1.
bool isUnitReshape(kiln::tile::ReshapeOp op);
/// A reshape that splits the last dimension in two (2n -> n, 2), or merges it back: evaluated by (de)interleaving.
bool splitsPairs(kiln::tile::ReshapeOp op);
bool mergesPairs(kiln::tile::ReshapeOp op);
/// True when the last dimension stays innermost under the permutation, so that contiguous runs stay contiguous.
bool keepsInnermost(kiln::tile::TransOp op);

/// Memoised structural queries on the source IR, which does not change in the meantime.
class Shapes {
public:
  /// True if the value is the same at all indices of dimension `dim`.
  bool uniform(mlir::Value value, unsigned dim);
  /// value[.., i + 1, ..] - value[.., i, ..] if that is a single constant; for pointers in bytes. Offsets are assumed
  /// not to wrap within one tile.
  std::optional<int64_t> stride(mlir::Value value, unsigned dim);
  /// True if `width` elements (pointees), starting at a multiple of `width` in dimension `dim`, are contiguous.
  bool contiguous(mlir::Value pointers, unsigned dim);

private:
  bool computeUniform(mlir::Value value, unsigned dim);
  std::optional<int64_t> computeStride(mlir::Value value, unsigned dim);
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, bool> uniforms;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, std::optional<int64_t>> strides;
};

/// The constant that all elements of an integer tile or scalar equal.
std::optional<int64_t> constantOf(mlir::Value value);
/// For expand_dims/broadcast/trans/reshape-like ops: the operand's dimension that becomes result dimension `dim`, or
/// -1.
int sourceDim(mlir::Operation *op, unsigned dim);

} // namespace kiln::cpu
