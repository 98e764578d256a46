// Scans: in order along their dimension, vectorised across the innermost other one.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

LogicalResult KernelLowering::emitScan(tile::ScanOp op) {
  SmallVector<Storage> sources, targets;
  for (Value operand : op.getOperands())
    sources.push_back(storageOf(operand));
  for (Value result : op.getResults())
    targets.push_back(allocateFor(result));
  int axis = op.getAxis();
  ArrayRef<int64_t> shape = sources.front().shape;
  Walk walk = chooseWalk(shape, axis, lanes());
  if (walk.vectorDim == axis) {
    walk.vectorDim = -1;
    walk.width = 1;
  }
  Index lane;
  lane.vectorDim = walk.vectorDim;
  lane.width = walk.width;
  SmallVector<Value> inits;
  for (const Storage &source : sources)
    inits.push_back(zeroOf(laneType(source.element, lane)));
  OpenNest open;
  openNest(open, walk, inits);
  Index at = open.at;
  Value position = at.at[axis].value;
  if (op.getReverse() && position)
    at.at[axis] = derived(at.at[axis], [&](Value value) {
      return arith::SubIOp::create(b, i64(shape[axis] - 1), value);
    });
  SmallVector<Value> elements, arguments(open.carried);
  for (const Storage &source : sources)
    elements.push_back(readBuffer(source, at));
  arguments.append(elements);
  SmallVector<Value> running = elements;
  if (open.innermostLoops && position) {
    running = emitRegion(op.getCombine(), arguments);
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, position, i64(0));
    for (auto [value, element] : llvm::zip(running, elements))
      value = arith::SelectOp::create(b, first, element, value);
  }
  for (auto [target, value] : llvm::zip(targets, running))
    writeBuffer(target, at, value);
  closeInnermost(open, running);
  closeNest(open);
  for (auto [result, target] : llvm::zip(op.getResults(), targets))
    assign(result, target);
  return failure(failed);
}
