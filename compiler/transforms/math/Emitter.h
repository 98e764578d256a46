// A small embedded language for writing elementary functions as formulas. A Num is an SSA value (scalar, vector or
// tensor) together with the emitter that builds its users. Constants take the shape of the other operand.
//
//   Num r = x - n * 0.5;  Num y = select(r < 0, -r, horner(r, table));
//
// No operation built here carries fast-math flags: the formulas rely on each rounding step.
#pragma once
#include "compiler/target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include <functional>

namespace kiln::expand {

/// Where code is built, and for which machine.
struct Emitter {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  const Target &target;
};

/// Layout of an IEEE-like format.
struct Format {
  unsigned bits, mantissa;
  int64_t bias;
  bool hasInfinity = true; ///< if not, the all-ones magnitude is the only NaN and the top exponent is finite (E4M3FN)

  int64_t mantissaMask() const { return (int64_t(1) << mantissa) - 1; }
  int64_t magnitudeMask() const { return (uint64_t(1) << (bits - 1)) - 1; }
  int64_t infinity() const { return magnitudeMask() & ~mantissaMask(); }
  int64_t largest() const { return (hasInfinity ? infinity() : magnitudeMask()) - 1; }
};
Format formatOf(mlir::Type element);

class Num {
public:
  Num() = default;
  Num(Emitter &emitter, mlir::Value value) : state(&emitter), v(value) {}

  mlir::Value value() const { return v; }
  Emitter &emitter() const { return *state; }
  mlir::Type type() const { return v.getType(); }
  mlir::Type element() const { return mlir::getElementTypeOrSelf(v.getType()); }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(element()); }
  unsigned bitWidth() const { return element().getIntOrFloatBitWidth(); }
  Format format() const { return formatOf(element()); }
  explicit operator bool() const { return bool(v); }

  /// This value's shape with another element type.
  mlir::Type typeWith(mlir::Type other) const;
  /// A constant of this value's shape and element type.
  Num like(double constant) const;
  Num like(int64_t constant) const;
  Num like(const llvm::APFloat &constant) const;
  template <typename T> Num constant(T c) const {
    if constexpr (std::is_floating_point_v<T>)
      return like(double(c));
    else
      return isFloat() ? like(double(c)) : like(int64_t(c));
  }

  template <typename Op, typename... Args> Num make(Args &&...args) const {
    return Num(*state, Op::create(state->builder, state->loc, std::forward<Args>(args)...)->getResult(0));
  }

private:
  Emitter *state = nullptr;
  mlir::Value v;
};

Num operator+(Num a, Num b);
Num operator-(Num a, Num b);
Num operator*(Num a, Num b);
Num operator/(Num a, Num b);
Num operator-(Num a);
Num operator&(Num a, Num b);
Num operator|(Num a, Num b);
Num operator^(Num a, Num b);
Num operator~(Num a);
/// Shift counts are values or constants; >> is arithmetic, lshr logical.
Num operator<<(Num a, Num b);
Num operator>>(Num a, Num b);
Num lshr(Num a, Num b);
/// Ordered float comparisons (false on NaN), signed integer comparisons; != is true on NaN.
Num operator<(Num a, Num b);
Num operator<=(Num a, Num b);
Num operator>(Num a, Num b);
Num operator>=(Num a, Num b);
Num operator==(Num a, Num b);
Num operator!=(Num a, Num b);
Num ult(Num a, Num b);

#define KILN_CONSTANT_OPERAND(OP)                                                                                      \
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> Num operator OP(Num a, T b) {            \
    return a OP a.constant(b);                                                                                         \
  }                                                                                                                    \
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> Num operator OP(T a, Num b) {            \
    return b.constant(a) OP b;                                                                                         \
  }
