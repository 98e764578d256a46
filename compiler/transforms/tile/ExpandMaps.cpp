// kiln-expand-maps: expands a region of scalar ops to ops on tiles, with a mask of the active elements.
//
// A value that depends on no element stays scalar, and so does a branch or a loop on it. With an empty shape nothing
// becomes a tile: this mode turns the branches in regions of reductions into selects.
#include "compiler/transforms/tile/Passes.h"
#include "compiler/transforms/tile/TakeUnlikely.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln {
#define GEN_PASS_DEF_EXPANDMAPSPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::tile;

namespace {
using Values = SmallVector<Value>;

class Widening {
public:
  Widening(Operation *before, ArrayRef<int64_t> shape) : b(before->getLoc(), before), shape(shape) {}

  void map(Value from, Value to) { mapped[from] = to; }
  void setInsertionPoint(Block *block) { b.setInsertionPointToEnd(block); }

  /// Converts the ops of a block for the elements in `live` (null: all); `results` are the operands of its terminator.
  LogicalResult convert(Block &block, Value live, Values &results);

  /// Splats a scalar to a tile.
  Value spread(Value value);

private:
  Type wide(Type type) const { return shape.empty() ? type : Type(RankedTensorType::get(shape, type)); }
  Type mask() { return wide(b.getI1Type()); }
  bool varies(Value value) const { return shape.empty() || isa<RankedTensorType>(value.getType()); }
  Value lookup(Value value) const {
    auto found = mapped.find(value);
    return found == mapped.end() ? value : found->second;
  }
  Values lookup(ValueRange values) const {
    return llvm::map_to_vector(values, [&](Value value) { return lookup(value); });
  }
  Values spread(ArrayRef<Value> values) {
    return llvm::map_to_vector(values, [&](Value value) { return spread(value); });
  }

  Value both(Value a, Value c);
  Value opposite(Value flag);
  Value any(Value flags);

  LogicalResult convert(Operation *op, Value live);
  LogicalResult convertIf(scf::IfOp op, Value live);
  LogicalResult convertUniformIf(scf::IfOp op, Value condition, Value live);
  LogicalResult convertFor(scf::ForOp op, Value live);
  LogicalResult convertWhile(scf::WhileOp op, Value live);
  void convertElementwise(Operation *op);

  /// Runs until no element is left: `before` takes the carried values and returns a condition and the values to forward
  /// (also the results); `after` takes those and returns the next carried values.
  using Step = llvm::function_ref<LogicalResult(ValueRange, Value live, Values &)>;
  LogicalResult loop(Values inits, TypeRange forwarded, Value live, Step before, Step after, Values &results);

  ImplicitLocOpBuilder b;
  SmallVector<int64_t> shape;
  DenseMap<Value, Value> mapped;
};
} // namespace

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

Value Widening::spread(Value value) {
  if (shape.empty() || isa<RankedTensorType>(value.getType()))
    return value;
  return SplatOp::create(b, wide(value.getType()), value);
}

Value Widening::both(Value a, Value c) {
  if (!a || !c)
    return a ? a : c;
  return arith::AndIOp::create(b, spread(a), spread(c));
}

Value Widening::opposite(Value flag) {
  Value one = arith::ConstantOp::create(b, b.getBoolAttr(true));
  return arith::XOrIOp::create(b, flag, spread(one));
}

/// Whether any flag is set, as a scalar.
Value Widening::any(Value flags) {
  Value bits = arith::ExtUIOp::create(b, wide(b.getI32Type()), flags);
  while (auto tile = dyn_cast<RankedTensorType>(bits.getType())) {
    ArrayRef<int64_t> rest = tile.getShape().drop_back();
    Type type = rest.empty() ? Type(b.getI32Type()) : Type(RankedTensorType::get(rest, b.getI32Type()));
    auto reduce = ReduceOp::create(b, TypeRange(type), ValueRange(bits), uint32_t(rest.size()));
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(&reduce.getCombine(), {}, {b.getI32Type(), b.getI32Type()}, {b.getLoc(), b.getLoc()});
    YieldOp::create(b, ValueRange(arith::OrIOp::create(b, block->getArgument(0), block->getArgument(1)).getResult()));
    bits = reduce.getResult(0);
  }
  Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bits, zero);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Widening::convert(Block &block, Value live, Values &results) {
  for (Operation &op : block.without_terminator()) {
    b.setLoc(op.getLoc());
    if (failed(convert(&op, live)))
      return failure();
  }
  b.setLoc(block.getTerminator()->getLoc());
  results = lookup(block.getTerminator()->getOperands());
  return success();
}

