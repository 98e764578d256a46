// Verifiers of types, of the dialect's attributes, and of the ops on programs, pointers and debugging; and the checks
// that all verifiers share. The labels in comments are those of the constraints in the .td files.
#include "dialects/tile/TileVerifiers.h"
#include "dialects/layout/LayoutDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln::tile;

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

bool kiln::tile::isLegalSide(int64_t side) {
  if (side <= 0)
    return false;
  while (side % 2 == 0)
    side /= 2;
  return side <= kMaxOddFactor;
}

std::string kiln::tile::shapeText(Type type) {
  if (!isa<RankedTensorType>(type))
    return "a scalar";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "shape [";
  llvm::interleaveComma(shapeOf(type), os);
  os << "]";
  return text;
}

LogicalResult kiln::tile::expectType(Operation *op, StringRef what, Type expected, StringRef why, Type type) {
  // Layouts are compared by the passes that assign them, not here.
  auto bare = [](Type type) -> Type {
    auto tile = dyn_cast<RankedTensorType>(type);
    return tile && kiln::layout::hasLayout(tile) ? kiln::layout::withoutLayout(tile) : type;
  };
  if (bare(type) == bare(expected))
    return success();
  return op->emitOpError() << "expected " << what << " of type " << expected << " (because " << why << "), got "
                           << type;
}

LogicalResult kiln::tile::expectShape(Operation *op, StringRef what, Type like, StringRef why, Type type) {
  if (shapeOf(type) == shapeOf(like))
    return success();
  return op->emitOpError() << "expected " << what << (isa<RankedTensorType>(like) ? " to have " : " to be ")
                           << shapeText(like) << " (because " << why << "), got " << shapeText(type);
}

LogicalResult kiln::tile::expectCount(Operation *op, StringRef what, int64_t expected, StringRef why, int64_t count) {
  if (count == expected)
    return success();
  return op->emitOpError() << "expected " << expected << " " << what << " (because " << why << "), got " << count;
}

LogicalResult kiln::tile::expectAxis(Operation *op, StringRef what, int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank)
    return success();
  return op->emitOpError() << "expected axis in 0.." << rank - 1 << " (because " << what << " has rank " << rank
                           << "), got " << axis;
}

LogicalResult kiln::tile::expectPermutation(Operation *op, ArrayRef<int32_t> order, int64_t rank) {
  SmallVector<int32_t> sorted(order);
  llvm::sort(sorted);
  bool permutation = int64_t(order.size()) == rank;
  for (auto [i, dimension] : llvm::enumerate(sorted))
    permutation &= dimension == int32_t(i);
  if (permutation)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError() << "expected order to be a permutation of 0.." << rank - 1
                                                    << " (because it names each dimension once), got [";
  llvm::interleaveComma(order, diagnostic);
  return diagnostic << "]";
}

LogicalResult kiln::tile::expectRegion(Operation *op, StringRef what, Region &region, ArrayRef<Type> arguments,
                                       StringRef argumentsWhy, ArrayRef<Type> results, StringRef resultsWhy) {
  Block &block = region.front();
  if (block.getArgumentTypes() != TypeRange(arguments))
    return op->emitOpError() << "expected " << what << " region to take (" << arguments << ") (because " << argumentsWhy
                             << "), got (" << block.getArgumentTypes() << ")";
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield)
    return op->emitOpError() << "expected " << what << " region to end in tile.yield (because it yields the results)"
                             << ", got " << block.getTerminator()->getName();
  if (yield.getOperandTypes() != TypeRange(results))
    return op->emitOpError() << "expected " << what << " region to yield (" << results << ") (because " << resultsWhy
                             << "), got (" << yield.getOperandTypes() << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// Tiles and types
//===----------------------------------------------------------------------===//