KILN_CONSTANT_OPERAND(+)
KILN_CONSTANT_OPERAND(-)
KILN_CONSTANT_OPERAND(*)
KILN_CONSTANT_OPERAND(/)
KILN_CONSTANT_OPERAND(&)
KILN_CONSTANT_OPERAND(|)
KILN_CONSTANT_OPERAND(^)
KILN_CONSTANT_OPERAND(<<)
KILN_CONSTANT_OPERAND(>>)
KILN_CONSTANT_OPERAND(<)
KILN_CONSTANT_OPERAND(<=)
KILN_CONSTANT_OPERAND(>)
KILN_CONSTANT_OPERAND(>=)
KILN_CONSTANT_OPERAND(==)
KILN_CONSTANT_OPERAND(!=)
#undef KILN_CONSTANT_OPERAND
inline Num lshr(Num a, int64_t b) { return lshr(a, a.constant(b)); }
inline Num ult(Num a, int64_t b) { return ult(a, a.constant(b)); }

Num select(Num condition, Num yes, Num no);
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> Num select(Num condition, T yes, Num no) {
  return select(condition, no.constant(yes), no);
}
template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>> Num select(Num condition, Num yes, T no) {
  return select(condition, yes, yes.constant(no));
}

/// a b + c with one rounding, for exact residuals.
Num fma(Num a, Num b, Num c);
inline Num fma(Num a, double b, Num c) { return fma(a, a.constant(b), c); }
/// a b + c with one or two roundings, whichever is cheap: a step of a polynomial.
Num mulAdd(Num a, Num b, Num c);
template <typename T> Num mulAdd(Num a, Num b, T c) { return mulAdd(a, b, a.constant(c)); }
/// The polynomial with the given coefficients, lowest order first, at x.
Num horner(Num x, llvm::ArrayRef<double> coefficients);

Num abs(Num x);
Num copySign(Num magnitude, Num sign);
Num sqrt(Num x);
Num roundEven(Num x);
Num truncate(Num x);
Num isNan(Num x);
Num infinity(Num like);
Num quietNan(Num like);
/// min(max(x, low), high) in two instructions; keeps NaN.
Num clamp(Num x, double low, double high);
Num atMost(Num x, double high);
Num maximum(Num a, Num b); ///< of numbers; b if either is NaN
Num minimum(Num a, Num b);

/// Reinterpretation of bits.
Num bits(Num x);
Num fromBits(Num integer, mlir::Type element);
Num toInteger(Num x, mlir::Type element);     ///< fptosi
Num signedToFloat(Num i, mlir::Type element); ///< sitofp
/// Exact conversion of |i| < 2^(mantissa - 1) by an addition, which every instruction set has.
Num smallToFloat(Num i, mlir::Type element);
/// Between f32 and f64, or between integer widths (zero- or sign-extending, or truncating).
Num convert(Num x, mlir::Type element);
Num extendUnsigned(Num i, mlir::Type element);
Num extendSigned(Num i, mlir::Type element);
Num truncateTo(Num i, mlir::Type element);

/// Whether this f32 value may use a GPU's approximate instructions (ex2, rsqrt, div.full, ...), which work on scalars.
bool hasSpecialFunctions(Num x);
/// Calls an LLVM intrinsic on operands of the same type; the result has that type too, unless `result` is given.
Num intrinsic(llvm::StringRef name, llvm::ArrayRef<Num> operands, mlir::Type result = {});

/// An unevaluated sum: |lo| is at most half a unit in the last place of hi.
struct Pair {
  Num hi, lo;
};
Pair twoSum(Num a, Num b);
Pair fastTwoSum(Num a, Num b); ///< |a| >= |b| or a == 0
Pair twoProduct(Num a, Num b);

/// An i1 that is true if the condition holds in any lane. Tensors have no such reduction, so callers avoid the branch.
mlir::Value anyLane(Num condition);
bool hasAnyLane(Num x);
/// `slow()` where `condition`, else `fast`. The slow code runs only if some lane needs it.
llvm::SmallVector<Num> selectRarely(Num condition, llvm::ArrayRef<Num> fast,
                                    const std::function<llvm::SmallVector<Num>()> &slow);
/// Repeats `step` on `state` until `pending(state)` holds in no lane; on tensors exactly `bound` times, so that `step`
/// must not change lanes that are done.
Num iterate(Num state, int64_t bound, const std::function<Num(Num)> &pending, const std::function<Num(Num)> &step);

} // namespace kiln::expand