void Widening::convertElementwise(Operation *op) {
  Values operands = lookup(op->getOperands());
  bool varying = llvm::any_of(operands, [&](Value value) { return varies(value); });
  if (varying)
    operands = spread(operands);
  Operation *copy = op->clone();
  copy->setOperands(operands);
  for (auto [result, value] : llvm::zip(op->getResults(), copy->getResults())) {
    if (varying)
      value.setType(wide(value.getType()));
    map(result, value);
  }
  b.insert(copy);
}

LogicalResult Widening::convert(Operation *op, Value live) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return convertIf(branch, live);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return convertFor(loop, live);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return convertWhile(loop, live);
  if (auto load = dyn_cast<LoadOp>(op)) {
    Value only = load.getMask() ? both(live, lookup(load.getMask())) : live, other = load.getOther();
    auto copy =
        LoadOp::create(b, wide(load.getType()), spread(lookup(load.getPtr())), only ? spread(only) : Value(),
                       other ? spread(lookup(other)) : Value(), load.getCache(), load.getEvict(), load.getIsVolatile());
    map(load.getResult(), copy.getResult());
    return success();
  }
  if (auto store = dyn_cast<StoreOp>(op)) {
    Value only = store.getMask() ? both(live, lookup(store.getMask())) : live;
    StoreOp::create(b, spread(lookup(store.getPtr())), spread(lookup(store.getValue())), only ? spread(only) : Value(),
                    store.getCache(), store.getEvict());
    return success();
  }
  if (auto atomic = dyn_cast<AtomicRMWOp>(op)) {
    Value only = atomic.getMask() ? both(live, lookup(atomic.getMask())) : live;
    Value value = spread(lookup(atomic.getValue()));
    auto copy = AtomicRMWOp::create(b, value.getType(), atomic.getKind(), spread(lookup(atomic.getPtr())), value,
                                    only ? spread(only) : Value(), atomic.getSem(), atomic.getScope());
    map(atomic.getResult(), copy.getResult());
    return success();
  }
  if (auto assertion = dyn_cast<AssertOp>(op)) {
    Value condition = lookup(assertion.getCondition());
    if (live)
      condition = arith::OrIOp::create(b, spread(condition), opposite(live));
    AssertOp::create(b, condition, assertion.getMessage());
    return success();
  }
  if (!isMemoryEffectFree(op) || (op->getNumRegions() && !isa<InlineAsmOp>(op)))
    return op->emitError("expected arithmetic, branches, loops, loads and stores in a function of scalars, got ")
           << op->getName();
  convertElementwise(op);
  return success();
}

//===----------------------------------------------------------------------===//
// Branches and loops
//===----------------------------------------------------------------------===//

LogicalResult Widening::convertIf(scf::IfOp op, Value live) {
  Value condition = lookup(op.getCondition());
  if (!varies(condition))
    return convertUniformIf(op, condition, live);
  Values then, otherwise;
  if (failed(convert(*op.thenBlock(), both(live, condition), then)))
    return failure();
  if (Block *block = op.elseBlock()) {
    b.setLoc(op.getLoc());
    Value unless = block->without_terminator().empty() ? live : both(live, opposite(condition));
    if (failed(convert(*block, unless, otherwise)))
      return failure();
  }
  b.setLoc(op.getLoc());
  for (auto [result, x, y] : llvm::zip(op.getResults(), then, otherwise))
    map(result, arith::SelectOp::create(b, condition, spread(x), spread(y)).getResult());
  return success();
}

