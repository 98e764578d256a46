// Loop nests: how an index space is walked, and how the roots of a group share one nest.
#include "compiler/conversion/tile_to_cpu/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

void KernelLowering::insertAt(int level) {
  Nest::Level &target = nest->levels[level];
  if (target.before)
    b.setInsertionPoint(target.before);
  else
    b.setInsertionPointToEnd(target.block);
}

int KernelLowering::levelOf(const Index &at) const {
  int level = 0;
  for (const Coord &coord : at.at)
    if (coord.value) {
      auto found = nest->levelOf.find(coord.value);
      if (found != nest->levelOf.end())
        level = std::max(level, found->second);
    }
  return level;
}

void KernelLowering::openNest(OpenNest &open, const Walk &walk, ValueRange inits) {
  open.outer = nest;
  nest = &open.nest;
  open.nest.levels.push_back({b.getInsertionBlock(), nullptr, {}});
  open.at.at.resize(walk.shape.size());
  open.at.vectorDim = walk.vectorDim;
  open.at.width = walk.width;
  open.carried.assign(inits.begin(), inits.end());
  for (auto [position, dim] : llvm::enumerate(walk.order)) {
    int64_t step = dim == walk.vectorDim ? walk.width : dim == walk.blockDim ? walk.block : 1;
    if (walk.shape[dim] == step)
      continue;
    bool innermost = position + 1 == walk.order.size();
    auto loop = scf::ForOp::create(b, i64(0), i64(walk.shape[dim]), i64(step), innermost ? inits : ValueRange());
    Block *body = loop.getBody();
    if (!body->empty())
      body->back().erase();
    if (innermost) {
      open.carried.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      open.innermostLoops = true;
    }
    open.nest.levels.back().before = loop;
    open.nest.levelOf[loop.getInductionVar()] = open.nest.levels.size();
    open.nest.levels.push_back({body, nullptr, {}});
    open.at.at[dim].value = loop.getInductionVar();
    open.loops.push_back(loop);
    b.setInsertionPointToEnd(body);
  }
}

SmallVector<Value> KernelLowering::closeInnermost(OpenNest &open, ValueRange yields) {
  if (!open.innermostLoops)
    return {yields.begin(), yields.end()};
  scf::ForOp loop = open.loops.pop_back_val();
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, yields);
  open.nest.levels.pop_back();
  b.setInsertionPointToEnd(loop->getBlock());
  open.innermostLoops = false;
  return {loop.getResults().begin(), loop.getResults().end()};
}

void KernelLowering::closeNest(OpenNest &open) {
  Block *home = open.nest.levels.front().block;
  for (scf::ForOp loop : open.loops) {
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b);
  }
  b.setInsertionPointToEnd(home);
  nest = open.outer;
}

LogicalResult KernelLowering::forEach(const Walk &walk, function_ref<LogicalResult(const Index &)> body) {
  OpenNest open;
  openNest(open, walk, {});
  LogicalResult result = body(open.at);
  closeNest(open);
  return failure(failed || mlir::failed(result));
}

SmallVector<Value> KernelLowering::loop(int64_t count, int64_t step, ValueRange inits,
                                        function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (count <= step)
    return body(i64(0), inits);
  auto loop = scf::ForOp::create(b, i64(0), i64(count), i64(step), inits);
  if (!loop.getBody()->empty())
    loop.getBody()->back().erase();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> yields = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, yields);
  return {loop.getResults().begin(), loop.getResults().end()};
}

