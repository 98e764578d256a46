// math.fma for machines without the instruction (LLVM would call fmaf) and for narrow floats. The exact sum is computed
// as a pair of numbers, whose low part is rounded to odd, so that the last step rounds as if it saw all bits.
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

/// a + b, with inexact results moved to the neighbour whose last bit is one.
static Num addToOdd(Num a, Num b) {
  Pair sum = twoSum(a, b);
  Num i = bits(sum.hi);
  Num even = (i & 1) == 0;
  Num outward = i.make<arith::CmpIOp>(arith::CmpIPredicate::eq, (sum.hi > 0.0).value(), (sum.lo > 0.0).value());
  Num moved = select(outward, i + 1, i - 1);
  return select(even & (sum.lo != 0.0) & ~isNan(sum.lo), fromBits(moved, a.element()), sum.hi);
}

/// x as a sum of two numbers of at most 26 bits.
static Pair halves(Num x) {
  Num high = fromBits((bits(x) + (int64_t(1) << 26)) & ~((int64_t(1) << 27) - 1), x.element());
  return {high, x - high};
}

// Exact unless the product leaves the normal range; then the two-step result is used.
static Num softwareFmaDouble(Num a, Num b, Num c) {
  Num p = a * b;
  Pair x = halves(a), y = halves(b);
  Num error = ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
  Pair sum = twoSum(p, c);
  Num result = sum.hi + addToOdd(sum.lo, error);
  return select(isNan(result), p + c, result);
}

Num expand::softwareFma(Num a, Num b, Num c) {
  if (a.element().isF64())
    return softwareFmaDouble(a, b, c);
  // Use a type in which the product is exact: f64 for f32 and for bf16, which has the same exponents.
  Builder &builder = a.emitter().builder;
  bool wideExponents = a.element().isF32() || a.element().isBF16();
  Type wide = wideExponents ? Type(builder.getF64Type()) : Type(builder.getF32Type());
  return convert(addToOdd(convert(a, wide) * convert(b, wide), convert(c, wide)), a.element());
}

namespace {
/// Runs before narrow operations are widened, which would round the sum to f32 first.
struct NarrowFmaPattern : OpRewritePattern<math::FmaOp> {
  NarrowFmaPattern(MLIRContext *context, const Target &target)
      : OpRewritePattern(context, PatternBenefit(2)), target(target) {}
  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    if (!isNarrow(getElementTypeOrSelf(op.getType())) || isNativeNarrow(op, target))
      return failure();
    Emitter emitter{rewriter, op.getLoc(), target};
    Num result = softwareFma({emitter, op.getA()}, {emitter, op.getB()}, {emitter, op.getC()});
    rewriter.replaceOp(op, result.value());
    return success();
  }
  const Target &target;
};
} // namespace

void expand::addFusedMultiplyAdd(Patterns &patterns, const Target &target) {
  patterns.add<NarrowFmaPattern>(patterns.getContext(), target);
  if (!target.hasFMA())
    addFunction<math::FmaOp>(patterns, target, [](Num a, Num b, Num c) { return softwareFma(a, b, c); });
}
