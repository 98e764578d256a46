// asin, acos, atan, atan2. Arctangents share one reduction: if the quotient of the smaller by the larger side exceeds
// 1/2, it is rotated by pi/4 before the division, so there is one division and one polynomial.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

/// atan(small / large) for 0 <= small <= large, as a sum.
static Pair atanOfQuotient(Num small, Num large) {
  const Tables &t = tablesFor(small);
  Num turned = small > large * 0.5; // where small - large is exact
  Num top = select(turned, small - large, small);
  Num bottom = select(turned, small + large, large);
  Num q = top / bottom;
  Num z = q * q;
  Num rest = q * z * horner(z, t.atan);
  Num zero = q.constant(0.0);
  Num base = select(turned, t.quarterPi[0], zero), baseLow = select(turned, t.quarterPi[1], zero);
  Pair sum = fastTwoSum(base, q);
  return {sum.hi, sum.lo + (rest + baseLow)};
}

/// c - (a.hi + a.lo) for a constant given in two parts.
static Pair subtractFrom(ArrayRef<double> c, Pair a) {
  Pair sum = fastTwoSum(a.hi.constant(c[0]), -a.hi);
  return {sum.hi, sum.lo + (c[1] - a.lo)};
}

Num expand::atan(Num x) {
  Num a = abs(x), one = x.constant(1.0);
  Num steep = a > 1.0;
  // The smaller side is at most one, so infinity over infinity cannot occur; an infinite argument uses 0 / 1.
  Num large = select(steep, a, one), small = select(steep, one, a);
  Num unbounded = a == infinity(x);
  Pair r = atanOfQuotient(select(unbounded, 0.0, small), select(unbounded, 1.0, large));
  Pair complement = subtractFrom(tablesFor(x).halfPi, r);
  Num result = select(steep, complement.hi + complement.lo, r.hi + r.lo);
  return copySign(select(isNan(x), x, result), x);
}

Num expand::atan2(Num y, Num x) {
  Format f = x.format();
  const Tables &t = tablesFor(x);
  // A common scale keeps the rotated sum finite and denormal sides exact.
  Num ay = abs(y), ax = abs(x);
  double big = f.bits == 32 ? 0x1p100 : 0x1p1000, down = f.bits == 32 ? 0x1p-50 : 0x1p-500;
  Num one = x.constant(1.0);
  Num factor = select(maximum(ax, ay) > big, down, one);
  Num inf = infinity(x), bothInfinite = minimum(ax, ay) == inf;
  Num large = maximum(ax, ay) * factor, small = minimum(ax, ay) * factor;
  Num zero = x.constant(0.0);
  Num unbounded = large == inf;
  small = select(bothInfinite, one, select(unbounded, zero, small));
  large = select(unbounded, one, large);
  large = select(large == 0.0, one, large);
  Pair r = atanOfQuotient(small, large);
  Num steep = ay > ax;
  Pair complement = subtractFrom(t.halfPi, r);
  r = {select(steep, complement.hi, r.hi), select(steep, complement.lo, r.lo)};
  Num left = bits(x) < 0;
  Pair reflected = subtractFrom(t.pi, r);
  Num result = copySign(select(left, reflected.hi + reflected.lo, r.hi + r.lo), y);
  Num nan = x.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, x.value(), y.value());
  return select(nan, x + y, result);
}

namespace {
/// asin(s) for s = |x| or, above 1/2, s = sqrt((1 - |x|) / 2), where asin(|x|) = pi/2 - 2 asin(s).
struct Arcsine {
  Pair value;
  Num folded;
};
} // namespace

static Arcsine arcsine(Num x) {
  Num a = abs(x);
  Num folded = a > 0.5;
  Num half = mulAdd(a, a.constant(-0.5), 0.5); // exact above 1/2
  Num z = select(folded, half, a * a);
  Num root = sqrt(half);
  Num s = select(folded, root, a);
  Num rest = s * z * horner(z, tablesFor(x).asin);
  // The rounding error of the square root.
  Num error = fma(-root, root, half) / (root + root);
  error = select(half > 0.0, error, 0.0);
  return {{s, rest + select(folded, error, 0.0)}, folded};
}

Num expand::asin(Num x) {
  Arcsine a = arcsine(x);
  Pair twice{a.value.hi * 2.0, a.value.lo * 2.0};
  Pair complement = subtractFrom(tablesFor(x).halfPi, twice);
  Num result = select(a.folded, complement.hi + complement.lo, a.value.hi + a.value.lo);
  return copySign(result, x);
}

Num expand::acos(Num x) {
  Arcsine a = arcsine(x);
  const Tables &t = tablesFor(x);
  Num negative = x < 0.0;
  Pair twice{a.value.hi * 2.0, a.value.lo * 2.0};
  Pair reflected = subtractFrom(t.pi, twice);
  Num outer = select(negative, reflected.hi + reflected.lo, twice.hi + twice.lo);
  Pair value{select(negative, -a.value.hi, a.value.hi), select(negative, -a.value.lo, a.value.lo)};
  Pair complement = subtractFrom(t.halfPi, value);
  return select(a.folded, outer, complement.hi + complement.lo);
}

void expand::addInverseTrigonometric(Patterns &patterns, const Target &target) {
  addFunction<math::AsinOp>(patterns, target, [](Num x) { return asin(x); });
  addFunction<math::AcosOp>(patterns, target, [](Num x) { return acos(x); });
  addFunction<math::AtanOp>(patterns, target, [](Num x) { return atan(x); });
  addFunction<math::Atan2Op>(patterns, target, [](Num y, Num x) { return atan2(y, x); });
}
