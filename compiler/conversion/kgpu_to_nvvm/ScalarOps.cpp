// Ops on scalars, and regions of them: what reductions, scans and maps do to each element.
#include "compiler/conversion/kgpu_to_nvvm/ScalarOps.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static bool isDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
             arith::CeilDivUIOp>(op);
}

/// LLVM may conclude from a division that its divisor is not zero (nor -1 under the smallest integer), and drop the
/// very mask that excludes the element. For such divisors the result is that of the CPU target.
Value ScalarOps::guardDivisor(Operation *op, Value dividend, Value divisor) {
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  const ConstantIntRanges &range = alignment.ranges().get(op->getOperand(1));
  bool neverZero = range.umin().ugt(0);
  bool neverMinusOne = range.smin().sgt(-1) || !alignment.ranges().get(op->getOperand(0)).smin().isMinSignedValue();
  APInt known;
  if (matchPattern(divisor, m_ConstantInt(&known))) {
    neverZero |= !known.isZero();
    neverMinusOne |= !known.isAllOnes();
  }
  if (neverZero && (!isSigned || neverMinusOne))
    return divisor;
  Type type = divisor.getType();
  unsigned bits = type.getIntOrFloatBitWidth();
  auto constantOf = [&](const APInt &value) { return b.constant(type, b.getIntegerAttr(type, value)); };
  auto equals = [&](Value value, const APInt &other) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, constantOf(other));
  };
  Value bad;
  if (!neverZero)
    bad = equals(divisor, APInt::getZero(bits));
  if (isSigned && !neverMinusOne) {
    Value wraps = arith::AndIOp::create(b, equals(dividend, APInt::getSignedMinValue(bits)),
                                        equals(divisor, APInt::getAllOnes(bits)));
    bad = bad ? arith::OrIOp::create(b, bad, wraps).getResult() : wraps;
  }
  return arith::SelectOp::create(b, bad, constantOf(APInt(bits, 1)), divisor);
}

/// A program's coordinate along the grid's first axis. Most grids have one axis; then the program's number is smaller
/// than the side, and a branch avoids waiting for a division, which takes some 180 clocks before anything can be
/// loaded.
Value ScalarOps::remainderOfGrid(Value number, Value side) {
  Value isSmaller = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number, side);
  auto branch = scf::IfOp::create(b, number.getType(), isSmaller, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, number);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, arith::RemUIOp::create(b, number, side).getResult());
  return branch.getResult(0);
}

SmallVector<Value, 2> ScalarOps::apply(Operation *op, ArrayRef<Value> operands) {
  if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
    Value offset = operands[1];
    if (offset.getType().getIntOrFloatBitWidth() < 32)
      offset = arith::ExtSIOp::create(b, b.getI32Type(), offset);
    Type pointee = cast<tile::PtrType>(elementOf(add.getResult())).getPointee();
    Value address =
        LLVM::GEPOp::create(b, operands[0].getType(), memoryType(pointee), operands[0], ArrayRef<LLVM::GEPArg>{offset});
    return {address};
  }
  if (isa<tile::HintOp, tile::PtrCastOp>(op))
    return {operands[0]};
  if (isa<tile::PtrToIntOp>(op))
    return {LLVM::PtrToIntOp::create(b, b.getI64Type(), operands[0]).getResult()};
  if (isa<tile::IntToPtrOp>(op))
    return {LLVM::IntToPtrOp::create(b, b.globalPointer(), operands[0]).getResult()};
  // One float type as another, i.e. f16 and bf16. When LLVM 22 compares such a cast with zero it treats the cast's
  // operand as an integer, and cannot select the result (llvm-project #198389). So the cast is hidden from it.
  if (auto cast = dyn_cast<arith::BitcastOp>(op)) {
    Type from = elementOf(cast.getIn()), to = elementOf(cast.getOut());
    if (from != to && (from.isF16() || from.isBF16()) && (to.isF16() || to.isBF16())) {
      Value bits = b.toBits(operands[0]);
      return {b.fromBits(b.ptx("mov.b16 $0, $1;", "=h,h", bits.getType(), {bits}, /*pure=*/true).front(), to)};
    }
  }
  if (auto call = dyn_cast<tile::ExternCallOp>(op)) {
    Value result = emitExternCall(b, call, operands);
    return result ? SmallVector<Value, 2>{result} : SmallVector<Value, 2>();
  }
  if (auto text = dyn_cast<tile::InlineAsmOp>(op)) {
    SmallVector<Registers> groups;
    for (Value operand : operands)
      groups.push_back({operand});
    return llvm::map_to_vector<2>(emitAssembly(b, text, groups), [](const Registers &one) { return one.front(); });
  }
  if (!isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) || op->getNumRegions() != 0) {
    op->emitOpError("expected arithmetic on scalars (because each thread applies it element by element), got this op");
    return {};
  }
  if (isa<arith::RemUIOp>(op) && op->getOperand(1).getDefiningOp<tile::NumProgramsOp>())
    return {remainderOfGrid(operands[0], operands[1])};
  SmallVector<Value> guarded(operands);
  if (isDivision(op))
    guarded[1] = guardDivisor(op, operands[0], operands[1]);
  Operation *clone = op->cloneWithoutRegions();
  clone->setOperands(guarded);
  clone->setLoc(b.getLoc());
  clone->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  for (Value result : clone->getResults())
    result.setType(registerType(elementOf(result)));
  // Offsets that provably do not overflow let LLVM take constants out of sign extensions.
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) && !alignment.ranges().mayOverflowSigned(op)) {
    auto flags = cast<arith::ArithIntegerOverflowFlagsInterface>(clone).getOverflowAttr().getValue();
    clone->setAttr("overflowFlags",
                   arith::IntegerOverflowFlagsAttr::get(b.getContext(), flags | arith::IntegerOverflowFlags::nsw));
  }
  b.insert(clone);
  return SmallVector<Value, 2>(clone->getResults());
}

Registers ScalarOps::applyRegion(Region &region, ArrayRef<Value> arguments) {
  Block &block = region.front();
  DenseMap<Value, Value> inside;
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    inside[argument] = value;
  auto lookup = [&](Value value) {
    auto found = inside.find(value);
    return found != inside.end() ? found->second : outside(value);
  };
  for (Operation &op : block.without_terminator()) {
    SmallVector<Value, 2> results;
    if (auto constantOp = dyn_cast<arith::ConstantOp>(op))
      results = {b.constant(constantOp.getType(), constantOp.getValue())};
    else
      results = apply(&op, llvm::map_to_vector(op.getOperands(), lookup));
    if (results.empty() && op.getNumResults() != 0)
      return {};
    for (auto [result, value] : llvm::zip(op.getResults(), results))
      inside[result] = value;
  }
  Registers yielded;
  for (Value value : block.getTerminator()->getOperands())
    yielded.push_back(lookup(value));
  return yielded;
}
