// round (half away from zero), classification, clampf, and maxnumf/minnumf, which LLVM sometimes turns into calls of
// fmaxf and fminf.
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

// The largest number below 1/2: adding 1/2 itself would round 0.49999997 up to 1.
static Num roundAway(Num x) {
  Num half = x.constant(x.element().isF32() ? 0x1.fffffep-2 : 0x1.fffffffffffffp-2);
  return truncate(x + copySign(half, x));
}

static Num isNormal(Num x) {
  Format f = x.format();
  Num exponent = bits(x) & f.infinity();
  return (exponent != 0) & (exponent != f.infinity());
}

static Num clampFloat(Num x, Num low, Num high) {
  Num raised = x.make<arith::MaximumFOp>(x.value(), low.value());
  return x.make<arith::MinimumFOp>(raised.value(), high.value());
}

// x86's max returns its second operand if one is NaN, which is the other number unless the second operand is the NaN.
static Num maxNumber(Num a, Num b) { return select(isNan(b), a, maximum(a, b)); }
static Num minNumber(Num a, Num b) { return select(isNan(b), a, minimum(a, b)); }

void expand::addRounding(Patterns &patterns, const Target &target) {
  addFunction<math::RoundOp>(patterns, target, roundAway);
  addFunction<math::IsNaNOp>(patterns, target, [](Num x) { return isNan(x); });
  addFunction<math::IsInfOp>(patterns, target, [](Num x) { return abs(x) == infinity(x); });
  addFunction<math::IsFiniteOp>(patterns, target, [](Num x) { return abs(x) < infinity(x); });
  addFunction<math::IsNormalOp>(patterns, target, isNormal);
  if (!target.isGpu()) { // GPUs have instructions for these
    addFunction<arith::MaxNumFOp>(patterns, target, maxNumber);
    addFunction<arith::MinNumFOp>(patterns, target, minNumber);
  }
  addFunction<math::ClampFOp>(patterns, target, clampFloat);
}
