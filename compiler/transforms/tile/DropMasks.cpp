// kiln-drop-masks: replaces masks that promises about sizes, or the bounds of a loop, make true for every element.
#include "compiler/analysis/Alignment.h"
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"

namespace kiln {
#define GEN_PASS_DEF_DROPMASKSPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {
// Wide enough for any sum here: no arithmetic on bounds wraps.
constexpr unsigned kBits = 128;

APInt wide(const APInt &value) { return value.sext(kBits); }

/// An integer or all elements of a tile: `base` + a number in [low, high], or the number alone if `base` is null.
struct Sum {
  Value base;
  APInt low = APInt::getZero(kBits), high = APInt::getZero(kBits);
};

/// `first` + `gap` <= `second`, as integers.
struct Order {
  Sum first, second;
  APInt gap = APInt::getZero(kBits);
};

struct Promise {
  Order order;
  tile::AssumeOp assume;
};

class Prover {
public:
  explicit Prover(func::FuncOp kernel) : facts(kernel), dominance(kernel) {
    kernel.walk([&](tile::AssumeOp assume) { note(assume.getCondition(), assume); });
  }

  /// Whether all elements of the compared tiles satisfy the comparison.
  bool holds(arith::CmpIOp compare) const;

private:
  void note(Value condition, tile::AssumeOp assume);
  /// What a signed comparison states about integers; none for other predicates. See `sumOf`.
  std::optional<Order> orderOf(arith::CmpIOp compare, Operation *at) const;
  Sum sumOf(Value value, Operation *at) const;
  bool mayWrap(Operation *op, Operation *at) const;
  bool isPromised(const Order &order, Operation *at) const;
  bool holdsInLoop(const Order &order) const;

  AlignmentAnalysis facts;
  DominanceInfo dominance;
  SmallVector<Promise> promises;
};
} // namespace

void Prover::note(Value condition, tile::AssumeOp assume) {
  Operation *op = condition.getDefiningOp();
  if (isa_and_nonnull<arith::AndIOp>(op)) {
    note(op->getOperand(0), assume);
    note(op->getOperand(1), assume);
  } else if (auto compare = dyn_cast_or_null<arith::CmpIOp>(op)) {
    if (std::optional<Order> order = orderOf(compare, assume))
      promises.push_back({*order, assume});
  }
}

std::optional<Order> Prover::orderOf(arith::CmpIOp compare, Operation *at) const {
  Sum left = sumOf(compare.getLhs(), at), right = sumOf(compare.getRhs(), at);
  const APInt none = APInt::getZero(kBits), one(kBits, 1);
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::slt:
    return Order{left, right, one};
  case arith::CmpIPredicate::sle:
    return Order{left, right, none};
  case arith::CmpIPredicate::sgt:
    return Order{right, left, one};
  case arith::CmpIPredicate::sge:
    return Order{right, left, none};
  default:
    return std::nullopt;
  }
}

/// Whether a sum may wrap, in spite of its ranges and of the promises made before `at`: n - 64 does not where n is
/// promised to be at least 64.
bool Prover::mayWrap(Operation *op, Operation *at) const {
  const RangeAnalysis &ranges = facts.ranges();
  if (!ranges.mayOverflowSigned(op))
    return false;
  std::optional<APInt> right = ranges.constant(op->getOperand(1));
  if (!right)
    return true;
  APInt added = isa<arith::SubIOp>(op) ? -wide(*right) : wide(*right);
  if (added.isStrictlyPositive())
    return true;
  APInt least = wide(APInt::getSignedMinValue(right->getBitWidth())) - added;
  Order fits{{Value(), least, least}, {op->getOperand(0)}};
  return !isPromised(fits, at);
}