/// Checks tile_c1 to tile_c4; `what` names the value in messages.
static LogicalResult verifyTile(function_ref<InFlightDiagnostic()> emitError, StringRef what, RankedTensorType tile) {
  if (tile.getRank() == 0) // tile_c1
    return emitError() << "expected " << what << " to have a dimension (because a single element is a scalar), got "
                       << tile;
  int64_t elements = 1;
  for (auto [dimension, side] : llvm::enumerate(tile.getShape())) {
    if (!isLegalSide(side)) // tile_c2
      return emitError() << "expected side " << dimension << " of " << what << " to be 2^k * m with m odd and at most "
                         << kMaxOddFactor << " (because layouts on every target are made of such digits), got " << side
                         << " in " << tile;
    // A side is at least 1, so the product only grows; stopping here keeps it from overflowing.
    elements = side > kMaxTileElements ? kMaxTileElements + 1 : elements * side;
    if (elements > kMaxTileElements) // tile_c3
      return emitError() << "expected " << what << " to have at most " << kMaxTileElements
                         << " elements (because one program instance holds the whole tile), got " << tile;
  }
  if (tile.getEncoding() && !kiln::layout::hasLayout(tile)) // tile_c4
    return emitError() << "expected " << what
                       << " without encoding other than a #layout.map (because a layout is all that a tile's type may "
                          "add to its shape and elements), got "
                       << tile;
  return success();
}

LogicalResult kiln::tile::verifyTiles(Operation *op) {
  auto verify = [&](StringRef what, TypeRange types) -> LogicalResult {
    for (auto [index, type] : llvm::enumerate(types)) {
      auto tile = dyn_cast<RankedTensorType>(type);
      if (!tile)
        continue;
      auto emitError = [&] { return op->emitOpError(); };
      if (failed(verifyTile(emitError, (what + Twine(" #") + Twine(index)).str(), tile)))
        return failure();
    }
    return success();
  };
  if (failed(verify("operand", op->getOperandTypes())))
    return failure();
  return verify("result", op->getResultTypes());
}

/// True for a number: a type that arithmetic takes.
static bool isNumber(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type))
    return integer.isSignless() && llvm::is_contained({1, 8, 16, 32, 64}, int(integer.getWidth()));
  return isa<Float8E4M3FNType, Float8E5M2Type, Float16Type, BFloat16Type, Float32Type, Float64Type>(type);
}

LogicalResult PtrType::verify(function_ref<InFlightDiagnostic()> emitError, Type pointee) {
  if (isNumber(pointee) || isa<PtrType>(pointee)) // ptr_c1
    return success();
  return emitError() << "expected pointee to be a number or a pointer (because a pointer advances by whole elements in "
                        "memory), got "
                     << pointee;
}

static LogicalResult verifyBlock(function_ref<InFlightDiagnostic()> emitError, RankedTensorType block) {
  if (!block.hasStaticShape() || !isNumber(block.getElementType()))
    return emitError() << "expected block to be a tile of numbers (because it is loaded and stored whole), got "
                       << block;
  return verifyTile(emitError, "block", block);
}

LogicalResult DescType::verify(function_ref<InFlightDiagnostic()> emitError, RankedTensorType block) {
  return verifyBlock(emitError, block); // desc_c1
}
LogicalResult BlockPtrType::verify(function_ref<InFlightDiagnostic()> emitError, RankedTensorType block) {
  return verifyBlock(emitError, block); // block_ptr_c1
}

//===----------------------------------------------------------------------===//
// Attributes of functions, arguments and loops
//===----------------------------------------------------------------------===//

static LogicalResult verifyKernel(Operation *op, Attribute attribute) {
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function || !isa<UnitAttr>(attribute)) // kernel_c1
    return op->emitOpError() << "expected tile.kernel to be a unit attribute of a func.func (because it marks an "
                             << "entry point), got " << attribute;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    if (!isNumber(type) && !isa<PtrType>(type)) // kernel_c2
      return op->emitOpError() << "expected argument #" << index << " of a kernel to be a number or a pointer "
                               << "(because a launch passes nothing else), got " << type;
  if (function.getNumResults() != 0) // kernel_c3
    return op->emitOpError() << "expected a kernel to have no results (because a launch returns nothing), got "
                             << function.getNumResults();
  return success();
}

