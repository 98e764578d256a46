// Scans. Across their dimension, vectors are combined in order, one combination per step. Along it, a vector is scanned
// in log2(width) steps, which combine each lane with the one 1, 2, 4, ... lanes before it, and the combination of all
// earlier vectors is carried. Only associativity is used: operands never change sides.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// With fewer lanes, scanning inside a vector costs more than combining element by element.
static constexpr int64_t kLeastLanes = 8;

/// Per lane of each vector: the combination of all lanes up to it (from it on, in reverse).
static SmallVector<Value> scanLanes(KernelLowering &lowering, tile::ScanOp op, SmallVector<Value> values,
                                    int64_t width) {
  CodeBuilder &b = lowering.b;
  bool reverse = op.getReverse();
  for (int64_t away = 1; away < width; away *= 2) {
    SmallVector<int64_t> from(width);
    SmallVector<bool> alone(width);
    for (int64_t lane = 0; lane < width; ++lane) {
      int64_t partner = reverse ? lane + away : lane - away;
      alone[lane] = partner < 0 || partner >= width;
      from[lane] = alone[lane] ? lane : partner;
    }
    Value mask = arith::ConstantOp::create(b, DenseElementsAttr::get(VectorType::get({width}, b.getI1Type()), alone));
    SmallVector<Value> arguments;
    for (Value value : values)
      arguments.push_back(vector::ShuffleOp::create(b, value, value, from));
    arguments.append(values);
    for (auto [value, combined] : llvm::zip(values, lowering.tiles.combine(op.getCombine(), arguments)))
      value = arith::SelectOp::create(b, mask, value, combined);
  }
  return values;
}

LogicalResult cpu::emitScan(KernelLowering &lowering, tile::ScanOp op) {
  CodeBuilder &b = lowering.b;
  SmallVector<Storage> sources, targets;
  for (Value operand : op.getOperands())
    sources.push_back(lowering.frame.storageOf(operand));
  for (Value result : op.getResults())
    targets.push_back(lowering.allocateFor(result));
  int axis = op.getAxis();
  bool reverse = op.getReverse();
  ArrayRef<int64_t> shape = sources.front().shape;
  Walk walk = lowering.chooseWalk(shape, axis, lowering.lanes());
  bool along = walk.vectorDim == axis;
  if (along)
    walk.width = std::min(walk.width, lowering.lanes()); // one chain, whatever the width
  if (along && walk.width < std::min(kLeastLanes, lowering.lanes())) {
    along = false;
    walk.vectorDim = -1;
    walk.width = 1;
  }
  Index lane;
  lane.vectorDim = walk.vectorDim;
  lane.width = walk.width;
  SmallVector<Value> inits;
  for (const Storage &source : sources)
    inits.push_back(b.zeroOf(b.laneType(source.element, lane)));
  OpenNest open;
  lowering.nests.open(open, walk, inits);
  Index at = open.at;
  Value position = at.at[axis].value;
  if (reverse && position)
    at.at[axis] = lowering.nests.derived(at.at[axis], [&](Value value) {
      return arith::SubIOp::create(b, b.i64(shape[axis] - (along ? walk.width : 1)), value);
    });
  SmallVector<Value> elements;
  for (const Storage &source : sources)
    elements.push_back(lowering.buffers.read(source, at));
  if (along)
    elements = scanLanes(lowering, op, elements, walk.width);
  /// The carried combination, then these values; at the start of a row these values alone.
  auto afterCarried = [&](ArrayRef<Value> values) {
    SmallVector<Value> result(values);
    if (!open.innermostLoops || !position)
      return result;
    SmallVector<Value> arguments(open.carried);
    arguments.append(result);
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, position, b.i64(0));
    for (auto [value, combined] : llvm::zip(result, lowering.tiles.combine(op.getCombine(), arguments)))
      value = arith::SelectOp::create(b, first, value, combined);
    return result;
  };
  SmallVector<Value> running = afterCarried(elements), carried = running;
  for (auto [target, value] : llvm::zip(targets, running))
    lowering.buffers.write(target, at, value);
  if (along && position) {
    // Computed from `elements`, not from `running`: then the chain from vector to vector has one combination and no
    // shuffle.
    SmallVector<int64_t> end(walk.width, reverse ? 0 : walk.width - 1);
    for (Value &element : elements)
      element = vector::ShuffleOp::create(b, element, element, end);
    carried = afterCarried(elements);
  }
  lowering.nests.closeInnermost(open, carried);
  lowering.nests.close(open);
  for (auto [result, target] : llvm::zip(op.getResults(), targets))
    lowering.frame.assign(result, target);
  return success();
}
