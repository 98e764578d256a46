// Verifiers of the ops that access memory. The labels in comments are those of the constraints in TileMemory.td.
#include "dialects/tile/TileVerifiers.h"

using namespace mlir;
using namespace kiln::tile;

/// Loads take ca, cg, cs, cv; stores take wb, cg, cs, wt.
static LogicalResult expectCache(Operation *op, CacheModifier cache, bool writes) {
  using Cache = CacheModifier;
  bool both = llvm::is_contained({Cache::None, Cache::CG, Cache::CS}, cache);
  if (both || (writes ? cache == Cache::WB || cache == Cache::WT : cache == Cache::CA || cache == Cache::CV))
    return success();
  return op->emitOpError() << "expected cache modifier "
                           << (writes ? "none, wb, cg, cs or wt" : "none, ca, cg, cs or cv") << " (because the op "
                           << (writes ? "writes" : "reads") << "), got " << stringifyCacheModifier(cache);
}

/// Checks that `boundary` lists dimensions below `rank`, ascending, each once.
static LogicalResult expectBoundary(Operation *op, ArrayRef<int32_t> boundary, int64_t rank) {
  bool ascending = std::adjacent_find(boundary.begin(), boundary.end(), std::greater_equal<>()) == boundary.end();
  if (ascending && llvm::all_of(boundary, [&](int32_t d) { return d >= 0 && d < rank; }))
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError()
                                  << "expected boundary to list dimensions in 0.." << rank - 1
                                  << ", ascending, each once (because the block has rank " << rank << "), got [";
  llvm::interleaveComma(boundary, diagnostic);
  return diagnostic << "]";
}

static LogicalResult expectMask(Operation *op, Value mask, Type like) {
  return mask ? expectShape(op, "mask", like, "each pointer has its own mask", mask.getType()) : success();
}

static LogicalResult expectPadding(Operation *op, Padding padding, Type element) {
  if (padding != Padding::NaN || isa<FloatType>(element))
    return success();
  return op->emitOpError() << "expected zero padding (because " << element << " has no nan), got nan";
}

static LogicalResult expectOffsets(Operation *op, int64_t count, RankedTensorType block) {
  return expectCount(op, "offsets", block.getRank(), "there is one per dimension of the block", count);
}

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  Type pointers = getPtr().getType();
  Type result = getResult().getType();
  if (failed(expectType(*this, "result", withElement(pointers, pointeeOf(pointers)), // load_c1
                        "a load returns what its pointers point at", result)) ||
      failed(expectMask(*this, getMask(), pointers))) // load_c2
    return failure();
  if (Value other = getOther()) {
    if (failed(expectType(*this, "other", result, "it replaces masked-out elements of the result", other.getType())))
      return failure(); // load_c3
    if (!getMask())     // load_c4
      return emitOpError() << "expected a mask with other (because without one every element is read), got none";
  }
  return expectCache(*this, getCache(), /*writes=*/false); // load_c5
}

LogicalResult StoreOp::verify() {
  Type pointers = getPtr().getType();
  if (failed(expectType(*this, "value", withElement(pointers, pointeeOf(pointers)), // store_c1
                        "a store writes what its pointers point at", getValue().getType())) ||
      failed(expectMask(*this, getMask(), pointers))) // store_c2
    return failure();
  return expectCache(*this, getCache(), /*writes=*/true); // store_c3
}

LogicalResult PrefetchOp::verify() { return expectMask(*this, getMask(), getPtr().getType()); } // prefetch_c1

//===----------------------------------------------------------------------===//
// Descriptors and block pointers
//===----------------------------------------------------------------------===//

LogicalResult MakeDescOp::verify() {
  RankedTensorType block = getResult().getType().getBlock();
  // The two lists are split evenly, so an odd number of values shows only in the total. make_desc_c1
  if (failed(expectCount(*this, "extents and strides", 2 * block.getRank(),
                         "there is one of each per dimension of the block", getNumOperands() - 1)) ||
      failed(expectType(*this, "base", PtrType::get(block.getElementType()), "the block holds what it points at",
                        getBase().getType()))) // make_desc_c2
    return failure();
  return expectPadding(*this, getPadding(), block.getElementType()); // make_desc_c3
}

LogicalResult DescLoadOp::verify() {
  RankedTensorType block = getDesc().getType().getBlock();
  if (failed(expectOffsets(*this, getOffsets().size(), block)) || // desc_load_c1
      failed(expectType(*this, "result", block, "a load returns the descriptor's block", getResult().getType())))
    return failure();                                                                  // desc_load_c2
  if (getBoundary() && failed(expectBoundary(*this, *getBoundary(), block.getRank()))) // desc_load_c3
    return failure();
  return expectCache(*this, getCache(), /*writes=*/false); // desc_load_c4
}

LogicalResult DescStoreOp::verify() {
  RankedTensorType block = getDesc().getType().getBlock();
  if (failed(expectOffsets(*this, getOffsets().size(), block)) || // desc_store_c1
      failed(expectType(*this, "value", block, "a store takes the descriptor's block", getValue().getType())))
    return failure();                                                                  // desc_store_c2
  if (getBoundary() && failed(expectBoundary(*this, *getBoundary(), block.getRank()))) // desc_store_c3
    return failure();
  return expectCache(*this, getCache(), /*writes=*/true); // desc_store_c4
}

