// The elementary functions as formulas over Num, and the patterns that replace operations by them. Each family is one
// file, which defines the functions listed under its name. All take and return f32 or f64 values.
#pragma once
#include "compiler/transforms/math/Emitter.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln::expand {

// Exponential.cpp
/// e^x before its scaling by a power of two. `scale` applies that last, so that the caller can multiply in between
/// without leaving the normal range.
struct Exponential {
  Num mantissa; ///< within [0.7, 1.42]
  Num exponent; ///< integer bits whose low part is n + 2 bias
  Num low;      ///< the mantissa's rounding error; only if the argument is given as a sum
};
Exponential exponential(Num x, Num low = {}); ///< of x + low, |low| far below |x|; x is clamped
Num scale(Exponential e);
Num exp(Num x);
Num exp2(Num x);
Num expm1(Num x);

// Logarithm.cpp
enum class Base { E, Two, Ten };
/// x = 2^exponent (1 + fraction) with 1 + fraction within [sqrt(1/2), sqrt(2)); for 0 < x < infinity.
struct Decomposed {
  Num fraction, exponent;
};
Decomposed decompose(Num x);
Num log(Num x, Base base);
Num log1p(Num x, Num low = {}); ///< of x + low, |low| far below |x|

// Trigonometric.cpp
struct SinCos {
  Num sin, cos;
};
SinCos sincos(Num x);
Num tan(Num x);

// InverseTrigonometric.cpp
Num asin(Num x);
Num acos(Num x);
Num atan(Num x);
Num atan2(Num y, Num x);

// Hyperbolic.cpp
Num sinh(Num x);
Num cosh(Num x);
Num tanh(Num x);
Num asinh(Num x);
Num acosh(Num x);
Num atanh(Num x);

// ErrorFunction.cpp
Num erf(Num x);
Num erfc(Num x);
/// f32 erf for results rounded to f16 or bf16: within 2^-19 of erf and within 2^-16 of its size, in 15 instructions.
Num erfForNarrow(Num x);

// Power.cpp
Num pow(Num x, Num y);
/// |x|^y with the sign of x where `odd`, for an integer exponent given as a float.
Num powInteger(Num x, Num y, Num odd);
Num cbrt(Num x);
Num rsqrt(Num x);

// Approximate.cpp
/// Whether `op`, an f32 quotient or root, need not be correctly rounded and has an approximate instruction.
bool isApproximate(mlir::Operation *op, const Target &target);

// Remainder.cpp
Num remainder(Num x, Num y);

// FusedMultiplyAdd.cpp
/// a b + c rounded once, for machines without the instruction and for narrow floats.
Num softwareFma(Num a, Num b, Num c);

// NarrowFloat.cpp
bool isNarrow(mlir::Type element);
bool isKnownFloat(mlir::Type element);
/// Whether the machine can perform `op` directly on its narrow type.
bool isNativeNarrow(mlir::Operation *op, const Target &target);
/// Whether it converts between f32 and bf16. (AVX512-BF16 also does, but flushes denormals to zero, so it does not
/// count.)
inline bool convertsBf16(const Target &target) { return target.has(Feature::Bf16Fma); }
/// Whether one instruction rounds f32 or f64 to f16 or bf16, to nearest even.
bool truncatesNatively(mlir::Type from, mlir::Type to, const Target &target);
/// Converts an f32 that is exactly a number, infinity or NaN of the narrow type. Nothing is rounded or saturated.
Num truncateExact(Num single, mlir::Type element);

// Each file adds its patterns; they match f32 and f64 (narrow types are widened first).
using Patterns = mlir::RewritePatternSet;
void addExponential(Patterns &patterns, const Target &target);
void addLogarithm(Patterns &patterns, const Target &target);
void addTrigonometric(Patterns &patterns, const Target &target);
void addInverseTrigonometric(Patterns &patterns, const Target &target);
void addHyperbolic(Patterns &patterns, const Target &target);
void addApproximate(Patterns &patterns, const Target &target);
void addErrorFunction(Patterns &patterns, const Target &target);
void addPower(Patterns &patterns, const Target &target);
void addRemainder(Patterns &patterns, const Target &target);
void addRounding(Patterns &patterns, const Target &target);
void addFusedMultiplyAdd(Patterns &patterns, const Target &target);
void addInteger(Patterns &patterns, const Target &target);
void addNarrowFloat(Patterns &patterns, const Target &target);
void addNarrowArithmetic(Patterns &patterns, const Target &target);

inline bool isSingleOrDouble(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  return element.isF32() || element.isF64();
}

/// Replaces an operation of one f32 or f64 operand by f(x), of two by f(x, y), of three by f(x, y, z).
template <typename Op, typename Function> class FunctionPattern : public mlir::OpRewritePattern<Op> {
public:
  FunctionPattern(mlir::MLIRContext *context, const Target &target, Function function)
      : mlir::OpRewritePattern<Op>(context), target(target), function(function) {}

  mlir::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
    if (!isSingleOrDouble(op->getOperand(0).getType()))
      return mlir::failure();
    Emitter emitter{rewriter, op.getLoc(), target};
    Num result;
    if constexpr (std::is_invocable_v<Function, Num, Num, Num>)
      result = function({emitter, op->getOperand(0)}, {emitter, op->getOperand(1)}, {emitter, op->getOperand(2)});
    else if constexpr (std::is_invocable_v<Function, Num, Num>)
      result = function({emitter, op->getOperand(0)}, {emitter, op->getOperand(1)});
    else
      result = function({emitter, op->getOperand(0)});
    rewriter.replaceOp(op, result.value());
    return mlir::success();
  }

private:
  const Target &target;
  Function function;
};

template <typename Op, typename Function>
void addFunction(Patterns &patterns, const Target &target, Function function) {
  patterns.add<FunctionPattern<Op, Function>>(patterns.getContext(), target, function);
}

} // namespace kiln::expand
