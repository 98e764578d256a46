// Verifiers of the ops that compute across elements. Labels in comments are those of the constraints in TileCompute.td.
#include "dialects/tile/TileVerifiers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kiln::tile;

//===----------------------------------------------------------------------===//
// dot
//===----------------------------------------------------------------------===//

static bool isFloat8(Type type) { return isa<Float8E4M3FNType, Float8E5M2Type>(type); }

/// The accumulator types that go with inputs of `element`, as text; empty if it cannot be multiplied. As the table in
/// TileCompute.td.
static StringRef accumulatorsFor(Type element) {
  if (element.isInteger(8))
    return "i32";
  if (isFloat8(element) || element.isF16())
    return "f16 or f32";
  if (element.isBF16() || element.isF32())
    return "f32";
  return element.isF64() ? "f64" : "";
}

static bool isAccumulatorFor(Type element, Type acc) {
  if (element.isInteger(8))
    return acc.isInteger(32);
  if (isFloat8(element) || element.isF16())
    return acc.isF16() || acc.isF32();
  if (element.isBF16() || element.isF32())
    return acc.isF32();
  return element.isF64() && acc.isF64();
}

LogicalResult DotOp::verify() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs().getType()), rhs = shapeOf(getRhs().getType()),
                    acc = shapeOf(getAcc().getType());
  size_t rank = lhs.size();
  if ((rank != 2 && rank != 3) || rhs.size() != rank || acc.size() != rank) // dot_c1
    return emitOpError() << "expected three tiles of rank 2 or of rank 3 (because those are matrices or batches of "
                         << "them), got ranks " << rank << ", " << rhs.size() << " and " << acc.size();
  int64_t m = lhs[rank - 2], k = lhs[rank - 1], n = rhs[rank - 1];
  if (rhs[rank - 2] != k) // dot_c2
    return emitOpError() << "expected " << k << " rows in rhs (because lhs has that many columns), got "
                         << rhs[rank - 2];
  if (rank == 3 && (rhs[0] != lhs[0] || acc[0] != lhs[0])) // dot_c3
    return emitOpError() << "expected batch dimensions of size " << lhs[0] << " (because lhs has that many matrices), "
                         << "got " << rhs[0] << " in rhs and " << acc[0] << " in acc";
  if (acc[rank - 2] != m || acc[rank - 1] != n) // dot_c4
    return emitOpError() << "expected an accumulator of " << m << " by " << n
                         << " (because lhs has that many rows and rhs that many columns), got " << acc[rank - 2]
                         << " by " << acc[rank - 1];

  Type left = elementOf(getLhs().getType()), right = elementOf(getRhs().getType()), sum = elementOf(getAcc().getType());
  if (left != right && !(isFloat8(left) && isFloat8(right))) // dot_c5
    return emitOpError() << "expected elements of " << left << " in rhs (because only the two f8 types mix), got "
                         << right;
  if (accumulatorsFor(left).empty()) // dot_c6
    return emitOpError() << "expected elements of i8, f8E4M3FN, f8E5M2, f16, bf16, f32 or f64 (because no target "
                         << "multiplies others), got " << left;
  if (!isAccumulatorFor(left, sum)) // dot_c6
    return emitOpError() << "expected an accumulator of " << accumulatorsFor(left) << " (because the inputs are "
                         << left << "), got " << sum;
  if (int32_t(getMaxImpreciseAcc()) < 0) // dot_c7
    return emitOpError() << "expected maxImpreciseAcc of at least 0 (because it counts products), got "
                         << int32_t(getMaxImpreciseAcc());
  return success();
}

//===----------------------------------------------------------------------===//
// reduce and scan
//===----------------------------------------------------------------------===//

/// Checks the region of reduce and scan: constraints c3 to c5 of both.
static LogicalResult verifyCombine(Operation *op, Region &region) {
  SmallVector<Type> elements = llvm::map_to_vector(op->getOperandTypes(), elementOf);
  SmallVector<Type> twice(elements);
  llvm::append_range(twice, elements);
  if (failed(expectRegion(op, "combine", region, twice, "it combines two elements of every operand", elements,
                          "it returns one element for each operand")))
    return failure();
  // Calls of nested functions are accepted: they are inlined, and then checked, before anything is lowered.
  Operation *offender = nullptr;
  region.walk([&](MemoryEffectOpInterface nested) {
    SmallVector<MemoryEffects::EffectInstance> effects;
    nested.getEffects(effects);
    if (effects.empty())
      return WalkResult::advance();
    offender = nested;
    return WalkResult::interrupt();
  });
  if (offender)
    return op->emitOpError() << "expected a combine region that touches no memory (because it runs in any order), got "
                             << offender->getName();
  return success();
}

LogicalResult ReduceOp::verify() {
  SmallVector<int64_t> shape(shapeOf(getOperands().front().getType()));
  int64_t axis = int32_t(getAxis());
  if (failed(expectAxis(*this, "the operand", axis, shape.size())) || // reduce_c1
      failed(expectCount(*this, "results", getNumOperands(), "there is one per operand", getNumResults())))
    return failure(); // reduce_c2
  shape.erase(shape.begin() + axis);
  for (auto [operand, result] : llvm::zip(getOperandTypes(), getResultTypes())) {
    Type element = elementOf(operand);
    Type expected = shape.empty() ? element : RankedTensorType::get(shape, element);
    if (failed(expectType(*this, "result", expected, "a reduction removes the axis", result))) // reduce_c2
      return failure();
  }
  return success();
}
LogicalResult ReduceOp::verifyRegions() { return verifyCombine(*this, getCombine()); } // reduce_c3, c4, c5

