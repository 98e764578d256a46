// sin, cos, tan. The argument is reduced to r = x - n pi/2, |r| <= pi/4; polynomials give sin(r) and cos(r), and n mod
// 4 says which is which. Up to a threshold the reduction subtracts n times pi/2 in three parts. Beyond it (in any lane)
// it multiplies by the relevant bits of 2/pi as integers, exactly enough for every finite argument.
#include "compiler/transforms/math/Coefficients.h"
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

namespace {
/// x = n pi/2 + r.hi + r.lo; only n mod 4 is meaningful.
struct Reduced {
  Pair r;
  Num quadrant;
};
} // namespace

/// `count` words of `width` bits of the number 2/pi 2^-zeros, most significant first.
static SmallVector<int64_t> twoOverPiWords(unsigned zeros, unsigned width, unsigned count) {
  auto bit = [&](int64_t i) -> uint64_t {
    i -= zeros;
    return i < 0 ? 0 : tables::kTwoOverPiBits[i / 64] >> (63 - i % 64) & 1;
  };
  SmallVector<int64_t> words;
  for (unsigned w = 0; w < count; ++w) {
    uint64_t word = 0;
    for (unsigned i = 0; i < width; ++i)
      word = word << 1 | bit(int64_t(w) * width + i);
    words.push_back(int64_t(word));
  }
  return words;
}

/// words[index .. index + count): a barrel shifter, because not every machine can gather, and tensors cannot.
static SmallVector<Num> pick(SmallVector<Num> words, Num index, unsigned indexBits, unsigned count) {
  for (int bit = indexBits - 1; bit >= 0; --bit) {
    unsigned step = 1u << bit, left = std::min<size_t>(words.size() - step, count + step - 1);
    Num set = (index & (int64_t(1) << bit)) != 0;
    SmallVector<Num> next;
    for (unsigned i = 0; i < left; ++i)
      next.push_back(select(set, words[i + step], words[i]));
    words = std::move(next);
  }
  words.resize(count);
  return words;
}

// Both reductions below write |x| = m 2^e with an integer m, skip the bits of 2/pi whose product with m 2^e is a
// multiple of 4, multiply m by the next 96 or 192 bits, and read n and a signed fraction of pi/2 from the top.

static Reduced reduceHugeSingle(Num x) {
  Type i64 = x.emitter().builder.getI64Type(), f64 = x.emitter().builder.getF64Type();
  Num b = extendUnsigned(bits(x), i64);
  Num m = (b & 0x7fffff) | 0x800000;
  // The thresholds below ensure an exponent field of at least 143, where all nine leading zeros are used.
  Num start = (lshr(b, 23) & 0xff) - 143;
  SmallVector<int64_t> words = twoOverPiWords(9, 32, 7);
  SmallVector<Num> pairs;
  for (unsigned i = 0; i + 1 < words.size(); ++i)
    pairs.push_back(m.constant(int64_t(uint64_t(words[i]) << 32 | uint64_t(words[i + 1]))));
  pairs = pick(pairs, lshr(start, 5), 2, 3);
  Num shift = start & 31;
  Num product = lshr(m * lshr(pairs[2] << shift, 32), 32) + m * lshr(pairs[1] << shift, 32) +
                ((m * lshr(pairs[0] << shift, 32)) << 32);
  Num fraction = (product << 2) >> 2;
  Num quadrant = lshr(product + (int64_t(1) << 61), 62);
  Num r = convert(signedToFloat(fraction, f64) * (tables::kHalfPiF64[0] * 0x1p-62), x.element());
  Num negative = x < 0.0;
  quadrant = truncateTo(quadrant, bits(x).element());
  return {{select(negative, -r, r), x.constant(0.0)}, select(negative, -quadrant, quadrant)};
}

static Num multiplyHigh(Num a, Num b) {
  Emitter &e = a.emitter();
  return Num(e, arith::MulUIExtendedOp::create(e.builder, e.loc, a.value(), b.value()).getHigh());
}

static Reduced reduceHugeDouble(Num x) {
  Num b = bits(x);
  Num m = (b & ((int64_t(1) << 52) - 1)) | (int64_t(1) << 52);
  Num start = (lshr(b, 52) & 0x7ff) - 1051;
  SmallVector<Num> words;
  for (int64_t word : twoOverPiWords(26, 64, 20))
    words.push_back(m.constant(word));
  words = pick(words, lshr(start, 6), 4, 4);
  Num shift = start & 63;
  SmallVector<Num, 3> w;
  for (unsigned i = 0; i < 3; ++i)
    w.push_back((words[i] << shift) | lshr(lshr(words[i + 1], 1), shift ^ 63));
  Num middleLow = m * w[1];
  Num middle = middleLow + multiplyHigh(m, w[2]);
  Num carry = extendUnsigned(ult(middle, middleLow), m.element());
  Num top = m * w[0] + multiplyHigh(m, w[1]) + carry;
  Num quadrant = lshr(top + (int64_t(1) << 61), 62);
  Num fraction = (top << 2) >> 2;
  // 62 + 64 bits as a sum of two doubles, each conversion exact or rounded once.
  Num coarse = signedToFloat(fraction & ~int64_t(1023), x.element());
  Num fine = signedToFloat(((fraction & 1023) << 53) | lshr(middle, 11), x.element()) * 0x1p-53;
  Pair f = fastTwoSum(coarse, fine);
  double high = tables::kHalfPiF64[0] * 0x1p-62, low = tables::kHalfPiF64[1] * 0x1p-62;
  Num r = f.hi * high;
  Num rest = fma(f.hi, high, -r) + mulAdd(f.hi, f.hi.constant(low), f.lo * high);
  Num negative = x < 0.0;
  return {{select(negative, -r, r), select(negative, -rest, rest)}, select(negative, -quadrant, quadrant)};
}

