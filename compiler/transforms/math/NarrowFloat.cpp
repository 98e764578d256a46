// Conversions of f16, bf16, f8E4M3FN and f8E5M2, by integer operations on their bits if the machine has no instruction.
//
// Rounding is to nearest, ties to even, or toward zero. Overflow gives infinity in f16 and bf16. In f8E4M3FN and f8E5M2
// it gives the largest finite number, for an infinite argument too, like PTX's cvt.satfinite. Toward zero, a finite
// number gives at most the largest finite one in every format.
#include "compiler/transforms/math/Functions.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

bool expand::isNarrow(Type element) {
  return isa<Float16Type, BFloat16Type, Float8E4M3FNType, Float8E5M2Type>(element);
}
bool expand::truncatesNatively(Type from, Type to, const Target &target) {
  if (from.isF32())
    return (to.isF16() && target.hasF16C()) || (to.isBF16() && convertsBf16(target));
  return from.isF64() &&
         ((to.isF16() && target.has(Feature::F16Math)) || (to.isBF16() && target.has(Feature::Bf16Math)));
}
bool expand::isKnownFloat(Type element) { return isNarrow(element) || element.isF32() || element.isF64(); }

//===----------------------------------------------------------------------===//
// Extension
//===----------------------------------------------------------------------===//

/// f32 from the bits of a narrow float.
static Num extendToSingle(Num x) {
  OpBuilder &b = x.emitter().builder;
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Format f = x.format();
  Num wide = extendUnsigned(bits(x), i32);
  if (x.element().isBF16())
    return fromBits(wide << 16, f32);
  Num magnitude = wide & f.magnitudeMask();
  Num sign = (wide ^ magnitude) << int64_t(32 - f.bits);
  // The fields in place, but with the narrow bias: a multiplication corrects the exponent and normalizes denormals.
  Num placed = fromBits(magnitude << int64_t(23 - f.mantissa), f32);
  Num value = bits(placed * std::ldexp(1.0, 127 - int(f.bias)));
  if (f.hasInfinity)
    value = select(magnitude < f.infinity(), value, value | 0x7f800000);
  else
    value = select(magnitude != f.magnitudeMask(), value, 0x7fc00000);
  return fromBits(value | sign, f32);
}

//===----------------------------------------------------------------------===//
// Truncation
//===----------------------------------------------------------------------===//

/// f32 from f64, rounded to odd: the nearest float, or if that is even and inexact, its odd neighbour on the argument's
/// side. A second rounding to fewer bits then equals a single rounding of the f64.
static Num roundToOddSingle(Num x) {
  Type f32 = x.emitter().builder.getF32Type();
  Num nearest = convert(x, f32), i = bits(nearest);
  Num back = abs(convert(nearest, x.element())), a = abs(x);
  Num even = (i & 1) == 0;
  Num moved = select(back > a, i - 1, i + 1);
  // Both comparisons are false for NaN, which stays unchanged. Overflow to infinity becomes the largest (odd) number.
  Num inexact = (back > a) | (back < a);
  return fromBits(select(even & inexact, moved, i), f32);
}

/// Bits of a narrow float (as i32, sign included) nearest to an f32.
static Num roundBits(Num x, Format f, bool bf16) {
  Num i = bits(x);
  Num magnitude = i & 0x7fffffff;
  int shift = 23 - int(f.mantissa);
  auto nearestEven = [&](Num v) { return lshr(v + ((int64_t(1) << (shift - 1)) - 1) + (lshr(v, shift) & 1), shift); };
  Num isNan = Num(i.emitter(), magnitude.value()) > 0x7f800000;
  if (bf16) // same exponents: no range to check
    return select(isNan, lshr(i, 16) | 0x40, nearestEven(i));
  Num sign = lshr(i ^ magnitude, 32 - int(f.bits));
  // Normal results: rebias, round, and limit overflow. Below the normal range the difference wraps, but there the other
  // branch is taken.
  Num normal = nearestEven(magnitude - ((127 - f.bias) << 23));
  int64_t limit = f.bits == 8 ? f.largest() : f.infinity();
  normal = select(normal < limit, normal, limit);
  // Denormal results: adding a number whose last place is the smallest denormal rounds there.
  float anchor = std::ldexp(1.0f, int(1 - f.bias - f.mantissa + 23));
  Num denormal = bits(fromBits(magnitude, x.element()) + double(anchor)) - int64_t(llvm::bit_cast<int32_t>(anchor));
  int64_t smallestNormal = (128 - f.bias) << 23;
  Num result = select(magnitude < smallestNormal, denormal, normal);
  int64_t nan = f.hasInfinity ? f.infinity() | (int64_t(1) << (f.mantissa - 1)) : f.magnitudeMask();
  return select(isNan, nan, result) | sign;
}

