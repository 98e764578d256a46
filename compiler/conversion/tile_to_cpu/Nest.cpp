// Loop nests: levels, the loops themselves, and coordinates; see Nest.h.
#include "compiler/conversion/tile_to_cpu/Nest.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

void Nests::insertAt(int level) {
  Nest::Level &target = nest->levels[level];
  if (target.before)
    b.setInsertionPoint(target.before);
  else
    b.setInsertionPointToEnd(target.block);
}

int Nests::levelOf(const Coord &coord) const {
  auto found = coord.value ? nest->levelOf.find(coord.value) : nest->levelOf.end();
  return found == nest->levelOf.end() ? 0 : found->second;
}

int Nests::levelOf(const Index &at) const {
  int level = 0;
  for (const Coord &coord : at.at)
    level = std::max(level, levelOf(coord));
  return level;
}

void Nests::open(OpenNest &open, const Walk &walk, ValueRange inits, bool all) {
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
    auto loop = scf::ForOp::create(b, b.i64(0), b.i64(walk.shape[dim]), b.i64(step), innermost ? inits : ValueRange());
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

SmallVector<Value> Nests::closeInnermost(OpenNest &open, ValueRange yields) {
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

SmallVector<Value> Nests::innermost(OpenNest &open, const Walk &walk, ValueRange inits, CodeBuilder::Body body) {
  open.carried.assign(inits.begin(), inits.end());
  int dim = walk.order.empty() ? -1 : walk.order.back();
  int64_t step = dim == walk.vectorDim ? walk.width : 1;
  if (dim < 0 || walk.shape[dim] == step)
    return body();
  auto loop = scf::ForOp::create(b, b.i64(0), b.i64(walk.shape[dim]), b.i64(step), inits);
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

void Nests::close(OpenNest &open) {
  Block *home = open.nest.levels.front().block;
  for (scf::ForOp loop : open.loops) {
    b.setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(b);
  }
  b.setInsertionPointToEnd(home);
  nest = open.outer;
}

LogicalResult Nests::forEach(const Walk &walk, function_ref<LogicalResult(const Index &)> body) {
  OpenNest open;
  this->open(open, walk, {});
  LogicalResult result = body(open.at);
  close(open);
  return result;
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

Value Nests::value(const Coord &coord) {
  if (!coord.value)
    return b.i64(coord.constant);
  return coord.constant ? arith::AddIOp::create(b, coord.value, b.i64(coord.constant)).getResult() : coord.value;
}

Coord Nests::derived(const Coord &coord, function_ref<Value(Value)> fn) {
  int level = levelOf(coord);
  OpBuilder::InsertionGuard guard(b);
  insertAt(level);
  Value value = fn(this->value(coord));
  nest->levelOf[value] = level;
  return {value, 0};
}

Coord Nests::total(const Coord &a, const Coord &c) {
  if (!a.value || !c.value)
    return {a.value ? a.value : c.value, a.constant + c.constant};
  // At the level where both are known: the inner of their two loops.
  const Coord &inner = levelOf(a) < levelOf(c) ? c : a, &outer = levelOf(a) < levelOf(c) ? a : c;
  return derived(inner, [&](Value value) { return arith::AddIOp::create(b, value, this->value(outer)); });
}

Coord Nests::scaled(const Coord &coord, int64_t factor) {
  if (!coord.value)
    return {Value(), coord.constant * factor};
  return derived(coord, [&](Value value) { return arith::MulIOp::create(b, value, b.i64(factor)); });
}

Coord Nests::quotient(const Coord &coord, int64_t divisor) {
  if (!coord.value)
    return {Value(), coord.constant / divisor};
  return derived(coord, [&](Value value) { return arith::DivUIOp::create(b, value, b.i64(divisor)); });
}

Coord Nests::remainder(const Coord &coord, int64_t divisor) {
  if (!coord.value)
    return {Value(), coord.constant % divisor};
  return derived(coord, [&](Value value) { return arith::RemUIOp::create(b, value, b.i64(divisor)); });
}

Value Nests::linearElement(const Index &at, ArrayRef<int64_t> shape) {
  Value linear = b.i64(0);
  for (auto [side, coord] : llvm::zip(shape, at.at))
    linear = arith::AddIOp::create(b, arith::MulIOp::create(b, linear, b.i64(side)), value(coord));
  return linear;
}
