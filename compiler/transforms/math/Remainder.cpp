// arith.remf: C's fmod, exact. Each step reduces the quotient of r by y by about 50 bits: with y 2^n just below r
// 2^-50, the quotient is a whole number below 2^52, and r - q y 2^n is exact in one fused step. f32 is computed in f64.
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

static constexpr int64_t kStepBits = 50;

/// r mod y for r >= 0 and normal y > 0, with exponents at most `span` apart.
static Num reduceModulo(Num r, Num y, int64_t span) {
  Num divisorBits = bits(y), divisorExponent = lshr(divisorBits, 52);
  auto step = [&](Num r) {
    Num n = lshr(bits(r), 52) - divisorExponent - kStepBits;
    n = select(n > 0, n, 0);
    Num multiple = fromBits(divisorBits + (n << 52), y.element());
    Num q = truncate(r / multiple);
    Num rest = fma(-q, multiple, r);
    // The division may have rounded up to the next whole number.
    return select(rest < 0.0, rest + multiple, rest);
  };
  return iterate(r, span / kStepBits + 2, [&](Num r) { return r >= y; }, step);
}

Num expand::remainder(Num xIn, Num yIn) {
  Type f64 = xIn.emitter().builder.getF64Type();
  bool single = xIn.element().isF32();
  Num x = convert(xIn, f64), y = convert(yIn, f64);
  Num a = abs(x), d = abs(y);
  Num inf = infinity(x);
  Num valid = (a < inf) & (d > 0.0), bounded = d < inf;
  Num run = valid & bounded;
  a = select(run, a, 0.0);
  d = select(run, d, 1.0);
  Num r;
  if (single) {
    r = reduceModulo(a, d, 300);
  } else {
    // A denormal divisor is scaled up; the rest of r after dividing by that is small enough to be scaled as well.
    Num one = d.constant(1.0), small = d < 0x1p-960;
    Num up = select(small, 0x1p60, one), down = select(small, 0x1p-60, one);
    d = d * up;
    if (x.emitter().target.hasFMA()) {
      r = reduceModulo(a, d, 2100);
    } else { // an emulated step overflows near the largest number
      Num huge = a > 0x1p1000, lower = select(huge, 0x1p-4, one), raise = select(huge, 0x1p4, one);
      r = reduceModulo(a * lower, d * lower, 2100) * raise;
    }
    r = reduceModulo(r * up, d, 60) * down;
  }
  Num result = copySign(r, x);
  result = select(bounded, result, x);
  Num nan = x.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, x.value(), y.value());
  result = select(valid & ~nan, result, quietNan(x));
  return convert(result, xIn.element());
}

void expand::addRemainder(Patterns &patterns, const Target &target) {
  addFunction<arith::RemFOp>(patterns, target, [](Num x, Num y) { return remainder(x, y); });
}
