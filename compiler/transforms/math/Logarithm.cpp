// log, log2, log10, log1p. x = 2^e (1 + f) with 1 + f within [sqrt(1/2), sqrt(2)).
//
// f32: log(1 + f) is a polynomial in f whose leading term is added last. f64: with s = f / (2 + f), log(1 + f) = 2
// atanh(s), a short series in s^2; for bases other than e the sum is multiplied by the base's factor in two parts.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

/// Splits bits of a positive normal number.
static Decomposed split(Num x, Num extraExponent = {}) {
  Format f = x.format();
  int64_t rootHalf = f.bits == 32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
  Num shifted = bits(x) - rootHalf;
  Num exponent = shifted >> f.mantissa;
  if (extraExponent)
    exponent = exponent + extraExponent;
  Num m = fromBits((shifted & f.mantissaMask()) + rootHalf, x.element());
  return {m - 1.0, smallToFloat(exponent, x.element())};
}

Decomposed expand::decompose(Num x) {
  Format f = x.format();
  double smallest = f.bits == 32 ? 0x1p-126 : 0x1p-1022, up = f.bits == 32 ? 0x1p25 : 0x1p54;
  Num denormal = x < smallest;
  Num zero = bits(x).constant(0);
  return split(select(denormal, x * up, x), select(denormal, f.bits == 32 ? -25 : -54, zero));
}

/// log(1 + f + correction) + e log 2 in the given base; `correction` may be absent.
static Num logarithm(Decomposed d, Base base, Num correction) {
  Num f = d.fraction, e = d.exponent;
  const Tables &t = tablesFor(f);
  bool natural = base == Base::E;
  ArrayRef<double> factor = base == Base::Two ? t.log2e : t.log10e;
  ArrayRef<double> unit = natural ? t.ln2 : t.log10Of2; // log 2 in the given base; exactly one for base two
  auto addExponent = [&](Num high, Num low) {
    if (base == Base::Two)
      return e + (high + low);
    return fma(e, unit[0], high + fma(e, unit[1], low));
  };
  if (f.element().isF32()) {
    Num q = horner(f, natural             ? ArrayRef<double>(tables::kLogF32)
                      : base == Base::Two ? ArrayRef<double>(tables::kLog2F32)
                                          : ArrayRef<double>(tables::kLog10F32));
    Num low = q * (f * f);
    if (correction)
      low = low + correction;
    if (natural)
      return addExponent(f, low);
    low = mulAdd(f, f.constant(factor[1]), low);
    return base == Base::Two ? e + fma(f, factor[0], low) : fma(e, unit[0], fma(f, factor[0], fma(e, unit[1], low)));
  }
  Num s = f / (f + 2.0);
  Num z = s * s;
  Num half = 0.5 * f * f;
  Num tail = s * (half + z * horner(z, tables::kLogF64));
  if (correction)
    tail = tail + correction;
  if (natural)
    return fma(e, unit[0], f - (half - fma(e, unit[1], tail)));
  // f - f^2/2 + tail as high + low, so that the factor's rounding error does not add to the sum's.
  Num high = f - half;
  Num low = (f - high) - half - fma(0.5 * f, f, -half) + tail;
  Num product = high * factor[0];
  Num rest = fma(high, factor[0], -product) + fma(low, factor[0], high * factor[1]);
  if (base == Base::Ten) {
    Pair whole = twoProduct(e, e.constant(unit[0]));
    Pair sum = fastTwoSum(whole.hi, product);
    return sum.hi + (sum.lo + (whole.lo + fma(e, unit[1], rest)));
  }
  Pair sum = fastTwoSum(e, product);
  return sum.hi + (sum.lo + rest);
}

/// Adds the results for special arguments: NaN, 0, negative, infinite.
static Num withSpecials(Num x, Num pole, Num result) {
  Num atMostPole = select(x == pole, -infinity(x), quietNan(x));
  result = select(x <= pole, atMostPole, result);
  return select(x < infinity(x), result, x);
}

Num expand::log(Num x, Base base) { return withSpecials(x, x.constant(0.0), logarithm(decompose(x), base, {})); }

// With u = 1 + x rounded and c its rounding error, log(1 + x) = log(u) + c / u to far below an ulp.
Num expand::log1p(Num x, Num low) {
  Pair u = twoSum(x.constant(1.0), x);
  Num result = logarithm(split(u.hi), Base::E, (low ? u.lo + low : u.lo) / u.hi);
  result = select(abs(x) < (x.element().isF32() ? 0x1p-25 : 0x1p-54), x, result);
  return withSpecials(x, x.constant(-1.0), result);
}

void expand::addLogarithm(Patterns &patterns, const Target &target) {
  addFunction<math::LogOp>(patterns, target, [](Num x) { return log(x, Base::E); });
  addFunction<math::Log2Op>(patterns, target, [](Num x) { return log(x, Base::Two); });
  addFunction<math::Log10Op>(patterns, target, [](Num x) { return log(x, Base::Ten); });
  addFunction<math::Log1pOp>(patterns, target, [](Num x) { return log1p(x); });
}
