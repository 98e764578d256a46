// Verifiers of the kgpu ops. The labels in comments are those of the constraints in the .td files.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/kgpu/PartialLayout.h"
#include "dialects/layout/Constructors.h"
#include "dialects/tile/TileVerifiers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;
using tile::elementOf;
using tile::shapeOf;

LogicalResult kgpu::verifyLayouts(Operation *op) {
  auto verify = [&](StringRef what, TypeRange types) -> LogicalResult {
    for (auto [index, type] : llvm::enumerate(types))
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        if (!isa_and_nonnull<layout::MapAttr>(tensor.getEncoding())) // kgpu_c1
          return op->emitOpError()
                 << "expected " << what << " #" << index
                 << " to carry a #layout.map (because at this level it is known which thread holds an element), got "
                 << type;
    return success();
  };
  if (failed(verify("operand", op->getOperandTypes())))
    return failure();
  return verify("result", op->getResultTypes());
}

LogicalResult kgpu::verifyEarlyLayouts(Operation *op) {
  auto bare = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return !tensor || !tensor.getEncoding();
  };
  if (llvm::all_of(op->getOperandTypes(), bare) && llvm::all_of(op->getResultTypes(), bare))
    return success();
  return verifyLayouts(op);
}

/// Fails unless `type` is `expected`, layout included.
static LogicalResult expectExactly(Operation *op, StringRef what, Type expected, StringRef why, Type type) {
  if (type == expected)
    return success();
  return op->emitOpError() << "expected " << what << " of type " << expected << " (because " << why << "), got "
                           << type;
}

/// True when each cta's memory holds the whole tile.
static bool isWholeInEachCta(const Layout &memory) {
  return llvm::all_of(memory.digits(Coord::Cta), [](const layout::Digit &digit) { return digit.replicates(); });
}

LogicalResult KeepOp::verify() {
  Type element = elementOf(getSource().getType());
  if (!element.isIntOrFloat() || !llvm::is_contained({8, 16, 32}, element.getIntOrFloatBitWidth())) // keep_c1
    return emitOpError() << "expected elements of 8, 16 or 32 bits (because a register holds 32 bits), got " << element;
  return success();
}

LogicalResult ConvertOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  if (shapeOf(source) != shapeOf(result) || elementOf(source) != elementOf(result)) // convert_c1
    return emitOpError() << "expected a result of " << tile::shapeText(source) << " and " << elementOf(source)
                         << " (because only the layout changes), got " << result;
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta}) { // convert_c2
    int64_t from = layoutOf(source).size(coord), to = layoutOf(result).size(coord);
    if (from != to)
      return emitOpError() << "expected a layout over " << from << " of coordinate " << layout::coordName(coord)
                           << " (because the same threads hold the result), got " << to;
  }
  return success();
}

LogicalResult AllocOp::verify() {
  if (auto offset = getOffset(); offset && (int64_t(*offset) < 0 || int64_t(*offset) % kSharedAlign)) // alloc_c1
    return emitOpError() << "expected an offset of at least 0 that " << kSharedAlign
                         << " divides (because the widest access needs that alignment), got " << int64_t(*offset);
  if (int32_t(getSlots()) < 1) // alloc_c2
    return emitOpError() << "expected at least one slot (because it holds a tile), got " << int32_t(getSlots());
  if (turnNumber() &&
      (int32_t(getSlots()) != 1 || getMbarrier() || !getOperation()->getParentOfType<RolesOp>())) // alloc_c4
    return emitOpError("expected one slot without an mbarrier, in a role (because roles take turns with the whole "
                       "allocation), got ")
           << (getMbarrier()              ? "an mbarrier"
               : int32_t(getSlots()) != 1 ? "several slots"
                                          : "an allocation outside roles");
  if (!getMbarrier())
    return success();
  MemType type = getMem().getType();
  if ((type.getElementBytes() != 4 && type.getElementBytes() != 8) || !layout::pieceOf(layoutOf(type))) // alloc_c3
    return emitOpError() << "expected memory with an mbarrier to have elements of 4 or 8 bytes, all of them or one "
                            "piece in each cta (because st.async stores 4 or 8 bytes), got "
                         << type;
  return success();
}

