// Rewrites tile IR before planning, to make it easier to lower:
//   - launches do not overlap on this target, so ops on the neighbouring launches are dropped;
//   - dot operands of narrow types become f32 (i32) tiles, which is what the CPU multiplies;
//   - a tile of pointers or integers that every iteration of a loop, or the branches of an if, move by scalars is
//     replaced by the scalar:
//       for (p = p0) { use p; yield addptr(p, splat d) }  ->  for (s = 0) { use addptr(p0, splat s); yield s + d }
//     so that the pointers keep their known pattern and none is kept in memory.
//
//     %r = scf.for ... iter_args(%q = %p) -> (tensor<64x!tile.ptr<f32>>)  { store %q; yield addptr %q, dense<64> }
//   becomes, once lowered,
//     %r = scf.for ... iter_args(%s = 0) -> (i64)  { llvm.store vector, %x + %s; yield %s + 64 }
#include "compiler/conversion/tile_to_cpu/Prepare.h"
#include "compiler/conversion/tile_to_cpu/Shape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Dots
//===----------------------------------------------------------------------===//

static Value convertTile(Value value, Type element, DenseMap<Value, Value> &converted) {
  Value &result = converted[value];
  if (result && elementOf(result) == element)
    return result;
  OpBuilder b(value.getContext());
  // Right after its definition, so that loop-invariant operands are converted outside the loop.
  b.setInsertionPointAfterValue(value);
  Type type = cast<RankedTensorType>(value.getType()).clone(element);
  if (isa<FloatType>(element))
    result = arith::ExtFOp::create(b, value.getLoc(), type, value);
  else
    result = arith::ExtSIOp::create(b, value.getLoc(), type, value);
  return result;
}

static void widenDot(tile::DotOp op, DenseMap<Value, Value> &converted) {
  OpBuilder b(op);
  Type accumulator = elementOf(op.getAcc());
  Type compute = accumulator;
  if (isa<FloatType>(accumulator) && accumulator.getIntOrFloatBitWidth() < 32)
    compute = b.getF32Type();
  for (OpOperand *operand : {&op.getLhsMutable(), &op.getRhsMutable()})
    if (elementOf(operand->get()) != compute)
      operand->set(convertTile(operand->get(), compute, converted));
  if (compute == accumulator)
    return;
  Value acc = convertTile(op.getAcc(), compute, converted);
  op.getAccMutable().assign(acc);
  op.getResult().setType(cast<RankedTensorType>(acc.getType()));
  b.setInsertionPointAfter(op);
  auto narrow =
      arith::TruncFOp::create(b, op.getLoc(), cast<RankedTensorType>(acc.getType()).clone(accumulator), op.getResult());
  op.getResult().replaceAllUsesExcept(narrow.getResult(), narrow);
}

//===----------------------------------------------------------------------===//
// Carried pointers
//===----------------------------------------------------------------------===//

/// The scalar that all elements of a tile equal, or null.
static Value uniformScalar(OpBuilder &b, Value tile) {
  if (auto splat = tile.getDefiningOp<tile::SplatOp>())
    return splat.getValue();
  if (auto broadcast = tile.getDefiningOp<tile::BroadcastOp>())
    return uniformScalar(b, broadcast.getValue());
  if (auto expand = tile.getDefiningOp<tile::ExpandDimsOp>())
    return uniformScalar(b, expand.getValue());
  DenseElementsAttr constant;
  if (matchPattern(tile, m_Constant(&constant)) && constant.isSplat())
    return arith::ConstantOp::create(b, tile.getLoc(), cast<TypedAttr>(constant.getSplatValue<Attribute>()));
  return {};
}

namespace {
/// A value as `from` plus scalars. Negative steps are subtracted.
struct Chain {
  struct Step {
    Value amount;
    bool negative;
  };
  Value from;
  SmallVector<Step> steps;
};

/// A carried tile's origin: the tile that it starts from, and the block arguments that are that tile plus a scalar.
struct Carried {
  Value base;
  SmallVector<Value> arguments;
  bool holds(Value value) const { return value == base || llvm::is_contained(arguments, value); }
};
} // namespace