LogicalResult Widening::convertUniformIf(scf::IfOp op, Value condition, Value live) {
  OpBuilder::InsertPoint place = b.saveInsertionPoint();
  Region regions[2];
  Values yields[2];
  Block *blocks[2] = {op.thenBlock(), op.elseBlock()};
  for (int i = 0; i < 2; ++i) {
    if (!blocks[i])
      continue;
    b.createBlock(&regions[i]);
    if (failed(convert(*blocks[i], live, yields[i])))
      return failure();
  }
  SmallVector<Type> types;
  for (auto [x, y] : llvm::zip(yields[0], yields[1]))
    types.push_back(varies(x) || varies(y) ? wide(getElementTypeOrSelf(x.getType())) : x.getType());
  b.setLoc(op.getLoc());
  OperationState state(op.getLoc(), scf::IfOp::getOperationName(), ValueRange(condition), types);
  for (int i = 0; i < 2; ++i) {
    if (blocks[i]) {
      b.setInsertionPointToEnd(&regions[i].back());
      Values values;
      for (auto [value, type] : llvm::zip(yields[i], types))
        values.push_back(isa<RankedTensorType>(type) ? spread(value) : value);
      scf::YieldOp::create(b, values);
    }
    state.addRegion()->takeBody(regions[i]);
  }
  b.restoreInsertionPoint(place);
  Operation *branch = b.create(state);
  for (auto [result, value] : llvm::zip(op.getResults(), branch->getResults()))
    map(result, value);
  return success();
}

LogicalResult Widening::loop(Values inits, TypeRange forwarded, Value live, Step before, Step after, Values &results) {
  // Carried: the values, the values with which each element left, and which elements are still active.
  unsigned count = inits.size();
  for (Type type : forwarded)
    inits.push_back(ub::PoisonOp::create(b, wide(type)));
  Value all = live ? live : spread(arith::ConstantOp::create(b, b.getBoolAttr(true)).getResult());
  inits.push_back(all);
  SmallVector<Type> types;
  for (Type type : forwarded)
    types.push_back(wide(type));
  llvm::append_range(types, SmallVector<Type>(types));
  types.push_back(mask());
  auto made = scf::WhileOp::create(b, types, inits, nullptr, nullptr);
  Location loc = b.getLoc();
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block = &made.getBefore().front();
    b.setInsertionPointToEnd(block);
    ValueRange arguments(block->getArguments());
    Value there = arguments.back();
    Values found; // the condition, then the forwarded values
    if (failed(before(arguments.take_front(count), there, found)))
      return failure();
    b.setLoc(loc);
    Values passed = spread(ArrayRef<Value>(found).drop_front());
    for (auto [value, kept] : llvm::zip(llvm::to_vector(passed), arguments.slice(count, forwarded.size())))
      passed.push_back(arith::SelectOp::create(b, there, value, kept));
    passed.push_back(both(there, found.front()));
    scf::ConditionOp::create(b, any(passed.back()), passed);
  }
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block = &made.getAfter().front();
    b.setInsertionPointToEnd(block);
    ValueRange arguments(block->getArguments());
    Values next;
    if (failed(after(arguments.take_front(forwarded.size()), arguments.back(), next)))
      return failure();
    b.setLoc(loc);
    next = spread(next);
    llvm::append_range(next, arguments.drop_front(forwarded.size()));
    scf::YieldOp::create(b, next);
  }
  ValueRange kept = made.getResults().slice(forwarded.size(), forwarded.size());
  results.assign(kept.begin(), kept.end());
  return success();
}

LogicalResult Widening::convertFor(scf::ForOp op, Value live) {
  Value lower = lookup(op.getLowerBound()), upper = lookup(op.getUpperBound()), step = lookup(op.getStep());
  Values inits = spread(lookup(op.getInitArgs()));
  if (!varies(lower) && !varies(upper) && !varies(step)) {
    auto made = scf::ForOp::create(
        b, lower, upper, step, inits, [](OpBuilder &, Location, Value, ValueRange) {}, op.getUnsignedCmp());
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    map(op.getInductionVar(), made.getInductionVar());
    for (auto [from, to] : llvm::zip(op.getRegionIterArgs(), made.getRegionIterArgs()))
      map(from, to);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(made.getBody());
    Values yields;
    if (failed(convert(*op.getBody(), live, yields)))
      return failure();
    scf::YieldOp::create(b, spread(yields));
    for (auto [from, to] : llvm::zip(op.getResults(), made.getResults()))
      map(from, to);
    return success();
  }
  // Each element has its own counter, the first of the carried values.
  inits.insert(inits.begin(), spread(lower));
  SmallVector<Type> types{op.getInductionVar().getType()};
  llvm::append_range(types, op.getResultTypes());
  auto below = op.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  Values results;
  auto before = [&](ValueRange carried, Value, Values &found) {
    found.push_back(arith::CmpIOp::create(b, below, carried.front(), spread(upper)));
    llvm::append_range(found, carried);
    return success();
  };
  auto after = [&](ValueRange carried, Value there, Values &next) -> LogicalResult {
    map(op.getInductionVar(), carried.front());
    for (auto [from, to] : llvm::zip(op.getRegionIterArgs(), carried.drop_front()))
      map(from, to);
    if (failed(convert(*op.getBody(), there, next)))
      return failure();
    next.insert(next.begin(), arith::AddIOp::create(b, carried.front(), spread(step)));
    return success();
  };
  if (failed(loop(inits, types, live, before, after, results)))
    return failure();
  for (auto [from, to] : llvm::zip(op.getResults(), llvm::drop_begin(results)))
    map(from, to);
  return success();
}

