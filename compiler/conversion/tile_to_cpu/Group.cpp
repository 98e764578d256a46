// Groups: the roots of one step of the plan share a nest. First come their buffers, then the loops; at each index all
// reads precede all writes; last come the results of reductions.
//
//   The first nest of the example in Plan.cpp:
//     %acc = scf.for %j = 0 to 1024 step 64 iter_args(%a = -0.0) -> (vector<64xf32>) {
//       %v = llvm.load x + 4 * %j : vector<64xf32>
//       %s = arith.addf %a, %v * %v                          Reduce
//       llvm.store %v, frame + 4 * %j                        Materialise: after all reads of this index
//       scf.yield %s }
//   and, where masks are true in the whole row: scf.if %full { loop without masks } else { loop with masked accesses }
#include "compiler/conversion/tile_to_cpu/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// Splits off tiles that are best transposed in registers, unless the group's roots depend on sharing a nest.
bool KernelLowering::splitTurned(const Step &step, SmallVectorImpl<Step> &parts) {
  if (step.roots.size() < 2 || llvm::any_of(step.roots, [&](const Root &root) {
        return root.kind != Root::Materialise || plan->inPlaceOf(root.value);
      }))
    return false;
  Step rest;
  for (const Root &root : step.roots) {
    Step alone;
    alone.roots.push_back(root);
    Walk walk = chooseWalk(root.space(), -1, lanes());
    preferDimension(walk, alone);
    if (walk.blockDim >= 0)
      parts.push_back(std::move(alone));
    else
      rest.roots.push_back(root);
  }
  if (!rest.roots.empty())
    parts.push_back(std::move(rest));
  return parts.size() > 1;
}

void KernelLowering::emitRoots(const Step &step, OpenNest &open, const Walk &walk, ArrayRef<Storage> targets,
                               ArrayRef<bool> identities, SmallVectorImpl<Value> &yields) {
  const Index &at = open.at;
  // At each index, all reads precede the writes, because a buffer may be overwritten in place.
  SmallVector<Value> results(step.roots.size());
  unsigned carried = 0;
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    b.setLoc(root.op->getLoc());
    if (root.kind == Root::Materialise || root.kind == Root::Carry) {
      results[index] = tiles.eval(root.value, at);
    } else if (root.kind == Root::Reduce) {
      auto reduce = cast<tile::ReduceOp>(root.op);
      SmallVector<Value> elements, accumulators;
      for (Value operand : reduce.getOperands()) {
        elements.push_back(at.isVector() ? tiles.evalVector(operand, at) : tiles.eval(operand, at));
        accumulators.push_back(open.carried[carried++]);
      }
      if (open.innermostLoops) {
        SmallVector<Value> arguments(accumulators);
        arguments.append(elements);
        SmallVector<Value> combined = tiles.combine(reduce.getCombine(), arguments);
        if (!identities[index]) {
          Value start =
              arith::CmpIOp::create(b, arith::CmpIPredicate::eq, open.at.at[walk.order.back()].value, b.i64(0));
          for (auto [value, element] : llvm::zip(combined, elements))
            value = arith::SelectOp::create(b, start, element, value);
        }
        elements = combined;
      }
      yields.append(elements);
    }
  }
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    b.setLoc(root.op->getLoc());
    if (root.kind == Root::Store)
      tiles.store(root.op, at);
    else if (root.kind == Root::Atomic)
      results[index] = emitAtomic(*this, root.op, &at);
    else if (root.kind == Root::Assert)
      emitAssert(cast<tile::AssertOp>(root.op), &at);
  }
  for (auto [index, root] : llvm::enumerate(step.roots))
    if (root.kind == Root::Materialise || root.kind == Root::Carry)
      buffers.write(targets[index], at, results[index]);
    else if (root.kind == Root::Atomic && !root.op->use_empty())
      buffers.write(targets[index], at, results[index]);
}