LogicalResult AwaitOp::verify() {
  if (!mbarrierOf(getMem())) // await_c1
    return emitOpError() << "expected a slot of memory with an mbarrier (because only an mbarrier counts the bytes "
                            "that have arrived), got "
                         << getMem();
  return success();
}

LogicalResult SlotOp::verify() {
  if (!getMem().getDefiningOp<AllocOp>()) // slot_c1
    return emitOpError() << "expected the result of a kgpu.alloc (because only an allocation has slots), got "
                         << getMem();
  return success();
}

LogicalResult ViewOp::verify() {
  MemType memory = getMem().getType(), part = getResult().getType();
  if (!getMem().getDefiningOp<AllocOp>() && !getMem().getDefiningOp<SlotOp>()) // view_c1
    return emitOpError()
           << "expected the result of a kgpu.alloc or kgpu.slot (because a view is taken of a whole slot), got "
           << getMem();
  if (memory.getElementType() != part.getElementType()) // view_c2
    return emitOpError() << "expected elements of " << memory.getElementType()
                         << " (because a view moves no data), got " << part.getElementType();
  int64_t first = int64_t(getOffset()), last = first + layoutOf(part).size(Coord::Offset);
  if (first < 0 || last > layoutOf(memory).size(Coord::Offset)) // view_c3
    return emitOpError() << "expected elements 0 to " << layoutOf(memory).size(Coord::Offset)
                         << " at most (because the memory holds no more), got " << first << " to " << last;
  std::optional<layout::ClusterPiece> whole = layout::pieceOf(layoutOf(memory)), some = layout::pieceOf(layoutOf(part));
  bool sameParts =
      layoutOf(memory).digits(Coord::Cta) == layoutOf(part).digits(Coord::Cta) &&
      (memory.getShape() == part.getShape() || (whole && some && whole->split && whole->split == some->split));
  if (!(isWholeInEachCta(layoutOf(memory)) && isWholeInEachCta(layoutOf(part))) && !sameParts) // view_c4
    return emitOpError() << "expected memory that each cta holds whole, or a view split over the ctas in the same way "
                            "(because a view moves no data), got "
                         << memory << " and " << part;
  return success();
}

/// Checks a tile against the memory that it is stored to or loaded from.
static LogicalResult verifyFits(Operation *op, Type value, MemType memory) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (shape.empty())
    shape.push_back(1);
  if (ArrayRef<int64_t>(shape) == memory.getShape() && elementOf(value) == memory.getElementType())
    return success();
  return op->emitOpError() << "expected memory of shape [" << shape << "] and " << elementOf(value)
                           << " (because it holds the value), got " << memory;
}

/// True when the memory is split over ctas as the tile is; before layouts are assigned, any split may become so.
static bool isSplitAs(Type value, const Layout &memory) {
  auto tile = dyn_cast<RankedTensorType>(value);
  return tile && (!tile.getEncoding() || layoutOf(tile).digits(Coord::Cta) == memory.digits(Coord::Cta));
}

LogicalResult LocalStoreOp::verify() {
  if (failed(verifyFits(*this, getValue().getType(), getMem().getType()))) // local_store_c1
    return failure();
  const Layout &memory = layoutOf(getMem().getType());
  if (isWholeInEachCta(memory) || (!fromOneOwner() && isSplitAs(getValue().getType(), memory)))
    return success();
  auto tile = dyn_cast<RankedTensorType>(getValue().getType());
  if (!fromOneOwner() && mbarrierOf(getMem()) && tile && isDealt(layoutOf(tile), memory))
    return success();
  return emitOpError() // local_store_c2
         << "expected memory with the whole tile in each cta, split as the tile is, or with an mbarrier and split so "
            "that each thread has registers for each cta (because an element is stored to every cta, to its own, or to "
            "its owner), got "
         << getMem().getType() << " for " << getValue().getType();
}

