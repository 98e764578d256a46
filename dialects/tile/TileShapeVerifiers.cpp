// Verifiers of the ops that make and reshape tiles. The labels in comments are those of the constraints in
// TileShape.td.
#include "dialects/tile/TileVerifiers.h"

using namespace mlir;
using namespace kiln::tile;

LogicalResult MakeRangeOp::verify() {
  int64_t start = int32_t(getStart()), end = int32_t(getEnd());
  if (start >= end) // make_range_c1
    return emitOpError() << "expected start below end (because a range has at least one element), got " << start
                         << " to " << end;
  return expectType(*this, "result",
                    RankedTensorType::get({end - start}, IntegerType::get(getContext(), 32)), // make_range_c2
                    "it counts from start to end", getResult().getType());
}

LogicalResult SplatOp::verify() { // splat_c1
  return expectType(*this, "result", withElement(getResult().getType(), getValue().getType()),
                    "every element is the value", getResult().getType());
}

LogicalResult UnsplatOp::verify() {
  if (cast<RankedTensorType>(getValue().getType()).getNumElements() != 1) // unsplat_c1
    return emitOpError() << "expected a tile of one element (because that element becomes the scalar), got "
                         << getValue().getType();
  return expectType(*this, "result", elementOf(getValue().getType()), "it is the element of the tile", // unsplat_c2
                    getResult().getType());
}

LogicalResult ExpandDimsOp::verify() {
  int64_t axis = int32_t(getAxis());
  SmallVector<int64_t> shape(shapeOf(getValue().getType()));
  if (failed(expectAxis(*this, "the result", axis, shape.size() + 1))) // expand_dims_c1
    return failure();
  shape.insert(shape.begin() + axis, 1);
  return expectType(*this, "result", RankedTensorType::get(shape, elementOf(getValue().getType())), // expand_dims_c2
                    "a dimension of size 1 is inserted", getResult().getType());
}

LogicalResult BroadcastOp::verify() {
  Type from = getValue().getType(), to = getResult().getType();
  if (shapeOf(from).size() != shapeOf(to).size() || elementOf(from) != elementOf(to)) // broadcast_c1
    return emitOpError() << "expected result to have rank " << shapeOf(from).size() << " and elements of "
                         << elementOf(from) << " (because a broadcast only repeats elements), got " << to;
  for (auto [dimension, sides] : llvm::enumerate(llvm::zip(shapeOf(from), shapeOf(to)))) {
    auto [side, result] = sides;
    if (side != result && side != 1) // broadcast_c2
      return emitOpError() << "expected side " << dimension << " to be 1 or " << result
                           << " (because only dimensions of size 1 are repeated), got " << side;
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto from = cast<RankedTensorType>(getValue().getType()), to = cast<RankedTensorType>(getResult().getType());
  if (from.getElementType() != to.getElementType()) // reshape_c1
    return emitOpError() << "expected result to have elements of " << from.getElementType()
                         << " (because a reshape keeps the elements), got " << to;
  return expectCount(*this, "elements in the result", from.getNumElements(), "a reshape keeps the elements",
                     to.getNumElements()); // reshape_c2
}

LogicalResult TransOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getValue().getType());
  if (failed(expectPermutation(*this, getOrder(), shape.size()))) // trans_c1
    return failure();
  auto permuted = llvm::map_to_vector(getOrder(), [&](int32_t dimension) { return shape[dimension]; });
  return expectType(*this, "result", RankedTensorType::get(permuted, elementOf(getValue().getType())), // trans_c2
                    "its dimension i is dimension order[i] of the value", getResult().getType());
}

LogicalResult JoinOp::verify() {
  SmallVector<int64_t> shape(shapeOf(getLhs().getType()));
  shape.push_back(2);
  return expectType(*this, "result", RankedTensorType::get(shape, elementOf(getLhs().getType())), // join_c1
                    "the pairs form a new innermost dimension", getResult().getType());
}

LogicalResult SplitOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getValue().getType());
  if (shape.size() < 2 || shape.back() != 2) // split_c1
    return emitOpError() << "expected a tile of rank 2 or more whose innermost side is 2 (because each half is a "
                         << "tile), got " << getValue().getType();
  return expectType(*this, "each result", RankedTensorType::get(shape.drop_back(), elementOf(getValue().getType())),
                    "a half has no innermost dimension", getLhs().getType()); // split_c2
}

LogicalResult CatOp::verify() {
  Type lhs = getLhs().getType(), rhs = getRhs().getType(), result = getResult().getType();
  for (Type type : {rhs, result})
    if (shapeOf(type).size() != shapeOf(lhs).size() || elementOf(type) != elementOf(lhs)) // cat_c1
      return emitOpError() << "expected rank " << shapeOf(lhs).size() << " and elements of " << elementOf(lhs)
                           << " everywhere (because both inputs become one tile), got " << type;
  int64_t axis = int32_t(getAxis());
  if (failed(expectAxis(*this, "the result", axis, shapeOf(lhs).size()))) // cat_c2
    return failure();
  for (auto [dimension, sides] : llvm::enumerate(llvm::zip(shapeOf(lhs), shapeOf(rhs), shapeOf(result)))) {
    auto [left, right, sum] = sides;
    if (int64_t(dimension) == axis ? left + right != sum : left != right || left != sum) // cat_c3
      return emitOpError() << "expected sides " << dimension
                           << (int64_t(dimension) == axis ? " to add up (because the inputs follow each other there)"
                                                          : " to be equal (because only the axis grows)")
                           << ", got " << left << ", " << right << " and " << sum;
  }
  return success();
}
