// Ops on single elements or vectors of them, and regions of such ops; see ScalarOps.h.
#include "compiler/conversion/tile_to_cpu/ScalarOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// What this target supports
//===----------------------------------------------------------------------===//

static LogicalResult verifyRegion(Region &region) {
  bool good = true;
  for (Operation &op : region.front().without_terminator()) {
    if (isa<arith::ConstantOp, tile::ExternCallOp, tile::InlineAsmOp>(op) ||
        (op.getNumRegions() == 0 && isa<arith::ArithDialect, math::MathDialect>(op.getDialect())))
      continue;
    op.emitError("expected arithmetic in a combine or portable region (because it is vectorised), got this op");
    good = false;
  }
  return success(good);
}

LogicalResult cpu::verifyScalarOps(func::FuncOp kernel) {
  bool good = true;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto text = dyn_cast<tile::InlineAsmOp>(op); text && text.getPortable().empty()) {
      op->emitError("expected a portable body (because the cpu target cannot run PTX assembly), got none\n"
                    "hint: pass portable=, a jit function of the elements that does the same");
      good = false;
    }
    if (auto call = dyn_cast<tile::ExternCallOp>(op); call && !isKnownFunction(call)) {
      op->emitError("expected a libdevice function with its declared types (because the cpu target links no other "
                    "library), got '")
          << call.getSymbol() << "'";
      good = false;
    }
    if (isa<tile::ReduceOp, tile::ScanOp, tile::InlineAsmOp>(op))
      for (Region &region : op->getRegions())
        good &= region.empty() || succeeded(verifyRegion(region));
  });
  return success(good);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static bool isDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
             arith::CeilDivUIOp>(op);
}

static Value guardDivisor(CodeBuilder &b, Operation *op, Value dividend, Value divisor) {
  // x86 traps where a GPU gives some number, so a zero divisor becomes 1, as does -1 under the smallest integer.
  if (matchPattern(divisor, m_NonZero()) &&
      !isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op))
    return divisor;
  Type type = divisor.getType();
  Type element = getElementTypeOrSelf(type);
  auto constant = [&](APInt value) { return b.splatConstant(type, b.getIntegerAttr(element, value)); };
  unsigned bits = element.getIntOrFloatBitWidth();
  APInt known;
  if (matchPattern(divisor, m_ConstantInt(&known)) && !known.isZero() && !known.isAllOnes())
    return divisor;
  Value bad = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, divisor, constant(APInt::getZero(bits)));
  if (isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op)) {
    Value least =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, dividend, constant(APInt::getSignedMinValue(bits)));
    Value minusOne = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, divisor, constant(APInt::getAllOnes(bits)));
    bad = arith::OrIOp::create(b, bad, arith::AndIOp::create(b, least, minusOne));
  }
  return arith::SelectOp::create(b, bad, constant(APInt(bits, 1)), divisor);
}

Operation *cpu::cloneFor(CodeBuilder &b, Operation *op, ArrayRef<Value> operands, int64_t width) {
  SmallVector<Value> guarded(operands);
  if (isDivision(op))
    guarded[1] = guardDivisor(b, op, operands[0], operands[1]);
  Operation *clone = op->cloneWithoutRegions();
  clone->setOperands(guarded);
  clone->setLoc(b.getLoc());
  clone->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  for (Value result : clone->getResults()) {
    Type element = elementOf(result.getType());
    Type lane = isa<tile::PtrType>(element) ? (width > 1 ? Type(b.getI64Type()) : b.ptrType) : element;
    result.setType(width > 1 ? Type(VectorType::get({width}, lane)) : lane);
  }
  return b.insert(clone);
}

SmallVector<Value> cpu::emitRegion(CodeBuilder &b, Region &region, ArrayRef<Value> arguments,
                                   llvm::function_ref<Value(Value)> outside) {
  Block &block = region.front();
  DenseMap<Value, Value> values;
  int64_t width = 1;
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments)) {
    values[argument] = value;
    if (auto type = dyn_cast<VectorType>(value.getType()))
      width = type.getNumElements();
  }
  auto lookup = [&](Value value) {
    auto found = values.find(value);
    Value lowered = found != values.end() ? found->second : outside(value);
    return width > 1 ? b.toVector(lowered, width) : lowered;
  };
  for (Operation &op : block.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      Type type = constant.getType();
      values[constant.getResult()] =
          b.splatConstant(width > 1 ? Type(VectorType::get({width}, type)) : type, constant.getValue());
      continue;
    }
    SmallVector<Value> operands = llvm::map_to_vector(op.getOperands(), lookup);
    if (auto call = dyn_cast<tile::ExternCallOp>(op)) {
      values[call.getResult()] = emitExternCall(b, call, operands);
      continue;
    }
    if (auto text = dyn_cast<tile::InlineAsmOp>(op)) {
      for (auto [result, value] : llvm::zip(op.getResults(), emitRegion(b, text.getPortable(), operands, lookup)))
        values[result] = value;
      continue;
    }
    Operation *clone = cloneFor(b, &op, operands, width);
    for (auto [result, lowered] : llvm::zip(op.getResults(), clone->getResults()))
      values[result] = lowered;
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(), lookup);
}
