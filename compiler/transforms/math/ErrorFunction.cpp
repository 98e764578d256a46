// erf, erfc. For f32, erf is two polynomials: x (1 + q(x^2)) up to one, then 1 - q(x - 1)^4; the power keeps the degree
// low, and the shift keeps rounding errors small where they matter. For f64, a polynomial up to one, then 1 - erfc(x);
// erfc(x) = e^(-x^2) g(x) with a smooth, slowly varying g.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

/// erf for |x| < 1.
static Num erfNear(Num x) {
  Num z = x * x;
  bool single = x.element().isF32();
  return mulAdd(x, horner(z, single ? ArrayRef<double>(tables::kErfNearF32) : ArrayRef<double>(tables::kErfF64)), x);
}

/// f64 erfc(a) for a >= 0. Intermediate results are carried as pairs: five roundings would add up to 3 ulp.
static Num erfcPositive(Num a) {
  Num x = atMost(a, 28.0);
  Num sum = x + 4.0, difference = x - 4.0, inverse = 1.0 / sum;
  // Correct the quotient to a single rounding: an error in it would be magnified near the ends of its range.
  Num t = difference * inverse;
  t = fma(fma(-t, sum, difference), inverse, t);
  Pair bottom = twoSum(x + x, x.constant(1.0));
  Num reciprocal = 1.0 / bottom.hi;
  Num p = horner(t, tables::kErfcxF64), q = p * reciprocal;
  Num qLow = (fma(-q, bottom.hi, p) - q * bottom.lo) * reciprocal;
  Pair square = twoProduct(x, x);
  Exponential e = exponential(-square.hi, -square.lo);
  Num product = q * e.mantissa;
  Num rest = fma(q, e.mantissa, -product) + (q * e.low + qLow * e.mantissa);
  return scale({product + rest, e.exponent, {}});
}

Num expand::erf(Num x) {
  Num a = abs(x), near = erfNear(x), far;
  if (x.element().isF32()) {
    Num q = horner(atMost(a, 3.95) - 1.0, tables::kErfFarF32);
    q = q * q;
    far = fma(-q, q, q.constant(1.0));
  } else {
    far = 1.0 - erfcPositive(atMost(a, 6.5));
  }
  return select(a < 1.0, near, copySign(far, x));
}

// erfc(x) = 2^(x q(x)): one instruction produces the decay, and q is nearly straight. Near zero, where 1 - erfc(x)
// would cancel, two terms of the series.
Num expand::erfForNarrow(Num x) {
  Num a = abs(x), z = x * x;
  Num near = x * fma(z, tables::kErfSeriesF32[1], x.constant(tables::kErfSeriesF32[0]));
  Num b = a.make<arith::MinimumFOp>(a.value(), a.constant(4.0).value());
  Num far = 1.0 - intrinsic("llvm.nvvm.ex2.approx.ftz", {b * horner(b, tables::kErfNarrowF32)});
  return select(a < 0.1, near, copySign(far, x));
}

/// Whether the program uses `value` only in sums, products and selects that end in a rounding to f16 or bf16.
static bool endsNarrow(Value value) {
  SmallVector<Value> pending = {value};
  for (unsigned visited = 0; !pending.empty(); ++visited) {
    Value next = pending.pop_back_val();
    if (visited == 32 || next.use_empty())
      return false;
    for (Operation *user : next.getUsers()) {
      if (isa<arith::TruncFOp>(user)) {
        Type element = getElementTypeOrSelf(user->getResult(0).getType());
        if (!element.isF16() && !element.isBF16())
          return false;
      } else if (isa<arith::MulFOp, arith::AddFOp, arith::SubFOp, arith::NegFOp, arith::SelectOp, math::FmaOp>(user) &&
                 user->getResult(0).getType() == value.getType()) {
        pending.push_back(user->getResult(0));
      } else {
        return false;
      }
    }
  }
  return true;
}

namespace {
struct NarrowErfPattern : OpRewritePattern<math::ErfOp> {
  NarrowErfPattern(MLIRContext *context, const Target &target)
      : OpRewritePattern(context, PatternBenefit(2)), target(target) {}
  LogicalResult matchAndRewrite(math::ErfOp op, PatternRewriter &rewriter) const override {
    Emitter emitter{rewriter, op.getLoc(), target};
    Num x(emitter, op.getOperand());
    if (!hasSpecialFunctions(x) || !endsNarrow(op.getResult()))
      return failure();
    rewriter.replaceOp(op, erfForNarrow(x).value());
    return success();
  }
  const Target &target;
};
} // namespace

static Num erfcDouble(Num x) {
  Num tail = erfcPositive(abs(x));
  Num far = select(x < 0.0, 2.0 - tail, tail);
  // 1 - erf(x) = (1 - x) - x q(x^2), where the second term rounds little.
  Pair base = twoSum(x.constant(1.0), -x);
  Num near = base.hi + fma(-x, horner(x * x, tables::kErfF64), base.lo);
  return select(abs(x) < 0.75, near, far);
}

Num expand::erfc(Num x) { return convert(erfcDouble(convert(x, x.emitter().builder.getF64Type())), x.element()); }

void expand::addErrorFunction(Patterns &patterns, const Target &target) {
  addFunction<math::ErfOp>(patterns, target, [](Num x) { return erf(x); });
  addFunction<math::ErfcOp>(patterns, target, [](Num x) { return erfc(x); });
  if (target.has(Feature::SpecialFunctions))
    patterns.add<NarrowErfPattern>(patterns.getContext(), target);
}
