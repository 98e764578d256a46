// The device library on the host. Functions of one number are computed in long double and then rounded again, so that
// fp32 results are accurate to an ulp and fp64 results nearly so; arithmetic with a direction sets the rounding mode.
#include "runtime/device/HostLibrary.h"
#include <cfenv>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

using Wide = long double;

static constexpr Wide kPi = 3.14159265358979323846264338327950288L;
static constexpr Wide kInfinity = std::numeric_limits<Wide>::infinity();
static constexpr Wide kNaN = std::numeric_limits<Wide>::quiet_NaN();

//===-- Functions of one number ----------------------------------------------------------------------------------===//

/// sin(pi x): the remainder is exact, and reflection reduces it to a quarter turn at most.
static Wide sinPi(Wide x) {
  Wide turn = std::remainder(x, 2.0L);
  if (turn > 0.5L)
    turn = 1 - turn;
  else if (turn < -0.5L)
    turn = -1 - turn;
  return std::sin(kPi * turn);
}

static Wide cosPi(Wide x) { return std::sin(kPi * (0.5L - std::fabs(std::remainder(x, 2.0L)))); }

/// Modified Bessel functions of the first kind, by their series, whose terms all have one sign.
static Wide besselI(int order, Wide x) {
  Wide size = std::fabs(x), quarter = size * size / 4;
  if (std::isnan(x))
    return x;
  if (size > 2000)
    return order && x < 0 ? -kInfinity : kInfinity;
  Wide term = 1, sum = 1;
  for (int k = 1; term > sum * 1e-21L; ++k)
    sum += term *= quarter / (Wide(k) * (k + order));
  return order ? x / 2 * sum : sum;
}

/// The inverse of erfc for y in (0, 2), by Halley's method from the leading term of its expansion.
static Wide erfcInverse(Wide y) {
  if (!(y >= 0 && y <= 2))
    return kNaN;
  if (y == 0 || y == 2)
    return y == 0 ? kInfinity : -kInfinity;
  bool upper = y > 1;
  Wide target = upper ? 2 - y : y;
  Wide x = 0.5L;
  if (target < 0.5L) {
    Wide log = -std::log(target * std::sqrt(kPi));
    x = std::sqrt(std::fmax(log - std::log(std::sqrt(std::fmax(log, 0.25L))), 0.25L));
  }
  for (int step = 0; step < 60; ++step) {
    Wide off = (std::erfc(x) - target) / (2 / std::sqrt(kPi) * std::exp(-x * x));
    Wide moved = off / (1 - x * off);
    x += moved;
    if (std::fabs(moved) <= 1e-19L * std::fabs(x))
      break;
  }
  return upper ? -x : x;
}

static Wide erfInverse(Wide y) {
  Wide size = std::fabs(y);
  if (size > 0.5L)
    return std::copysign(erfcInverse(1 - size), size > 1 ? 1 : y);
  // Near 0 the inverse of erfc has lost precision.
  Wide x = y * std::sqrt(kPi) / 2;
  for (int step = 0; step < 60 && x != 0; ++step) {
    Wide off = (std::erf(x) - y) / (2 / std::sqrt(kPi) * std::exp(-x * x));
    Wide moved = off / (1 + x * off);
    x -= moved;
    if (std::fabs(moved) <= 1e-19L * std::fabs(x))
      break;
  }
  return x;
}

/// exp(x²) erfc(x); for large x, where erfc underflows, by the asymptotic expansion.
static Wide erfcScaled(Wide x) {
  if (x < 50)
    return std::exp(x * x) * std::erfc(x);
  Wide term = 1, sum = 1, step = 1 / (2 * x * x);
  for (int k = 1; k < 12; ++k)
    sum += term *= -(2 * k - 1) * step;
  return sum / (x * std::sqrt(kPi));
}

static Wide logGamma(Wide x) {
  int sign; // the plain function would store it in a global variable
  return lgammal_r(x, &sign);
}

static Wide gammaOf(Wide x) {
  // The pole at 0 has a signed limit; the other poles have none.
  return x < 0 && x == std::floor(x) ? kNaN : std::tgamma(x);
}

