// Loop nests: levels, and the loops themselves.
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

int KernelLowering::levelOf(const Coord &coord) const {
  auto found = coord.value ? nest->levelOf.find(coord.value) : nest->levelOf.end();
  return found == nest->levelOf.end() ? 0 : found->second;
}

int KernelLowering::levelOf(const Index &at) const {
  int level = 0;
  for (const Coord &coord : at.at)
    level = std::max(level, levelOf(coord));
  return level;
}

void KernelLowering::openNest(OpenNest &open, const Walk &walk, ValueRange inits, bool all) {
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
    if (innermost && !all)
      break;
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

SmallVector<Value> KernelLowering::innermost(OpenNest &open, const Walk &walk, ValueRange inits,
                                             function_ref<SmallVector<Value>()> body) {
  open.carried.assign(inits.begin(), inits.end());
  int dim = walk.order.empty() ? -1 : walk.order.back();
  int64_t step = dim == walk.vectorDim ? walk.width : 1;
  if (dim < 0 || walk.shape[dim] == step)
    return body();
  auto loop = scf::ForOp::create(b, i64(0), i64(walk.shape[dim]), i64(step), inits);
  if (!loop.getBody()->empty())
    loop.getBody()->back().erase();
  Nest::Level &outer = open.nest.levels.back();
  if (!outer.before)
    outer.before = loop;
  open.carried.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  open.nest.levelOf[loop.getInductionVar()] = open.nest.levels.size();
  open.nest.levels.push_back({loop.getBody(), nullptr, {}});
  open.at.at[dim].value = loop.getInductionVar();
  open.innermostLoops = true;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    SmallVector<Value> yields = body();
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b, yields);
  }
  open.innermostLoops = false;
  open.at.at[dim] = {};
  open.nest.levels.pop_back();
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
  auto op =
      scf::IfOp::create(b, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/static_cast<bool>(otherwise));
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
