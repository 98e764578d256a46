// Integer ranges: MLIR's inference for arith ops, our own for tile ops, loops and assumptions.
#include "compiler/analysis/Range.h"
#include "compiler/analysis/Exchanged.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/Utils/InferIntRangeCommon.h"
#include "runtime/artifact/Artifact.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using llvm::APInt;

namespace kiln {

bool isIntegerLike(Type type) { return getElementTypeOrSelf(type).isIntOrIndex(); }

unsigned integerWidth(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
}

std::optional<ConstantIntRanges> exactSignedRange(Operation *op, const ConstantIntRanges &lhs,
                                                  const ConstantIntRanges &rhs) {
  // Twice the width plus one bit holds any product or sum; a shift is by at most width - 1.
  unsigned width = lhs.smin().getBitWidth(), wide = 2 * width + 1;
  APInt a0 = lhs.smin().sext(wide), a1 = lhs.smax().sext(wide);
  APInt b0 = rhs.smin().sext(wide), b1 = rhs.smax().sext(wide);
  auto products = [&] {
    APInt corners[4] = {a0 * b0, a0 * b1, a1 * b0, a1 * b1};
    APInt low = corners[0], high = corners[0];
    for (const APInt &corner : corners) {
      low = llvm::APIntOps::smin(low, corner);
      high = llvm::APIntOps::smax(high, corner);
    }
    return ConstantIntRanges::fromSigned(low, high);
  };
  if (isa<arith::AddIOp>(op))
    return ConstantIntRanges::fromSigned(a0 + b0, a1 + b1);
  if (isa<arith::SubIOp>(op))
    return ConstantIntRanges::fromSigned(a0 - b1, a1 - b0);
  if (isa<arith::MulIOp>(op))
    return products();
  if (isa<arith::ShLIOp>(op)) {
    if (rhs.umax().uge(width))
      return std::nullopt;
    b0 = APInt::getOneBitSet(wide, rhs.umin().getZExtValue());
    b1 = APInt::getOneBitSet(wide, rhs.umax().getZExtValue());
    return products();
  }
  return std::nullopt;
}

/// If no bounds are given, uses what the module promises about the launch.
RangeAnalysis::RangeAnalysis(Operation *root, std::optional<LaunchBounds> given) : launch(given) {
  auto module = dyn_cast<ModuleOp>(root);
  if (!module)
    module = root->getParentOfType<ModuleOp>();
  if (!launch && module && module->hasAttr(kgpu::kDescribePointersAttrName))
    launch = LaunchBounds{artifact::kMostCount, artifact::kMostPrograms};
  collectAssumptions(root);
  run(root);
}

bool RangeAnalysis::mayOverflowSigned(Operation *op) const {
  if (op->getNumResults() != 1 || op->getNumOperands() != 2 || !isIntegerLike(op->getResult(0).getType()))
    return true;
  std::optional<Range> exact = exactSignedRange(op, get(op->getOperand(0)), get(op->getOperand(1)));
  unsigned width = integerWidth(op->getResult(0).getType());
  return !exact || !exact->smin().isSignedIntN(width) || !exact->smax().isSignedIntN(width);
}

std::optional<APInt> RangeAnalysis::constant(Value value) const {
  if (!isIntegerLike(value.getType()))
    return std::nullopt;
  return get(value).getConstantValue();
}

RangeAnalysis::Range RangeAnalysis::pessimistic(Value value) const {
  return Range::maxRange(isIntegerLike(value.getType()) ? integerWidth(value.getType()) : 0);
}

RangeAnalysis::Range RangeAnalysis::entry(BlockArgument argument) {
  Range range = pessimistic(argument);
  Type type = argument.getType();
  // Narrower integers may be unsigned, with values above the signed maximum.
  if (launch && type.isInteger() && integerWidth(type) >= 32) {
    unsigned width = integerWidth(type);
    range = Range::fromSigned(APInt::getZero(width), APInt(width, launch->mostCount));
  }
  return refine(argument, range);
}

//===----------------------------------------------------------------------===//
// Assumptions
//===----------------------------------------------------------------------===//

static arith::CmpIPredicate swapOperands(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::slt:
    return P::sgt;
  case P::sle:
    return P::sge;
  case P::sgt:
    return P::slt;
  case P::sge:
    return P::sle;
  case P::ult:
    return P::ugt;
  case P::ule:
    return P::uge;
  case P::ugt:
    return P::ult;
  case P::uge:
    return P::ule;
  default:
    return predicate;
  }
}