LogicalResult MakeBlockPtrOp::verify() {
  RankedTensorType block = getResult().getType().getBlock();
  StringRef why = "there is one per dimension of the block";
  if (failed(expectCount(*this, "extents", block.getRank(), why, getShape().size())) ||
      failed(expectCount(*this, "strides", block.getRank(), why, getStrides().size())) ||
      failed(expectCount(*this, "offsets", block.getRank(), why, getOffsets().size()))) // make_block_ptr_c1
    return failure();
  if (failed(expectType(*this, "base", PtrType::get(block.getElementType()), "the block holds what it points at",
                        getBase().getType()))) // make_block_ptr_c2
    return failure();
  return expectPermutation(*this, getOrder(), block.getRank()); // make_block_ptr_c3
}

LogicalResult AdvanceOp::verify() { // advance_c1
  return expectOffsets(*this, getOffsets().size(), getPtr().getType().getBlock());
}

LogicalResult BlockLoadOp::verify() {
  RankedTensorType block = getPtr().getType().getBlock();
  if (failed(expectType(*this, "result", block, "a load returns the pointer's block", getResult().getType())) ||
      failed(expectBoundary(*this, getBoundary(), block.getRank()))) // block_load_c1, block_load_c2
    return failure();
  if (getPadding() && failed(expectPadding(*this, *getPadding(), block.getElementType()))) // block_load_c3
    return failure();
  return expectCache(*this, getCache(), /*writes=*/false); // block_load_c4
}

LogicalResult BlockStoreOp::verify() {
  RankedTensorType block = getPtr().getType().getBlock();
  if (failed(expectType(*this, "value", block, "a store takes the pointer's block", getValue().getType())) ||
      failed(expectBoundary(*this, getBoundary(), block.getRank()))) // block_store_c1, block_store_c2
    return failure();
  return expectCache(*this, getCache(), /*writes=*/true); // block_store_c3
}

//===----------------------------------------------------------------------===//
// Atomics
//===----------------------------------------------------------------------===//

/// The element types that every target can combine by `kind` in one atomic step.
static StringRef atomicTypes(RMWKind kind) {
  switch (kind) {
  case RMWKind::FAdd:
  case RMWKind::FMax:
  case RMWKind::FMin:
    return "f16, bf16, f32 or f64";
  case RMWKind::Xchg:
    return "i32, i64, f32 or f64";
  default:
    return "i32 or i64";
  }
}

static bool isAtomicType(RMWKind kind, Type element) {
  bool wideInteger = element.isInteger(32) || element.isInteger(64);
  bool wideFloat = element.isF32() || element.isF64();
  switch (kind) {
  case RMWKind::FAdd:
  case RMWKind::FMax:
  case RMWKind::FMin:
    return wideFloat || element.isF16() || element.isBF16();
  case RMWKind::Xchg:
    return wideFloat || wideInteger;
  default:
    return wideInteger;
  }
}

LogicalResult AtomicRMWOp::verify() {
  Type pointers = getPtr().getType();
  if (failed(expectType(*this, "value", withElement(pointers, pointeeOf(pointers)), // atomic_rmw_c1
                        "it is combined with what the pointers point at", getValue().getType())) ||
      failed(expectMask(*this, getMask(), pointers))) // atomic_rmw_c2
    return failure();
  Type element = elementOf(getValue().getType());
  if (!isAtomicType(getKind(), element)) // atomic_rmw_c3, atomic_rmw_c4, atomic_rmw_c5
    return emitOpError() << "expected " << atomicTypes(getKind()) << " for " << stringifyRMWKind(getKind())
                         << " (because every target combines those atomically), got " << element;
  return success();
}

LogicalResult DescReduceOp::verify() {
  RankedTensorType block = getDesc().getType().getBlock();
  if (failed(expectOffsets(*this, getOffsets().size(), block)) || // desc_reduce_c1
      failed(expectType(*this, "value", block, "a reduction takes the descriptor's block", getValue().getType())))
    return failure(); // desc_reduce_c2
  Type element = block.getElementType();
  if (getKind() == RMWKind::Xchg || !isAtomicType(getKind(), element)) // desc_reduce_c3
    return emitOpError() << "expected "
                         << (getKind() == RMWKind::Xchg ? StringRef("an operation that combines")
                                                        : atomicTypes(getKind()))
                         << " for " << stringifyRMWKind(getKind())
                         << " (because every target combines those atomically), got " << element;
  return success();
}

LogicalResult AtomicCASOp::verify() {
  Type pointers = getPtr().getType();
  if (failed(expectType(*this, "value", withElement(pointers, pointeeOf(pointers)), // atomic_cas_c1
                        "it replaces what the pointers point at", getValue().getType())))
    return failure();
  Type element = elementOf(getValue().getType());
  if (element.getIntOrFloatBitWidth() < 16) // atomic_cas_c2
    return emitOpError()
           << "expected an element of 16, 32 or 64 bits (because every target compares those atomically), got "
           << element;
  return success();
}
