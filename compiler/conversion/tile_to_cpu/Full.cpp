// Emits run-time tests after which a loop needs no masks, or a store may share the nest of the loads before it.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// A scalar that, if true, implies that the whole row of `mask` along `dim` is true; or null. Only for comparisons of
/// values with a constant stride: if the first and the last element hold and nothing wraps in between, all hold.
Value KernelLowering::wholeRow(Value mask, unsigned dim, const Index &at) {
  if (!isTile(mask) || frame.holds(mask))
    return {};
  Index first = at.lane0(), last = at.lane0();
  first.at[dim] = {};
  last.at[dim] = {Value(), shapeOf(mask)[dim] - 1};
  if (shapes.uniform(mask, dim))
    return tiles.eval(mask, first);
  Operation *op = mask.getDefiningOp();
  if (!op)
    return {};
  if (isa<arith::AndIOp>(op)) {
    Value lhs = wholeRow(op->getOperand(0), dim, at), rhs = wholeRow(op->getOperand(1), dim, at);
    return lhs && rhs ? arith::AndIOp::create(b, lhs, rhs).getResult() : Value();
  }
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp>(op)) {
    Value operand = op->getOperand(0);
    Index inner;
    inner.at.resize(shapeOf(operand).size());
    for (unsigned outer = 0; outer < at.at.size(); ++outer)
      if (int source = sourceDim(op, outer); source >= 0)
        inner.at[source] = at.at[outer];
    int source = sourceDim(op, dim);
    return source < 0 ? Value() : wholeRow(operand, source, inner);
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || !shapes.stride(compare.getLhs(), dim) || !shapes.stride(compare.getRhs(), dim))
    return {};
  if (compare.getPredicate() == arith::CmpIPredicate::eq || compare.getPredicate() == arith::CmpIPredicate::ne)
    return {};
  Value all = arith::AndIOp::create(b, tiles.eval(mask, first), tiles.eval(mask, last));
  bool isSigned = compare.getPredicate() <= arith::CmpIPredicate::sge;
  for (Value side : {compare.getLhs(), compare.getRhs()}) {
    int64_t step = *shapes.stride(side, dim);
    if (step == 0)
      continue;
    // Steps of more than half the range could wrap around and return.
    if (std::abs(step) > (int64_t(1) << 31) / shapeOf(mask)[dim] || elementOf(side).getIntOrFloatBitWidth() < 32)
      return {};
    Value from = tiles.eval(side, step > 0 ? first : last), to = tiles.eval(side, step > 0 ? last : first);
    Value grows = arith::CmpIOp::create(b, isSigned ? arith::CmpIPredicate::sle : arith::CmpIPredicate::ule, from, to);
    all = arith::AndIOp::create(b, all, grows);
  }
  return all;
}

void KernelLowering::collectMasks(Value value, llvm::SetVector<Value> &masks, llvm::DenseSet<Value> &seen, bool top) {
  if (!isTile(value) || (frame.holds(value) && !top) || !seen.insert(value).second)
    return;
  Operation *op = value.getDefiningOp();
  if (!op || !isLazy(op))
    return;
  if (auto load = dyn_cast<tile::LoadOp>(op); load && load.getMask())
    masks.insert(load.getMask());
  for (Value operand : op->getOperands())
    collectMasks(operand, masks, seen, false);
}

Value KernelLowering::fullRow(const Step &step, OpenNest &open, const Walk &walk, SmallVectorImpl<Value> &masks) {
  if (check != Check::None || walk.vectorDim < 0 || walk.order.back() != walk.vectorDim ||
      walk.shape[walk.vectorDim] == walk.width)
    return {};
  llvm::SetVector<Value> found;
  llvm::DenseSet<Value> seen;
  for (const Root &root : step.roots) {
    for (Value value : root.reads())
      collectMasks(value, found, seen, root.kind == Root::Materialise);
    if (auto store = dyn_cast<tile::StoreOp>(root.op); store && root.kind == Root::Store && store.getMask())
      found.insert(store.getMask());
  }
  Value all;
  for (Value mask : found) {
    if (!isTile(mask) || ArrayRef<int64_t>(walk.shape) != shapeOf(mask) || shapes.uniform(mask, walk.vectorDim) ||
        alignment.alwaysTrue(mask))
      continue;
    Value row = wholeRow(mask, walk.vectorDim, open.at);
    if (!row)
      continue;
    masks.push_back(mask);
    all = all ? arith::AndIOp::create(b, all, row).getResult() : row;
  }
  return all;
}