static Reduced reduce(Num x) {
  Format f = x.format();
  const Tables &t = tablesFor(x);
  bool single = f.bits == 32;
  double magic = 1.5 * double(int64_t(1) << f.mantissa);
  Num shifted = mulAdd(x, x.constant(t.twoOverPi[0]), magic);
  Num n = shifted - magic;
  // The first step is exact: x and n pi/2 agree in all but their last bits.
  Num first = fma(n, -t.halfPi[0], x);
  Pair product = twoProduct(n, n.constant(-t.halfPi[1]));
  Pair r = twoSum(first, product.hi);
  Num low = fma(n, -t.halfPi[2], r.lo + product.lo);
  // For NaN and infinity neither branch matters: the polynomials of NaN are NaN, and n only selects one of them.
  Num huge = abs(x) > (single ? 0x1p16 : 0x1p28);
  SmallVector<Num> chosen = selectRarely(huge, {r.hi, low, bits(shifted)}, [&] {
    Reduced r = single ? reduceHugeSingle(x) : reduceHugeDouble(x);
    Num finite = abs(x) < infinity(x);
    return SmallVector<Num>{select(finite, r.r.hi, quietNan(x)), r.r.lo, r.quadrant};
  });
  return {{chosen[0], chosen[1]}, chosen[2]};
}

/// sin and cos of r as unevaluated sums.
static std::pair<Pair, Pair> kernels(Pair r) {
  const Tables &t = tablesFor(r.hi);
  Num z = r.hi * r.hi, half = 0.5 * z;
  Num sinRest = mulAdd(r.hi * z, horner(z, t.sin), mulAdd(-half, r.lo, r.lo));
  Num one = r.hi.constant(1.0), w = one - half;
  Num cosRest = ((one - w) - half) - fma(0.5 * r.hi, r.hi, -half) + (z * z * horner(z, t.cos) - r.hi * r.lo);
  return {{r.hi, sinRest}, {w, cosRest}};
}

/// Below this sin(x) = tan(x) = x; returning x itself keeps -0 and denormals.
static double tiny(Num x) { return x.element().isF32() ? 0x1p-13 : 0x1p-27; }

SinCos expand::sincos(Num x) {
  Reduced reduced = reduce(x);
  auto [s, c] = kernels(reduced.r);
  Num sine = s.hi + s.lo, cosine = c.hi + c.lo;
  Num odd = (reduced.quadrant & 1) != 0;
  unsigned signShift = x.bitWidth() - 2;
  auto signedBy = [&](Num value, Num quadrant) {
    Num sign = (quadrant & 2) << int64_t(signShift);
    return fromBits(bits(value) ^ sign, x.element());
  };
  Num sinResult = signedBy(select(odd, cosine, sine), reduced.quadrant);
  Num cosResult = signedBy(select(odd, sine, cosine), reduced.quadrant + 1);
  return {select(abs(x) < tiny(x), x, sinResult), cosResult};
}

// tan = sin / cos or -cos / sin, with a division that accounts for the low parts.
Num expand::tan(Num x) {
  Reduced reduced = reduce(x);
  auto [s, c] = kernels(reduced.r);
  Pair sine = fastTwoSum(s.hi, s.lo), cosine = fastTwoSum(c.hi, c.lo);
  Num odd = (reduced.quadrant & 1) != 0;
  Num top = select(odd, -cosine.hi, sine.hi), topLow = select(odd, -cosine.lo, sine.lo);
  Num bottom = select(odd, sine.hi, cosine.hi), bottomLow = select(odd, sine.lo, cosine.lo);
  Num inverse = 1.0 / bottom;
  Num q = top * inverse;
  Num rest = fma(-q, bottom, top) + (topLow - q * bottomLow);
  return select(abs(x) < tiny(x), x, fma(rest, inverse, q));
}

namespace {
struct SincosPattern : OpRewritePattern<math::SincosOp> {
  SincosPattern(MLIRContext *context, const Target &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(math::SincosOp op, PatternRewriter &rewriter) const override {
    if (!isSingleOrDouble(op.getOperand().getType()))
      return failure();
    Emitter emitter{rewriter, op.getLoc(), target};
    SinCos result = sincos({emitter, op.getOperand()});
    rewriter.replaceOp(op, {result.sin.value(), result.cos.value()});
    return success();
  }
  const Target &target;
};
} // namespace

void expand::addTrigonometric(Patterns &patterns, const Target &target) {
  addFunction<math::SinOp>(patterns, target, [](Num x) { return sincos(x).sin; });
  addFunction<math::CosOp>(patterns, target, [](Num x) { return sincos(x).cos; });
  addFunction<math::TanOp>(patterns, target, [](Num x) { return tan(x); });
  patterns.add<SincosPattern>(patterns.getContext(), target);
}