LogicalResult ScanOp::verify() {
  if (failed(expectAxis(*this, "the operand", int32_t(getAxis()), shapeOf(getOperands().front().getType()).size())) ||
      failed(expectCount(*this, "results", getNumOperands(), "there is one per operand", getNumResults())))
    return failure(); // scan_c1, scan_c2
  for (auto [operand, result] : llvm::zip(getOperandTypes(), getResultTypes()))
    if (failed(expectType(*this, "result", operand, "a scan keeps every element", result))) // scan_c2
      return failure();
  return success();
}
LogicalResult ScanOp::verifyRegions() { return verifyCombine(*this, getCombine()); } // scan_c3, c4, c5

//===----------------------------------------------------------------------===//
// map
//===----------------------------------------------------------------------===//

LogicalResult MapOp::verify() {
  if (getNumOperands() == 0) // map_c1
    return emitOpError() << "expected at least one operand (because it determines the shape of the results), got none";
  Type shape = getOperandTypes().front();
  for (Type type : llvm::concat<const Type>(SmallVector<Type>(getOperandTypes()), SmallVector<Type>(getResultTypes())))
    if (failed(expectShape(*this, "every operand and result", shape, "the region is applied element by element",
                           type))) // map_c1
      return failure();
  return success();
}

LogicalResult MapOp::verifyRegions() {
  auto elements = [](TypeRange types) { return llvm::map_to_vector(types, elementOf); };
  if (failed(expectRegion(*this, "body", getBody(), elements(getOperandTypes()), "it takes one element of each operand",
                          elements(getResultTypes()), "it returns one element for each result"))) // map_c2, map_c3
    return failure();
  WalkResult result = getBody().walk([&](Operation *nested) {
    for (Type type : llvm::concat<const Type>(SmallVector<Type>(nested->getOperandTypes()),
                                              SmallVector<Type>(nested->getResultTypes())))
      if (!type.isIntOrIndexOrFloat() && !isa<PtrType>(type)) { // map_c4
        emitOpError() << "expected numbers and pointers in the region (because it is applied element by element), got "
                      << type;
        return WalkResult::interrupt();
      }
    auto effects = dyn_cast<MemoryEffectOpInterface>(nested);
    SmallVector<MemoryEffects::EffectInstance> found;
    if (effects)
      effects.getEffects(found);
    if (!found.empty() && !isa<LoadOp, StoreOp, AtomicRMWOp, AssertOp>(nested)) { // map_c5
      emitOpError() << "expected loads, stores, tile.atomic_rmw and tile.assert in the region (because only these can "
                       "be masked per element), got "
                    << nested->getName();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// gather, histogram, sorting
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::verify() {
  Type source = getSource().getType(), indices = getIndices().getType();
  int64_t axis = int32_t(getAxis());
  if (failed(expectAxis(*this, "the source", axis, shapeOf(source).size()))) // gather_c1
    return failure();
  bool fits = shapeOf(source).size() == shapeOf(indices).size();
  for (size_t d = 0; fits && d < shapeOf(source).size(); ++d)
    fits = int64_t(d) == axis || shapeOf(source)[d] == shapeOf(indices)[d];
  if (!fits) // gather_c2
    return emitOpError() << "expected indices to have " << shapeText(source) << " except along axis " << axis
                         << " (because each row gathers from its own elements), got " << shapeText(indices);
  if (elementOf(indices).isInteger(1)) // gather_c4
    return emitOpError() << "expected indices of 8 to 64 bits (because i1 is a condition), got " << indices;
  return expectType(*this, "result", withElement(indices, elementOf(source)), "every index picks an element",
                    getResult().getType()); // gather_c3
}

LogicalResult HistogramOp::verify() {
  Type value = getValue().getType(), result = getResult().getType();
  if (shapeOf(value).size() != 1 || shapeOf(result).size() != 1) // histogram_c1
    return emitOpError() << "expected value and result of rank 1 (because bins count the elements of one row), got "
                         << value << " and " << result;
  if (getMask() && failed(expectShape(*this, "mask", value, "each element has its own mask", getMask().getType())))
    return failure();                // histogram_c2
  if (elementOf(value).isInteger(1)) // histogram_c3
    return emitOpError() << "expected values of 8 to 64 bits (because i1 is a condition), got " << value;
  return success();
}

static LogicalResult expectUnsignedFits(Operation *op, bool isUnsigned, Type type) {
  if (!isUnsigned || isa<IntegerType>(elementOf(type)))
    return success();
  return op->emitOpError() << "expected isUnsigned only with integers (because floats have no unsigned order), got "
                           << elementOf(type);
}

LogicalResult SortOp::verify() { // sort_c1
  return expectUnsignedFits(*this, getIsUnsigned(), getValue().getType());
}

LogicalResult TopkOp::verify() {
  Type value = getValue().getType(), result = getResult().getType();
  SmallVector<int64_t> shape(shapeOf(value));
  shape.back() = shapeOf(result).back();
  if (failed(expectType(*this, "result", RankedTensorType::get(shape, elementOf(value)), // topk_c1
                        "only the last dimension shrinks", result)))
    return failure();
  if (shape.back() > shapeOf(value).back()) // topk_c2
    return emitOpError() << "expected at most " << shapeOf(value).back()
                         << " elements of each row (because a row has no more), got " << shape.back();
  return expectUnsignedFits(*this, getIsUnsigned(), value); // topk_c3
}
