// exp, exp2, expm1. With n = round(x / ln 2) and r = x - n ln 2, e^x = 2^n e^r; e^r is a polynomial on |r| <= ln(2)/2.
//
// n is found by adding 1.5 2^mantissa, which leaves it in the low bits of the sum. 2 bias is added as well, so that the
// two factors of 2^n = 2^(n/2) 2^(n - n/2) are a shift each; two factors because one cannot reach the denormals.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

namespace {
/// Beyond these arguments the result is 0 or infinity; they also keep n in the range the shifts can express.
struct Domain {
  double low, high;
};
} // namespace

static double roundingConstant(Format f) { return 1.5 * double(int64_t(1) << f.mantissa) + double(2 * f.bias); }

Exponential expand::exponential(Num x, Num low) {
  Format f = x.format();
  const Tables &t = tablesFor(x);
  Domain domain = f.bits == 32 ? Domain{-105, 91} : Domain{-747, 712};
  x = clamp(x, domain.low, domain.high);
  Num shifted = mulAdd(x, x.constant(t.log2e[0]), roundingConstant(f));
  Num n = shifted - roundingConstant(f);
  Num r = fma(n, -t.ln2[0], x);
  r = fma(n, -t.ln2[1], r);
  if (!low)
    return {mulAdd(mulAdd(horner(r, t.exp), r, 1.0), r, 1.0), bits(shifted), {}};
  // The caller's argument is precise: keep more of it.
  Pair whole = twoSum(r, low);
  Num q = horner(whole.hi, t.exp);
  Pair minusOne = fastTwoSum(whole.hi, mulAdd(whole.hi * whole.hi, q, whole.lo));
  Pair sum = fastTwoSum(r.constant(1.0), minusOne.hi);
  return {sum.hi, bits(shifted), sum.lo + minusOne.lo};
}

Num expand::scale(Exponential e) {
  Format f = e.mantissa.format();
  Type element = e.mantissa.element();
  Num half = lshr(e.exponent, 1);
  Num first = fromBits(half << f.mantissa, element);
  Num second = fromBits((e.exponent - half) << f.mantissa, element);
  return e.mantissa * first * second;
}

Num expand::exp(Num x) { return scale(exponential(x)); }

Num expand::exp2(Num x) {
  Format f = x.format();
  Domain domain = f.bits == 32 ? Domain{-152, 130} : Domain{-1078, 1026};
  x = clamp(x, domain.low, domain.high);
  Num shifted = x + roundingConstant(f);
  Num r = x - (shifted - roundingConstant(f));
  Num p = mulAdd(horner(r, tablesFor(x).exp2), r, 1.0);
  return scale({p, bits(shifted), {}});
}

// e^x - 1 = 2^n ((1 - 2^-n) + (e^r - 1)), with both terms kept exact enough that their sum rounds once.
Num expand::expm1(Num input) {
  Format f = input.format();
  const Tables &t = tablesFor(input);
  // Below the lower end the result is -1 to the last place.
  Num x = f.bits == 32 ? clamp(input, -20, 91) : clamp(input, -40, 712);
  Num shifted = mulAdd(x, x.constant(t.log2e[0]), roundingConstant(f));
  Num n = shifted - roundingConstant(f);
  Num r = fma(n, -t.ln2[0], x);
  Num high = fma(n, -t.ln2[1], r);
  Num low = fma(n, -t.ln2[1], r - high);
  Num square = high * high;
  low = mulAdd(horner(high, t.exp), square, low);
  Num e = bits(shifted);
  // The high part of the rounding constant drops out of the shifts, so its sign does not matter.
  Num inverse = scale({x.constant(1.0), e.constant(4 * f.bias) - e, {}});
  Pair sum = fastTwoSum(1.0 - inverse, high);
  Num result = scale({sum.hi + (sum.lo + low), e, {}});
  // Keeps -0, and denormals exact.
  return select(abs(input) < (f.bits == 32 ? 0x1p-25 : 0x1p-54), input, result);
}

void expand::addExponential(Patterns &patterns, const Target &target) {
  addFunction<math::ExpOp>(patterns, target, [](Num x) { return exp(x); });
  addFunction<math::Exp2Op>(patterns, target, [](Num x) { return exp2(x); });
  addFunction<math::ExpM1Op>(patterns, target, [](Num x) { return expm1(x); });
}