/// The most iterations that `tile.unroll` may ask for, and the most steps in flight for `tile.num_stages`. A larger
/// number is a mistake that would exhaust memory.
static constexpr int64_t kMostSteps = 4096;

static LogicalResult verifyLoopHint(Operation *op, StringRef name, int64_t least, Attribute attribute) {
  auto value = dyn_cast<IntegerAttr>(attribute);
  if (isa<scf::ForOp>(op) && value && value.getType().isSignlessInteger(32) && value.getInt() >= least &&
      value.getInt() <= kMostSteps)
    return success();
  return op->emitOpError() << "expected " << name << " to be an i32 from " << least << " to " << kMostSteps
                           << " on an scf.for (because it is a hint about a counted loop), got " << attribute;
}

LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  if (name == "tile.kernel")
    return verifyKernel(op, attribute.getValue());
  if (name == "tile.unroll") // loop_c1
    return verifyLoopHint(op, name, 1, attribute.getValue());
  if (name == "tile.num_stages") // loop_c2
    return verifyLoopHint(op, name, 0, attribute.getValue());
  return success();
}

LogicalResult TileDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex, unsigned argIndex,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  if (name != "tile.divisibility" && name != "tile.disjoint")
    return success();
  auto value = dyn_cast<IntegerAttr>(attribute.getValue());
  Type type = op->getRegion(regionIndex).empty() ? cast<FunctionOpInterface>(op).getArgumentTypes()[argIndex]
                                                 : op->getRegion(regionIndex).getArgument(argIndex).getType();
  if (name == "tile.disjoint") { // kernel_c5
    if (isa<UnitAttr>(attribute.getValue()) && isa<PtrType>(type))
      return success();
    return op->emitOpError() << "expected tile.disjoint to be a unit attribute on a pointer argument (because it says "
                             << "that no other argument reaches its storage), got " << attribute.getValue() << " on "
                             << type;
  }
  if (value && value.getInt() > 0 && isa<IntegerType, PtrType>(type)) // kernel_c4
    return success();
  return op->emitOpError() << "expected tile.divisibility to be a positive integer on an integer or pointer argument "
                           << "(because it promises a divisor), got " << attribute.getValue() << " on " << type;
}

//===----------------------------------------------------------------------===//
// Pointers and hints
//===----------------------------------------------------------------------===//

LogicalResult AddPtrOp::verify() {
  Type offset = getOffset().getType();
  if (failed(expectShape(*this, "offset", getPtr().getType(), "each pointer advances by its own offset", offset)))
    return failure();                 // addptr_c1
  if (elementOf(offset).isInteger(1)) // addptr_c2
    return emitOpError() << "expected offset of 8 to 64 bits (because offsets are signed, and a true i1 is -1), got "
                         << offset;
  return success();
}

LogicalResult PtrToIntOp::verify() { // ptr_to_int_c1
  return expectShape(*this, "result", getPtr().getType(), "each pointer has its own address", getResult().getType());
}

LogicalResult IntToPtrOp::verify() { // int_to_ptr_c1
  return expectShape(*this, "result", getAddress().getType(), "each address becomes a pointer", getResult().getType());
}

LogicalResult PtrCastOp::verify() { // ptr_cast_c1
  return expectShape(*this, "result", getPtr().getType(), "a cast changes the pointee only", getResult().getType());
}