LogicalResult LocalLoadOp::verify() {
  if (failed(verifyFits(*this, getResult().getType(), getMem().getType()))) // local_load_c1
    return failure();
  const Layout &memory = layoutOf(getMem().getType());
  if (isWholeInEachCta(memory) || isSplitAs(getResult().getType(), memory))
    return success();
  return emitOpError() // local_load_c2
         << "expected memory with the whole tile in each cta, or split as the result is (because a thread reads its "
            "own "
         << "cta's memory), got " << getMem().getType() << " for " << getResult().getType();
}

LogicalResult LocalGatherOp::verify() {
  MemType memory = getMem().getType();
  Type indices = getIndices().getType();
  int64_t axis = int32_t(getAxis()), rank = memory.getRank();
  if (axis < 0 || axis >= rank) // local_gather_c1
    return emitOpError() << "expected axis in 0.." << rank - 1 << " (because the memory has rank " << rank << "), got "
                         << axis;
  bool fits = int64_t(shapeOf(indices).size()) == rank;
  for (int64_t d = 0; fits && d < rank; ++d)
    fits = d == axis || shapeOf(indices)[d] == memory.getShape()[d];
  if (!fits) // local_gather_c2
    return emitOpError() << "expected indices of shape [" << memory.getShape() << "] except along axis " << axis
                         << " (because each row gathers from its own elements), got " << tile::shapeText(indices);
  if (elementOf(indices).isInteger(1)) // local_gather_c4
    return emitOpError() << "expected indices of 8 to 64 bits (because i1 is a condition), got " << indices;
  auto expected = cast<RankedTensorType>(indices).clone(memory.getElementType());
  return expectExactly(*this, "result", expected,
                       "each thread gathers for the indices that it holds", // local_gather_c3
                       getResult().getType());
}

LogicalResult LocalAtomicAddOp::verify() {
  MemType memory = getMem().getType();
  if (memory.getRank() != 1 || !memory.getElementType().isInteger(32)) // local_atomic_add_c1
    return emitOpError() << "expected memory of one dimension and i32 (because its elements are counters), got "
                         << memory;
  auto indices = cast<RankedTensorType>(getIndices().getType());
  if (indices.getRank() != 1 || indices.getElementType().isInteger(1)) // local_atomic_add_c2
    return emitOpError() << "expected indices of one dimension and 8 to 64 bits (because each names a counter), got "
                         << indices;
  if (getValue().getType().getShape() != indices.getShape() ||
      getValue().getType().getEncoding() != indices.getEncoding()) // local_atomic_add_c3
    return emitOpError() << "expected a value with the shape and layout of " << indices
                         << " (because each index adds its own value), got " << getValue().getType();
  if (getMask() && getMask().getType() != indices.clone(IntegerType::get(getContext(), 1))) // local_atomic_add_c3
    return emitOpError() << "expected a mask with the shape and layout of " << indices
                         << " (because each index has its own condition), got " << getMask().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// partial_reduce
//===----------------------------------------------------------------------===//

LogicalResult PartialReduceOp::verify() {
  auto tensor = cast<RankedTensorType>(getOperandTypes().front());
  int64_t axis = int32_t(getAxis());
  if (failed(tile::expectAxis(*this, "the operand", axis, tensor.getRank())) || // partial_reduce_c1
      failed(tile::expectCount(*this, "results", getNumOperands(), "there is one per operand", getNumResults())))
    return failure(); // partial_reduce_c2
  auto layout = partialLayout(layoutOf(tensor), axis, getOrdered());
  if (!layout) // partial_reduce_c5
    return emitOpError() << "expected a layout whose digits along axis " << axis
                         << " step along no other axis (because a warp must own all the indices that it combines), got "
                         << tensor;
  for (auto [operand, result] : llvm::zip(getOperandTypes(), getResultTypes())) {
    if (cast<RankedTensorType>(operand).getEncoding() != tensor.getEncoding()) // partial_reduce_c2
      return emitOpError()
             << "expected operands of one layout (because a thread combines the elements of a tuple), got " << operand
             << " beside " << tensor;
    auto expected =
        RankedTensorType::get(layout->shape(), elementOf(operand), layout::MapAttr::get(getContext(), *layout));
    if (failed(expectExactly(*this, "result", expected, "each warp contributes its own partial results",
                             result))) // partial_reduce_c2
      return failure();
  }
  return success();
}

/// Checks the region of an op that combines tuples of `elements`.
static LogicalResult verifyCombine(Operation *op, Region &region, ArrayRef<Type> elements) {
  Block &block = region.front();
  SmallVector<Type> twice(elements);
  llvm::append_range(twice, elements);
  if (block.getArgumentTypes() != TypeRange(twice))
    return op->emitOpError() << "expected combine region to take (" << twice
                             << ") (because it combines two elements of every tile), got (" << block.getArgumentTypes()
                             << ")";
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getOperandTypes() != TypeRange(elements))
    return op->emitOpError() << "expected combine region to end in kgpu.yield of (" << elements
                             << ") (because it returns one element for each tile), got " << *block.getTerminator();
  Operation *offender = nullptr;
  region.walk([&](Operation *nested) {
    if (!isMemoryEffectFree(nested))
      offender = nested;
  });
  if (offender)
    return op->emitOpError() << "expected a combine region that touches no memory (because it runs in any order), got "
                             << offender->getName();
  return success();
}