SmallVector<Value> KernelLowering::branch(Value condition, TypeRange types, function_ref<SmallVector<Value>()> then,
                                          function_ref<SmallVector<Value>()> otherwise) {
  auto op = scf::IfOp::create(b, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(b);
  auto fill = [&](Block *block, function_ref<SmallVector<Value>()> fn) {
    if (!block->empty())
      block->back().erase();
    b.setInsertionPointToEnd(block);
    scf::YieldOp::create(b, fn());
  };
  fill(op.thenBlock(), then);
  if (otherwise)
    fill(op.elseBlock(), otherwise);
  return {op.getResults().begin(), op.getResults().end()};
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Tiles that are best turned over in registers leave their group, if its roots do not depend on being one nest.
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

LogicalResult KernelLowering::emitGroup(const Step &step) {
  if (SmallVector<Step> parts; splitTurned(step, parts)) {
    for (const Step &part : parts)
      if (mlir::failed(emitGroup(part)))
        return failure();
    return success();
  }
  ++now;
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

  // Buffers first: their addresses belong before the loops.
  SmallVector<Storage> targets(step.roots.size());
  SmallVector<SmallVector<Storage>> reduced(step.roots.size());
  SmallVector<Value> inits;
  SmallVector<bool> identities(step.roots.size());
  Index shapeOnly;
  shapeOnly.vectorDim = walk.vectorDim;
  shapeOnly.width = walk.width;
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    b.setLoc(root.op->getLoc());
    if (root.kind == Root::Materialise) {
      targets[index] = allocateFor(root.value);
    } else if (root.kind == Root::Carry) {
      if (isa<scf::IfOp>(root.op->getParentOp())) {
        Value old = plan->branchTarget(root.op, root.operand);
        targets[index] = allocate(root.value.getType(), old ? storageOf(old).pointer : Value());
        if (old)
          targets[index].lifetime = storageOf(old).lifetime;
      } else {
        int tile = 0;
        for (Value operand : root.op->getOperands().take_front(root.operand))
          tile += isTile(operand);
        int slot = plan->carries(root.op->getBlock()).slots[tile].slot;
        targets[index] = allocate(root.value.getType(), pool->pointers[slot]);
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
      TypedAttr identity = identityOf(reduce);
      identities[index] = static_cast<bool>(identity);
      for (Value operand : reduce.getOperands()) {
        Type type = laneType(elementOf(operand), shapeOnly);
        inits.push_back(identity ? splatConstant(type, identity) : zeroOf(type));
      }
    }
  }

  OpenNest open;
  openNest(open, walk, inits);
  const Index &at = open.at;
  if (walk.blockDim >= 0) {
    writeTransposed(first.value, targets[0], walk, at);
    closeNest(open);
    if (first.kind == Root::Materialise)
      assign(first.value, targets[0]);
    return failure(failed);
  }
  // All reads of an index come before the writes of it: a buffer may be overwritten in place.
  SmallVector<Value> values(step.roots.size());
  SmallVector<Value> yields;
  unsigned carried = 0;
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    b.setLoc(root.op->getLoc());
    if (root.kind == Root::Materialise || root.kind == Root::Carry) {
      values[index] = eval(root.value, at);
    } else if (root.kind == Root::Reduce) {
      auto reduce = cast<tile::ReduceOp>(root.op);
      SmallVector<Value> elements, accumulators;
      for (Value operand : reduce.getOperands()) {
        elements.push_back(at.isVector() ? evalVector(operand, at) : eval(operand, at));
        accumulators.push_back(open.carried[carried++]);
      }
      if (open.innermostLoops) {
        SmallVector<Value> arguments(accumulators);
        arguments.append(elements);
        SmallVector<Value> combined = emitRegion(reduce.getCombine(), arguments);
        if (!identities[index]) {
          Value start = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, open.at.at[walk.order.back()].value, i64(0));
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
    LogicalResult done = success();
    if (root.kind == Root::Store)
      done = emitStore(root.op, at);
    else if (root.kind == Root::Atomic)
      values[index] = emitAtomic(root.op, &at);
    else if (root.kind == Root::Assert)
      done = emitAssert(cast<tile::AssertOp>(root.op), &at);
    if (mlir::failed(done))
      return failure();
  }
  for (auto [index, root] : llvm::enumerate(step.roots))
    if (root.kind == Root::Materialise || root.kind == Root::Carry)
      writeBuffer(targets[index], at, values[index]);
    else if (root.kind == Root::Atomic && !root.op->use_empty())
      writeBuffer(targets[index], at, values[index]);

  if (step.reduceAxis >= 0) {
    SmallVector<Value> results = closeInnermost(open, yields);
    ArrayRef<Value> rest = results;
    for (auto [index, root] : llvm::enumerate(step.roots)) {
      if (root.kind != Root::Reduce)
        continue;
      auto reduce = cast<tile::ReduceOp>(root.op);
      b.setLoc(reduce.getLoc());
      unsigned count = reduce.getNumOperands();
      SmallVector<Value> lanes(rest.take_front(count));
      rest = rest.drop_front(count);
      if (at.vectorDim == step.reduceAxis)
        lanes = foldLanes(reduce, std::move(lanes), at.width);
      storeReduced(reduce, lanes, at, reduced[index]);
    }
  }
  closeNest(open);
  for (auto [index, root] : llvm::enumerate(step.roots)) {
    if (root.kind == Root::Materialise)
      assign(root.value, targets[index]);
    if (root.kind == Root::Atomic && !root.op->use_empty())
      assign(root.op->getResult(0), targets[index]);
    if (root.kind == Root::Reduce)
      for (auto [result, storage] : llvm::zip(root.op->getResults(), reduced[index]))
        assign(result, storage);
  }
  return failure(failed);
}