static Wide normalCdf(Wide x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
static Wide normalCdfInverse(Wide p) { return -std::sqrt(2.0L) * erfcInverse(2 * p); }
static Wide besselI0(Wide x) { return besselI(0, x); }
static Wide besselI1(Wide x) { return besselI(1, x); }
static Wide besselJ0(Wide x) { return j0l(x); }
static Wide besselJ1(Wide x) { return j1l(x); }
static Wide besselY0(Wide x) { return x < 0 ? kNaN : y0l(x); }
static Wide besselY1(Wide x) { return x < 0 ? kNaN : y1l(x); }
static Wide logB(Wide x) { return std::logb(x); }

template <typename T, Wide (*function)(Wide)> static T ofOne(T x) { return T(function(x)); }

template <typename T> static T besselJ(int32_t order, T x) {
  return order < 0 ? std::numeric_limits<T>::quiet_NaN() : T(jnl(order, x));
}

template <typename T> static T besselY(int32_t order, T x) {
  return order < 0 || x < 0 ? std::numeric_limits<T>::quiet_NaN() : T(ynl(order, x));
}

template <typename T> static int32_t exponentOf(T x) {
  if (std::isinf(x))
    return INT32_MAX;
  return x == 0 || std::isnan(x) ? INT32_MIN : int32_t(std::ilogb(x));
}

/// The upper 32 bits of a reciprocal.
static double reciprocalUpper(double x) {
  double result = 1 / x;
  uint64_t bits;
  std::memcpy(&bits, &result, sizeof bits);
  bits &= ~uint64_t(0xffffffff);
  std::memcpy(&result, &bits, sizeof bits);
  return result;
}

//===-- Functions of several numbers -----------------------------------------------------------------------------===//

/// The length of a vector: infinite if any component is, whatever the others are.
template <typename... Parts> static Wide lengthOf(Parts... parts) {
  if ((std::isinf(parts) || ...))
    return kInfinity;
  return std::sqrt((Wide(0) + ... + (Wide(parts) * parts)));
}

template <typename T, typename... Parts> static T length(Parts... parts) { return T(lengthOf(parts...)); }

template <typename T, typename... Parts> static T inverseLength(Parts... parts) { return T(1 / lengthOf(parts...)); }

template <typename T> static T next(T x, T y) { return std::nextafter(x, y); }

template <typename T> static T remainderOf(T x, T y) { return std::remainder(x, y); }

//===-- Arithmetic with a direction ------------------------------------------------------------------------------===//

namespace {
struct Rounding {
  int before = std::fegetround();
  explicit Rounding(int mode) { std::fesetround(mode); }
  ~Rounding() { std::fesetround(before); }
};

// Operands and result are volatile, so that the operation stays between the two changes of the rounding mode.
template <typename T, int mode, T (*operation)(volatile T &, volatile T &, volatile T &)> struct Directed {
  static T one(T x) { return run(x, 0, 0); }
  static T two(T x, T y) { return run(x, y, 0); }
  static T three(T x, T y, T z) { return run(x, y, z); }
  static T run(T x, T y, T z) {
    volatile T a = x, b = y, c = z;
    Rounding rounding(mode);
    volatile T result = operation(a, b, c);
    return result;
  }
};
} // namespace

template <typename T> static T add(volatile T &x, volatile T &y, volatile T &) { return x + y; }
template <typename T> static T subtract(volatile T &x, volatile T &y, volatile T &) { return x - y; }
template <typename T> static T multiply(volatile T &x, volatile T &y, volatile T &) { return x * y; }
template <typename T> static T divide(volatile T &x, volatile T &y, volatile T &) { return x / y; }
template <typename T> static T multiplyAdd(volatile T &x, volatile T &y, volatile T &z) { return std::fma(x, y, z); }
template <typename T> static T invert(volatile T &x, volatile T &, volatile T &) { return T(1) / x; }
template <typename T> static T root(volatile T &x, volatile T &, volatile T &) { return std::sqrt(x); }

template <typename To, typename From, int mode> static To convert(From x) {
  volatile From value = x;
  Rounding rounding(mode);
  volatile To result = To(value);
  return result;
}

//===-- The table ------------------------------------------------------------------------------------------------===//

#define KILN_ONE(X, NAME, FUNCTION)                                                                                    \
  X("__nv_" NAME "f", (ofOne<float, FUNCTION>)) X("__nv_" NAME, (ofOne<double, FUNCTION>))
#define KILN_EACH_WAY(X, NAME, T, OPERATION, ARITY)                                                                    \
  X("__nv_" NAME "_rd", (Directed<T, FE_DOWNWARD, OPERATION<T>>::ARITY))                                               \
  X("__nv_" NAME "_rn", (Directed<T, FE_TONEAREST, OPERATION<T>>::ARITY))                                              \
  X("__nv_" NAME "_ru", (Directed<T, FE_UPWARD, OPERATION<T>>::ARITY))                                                 \
  X("__nv_" NAME "_rz", (Directed<T, FE_TOWARDZERO, OPERATION<T>>::ARITY))
#define KILN_CONVERT(X, NAME, TO, FROM)                                                                                \
  X("__nv_" NAME "_rd", (convert<TO, FROM, FE_DOWNWARD>))                                                              \
  X("__nv_" NAME "_rn", (convert<TO, FROM, FE_TONEAREST>))                                                             \
  X("__nv_" NAME "_ru", (convert<TO, FROM, FE_UPWARD>))                                                                \
  X("__nv_" NAME "_rz", (convert<TO, FROM, FE_TOWARDZERO>))

/// Every function, as X(its symbol, the function).
#define KILN_HOST_LIBRARY(X)                                                                                           \
  KILN_ONE(X, "cospi", cosPi)                                                                                          \
  KILN_ONE(X, "cyl_bessel_i0", besselI0)                                                                               \
  KILN_ONE(X, "cyl_bessel_i1", besselI1)                                                                               \
  KILN_ONE(X, "erfcinv", erfcInverse)                                                                                  \
  KILN_ONE(X, "erfcx", erfcScaled)                                                                                     \
  KILN_ONE(X, "erfinv", erfInverse)                                                                                    \
  KILN_ONE(X, "j0", besselJ0)                                                                                          \
  KILN_ONE(X, "j1", besselJ1)                                                                                          \
  KILN_ONE(X, "lgamma", logGamma)                                                                                      \
  KILN_ONE(X, "logb", logB)                                                                                            \
  KILN_ONE(X, "normcdf", normalCdf)                                                                                    \
  KILN_ONE(X, "normcdfinv", normalCdfInverse)                                                                          \
  KILN_ONE(X, "sinpi", sinPi)                                                                                          \
  KILN_ONE(X, "tgamma", gammaOf)                                                                                       \
  KILN_ONE(X, "y0", besselY0)                                                                                          \
  KILN_ONE(X, "y1", besselY1)                                                                                          \
  X("__nv_nextafterf", (next<float>))                                                                                  \
  X("__nv_nextafter", (next<double>))                                                                                  \
  X("__nv_remainderf", (remainderOf<float>))                                                                           \
  X("__nv_remainder", (remainderOf<double>))                                                                           \
  X("__nv_rhypotf", (inverseLength<float, float, float>))                                                              \
  X("__nv_rhypot", (inverseLength<double, double, double>))                                                            \
  X("__nv_norm3df", (length<float, float, float, float>))                                                              \
  X("__nv_norm3d", (length<double, double, double, double>))                                                           \
  X("__nv_rnorm3df", (inverseLength<float, float, float, float>))                                                      \
  X("__nv_rnorm3d", (inverseLength<double, double, double, double>))                                                   \
  X("__nv_norm4df", (length<float, float, float, float, float>))                                                       \
  X("__nv_norm4d", (length<double, double, double, double, double>))                                                   \
  X("__nv_rnorm4df", (inverseLength<float, float, float, float, float>))                                               \
  X("__nv_rnorm4d", (inverseLength<double, double, double, double, double>))                                           \
  X("__nv_jnf", (besselJ<float>))                                                                                      \
  X("__nv_jn", (besselJ<double>))                                                                                      \
  X("__nv_ynf", (besselY<float>))                                                                                      \
  X("__nv_yn", (besselY<double>))                                                                                      \
  X("__nv_ilogbf", (exponentOf<float>))                                                                                \
  X("__nv_ilogb", (exponentOf<double>))                                                                                \
  X("__nv_rcp64h", (reciprocalUpper))                                                                                  \
  KILN_EACH_WAY(X, "fadd", float, add, two)                                                                            \
  KILN_EACH_WAY(X, "dadd", double, add, two)                                                                           \
  KILN_EACH_WAY(X, "fsub", float, subtract, two)                                                                       \
  KILN_EACH_WAY(X, "dsub", double, subtract, two)                                                                      \
  KILN_EACH_WAY(X, "fmul", float, multiply, two)                                                                       \
  KILN_EACH_WAY(X, "dmul", double, multiply, two)                                                                      \
  KILN_EACH_WAY(X, "fdiv", float, divide, two)                                                                         \
  KILN_EACH_WAY(X, "ddiv", double, divide, two)                                                                        \
  KILN_EACH_WAY(X, "fmaf", float, multiplyAdd, three)                                                                  \
  KILN_EACH_WAY(X, "fma", double, multiplyAdd, three)                                                                  \
  KILN_EACH_WAY(X, "frcp", float, invert, one)                                                                         \
  KILN_EACH_WAY(X, "drcp", double, invert, one)                                                                        \
  KILN_EACH_WAY(X, "fsqrt", float, root, one)                                                                          \
  KILN_EACH_WAY(X, "dsqrt", double, root, one)                                                                         \
  KILN_CONVERT(X, "double2float", float, double)                                                                       \
  KILN_CONVERT(X, "int2float", float, int32_t)                                                                         \
  KILN_CONVERT(X, "uint2float", float, uint32_t)                                                                       \
  KILN_CONVERT(X, "ll2float", float, int64_t)                                                                          \
  KILN_CONVERT(X, "ull2float", float, uint64_t)                                                                        \
  KILN_CONVERT(X, "ll2double", double, int64_t)                                                                        \
  KILN_CONVERT(X, "ull2double", double, uint64_t)

template <typename Function> static void *address(Function *function) { return reinterpret_cast<void *>(function); }

const std::vector<std::pair<const char *, void *>> &kiln::device::getHostLibrary() {
#define KILN_ENTRY(SYMBOL, FUNCTION) {SYMBOL, address(&FUNCTION)},
  static const std::vector<std::pair<const char *, void *>> table = {KILN_HOST_LIBRARY(KILN_ENTRY)};
#undef KILN_ENTRY
  return table;
}

// The same names as linker symbols: an exported object of the CPU target refers to them.
[[gnu::used, gnu::noinline]] static void nameForLinker() {
#define KILN_NAME(SYMBOL, FUNCTION)                                                                                    \
  asm volatile(".globl " SYMBOL "\n.type " SYMBOL ", @function\n.set " SYMBOL ", %c0" ::"i"(&FUNCTION));
  KILN_HOST_LIBRARY(KILN_NAME)
#undef KILN_NAME
}
