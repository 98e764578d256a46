// sinh, cosh, tanh and their inverses. The rare ones are computed in f64 for f32, where the plain formulas are exact
// enough.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

/// f evaluated in f64 and rounded once.
static Num inDouble(Num x, Num (*f)(Num)) {
  return convert(f(convert(x, x.emitter().builder.getF64Type())), x.element());
}

// 1 - 2 / (e^(2|x|) + 1), whose relative error shrinks with the second term; below 1, where it would not, a polynomial.
// Both get their sign from x: the polynomial alone would turn -0 into +0.
static Num tanhByInstruction(Num x) {
  Num a = abs(x), z = x * x;
  Num near = fma(x * z, horner(z, tables::kTanhF32), x);
  Num far = fma(intrinsic("llvm.nvvm.rcp.approx.ftz.f", {exp(a + a) + 1.0}), -2.0, x.constant(1.0));
  return copySign(select(a < 1.0, near, far), x);
}

// tanh |x| = E / (E + 2) with E = e^(2|x|) - 1.
Num expand::tanh(Num x) {
  if (hasSpecialFunctions(x))
    return tanhByInstruction(x);
  bool single = x.element().isF32();
  Num e = expm1(atMost(abs(x), single ? 10.0 : 20.0) * 2.0);
  // Correct the quotient for the rounding of its divisor: on top of the error of E itself, two more would be too many.
  Pair bottom = twoSum(e, e.constant(2.0));
  Num inverse = 1.0 / bottom.hi, q = e * inverse;
  Num rest = fma(-q, bottom.hi, e) - q * bottom.lo;
  return copySign(fma(rest, inverse, q), x);
}

/// e^|x| / 2, which overflows only where cosh does.
static Num halfExponential(Num a) {
  Exponential e = exponential(a);
  e.mantissa = e.mantissa * 0.5;
  return scale(e);
}

Num expand::sinh(Num x) {
  Num a = abs(x), z = a * a;
  Num near = mulAdd(a * z, horner(z, tablesFor(x).sinh), a);
  Num e = halfExponential(a);
  return copySign(select(a < 1.0, near, e - 0.25 / e), x);
}

Num expand::cosh(Num x) {
  Num e = halfExponential(abs(x));
  return e + 0.25 / e;
}

// |x| + (sqrt(x^2 + 1) - 1) inside log1p. Squares overflow above 2^500, but asinh(x) = log(2 |x|) already holds far
// below that.
static Num asinhDouble(Num x) {
  Num a = abs(x), far = a > 0x1p28;
  Num b = select(far, 1.0, a), square = b * b;
  Num near = log1p(b + square / (1.0 + sqrt(square + 1.0)));
  return copySign(select(far, log(a, Base::E) + tables::kLn2F64[0], near), x);
}

static Num acoshDouble(Num x) {
  Num far = x > 0x1p28;
  // log1p(d + s) with d = x - 1 exact and s = sqrt(x^2 - 1), whose rounding error is kept.
  Num b = clamp(x, 1.0, 0x1p29), d = b - 1.0;
  Num square = fma(b, b, b.constant(-1.0)), s = sqrt(square);
  Pair sum = twoSum(d, s);
  Num error = select(s > 0.0, fma(-s, s, square) / (s + s), 0.0);
  Num near = log1p(sum.hi, sum.lo + error);
  Num result = select(far, log(x, Base::E) + tables::kLn2F64[0], near);
  return select(x >= 1.0, result, quietNan(x));
}

static Num atanhDouble(Num x) {
  Num a = abs(x);
  return copySign(0.5 * log1p((a + a) / (1.0 - a)), x);
}

Num expand::asinh(Num x) { return inDouble(x, asinhDouble); }
Num expand::acosh(Num x) { return inDouble(x, acoshDouble); }
Num expand::atanh(Num x) { return inDouble(x, atanhDouble); }

void expand::addHyperbolic(Patterns &patterns, const Target &target) {
  addFunction<math::TanhOp>(patterns, target, [](Num x) { return tanh(x); });
  addFunction<math::SinhOp>(patterns, target, [](Num x) { return sinh(x); });
  addFunction<math::CoshOp>(patterns, target, [](Num x) { return cosh(x); });
  addFunction<math::AsinhOp>(patterns, target, [](Num x) { return asinh(x); });
  addFunction<math::AcoshOp>(patterns, target, [](Num x) { return acosh(x); });
  addFunction<math::AtanhOp>(patterns, target, [](Num x) { return atanh(x); });
}