LogicalResult PartialReduceOp::verifyRegions() { // partial_reduce_c3, c4, c6
  return verifyCombine(*this, getCombine(), llvm::map_to_vector(getOperandTypes(), elementOf));
}

//===----------------------------------------------------------------------===//
// partial_scan, add_prefix
//===----------------------------------------------------------------------===//

LogicalResult PartialScanOp::verify() {
  auto tensor = cast<RankedTensorType>(getOperandTypes().front());
  int64_t axis = int32_t(getAxis());
  if (failed(tile::expectAxis(*this, "the operand", axis, tensor.getRank()))) // partial_scan_c1
    return failure();
  if (failed(tile::expectCount(*this, "results", 2 * getNumOperands(), "there are two per operand", getNumResults())))
    return failure(); // partial_scan_c2
  auto sums = segmentSums(layoutOf(tensor), axis);
  if (!sums) // partial_scan_c5
    return emitOpError()
           << "expected registers, then lanes, then registers and warps along axis " << axis
           << ", by digits that step along no other axis (because a segment belongs to a single warp), got " << tensor;
  for (auto [index, operand] : llvm::enumerate(getOperandTypes())) {
    if (cast<RankedTensorType>(operand).getEncoding() != tensor.getEncoding()) // partial_scan_c2
      return emitOpError()
             << "expected operands of one layout (because a thread combines the elements of a tuple), got " << operand
             << " beside " << tensor;
    auto expected = RankedTensorType::get(sums->shape(), elementOf(operand), layout::MapAttr::get(getContext(), *sums));
    if (failed(expectExactly(*this, "result", operand, "a scan keeps every element", getResult(index).getType())) ||
        failed(expectExactly(*this, "result", expected, "each segment has a sum",
                             getResult(index + getNumOperands()).getType())))
      return failure(); // partial_scan_c2
  }
  return success();
}

LogicalResult PartialScanOp::verifyRegions() { // partial_scan_c3, c4, c6
  return verifyCombine(*this, getCombine(), llvm::map_to_vector(getOperandTypes(), elementOf));
}