void RangeAnalysis::collectAssumptions(Operation *root) {
  root->walk([&](tile::AssumeOp op) { assume(op.getCondition(), op->getBlock()); });
}

void RangeAnalysis::assume(Value condition, Block *where) {
  Operation *op = condition.getDefiningOp();
  if (!op)
    return;
  if (isa<arith::AndIOp>(op)) {
    assume(op->getOperand(0), where);
    assume(op->getOperand(1), where);
    return;
  }
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return;
  // A value of this block and the assumption about it are reached together or not at all.
  if (compare.getLhs().getParentBlock() == where)
    bounds[compare.getLhs()].push_back({compare.getPredicate(), compare.getRhs()});
  if (compare.getRhs().getParentBlock() == where)
    bounds[compare.getRhs()].push_back({swapOperands(compare.getPredicate()), compare.getLhs()});
}

RangeAnalysis::Range RangeAnalysis::refine(Value value, Range range) const {
  auto found = bounds.find(value);
  if (found == bounds.end())
    return range;
  for (const Bound &bound : found->second) {
    APInt constant;
    // The limit may be defined further down, so that so far nothing is known of it unless it is a constant.
    Range limit = matchPattern(bound.limit, m_ConstantInt(&constant)) ? Range::constant(constant) : get(bound.limit);
    unsigned width = limit.smin().getBitWidth();
    APInt smin = APInt::getSignedMinValue(width), smax = APInt::getSignedMaxValue(width);
    APInt umin = APInt::getZero(width), umax = APInt::getMaxValue(width);
    std::optional<Range> allowed;
    switch (bound.predicate) {
    case arith::CmpIPredicate::eq:
      allowed = limit;
      break;
    case arith::CmpIPredicate::ne:
      break;
    case arith::CmpIPredicate::slt:
      if (limit.smax() != smin)
        allowed = Range::fromSigned(smin, limit.smax() - 1);
      break;
    case arith::CmpIPredicate::sle:
      allowed = Range::fromSigned(smin, limit.smax());
      break;
    case arith::CmpIPredicate::sgt:
      if (limit.smin() != smax)
        allowed = Range::fromSigned(limit.smin() + 1, smax);
      break;
    case arith::CmpIPredicate::sge:
      allowed = Range::fromSigned(limit.smin(), smax);
      break;
    case arith::CmpIPredicate::ult:
      if (limit.umax() != umin)
        allowed = Range::fromUnsigned(umin, limit.umax() - 1);
      break;
    case arith::CmpIPredicate::ule:
      allowed = Range::fromUnsigned(umin, limit.umax());
      break;
    case arith::CmpIPredicate::ugt:
      if (limit.umin() != umax)
        allowed = Range::fromUnsigned(limit.umin() + 1, umax);
      break;
    case arith::CmpIPredicate::uge:
      allowed = Range::fromUnsigned(limit.umin(), umax);
      break;
    }
    if (!allowed)
      continue;
    Range narrowed = range.intersection(*allowed);
    // A broken promise: nothing sensible can be derived, so keep the range.
    if (narrowed.smin().sle(narrowed.smax()) && narrowed.umin().ule(narrowed.umax()))
      range = narrowed;
  }
  return range;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

RangeAnalysis::Range RangeAnalysis::inductionVariable(scf::ForOp op) {
  Range lower = get(op.getLowerBound()), upper = get(op.getUpperBound());
  Range all = pessimistic(op.getInductionVar());
  unsigned width = all.smin().getBitWidth();
  Range result = all;
  if (op.getUnsignedCmp()) {
    if (!upper.umax().isZero() && lower.umin().ule(upper.umax() - 1))
      result = Range::fromUnsigned(lower.umin(), upper.umax() - 1);
  } else if (upper.smax() != APInt::getSignedMinValue(width) && lower.smin().sle(upper.smax() - 1)) {
    result = Range::fromSigned(lower.smin(), upper.smax() - 1);
  }
  return refine(op.getInductionVar(), result);
}

std::optional<RangeAnalysis::Range> RangeAnalysis::loopCarried(scf::ForOp op, unsigned index) {
  Value carried = op.getRegionIterArg(index);
  if (!isIntegerLike(carried.getType()) || op.getUnsignedCmp())
    return std::nullopt;
  // x += c with a loop-invariant c: bounded by the greatest trip count.
  auto add = op.getYieldedValues()[index].getDefiningOp<arith::AddIOp>();
  if (!add || (add.getLhs() != carried && add.getRhs() != carried))
    return std::nullopt;
  Value change = add.getLhs() == carried ? add.getRhs() : add.getLhs();
  Range step = pessimistic(change);
  APInt constant;
  if (matchPattern(change, m_ConstantInt(&constant)))
    step = Range::constant(constant);
  else if (op.isDefinedOutsideOfLoop(change))
    step = get(change);
  else
    return std::nullopt;

  unsigned width = integerWidth(carried.getType());
  unsigned wide = 2 * std::max(width, integerWidth(op.getInductionVar().getType())) + 2;
  Range lower = get(op.getLowerBound()), upper = get(op.getUpperBound()), stride = get(op.getStep());
  if (!stride.smin().isStrictlyPositive())
    return std::nullopt;
  APInt span = upper.smax().sext(wide) - lower.smin().sext(wide), by = stride.smin().sext(wide);
  APInt trips = span.isStrictlyPositive() ? (span + by - 1).sdiv(by) : APInt::getZero(wide);
  Range init = get(op.getInitArgs()[index]);
  APInt zero = APInt::getZero(wide);
  APInt down = llvm::APIntOps::smin(zero, trips * step.smin().sext(wide));
  APInt up = llvm::APIntOps::smax(zero, trips * step.smax().sext(wide));
  APInt low = init.smin().sext(wide) + down, high = init.smax().sext(wide) + up;
  if (!low.isSignedIntN(width) || !high.isSignedIntN(width))
    return std::nullopt;
  return Range::fromSigned(low.trunc(width), high.trunc(width));
}

//===----------------------------------------------------------------------===//
// Transfer
//===----------------------------------------------------------------------===//

std::optional<RangeAnalysis::Range> RangeAnalysis::infer(Operation *op, Value result) const {
  unsigned width = integerWidth(result.getType());
  int64_t mostPrograms = launch ? launch->mostPrograms : INT32_MAX;
  auto sameAs = [&](Value source) { return std::optional<Range>(get(source)); };
  auto signedBounds = [&](int64_t low, int64_t high) {
    return Range::fromSigned(APInt(width, low, /*isSigned=*/true), APInt(width, high, /*isSigned=*/true));
  };
  return llvm::TypeSwitch<Operation *, std::optional<Range>>(op)
      .Case([&](arith::ConstantOp constant) -> std::optional<Range> {
        if (auto scalar = dyn_cast<IntegerAttr>(constant.getValue()))
          return Range::constant(scalar.getValue());
        auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue());
        if (!elements || elements.empty())
          return std::nullopt;
        Range all = Range::constant(*elements.value_begin<APInt>());
        if (!elements.isSplat())
          for (const APInt &value : elements.getValues<APInt>())
            all = all.rangeUnion(Range::constant(value));
        return all;
      })
      .Case([&](tile::ProgramIdOp) { return signedBounds(0, mostPrograms - 1); })
      .Case([&](tile::NumProgramsOp) { return signedBounds(1, mostPrograms); })
      .Case(
          [&](tile::MakeRangeOp range) { return signedBounds(int32_t(range.getStart()), int64_t(range.getEnd()) - 1); })
      .Case<tile::SplatOp, tile::UnsplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::TransOp,
            tile::SplitOp, tile::HintOp, tile::SortOp, tile::TopkOp, tile::GatherOp, kgpu::ConvertOp>(
          [&](Operation *shape) { return sameAs(shape->getOperand(0)); })
      .Case([&](kgpu::LocalLoadOp load) -> std::optional<Range> {
        Value tile = exchangedTile(load);
        return tile ? sameAs(tile) : std::nullopt;
      })
      .Case<tile::JoinOp, tile::CatOp>(
          [&](Operation *pair) { return get(pair->getOperand(0)).rangeUnion(get(pair->getOperand(1))); })
      .Case([&](tile::HistogramOp histogram) {
        return signedBounds(0, cast<ShapedType>(histogram.getValue().getType()).getNumElements());
      })
      .Case([&](arith::RemSIOp rem) -> std::optional<Range> {
        // The sign follows the dividend and the magnitude never exceeds it, whatever the divisor.
        Range lhs = get(rem.getLhs()), rhs = get(rem.getRhs());
        APInt zero = APInt::getZero(width);
        Range bySign =
            Range::fromSigned(llvm::APIntOps::smin(lhs.smin(), zero), llvm::APIntOps::smax(lhs.smax(), zero));
        return intrange::inferRemS({lhs, rhs}).intersection(bySign);
      })
      .Case([&](math::AbsIOp abs) -> std::optional<Range> {
        // abs of the least number is the least number.
        Range of = get(abs.getOperand());
        APInt far = llvm::APIntOps::umax(of.smin().abs(), of.smax().abs());
        if (far.isNegative())
          return std::nullopt;
        bool crosses = of.smin().isNegative() && !of.smax().isNegative();
        return Range::fromSigned(
            crosses ? APInt::getZero(width) : llvm::APIntOps::umin(of.smin().abs(), of.smax().abs()), far);
      })
      .Case([&](arith::DivSIOp div) -> std::optional<Range> {
        // No quotient is farther from zero than its dividend; division by zero, and of the least number by -1, are
        // undefined.
        Range lhs = get(div.getLhs()), rhs = get(div.getRhs());
        APInt far = llvm::APIntOps::umax(lhs.smin().abs(), lhs.smax().abs());
        Range inferred = intrange::inferDivS({lhs, rhs});
        if (far.isNegative())
          return inferred;
        bool sameSign = !lhs.smin().isNegative() && !rhs.smin().isNegative();
        return inferred.intersection(Range::fromSigned(sameSign ? APInt::getZero(width) : -far, far));
      })
      .Case([&](InferIntRangeInterface inferable) -> std::optional<Range> {
        llvm::SmallVector<Range> arguments;
        for (Value operand : op->getOperands()) {
          if (!isIntegerLike(operand.getType()))
            return std::nullopt;
          arguments.push_back(get(operand));
        }
        std::optional<Range> range;
        inferable.inferResultRanges(arguments, [&](Value value, const Range &inferred) {
          if (value == result)
            range = inferred;
        });
        return range;
      })
      .Default([](Operation *) { return std::nullopt; });
}

void RangeAnalysis::transfer(Operation *op) {
  for (Value result : op->getResults()) {
    Range range = pessimistic(result);
    if (isIntegerLike(result.getType()))
      if (std::optional<Range> inferred = infer(op, result))
        range = range.intersection(*inferred);
    set(result, refine(result, range));
  }
}

} // namespace kiln
