// powf, fpowi, cbrt, rsqrt. |x|^y = e^(y log|x|): f32 in f64, where that is exact enough; f64 with the logarithm and
// the product carried as sums of two numbers (about 65 bits), because an exponent of 1000 magnifies the logarithm's
// error.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

/// log(x) of f64 to about 2^-65, for positive finite x.
static Pair preciseLog(Num x) {
  Decomposed d = decompose(x);
  Num f = d.fraction;
  Pair bottom = fastTwoSum(f.constant(2.0), f);
  Num inverse = 1.0 / bottom.hi, s = f * inverse;
  Num sLow = (fma(-s, bottom.hi, f) - s * bottom.lo) * inverse;
  // s may be an ulp off the rounded quotient; sLow makes up for it.
  Pair square = twoProduct(s, s);
  square.lo = fma(2.0 * s, sLow, square.lo);
  Pair cube = twoProduct(s, square.hi);
  cube.lo = cube.lo + fma(s, square.lo, sLow * square.hi);
  Num tail = cube.hi * square.hi * horner(square.hi, tables::kPowLogF64);
  Pair third = twoProduct(cube.hi, cube.hi.constant(tables::kTwoThirdsF64[0]));
  third.lo = third.lo + fma(cube.hi, tables::kTwoThirdsF64[1], cube.lo * tables::kTwoThirdsF64[0]);
  Pair sum = fastTwoSum(2.0 * s, third.hi);
  Num low = sum.lo + (third.lo + fma(sLow, 2.0, tail));
  Pair whole = twoProduct(d.exponent, f.constant(tables::kLn2F64[0]));
  whole.lo = fma(d.exponent, tables::kLn2F64[1], whole.lo);
  Pair total = twoSum(whole.hi, sum.hi);
  return fastTwoSum(total.hi, total.lo + (whole.lo + low));
}

/// f64 |x|^y, for x other than 0, infinity and NaN, and finite y.
static Num magnitudeDouble(Num x, Num y) {
  Pair l = preciseLog(x);
  Num product = clamp(y * l.hi, -800, 800);
  Num rest = fma(y, l.hi, -product) + y * l.lo;
  // Outside the clamped range the rest is meaningless, and the result is 0 or infinity without it.
  Exponential e = exponential(product, select(abs(product) < 799.0, rest, 0.0));
  return scale({e.mantissa + e.low, e.exponent, {}});
}

static Num magnitudeSingle(Num x, Num y) { return exp2(y * log(x, Base::Two)); }

/// pow in f64; with `single`, accurate enough only for a result rounded to f32.
static Num power(Num x, Num y, bool single, Num odd, Num integral) {
  Num a = abs(x);
  Num inf = infinity(x), one = x.constant(1.0), zero = x.constant(0.0);
  Num ordinary = single ? magnitudeSingle(a, y) : magnitudeDouble(a, y);
  // Extreme |x| or |y|: the result is 0 or infinity, or one if |x| = 1.
  Num grows = x.make<arith::CmpIOp>(arith::CmpIPredicate::eq, (a > 1.0).value(), (y > 0.0).value());
  Num limit = select(a == 1.0, one, select(grows, inf, zero));
  Num extreme = (a == 0.0) | (a == inf) | (abs(y) == inf);
  Num result = select(extreme, limit, ordinary);
  if (integral) // negative numbers have integral powers only
    result = select((x < 0.0) & (a < inf) & (~integral), quietNan(x), result);
  result = select(odd, copySign(result, x), result);
  Num nan = x.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, x.value(), y.value());
  result = select(nan, x + y, result);
  return select((x == 1.0) | (y == 0.0), one, result);
}

Num expand::pow(Num x, Num y) {
  Type f64 = x.emitter().builder.getF64Type();
  bool single = x.element().isF32();
  Num xd = convert(x, f64), yd = convert(y, f64);
  Num integral = truncate(yd) == yd, half = 0.5 * yd;
  Num odd = integral & (truncate(half) != half);
  return convert(power(xd, yd, single, odd, integral), x.element());
}

Num expand::powInteger(Num x, Num y, Num odd) {
  Num xd = convert(x, x.emitter().builder.getF64Type());
  return convert(power(xd, y, x.element().isF32(), odd, {}), x.element());
}

// Dividing the bits by three gives a guess good to 5 bits; each Halley step triples that. The last step is Newton's,
// with the residual t^3 - x computed exactly.
static Num cbrtDouble(Num input) {
  Num a = abs(input);
  Num one = a.constant(1.0);
  // Scale away from the ends of the range, so that t^3 and 3x stay inside it.
  Num small = a < 0x1p-900, large = a > 0x1p900;
  Num x = a * select(small, 0x1p180, select(large, 0x1p-180, one));
  Num guess = bits(x);
  guess = guess.make<arith::DivUIOp>(guess.value(), guess.constant(3).value()) + 0x2a9f7893782da1ce;
  Num t = fromBits(guess, x.element());
  for (int step = 0; step < 2; ++step) {
    Num cube = t * t * t;
    t = t * ((cube + 2.0 * x) / (2.0 * cube + x));
  }
  Pair square = twoProduct(t, t);
  Num residual = fma(square.hi, t, -x) + square.lo * t;
  t = t - residual / (3.0 * square.hi);
  t = t * select(small, 0x1p-60, select(large, 0x1p60, one));
  Num ordinary = (a > 0.0) & (a < infinity(a));
  return select(ordinary, copySign(t, input), input);
}

Num expand::cbrt(Num x) { return convert(cbrtDouble(convert(x, x.emitter().builder.getF64Type())), x.element()); }

// Both steps round, so the result is within 1.5 ulp; infinite at 0 and NaN below 0, as the two operations give.
Num expand::rsqrt(Num x) { return hasSpecialFunctions(x) ? intrinsic("llvm.nvvm.rsqrt.approx.f", {x}) : 1.0 / sqrt(x); }

namespace {
struct FPowIPattern : OpRewritePattern<math::FPowIOp> {
  FPowIPattern(MLIRContext *context, const Target &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(math::FPowIOp op, PatternRewriter &rewriter) const override {
    if (!isSingleOrDouble(op.getLhs().getType()))
      return failure();
    Emitter emitter{rewriter, op.getLoc(), target};
    Num x(emitter, op.getLhs()), n(emitter, op.getRhs());
    // An exponent too large for a double has lost its low bits, hence `odd` comes from the integer.
    Num y = signedToFloat(n, rewriter.getF64Type());
    rewriter.replaceOp(op, powInteger(x, y, (n & 1) != 0).value());
    return success();
  }
  const Target &target;
};
} // namespace

void expand::addPower(Patterns &patterns, const Target &target) {
  addFunction<math::PowFOp>(patterns, target, [](Num x, Num y) { return pow(x, y); });
  addFunction<math::CbrtOp>(patterns, target, [](Num x) { return cbrt(x); });
  addFunction<math::RsqrtOp>(patterns, target, [](Num x) { return rsqrt(x); });
  patterns.add<FPowIPattern>(patterns.getContext(), target);
}