LogicalResult Widening::convertWhile(scf::WhileOp op, Value live) {
  auto condition = cast<scf::ConditionOp>(op.getBefore().front().getTerminator());
  auto bind = [&](ValueRange from, ValueRange to) {
    for (auto [argument, value] : llvm::zip(from, to))
      map(argument, value);
  };
  auto before = [&](ValueRange carried, Value there, Values &found) {
    bind(op.getBefore().getArguments(), carried);
    return convert(op.getBefore().front(), there, found); // the condition is its terminator's first operand
  };
  auto after = [&](ValueRange carried, Value there, Values &next) {
    bind(op.getAfter().getArguments(), carried);
    return convert(op.getAfter().front(), there, next);
  };
  Values results;
  if (failed(loop(spread(lookup(op.getInits())), condition.getArgs().getTypes(), live, before, after, results)))
    return failure();
  bind(op.getResults(), results);
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

static LogicalResult expand(MapOp op) {
  Widening widening(op, cast<RankedTensorType>(op.getOperandTypes().front()).getShape());
  for (auto [argument, tile] : llvm::zip(op.getBody().getArguments(), op.getOperands()))
    widening.map(argument, tile);
  Values results;
  if (failed(widening.convert(op.getBody().front(), Value(), results)))
    return failure();
  for (auto [result, value] : llvm::zip(op.getResults(), results))
    result.replaceAllUsesWith(widening.spread(value));
  op.erase();
  return success();
}

/// Turns the branches in the region of a reduction into selects; loops stay, for the lowering to refuse.
static LogicalResult flatten(Operation *op, Region &region) {
  bool branches = false, others = false;
  region.walk([&](Operation *nested) {
    branches |= isa<scf::IfOp>(nested);
    others |= !isa<scf::IfOp>(nested) && (nested->getNumRegions() || !isMemoryEffectFree(nested));
  });
  if (!branches || others)
    return success();
  Region flat;
  Block *block = new Block;
  flat.push_back(block);
  Widening widening(op, {});
  for (BlockArgument argument : region.getArguments())
    widening.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
  widening.setInsertionPoint(block);
  Values results;
  if (failed(widening.convert(region.front(), Value(), results)))
    return failure();
  OpBuilder b(op->getContext());
  b.setInsertionPointToEnd(block);
  YieldOp::create(b, region.front().getTerminator()->getLoc(), results);
  region.takeBody(flat);
  return success();
}

namespace {
struct ExpandMaps : kiln::impl::ExpandMapsPassBase<ExpandMaps> {
  void runOnOperation() override {
    // First expand the maps, which moves nested ops out of them.
    SmallVector<MapOp> maps;
    getOperation().walk([&](MapOp op) { maps.push_back(op); });
    for (MapOp op : maps) {
      // Elements ask each for itself, which would be a mask.
      takeUnlikely(op);
      if (failed(expand(op)))
        return signalPassFailure();
    }
    SmallVector<Operation *> combining;
    getOperation().walk([&](Operation *op) {
      if (isa<ReduceOp, ScanOp, InlineAsmOp>(op) && !op->getRegion(0).empty())
        combining.push_back(op);
    });
    for (Operation *op : combining)
      if (failed(flatten(op, op->getRegion(0))))
        return signalPassFailure();
  }
};
} // namespace