static bool isMovable(Value value) {
  return isTile(value) && isa<IntegerType, tile::PtrType>(elementOf(value)) && !elementOf(value).isInteger(1);
}

static Type sumType(Value tile) {
  Type element = elementOf(tile);
  return isa<tile::PtrType>(element) ? IntegerType::get(tile.getContext(), 64) : element;
}

/// Follows a value back through additions of scalars to the first value that `found` accepts.
static std::optional<Chain> chainTo(Value value, function_ref<bool(Value)> found) {
  Chain chain{value, {}};
  while (!found(chain.from)) {
    Operation *op = chain.from.getDefiningOp();
    if (!op || !isa<tile::AddPtrOp, arith::AddIOp, arith::SubIOp>(op))
      return std::nullopt;
    OpBuilder b(op->getContext());
    auto uniform = [&](Value operand) {
      if (operand.getDefiningOp())
        b.setInsertionPointAfterValue(operand);
      return isTile(operand) ? uniformScalar(b, operand) : operand;
    };
    Value next = op->getOperand(0), step = op->getOperand(1);
    Value scalar = uniform(step);
    if (!scalar && isa<arith::AddIOp>(op)) {
      std::swap(next, step);
      scalar = uniform(step);
    }
    // Unlike all other offsets, those of one bit are not signed.
    if (!scalar || scalar.getType().isInteger(1))
      return std::nullopt;
    chain.steps.push_back({scalar, isa<arith::SubIOp>(op)});
    chain.from = next;
  }
  return chain;
}

/// The chain's distance from `base`: it starts at `base` (`start` is null) or at a value whose distance is `start`.
static Value distance(OpBuilder &b, Location loc, const Chain &chain, Value start, Type type) {
  Value sum = start;
  if (!sum)
    sum = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 0));
  for (auto [step, negative] : chain.steps) {
    if (step.getType() != type)
      step = arith::ExtSIOp::create(b, loc, type, step);
    sum = negative ? arith::SubIOp::create(b, loc, sum, step).getResult()
                   : arith::AddIOp::create(b, loc, sum, step).getResult();
  }
  return sum;
}

/// Replaces a tile result or argument by its distance from `base`; its users get the sum of the two.
static void becomeDistance(OpBuilder b, Value value, Value base) {
  auto type = cast<RankedTensorType>(value.getType());
  value.setType(sumType(value));
  auto offset = tile::SplatOp::create(b, value.getLoc(), type.clone(value.getType()), value);
  Value moved;
  if (isa<tile::PtrType>(type.getElementType()))
    moved = tile::AddPtrOp::create(b, value.getLoc(), base, offset);
  else
    moved = arith::AddIOp::create(b, value.getLoc(), base, offset);
  value.replaceAllUsesExcept(moved, offset);
}

static void becomeDistance(BlockArgument argument, Value base) {
  becomeDistance(OpBuilder::atBlockBegin(argument.getOwner()), argument, base);
}

static void becomeDistance(Operation *op, unsigned result, Value base) {
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  becomeDistance(b, op->getResult(result), base);
}

/// Makes the terminator pass on its operand's distance from the base.
static void handOn(Operation *terminator, unsigned operand, const Chain &chain, Value base, Type type) {
  OpBuilder b(terminator);
  Value start = chain.from == base ? Value() : chain.from;
  terminator->setOperand(operand, distance(b, terminator->getLoc(), chain, start, type));
}

static void carryScalars(scf::ForOp loop) {
  Operation *yield = loop.getBody()->getTerminator();
  for (unsigned index = 0; index < loop.getNumRegionIterArgs(); ++index) {
    BlockArgument argument = loop.getRegionIterArg(index);
    Carried carried{loop.getInitArgs()[index], {argument}};
    if (!isMovable(argument))
      continue;
    auto chain = chainTo(yield->getOperand(index), [&](Value value) { return carried.holds(value); });
    if (!chain)
      continue;
    Type type = sumType(argument);
    OpBuilder b(loop);
    loop.getInitArgsMutable()[index].set(arith::ConstantOp::create(b, loop.getLoc(), b.getIntegerAttr(type, 0)));
    becomeDistance(argument, carried.base);
    becomeDistance(loop, index, carried.base);
    handOn(yield, index, *chain, carried.base, type);
  }
}