/// Whether one instruction converts the scalar `x` to or from this 8-bit type.
static bool hasFp8Instructions(Num x, Type element) {
  return x.emitter().target.has(Feature::Fp8Convert) && !isa<ShapedType>(x.type()) &&
         isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

/// f16 from an 8-bit float, exactly.
static Num extendToHalf(Num x) {
  OpBuilder &b = x.emitter().builder;
  StringRef name = isa<Float8E5M2Type>(x.element()) ? "llvm.nvvm.e5m2x2.to.f16x2.rn" : "llvm.nvvm.e4m3x2.to.f16x2.rn";
  Num pair = intrinsic(name, {extendUnsigned(bits(x), b.getI16Type())}, VectorType::get({2}, b.getF16Type()));
  return pair.make<vector::ExtractOp>(pair.value(), 0);
}

/// f32 to a narrow float, to nearest even.
static Num truncateSingle(Num x, Type element) {
  Emitter &e = x.emitter();
  if ((element.isF16() && e.target.hasF16C()) || (element.isBF16() && convertsBf16(e.target)))
    return convert(x, element);
  if (hasFp8Instructions(x, element)) {
    StringRef name = isa<Float8E5M2Type>(element) ? "llvm.nvvm.ff.to.e5m2x2.rn" : "llvm.nvvm.ff.to.e4m3x2.rn";
    // The second operand of the pair becomes the lower byte.
    Num pair = intrinsic(name, {x.constant(0.0), x}, e.builder.getI16Type());
    return fromBits(truncateTo(pair, e.builder.getI8Type()), element);
  }
  Format f = formatOf(element);
  Num i = roundBits(x, f, element.isBF16());
  return fromBits(truncateTo(i, e.builder.getIntegerType(f.bits)), element);
}

/// Steps back where rounding went away from zero. `exact` is the argument, `back` the rounded value converted back.
static Num stepTowardZero(Num rounded, Num back, Num exact) {
  Num i = bits(rounded);
  return fromBits(select(abs(back) > abs(exact), i - 1, i), rounded.element());
}

Num expand::truncateExact(Num single, Type element) {
  if (!isa<Float8E5M2Type>(element))
    return convert(single, element);
  Builder &b = single.emitter().builder;
  return fromBits(truncateTo(lshr(bits(convert(single, b.getF16Type())), 8), b.getI8Type()), element);
}

/// Strips the clamp to the range of `element` that tile IR has before a truncation: this truncation saturates by
/// itself.
static Value withoutClamp(Value x, Type element) {
  auto low = x.getDefiningOp<arith::MinimumFOp>();
  auto high = low ? low.getLhs().getDefiningOp<arith::MaximumFOp>() : nullptr;
  APFloat most(0.0), least(0.0);
  if (!high || !matchPattern(low.getRhs(), m_ConstantFloat(&most)) ||
      !matchPattern(high.getRhs(), m_ConstantFloat(&least)))
    return x;
  APFloat largest = APFloat::getLargest(cast<FloatType>(element).getFloatSemantics());
  bool losesInfo;
  largest.convert(most.getSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return most >= largest && least <= -largest ? high.getLhs() : x;
}

namespace {
struct ExtendPattern : OpRewritePattern<arith::ExtFOp> {
  ExtendPattern(MLIRContext *context, const Target &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    Emitter emitter{rewriter, op.getLoc(), target};
    Num x(emitter, op.getIn());
    Type to = getElementTypeOrSelf(op.getType());
    if (!isNarrow(x.element()) || !isKnownFloat(to))
      return failure();
    if (x.element().isF16() && target.hasF16C()) {
      if (to.isF32())
        return failure();
      rewriter.replaceOp(op, convert(convert(x, rewriter.getF32Type()), to).value());
      return success();
    }
    if (to.isF32() && x.element().isBF16() && convertsBf16(target))
      return failure();
    if (hasFp8Instructions(x, x.element())) {
      Num result = extendToHalf(x);
      if (!to.isF16())
        result = convert(convert(result, rewriter.getF32Type()), to);
      rewriter.replaceOp(op, result.value());
      return success();
    }
    if (isa<Float8E5M2Type>(x.element()) && (to.isF16() || target.hasF16C())) {
      // It is the upper byte of an f16.
      Num half = fromBits(extendUnsigned(bits(x), rewriter.getI16Type()) << 8, rewriter.getF16Type());
      rewriter.replaceOp(op, convert(half, to).value());
      return success();
    }
    Num single = extendToSingle(x);
    if (to.isBF16()) // fp8 fits a bf16: nothing is rounded
      single = fromBits(truncateTo(lshr(bits(single), 16), rewriter.getI16Type()), to);
    else
      single = convert(single, to);
    rewriter.replaceOp(op, single.value());
    return success();
  }
  const Target &target;
};

struct TruncatePattern : OpRewritePattern<arith::TruncFOp> {
  TruncatePattern(MLIRContext *context, const Target &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    using arith::RoundingMode;
    Emitter emitter{rewriter, op.getLoc(), target};
    Type to = getElementTypeOrSelf(op.getType());
    Num x(emitter, isa<Float8E4M3FNType, Float8E5M2Type>(to) ? withoutClamp(op.getIn(), to) : op.getIn());
    Type from = x.element();
    if (!isKnownFloat(from) || !isKnownFloat(to))
      return failure();
    RoundingMode mode = op.getRoundingmode().value_or(RoundingMode::to_nearest_even);
    bool toZero = mode == RoundingMode::toward_zero;
    if (!toZero && mode != RoundingMode::to_nearest_even)
      return failure();
    bool native = to.isF32() || truncatesNatively(from, to, target);
    if (native && !op.getRoundingmode())
      return failure();
    Num result;
    if (to.isF32()) {
      result = convert(x, to);
    } else {
      Num single = from.isF64() ? roundToOddSingle(x) : convert(x, rewriter.getF32Type());
      result = truncateSingle(single, to);
    }
    if (toZero)
      result = stepTowardZero(result, convert(result, from), x);
    rewriter.replaceOp(op, result.value());
    return success();
  }
  const Target &target;
};
} // namespace

void expand::addNarrowFloat(Patterns &patterns, const Target &target) {
  patterns.add<ExtendPattern, TruncatePattern>(patterns.getContext(), target);
}