/// Splits what is added to a value that varies from program to program, or from step to step: of scalars, if no promise
/// made before `at` leaves room for a wrap; of tiles in any case, so that the caller has to show that they do not wrap.
Sum Prover::sumOf(Value value, Operation *at) const {
  const RangeAnalysis &ranges = facts.ranges();
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::TransOp>(op))
      break;
    value = op->getOperand(0);
  }
  Sum sum;
  if (ranges.constant(value)) {
    sum.low = sum.high = wide(*ranges.constant(value));
    return sum;
  }
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) && (isa<ShapedType>(value.getType()) || !mayWrap(op, at))) {
    Sum left = sumOf(op->getOperand(0), at), right = sumOf(op->getOperand(1), at);
    if (isa<arith::SubIOp>(op)) {
      if (!right.base)
        return {left.base, left.low - right.high, left.high - right.low};
    } else if (!left.base || !right.base) {
      return {left.base ? left.base : right.base, left.low + right.low, left.high + right.high};
    }
  }
  // Elements of a tile differ, so that a promise about a scalar is no promise about them.
  if (isa<ShapedType>(value.getType())) {
    const ConstantIntRanges &range = ranges.get(value);
    sum.low = wide(range.smin());
    sum.high = wide(range.smax());
    return sum;
  }
  sum.base = value;
  return sum;
}

/// How far the second base has to be above the first for `order` to hold, whatever is added to them.
static APInt distance(const Order &order) { return order.first.high - order.second.low + order.gap; }
/// How far it is above the first at least, if `order` holds.
static APInt knownDistance(const Order &order) { return order.first.low - order.second.high + order.gap; }

bool Prover::isPromised(const Order &order, Operation *at) const {
  return llvm::any_of(promises, [&](const Promise &promise) {
    return promise.order.first.base == order.first.base && promise.order.second.base == order.second.base &&
           distance(order).sle(knownDistance(promise.order)) && dominance.properlyDominates(promise.assume, at);
  });
}

/// In a loop up to n, a counter that is a multiple of d, as n is, is at most n - d.
bool Prover::holdsInLoop(const Order &order) const {
  auto counter = dyn_cast_or_null<BlockArgument>(order.first.base);
  auto loop = counter ? dyn_cast<scf::ForOp>(counter.getOwner()->getParentOp()) : scf::ForOp();
  if (!loop || counter != loop.getInductionVar() || loop.getUnsignedCmp() || loop.getUpperBound() != order.second.base)
    return false;
  int64_t divisor = std::min(facts.get(counter).everyElement(), facts.get(order.second.base).everyElement());
  return distance(order).sle(APInt(kBits, divisor));
}

bool Prover::holds(arith::CmpIOp compare) const {
  if (std::optional<APInt> known = facts.ranges().constant(compare.getResult()))
    return !known->isZero();
  std::optional<Order> order = orderOf(compare, compare);
  if (!order)
    return false;
  // An order of integers is one of machine words if both sides fit their words. The bases do; where nothing is
  // subtracted from the first and nothing added to the second, both sides lie between the bases.
  const auto &[first, second, gap] = *order;
  if ((first.base && first.low.isNegative()) || (second.base && second.high.isStrictlyPositive()))
    return false;
  return isPromised(*order, compare) || holdsInLoop(*order);
}

namespace {
struct DropMasks : kiln::impl::DropMasksPassBase<DropMasks> {
  void runOnOperation() override {
    SmallVector<arith::CmpIOp> masks;
    getOperation().walk([&](arith::CmpIOp compare) {
      // Scalar conditions are those of the promises.
      if (isa<ShapedType>(compare.getType()))
        masks.push_back(compare);
    });
    if (masks.empty())
      return;
    Prover prover(getOperation());
    llvm::erase_if(masks, [&](arith::CmpIOp compare) { return !prover.holds(compare); });
    for (arith::CmpIOp compare : masks) {
      OpBuilder builder(compare);
      auto all = DenseElementsAttr::get(cast<ShapedType>(compare.getType()), true);
      compare.replaceAllUsesWith(arith::ConstantOp::create(builder, compare.getLoc(), all).getResult());
      compare.erase();
    }
  }
};
} // namespace