static void carryScalars(scf::WhileOp loop) {
  Operation *yield = loop.getAfterBody()->getTerminator();
  auto condition = loop.getConditionOp();
  for (unsigned index = 0; index < loop.getInits().size(); ++index) {
    BlockArgument argument = loop.getBeforeArguments()[index];
    if (!isMovable(argument))
      continue;
    // What the condition region passes to the body (and to what follows the loop), possibly moved.
    Carried before{loop.getInits()[index], {argument}}, after{before.base, {}};
    SmallVector<std::pair<unsigned, Chain>> forwarded;
    for (auto [position, operand] : llvm::enumerate(condition.getArgs()))
      if (operand.getType() == argument.getType())
        if (auto chain = chainTo(operand, [&](Value value) { return before.holds(value); })) {
          forwarded.push_back({position, *chain});
          after.arguments.push_back(loop.getAfterArguments()[position]);
        }
    auto chain = chainTo(yield->getOperand(index), [&](Value value) { return after.holds(value); });
    if (!chain)
      continue;
    Type type = sumType(argument);
    OpBuilder b(loop);
    loop.getInitsMutable()[index].set(arith::ConstantOp::create(b, loop.getLoc(), b.getIntegerAttr(type, 0)));
    becomeDistance(argument, before.base);
    for (auto &[position, passed] : forwarded) {
      becomeDistance(loop.getAfterArguments()[position], before.base);
      becomeDistance(loop, position, before.base);
      handOn(condition, position + 1, passed, before.base, type);
    }
    handOn(yield, index, *chain, before.base, type);
  }
}

/// If both branches move the same tile, they yield the distances instead.
static void yieldScalars(scf::IfOp branch) {
  for (unsigned index = 0; index < branch.getNumResults(); ++index) {
    if (!isMovable(branch.getResult(index)))
      continue;
    Operation *yields[] = {branch.thenYield(), branch.elseYield()};
    auto outside = [&](Value value) { return !branch->isAncestor(value.getParentBlock()->getParentOp()); };
    // Values outside the if that the first branch's chain leads to, nearest first.
    SmallVector<Value> candidates;
    chainTo(yields[0]->getOperand(index), [&](Value value) {
      if (outside(value) && value.getType() == branch.getResultTypes()[index])
        candidates.push_back(value);
      return false;
    });
    for (Value base : candidates) {
      auto is = [&](Value value) { return value == base; };
      auto otherwise = chainTo(yields[1]->getOperand(index), is);
      if (!otherwise)
        continue;
      Chain then = *chainTo(yields[0]->getOperand(index), is);
      Type type = sumType(base);
      becomeDistance(branch, index, base);
      handOn(yields[0], index, then, base, type);
      handOn(yields[1], index, *otherwise, base, type);
      break;
    }
  }
}

void cpu::prepareKernel(func::FuncOp kernel) {
  kernel.walk([](Operation *op) {
    if (isa<tile::LaunchDependentsOp, tile::WaitForGridOp, tile::PrefetchOp>(op))
      op->erase();
  });
  // Innermost first, so that outer branches and loops see what inner ones have turned into scalars.
  kernel.walk<WalkOrder::PostOrder>([&](Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      carryScalars(loop);
    else if (auto loop = dyn_cast<scf::WhileOp>(op))
      carryScalars(loop);
    else if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch.getNumResults())
      yieldScalars(branch);
  });
  DenseMap<Value, Value> converted;
  kernel.walk([&](tile::DotOp dot) { widenDot(dot, converted); });
  // Remove unused ops, last first.
  SmallVector<Operation *> ops;
  kernel.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}