LogicalResult AddPrefixOp::verify() {
  unsigned count = getNumResults();
  if (getNumOperands() != 2 * count) // add_prefix_c1
    return emitOpError() << "expected " << 2 * count
                         << " operands (because each result needs a scanned tile and its sums), got "
                         << getNumOperands();
  auto tensor = cast<RankedTensorType>(getOperandTypes().front());
  int64_t axis = int32_t(getAxis());
  if (failed(tile::expectAxis(*this, "the tile", axis, tensor.getRank()))) // add_prefix_c2
    return failure();
  auto sums = segmentSums(layoutOf(tensor), axis);
  auto scanned = sums ? std::optional(scannedSums(*sums, axis)) : std::nullopt;
  for (unsigned i = 0; i < count; ++i) {
    Type tile = getOperand(i).getType();
    if (failed(expectExactly(*this, "result", tile, "every element stays where it is", getResult(i).getType())))
      return failure();                                                                 // add_prefix_c1
    if (!scanned || cast<RankedTensorType>(tile).getEncoding() != tensor.getEncoding()) // add_prefix_c3
      return emitOpError() << "expected tiles of one layout that a partial_scan accepts (because the sums are added to "
                              "its segments), got "
                           << tile;
    auto expected =
        RankedTensorType::get(scanned->shape(), elementOf(tile), layout::MapAttr::get(getContext(), *scanned));
    if (failed(expectExactly(*this, "sums", expected, "each lane fetches its sums from another lane",
                             getOperand(count + i).getType())))
      return failure(); // add_prefix_c3
  }
  return success();
}

LogicalResult AddPrefixOp::verifyRegions() { // add_prefix_c4, c5, c6
  return verifyCombine(*this, getCombine(), llvm::map_to_vector(getResultTypes(), elementOf));
}

//===----------------------------------------------------------------------===//
// compare, dot
//===----------------------------------------------------------------------===//

LogicalResult CompareOp::verify() {
  auto tensor = cast<RankedTensorType>(getValue().getType());
  unsigned axis = tensor.getRank() - 1;
  int64_t side = tensor.getShape()[axis], from = int32_t(getFrom()), to = int32_t(getTo()), run = int32_t(getRun());
  if (!llvm::isPowerOf2_64(side)) // compare_c1
    return emitOpError()
           << "expected a power of two as the last side (because every element is compared with a partner), got "
           << side;
  bool fits = to >= 1 && to <= from && from < run && run <= side;
  if (!fits || !llvm::isPowerOf2_64(from) || !llvm::isPowerOf2_64(to) || !llvm::isPowerOf2_64(run)) // compare_c2
    return emitOpError() << "expected powers of two 1 <= to <= from < run <= " << side
                         << " (because each stride is half the one before), got from " << from << " to " << to
                         << " run " << run;
  if (!stepsInWarp(layoutOf(tensor), axis, to, from)) // compare_c3
    return emitOpError() << "expected strides " << from << " to " << to
                         << " to be digits of registers or lanes that step along no other dimension (because elements "
                            "are exchanged within a warp), got "
                         << tensor;
  return success();
}

LogicalResult DotOp::verify() {
  auto acc = cast<RankedTensorType>(getAcc().getType());
  int64_t rank = acc.getRank();
  ArrayRef<int64_t> lhs = getLhs().getType().getShape(), rhs = getRhs().getType().getShape(), out = acc.getShape();
  if ((rank != 2 && rank != 3) || int64_t(lhs.size()) != rank || int64_t(rhs.size()) != rank) // dot_c1
    return emitOpError() << "expected all of rank 2 or all of rank 3 (because these are matrices, or batches of them), "
                            "got ranks "
                         << lhs.size() << ", " << rhs.size() << " and " << rank;
  bool batches = rank == 2 || (lhs[0] == out[0] && rhs[0] == out[0]);
  if (!batches || lhs[rank - 2] != out[rank - 2] || rhs[rank - 1] != out[rank - 1] ||
      lhs[rank - 1] != rhs[rank - 2]) // dot_c2
    return emitOpError() << "expected inputs of M by K and K by N (because the accumulator is [" << out << "]), got ["
                         << lhs << "] and [" << rhs << "]";
  Type element = acc.getElementType();
  for (MemType type : {getLhs().getType(), getRhs().getType()}) {
    Type input = type.getElementType();
    bool widens = input == element || (input.isIntOrFloat() && isa<FloatType>(input) == isa<FloatType>(element) &&
                                       input.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth());
    if (!widens) // dot_c3
      return emitOpError() << "expected inputs that widen to " << element
                           << " (because products are summed in it), got " << input;
    if (!isWholeInEachCta(layoutOf(type))) // dot_c4
      return emitOpError() << "expected memory with the whole tile in each cta (because every thread reads whole rows "
                              "and columns), got "
                           << type;
  }
  return success();
}
