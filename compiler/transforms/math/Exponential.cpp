// exp, exp2, expm1. With n = round(x / ln 2) and r = x - n ln 2, e^x = 2^n e^r; e^r is a polynomial on |r| <= ln(2)/2.
//
// n is found by adding 1.5 2^mantissa, which leaves n in the low bits of the sum. Adding 2 bias as well turns each of
// the two factors in 2^n = 2^(n/2) 2^(n - n/2) into one shift. Two factors are needed because one cannot reach the
// denormals.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

namespace {
/// Outside this domain the result is 0 or infinity; it also keeps n in the range that the shifts can express.
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
  // The caller's argument is more precise: keep that precision.
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

// On a GPU ex2 replaces the polynomial and half of the scaling: n stays within -126 and 127, so that 2^n is one normal
// number, and ex2 covers the rest of the range, down to 0 and up to infinity. A multiplication that saturates to [0, 1]
// provides the limits for free. Accurate within 2 ulp; infinities and NaN need no special case.
static Num expByInstruction(Num x) {
  const Tables &t = tablesFor(x);
  Num position = intrinsic("llvm.nvvm.fma.rn.sat.f", {x, x.constant(t.log2e[0] / 253), x.constant(126.0 / 253)});
  // Its low bits are n + 127: the exponent field of 2^n.
  Num shifted = fma(position, 253.0, x.constant(0x1.8p23 + 1));
  Num n = shifted - (0x1.8p23 + 127);
  Num r = fma(x, t.log2e[0], -n);
  r = fma(x, t.log2e[1], r);
  return intrinsic("llvm.nvvm.ex2.approx.ftz", {r}) * fromBits(bits(shifted) << 23, x.element());
}

Num expand::exp(Num x) { return hasSpecialFunctions(x) ? expByInstruction(x) : scale(exponential(x)); }

Num expand::exp2(Num x) {
  if (hasSpecialFunctions(x))
    return intrinsic("llvm.nvvm.ex2.approx", {x});
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
  // Below the lower end the result rounds to -1.
  Num x = f.bits == 32 ? clamp(input, -20, 91) : clamp(input, -40, 712);
  Num shifted = mulAdd(x, x.constant(t.log2e[0]), roundingConstant(f));
  Num n = shifted - roundingConstant(f);
  Num r = fma(n, -t.ln2[0], x);
  Num high = fma(n, -t.ln2[1], r);
  Num low = fma(n, -t.ln2[1], r - high);
  Num square = high * high;
  low = mulAdd(horner(high, t.exp), square, low);
  Num e = bits(shifted);
  // The shifts discard the high part of the rounding constant, so its sign does not matter.
  Num inverse = scale({x.constant(1.0), e.constant(4 * f.bias) - e, {}});
  Pair sum = fastTwoSum(1.0 - inverse, high);
  Num result = scale({sum.hi + (sum.lo + low), e, {}});
  // Preserves -0, and keeps denormals exact.
  return select(abs(input) < (f.bits == 32 ? 0x1p-25 : 0x1p-54), input, result);
}

void expand::addExponential(Patterns &patterns, const Target &target) {
  addFunction<math::ExpOp>(patterns, target, [](Num x) { return exp(x); });
  addFunction<math::Exp2Op>(patterns, target, [](Num x) { return exp2(x); });
  addFunction<math::ExpM1Op>(patterns, target, [](Num x) { return expm1(x); });
}