LogicalResult HintOp::verify() {
  Type type = getValue().getType();
  int64_t rank = std::max<int64_t>(shapeOf(type).size(), 1);
  if (!isa<IntegerType, PtrType>(elementOf(type))) // hint_c3
    return emitOpError() << "expected a value of integers or pointers (because its promises concern addresses), got "
                         << type;
  std::pair<StringRef, std::optional<ArrayRef<int64_t>>> lists[] = {
      {"divisibility", getDivisibility()}, {"contiguity", getContiguity()}, {"constancy", getConstancy()}};
  for (auto [name, list] : lists) {
    if (!list)
      continue;
    if (failed(expectCount(*this, (name + " entries").str(), rank, "there is one per dimension", list->size())))
      return failure(); // hint_c1
    for (int64_t entry : *list)
      if (entry < 1) // hint_c2
        return emitOpError() << "expected " << name << " of at least 1 (because 1 already promises nothing), got "
                             << entry;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Escape hatches and debugging
//===----------------------------------------------------------------------===//

/// The registers that `packed` elements take: narrow elements share a 32-bit register, wider ones take one each.
static int64_t registersFor(Type type, int64_t packed) {
  int64_t bits = std::max<int64_t>(elementOf(type).getIntOrFloatBitWidth(), 8);
  int64_t perRegister = std::max<int64_t>(32 / bits, 1);
  return llvm::divideCeil(packed, perRegister);
}

LogicalResult InlineAsmOp::verify() {
  SmallVector<Type> types(getOperandTypes());
  llvm::append_range(types, getResultTypes());
  for (Type type : types) // inline_asm_c1
    if (failed(expectShape(*this, "every operand and result", types.front(), "the assembly runs element by element",
                           type)))
      return failure();
  int64_t packed = getPacked();
  int64_t elements = types.empty() ? 1 : ShapedType::getNumElements(shapeOf(types.front()));
  if (packed < 1 || elements % packed != 0) // inline_asm_c2
    return emitOpError() << "expected packed to be at least 1 and to divide the " << elements
                         << " elements (because the assembly runs on that many at a time), got " << packed;

  int64_t outputs = 0, inputs = 0;
  SmallVector<StringRef> constraints;
  getConstraints().split(constraints, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef constraint : constraints) {
    constraint = constraint.trim();
    outputs += constraint.starts_with("=");
    inputs += !constraint.starts_with("=") && !constraint.starts_with("~");
  }
  int64_t wantedOutputs = 0, wantedInputs = 0;
  for (Type type : getResultTypes())
    wantedOutputs += registersFor(type, packed);
  for (Type type : getOperandTypes())
    wantedInputs += registersFor(type, packed);
  if (outputs != wantedOutputs || inputs != wantedInputs) // inline_asm_c3
    return emitOpError() << "expected constraints for " << wantedOutputs << " output and " << wantedInputs
                         << " input registers (because " << packed << " elements at a time take that many), got "
                         << outputs << " and " << inputs;
  if (getNumResults() == 0 && getIsPure()) // inline_asm_c6
    return emitOpError() << "expected an op without results not to be pure (because it would do nothing), got isPure";
  return success();
}

LogicalResult InlineAsmOp::verifyRegions() {
  if (getPortable().empty())
    return success();
  // inline_asm_c4, inline_asm_c5
  auto elements = [](TypeRange types) { return llvm::map_to_vector(types, elementOf); };
  return expectRegion(*this, "portable", getPortable(), elements(getOperandTypes()),
                      "it maps one element of every operand", elements(getResultTypes()),
                      "it returns one element for each result");
}

LogicalResult ExternCallOp::verify() {
  for (Type type : getOperandTypes()) // extern_call_c1
    if (failed(expectShape(*this, "every operand", getResult().getType(), "the function is called per element", type)))
      return failure();
  if (getSymbol().empty()) // extern_call_c2
    return emitOpError() << "expected the name of a function (because the call is resolved by name), got \"\"";
  return success();
}

LogicalResult PrintOp::verify() {
  ArrayRef<int32_t> isSigned = getIsSigned();
  if (!isSigned.empty() &&
      failed(expectCount(*this, "isSigned entries", getNumOperands(), "there is one per operand", isSigned.size())))
    return failure(); // print_c1
  for (int32_t entry : isSigned)
    if (entry != 0 && entry != 1) // print_c2
      return emitOpError() << "expected isSigned entries to be 0 or 1 (because they are flags), got " << entry;
  return success();
}