LogicalResult KernelLowering::emitGroup(const Step &step) {
  if (SmallVector<Step> parts; splitTurned(step, parts)) {
    for (const Step &part : parts)
      if (failed(emitGroup(part)))
        return failure();
    return success();
  }
  frame.advance();
  const Root &first = step.roots.front();
  b.setLoc(first.op->getLoc());
  bool single = first.kind == Root::Atomic || (first.kind == Root::Store && check != Check::None);
  for (const Root &root : step.roots)
    single |= root.kind == Root::Assert;
  Walk walk = chooseWalk(first.space(), step.reduceAxis, single ? 1 : lanes());
  if (single) {
    walk.vectorDim = -1;
    walk.width = 1;
  } else if (step.reduceAxis < 0) {
    preferDimension(walk, step);
  }

  // Buffers first: their addresses belong outside the loops.
  SmallVector<Storage> targets(step.roots.size());
  SmallVector<SmallVector<Storage>> reduced(step.roots.size());
  SmallVector<Value> inits;
  SmallVector<bool> identities(step.roots.size());
  Index shapeOnly;
  shapeOnly.vectorDim = walk.vectorDim;
  shapeOnly.width = walk.width;
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    b.setLoc(root.op->getLoc());
    if (root.kind == Root::Store && check == Check::Races)
      hooks.storeBegins(root.op);
    if (root.kind == Root::Materialise) {
      targets[index] = allocateFor(root.value);
    } else if (root.kind == Root::Carry) {
      if (isa<scf::IfOp>(root.op->getParentOp())) {
        Value old = plan->branchTarget(root.op, root.operand);
        targets[index] = frame.allocate(root.value.getType(), old ? frame.storageOf(old).pointer : Value());
        if (old)
          targets[index].lifetime = frame.storageOf(old).lifetime;
      } else {
        int tile = 0;
        for (Value operand : root.op->getOperands().take_front(root.operand))
          tile += isTile(operand);
        int slot = plan->carries(root.op->getBlock()).slots[tile].slot;
        targets[index] = frame.allocate(root.value.getType(), pool->pointers[slot]);
        targets[index].lifetime = pool->lifetime;
      }
      carriedTo[{root.op, root.operand}] = targets[index];
    } else if (root.kind == Root::Atomic) {
      if (!root.op->use_empty())
        targets[index] = allocateFor(root.op->getResult(0));
    } else if (root.kind == Root::Reduce) {
      auto reduce = cast<tile::ReduceOp>(root.op);
      for (Value result : reduce.getResults())
        if (isTile(result))
          reduced[index].push_back(allocateFor(result));
      TypedAttr identity = identityOf(b, reduce);
      identities[index] = static_cast<bool>(identity);
      for (Value operand : reduce.getOperands()) {
        Type type = b.laneType(elementOf(operand), shapeOnly);
        inits.push_back(identity ? b.splatConstant(type, identity) : b.zeroOf(type));
      }
    }
  }

  OpenNest open;
  if (walk.blockDim >= 0) {
    nests.open(open, walk, inits);
    writeTransposed(first.value, targets[0], walk, open.at);
    nests.close(open);
    if (first.kind == Root::Materialise)
      frame.assign(first.value, targets[0]);
    return success();
  }
  nests.open(open, walk, inits, /*all=*/false);
  auto body = [&]() {
    SmallVector<Value> yields;
    emitRoots(step, open, walk, targets, identities, yields);
    return yields;
  };
  // A row without masked-off elements gets a loop of its own: masked loads stream a third slower.
  SmallVector<Value> results;
  SmallVector<Value> masks;
  if (Value full = fullRow(step, open, walk, masks)) {
    auto choice = [&](bool isFull) -> SmallVector<Value> {
      for (Value mask : isFull ? ArrayRef<Value>(masks) : ArrayRef<Value>())
        tiles.trueMasks.insert(mask);
      SmallVector<Value> values = nests.innermost(open, walk, inits, body);
      tiles.trueMasks.clear();
      return values;
    };
    auto test = scf::IfOp::create(b, ValueRange(inits).getTypes(), full, true, true);
    open.nest.levels.back().before = test;
    for (bool isFull : {true, false}) {
      Block *block = isFull ? test.thenBlock() : test.elseBlock();
      if (!block->empty())
        block->back().erase();
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(block);
      SmallVector<Value> values = choice(isFull);
      scf::YieldOp::create(b, values);
    }
    results.assign(test.getResults().begin(), test.getResults().end());
  } else {
    results = nests.innermost(open, walk, inits, body);
  }
  if (step.reduceAxis >= 0) {
    ArrayRef<Value> rest = results;
    for (auto [index, root] : llvm::enumerate(step.roots)) {
      if (root.kind != Root::Reduce)
        continue;
      auto reduce = cast<tile::ReduceOp>(root.op);
      b.setLoc(reduce.getLoc());
      unsigned count = reduce.getNumOperands();
      SmallVector<Value> lanes(rest.take_front(count));
      rest = rest.drop_front(count);
      if (walk.vectorDim == step.reduceAxis)
        lanes = foldLanes(*this, reduce, std::move(lanes), walk.width);
      storeReduced(*this, reduce, lanes, open.at, reduced[index]);
    }
  }
  nests.close(open);
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    if (root.kind == Root::Materialise)
      frame.assign(root.value, targets[index]);
    if (root.kind == Root::Atomic && !root.op->use_empty())
      frame.assign(root.op->getResult(0), targets[index]);
    if (root.kind == Root::Reduce)
      for (auto [result, storage] : llvm::zip(root.op->getResults(), reduced[index]))
        frame.assign(result, storage);
  }
  return success();
}
