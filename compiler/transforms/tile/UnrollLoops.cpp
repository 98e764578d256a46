// kiln-unroll-loops: runs N iterations in one, then a loop over the rest.
//
// Trip counts are computed as unsigned numbers, from an upper bound clamped to at least the lower one. So empty loops
// stay empty, and a span of more than half the integers is counted correctly; MLIR's own utility assumes neither can
// happen.
#include "compiler/transforms/tile/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace kiln {
#define GEN_PASS_DEF_UNROLLLOOPSPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;

static constexpr llvm::StringLiteral kUnroll = "tile.unroll";

/// Clones the body of `loop` at the insertion point for the given induction variable; returns what it yields.
static SmallVector<Value> cloneIteration(OpBuilder &builder, scf::ForOp loop, Value induction, ValueRange carried) {
  IRMapping map;
  map.map(loop.getInductionVar(), induction);
  map.map(loop.getRegionIterArgs(), carried);
  for (Operation &op : loop.getBody()->without_terminator())
    builder.clone(op, map);
  return llvm::map_to_vector(loop.getYieldedValues(), [&](Value value) { return map.lookupOrDefault(value); });
}

static void unroll(scf::ForOp loop, int64_t factor) {
  Location loc = loop.getLoc();
  OpBuilder builder(loop);
  Type type = loop.getInductionVar().getType();
  Value lower = loop.getLowerBound(), upper = loop.getUpperBound(), step = loop.getStep();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
  };

  std::optional<APInt> trips = loop.getStaticTripCount();
  bool rest = true;
  Value middle, stride;
  APInt first, by;
  // A step so long that there are never `factor` of them.
  if (matchPattern(step, m_ConstantInt(&by)) &&
      by.getSExtValue() > APInt::getSignedMaxValue(by.getBitWidth()).getSExtValue() / factor)
    return;
  if (trips && matchPattern(lower, m_ConstantInt(&first)) && matchPattern(step, m_ConstantInt(&by))) {
    APInt count(64, trips->getZExtValue()), whole = count.udiv(APInt(64, factor));
    if (whole.isZero())
      return;
    rest = whole * factor != count;
    middle = rest ? constant(first.getSExtValue() + int64_t(whole.getZExtValue()) * factor * by.getSExtValue()) : upper;
    stride = constant(by.getSExtValue() * factor);
  } else {
    auto below = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
    Value runs = arith::CmpIOp::create(builder, loc, below, lower, upper);
    Value difference = arith::SubIOp::create(builder, loc, upper, lower);
    Value span = arith::SelectOp::create(builder, loc, runs, difference, constant(0));
    Value count = arith::CeilDivUIOp::create(builder, loc, span, step);
    Value whole = arith::DivUIOp::create(builder, loc, count, constant(factor));
    stride = arith::MulIOp::create(builder, loc, step, constant(factor));
    // All steps together may pass the upper bound, and with it the largest number.
    Value used = arith::MulIOp::create(builder, loc, whole, constant(factor));
    Value all = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, used, count);
    Value reach = arith::MulIOp::create(builder, loc, whole, stride);
    reach = arith::SelectOp::create(builder, loc, all, span, reach);
    // The maximum changes nothing, but tells kiln-to-llvm that the second loop begins at or after the first one.
    middle = arith::MaxSIOp::create(builder, loc, arith::AddIOp::create(builder, loc, lower, reach), lower);
  }

  auto main = scf::ForOp::create(
      builder, loc, lower, middle, stride, loop.getInitArgs(), [](OpBuilder &, Location, Value, ValueRange) {},
      loop.getUnsignedCmp());
  main->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  builder.setInsertionPointToStart(main.getBody());
  SmallVector<Value> carried(main.getRegionIterArgs());
  Value induction = main.getInductionVar();
  for (int64_t i = 0; i < factor; ++i) {
    if (i > 0)
      induction = arith::AddIOp::create(builder, loc, induction, step);
    carried = cloneIteration(builder, loop, induction, carried);
  }
  scf::YieldOp::create(builder, loc, carried);

  if (!rest) {
    loop.replaceAllUsesWith(main.getResults());
    loop.erase();
    return;
  }
  // The old loop becomes the loop over the rest.
  loop.setLowerBound(middle);
  loop.getInitArgsMutable().assign(main.getResults());
}

namespace {
struct UnrollLoops : kiln::impl::UnrollLoopsPassBase<UnrollLoops> {
  void runOnOperation() override {
    SmallVector<std::pair<scf::ForOp, int64_t>> loops; // innermost first
    getOperation().walk([&](scf::ForOp loop) {
      if (auto factor = loop->getAttrOfType<IntegerAttr>(kUnroll)) {
        loop->removeAttr(kUnroll);
        if (factor.getInt() > 1)
          loops.push_back({loop, factor.getInt()});
      }
    });
    for (auto [loop, factor] : loops)
      unroll(loop, factor);
  }
};
} // namespace
