// Instructions of the emulator that touch only the registers of one warp, and branches that its lanes take together:
// native.py encodes them, and machine.py runs all others. Each does bit for bit what its Python function does.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
constexpr int warpSize = 32;
constexpr uint32_t everyLane = 0xFFFFFFFF;

// As in native.py.
enum Operation : int32_t {
  Nothing, // not encoded: Python runs it
  Branch,
  Argument,
  Move,
  Split,
  Join,
  Convert,
  Halves,
  Add,
  Subtract,
  Multiply,
  MultiplyAdd,
  FusedMultiplyAdd,
  MultiplyWide,
  MultiplyHigh,
  Minimum,
  Maximum,
  Negate,
  Absolute,
  And,
  Or,
  Xor,
  Not,
  ShiftLeft,
  ShiftRight,
  Compare,
  Select,
  Extract,
  Permute,
  Funnel,
};
enum Kind : int32_t { U8, U16, U32, U64, S8, S16, S32, S64, F32, F64, Predicate };
enum Comparison : int32_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };
enum Joint : int32_t { Alone, WithAnd, WithOr, WithXor };

/// Rows are registers; a row that is not there is -1. `more` is the operation's own.
struct Step {
  int32_t operation, kind, to, a, b, c, predicate, negated, more, other;
};

struct Context {
  const Step *steps;
  uint64_t *table; ///< of each register, a value of 64 bits per thread
  int64_t threads;
  const uint8_t *arguments;
};

struct Warp {
  uint64_t *table;
  int64_t threads;
  const uint8_t *arguments;

  template <typename T> T get(int32_t row, int lane) const {
    T value;
    std::memcpy(&value, table + row * threads + lane, sizeof(T));
    return value;
  }
  /// A narrow value leaves the rest of its register as it is.
  template <typename T> void put(int32_t row, int lane, T value) {
    std::memcpy(table + row * threads + lane, &value, sizeof(T));
  }
  uint32_t lanesThat(int32_t predicate, bool hold) const {
    uint32_t mask = 0;
    for (int lane = 0; lane < warpSize; ++lane)
      mask |= uint32_t((get<uint8_t>(predicate, lane) != 0) == hold) << lane;
    return mask;
  }
};

template <typename T, typename Function> void forEach(Warp &warp, int32_t to, uint32_t mask, Function function) {
  if (mask == everyLane) {
    for (int lane = 0; lane < warpSize; ++lane)
      warp.put<T>(to, lane, T(function(lane)));
    return;
  }
  for (int lane = 0; lane < warpSize; ++lane)
    if (mask >> lane & 1)
      warp.put<T>(to, lane, T(function(lane)));
}

/// All 64 bits of an integer, extended by its sign if it has one, so that arithmetic wraps around.
template <typename T> uint64_t bits(T value) {
  if constexpr (std::is_signed_v<T>)
    return uint64_t(int64_t(value));
  else
    return value;
}

/// Calls `function` with a value of the kind's type.
template <typename Function> void asInteger(int32_t kind, Function function) {
  switch (kind) {
  case U8:
    return function(uint8_t());
  case U16:
    return function(uint16_t());
  case U32:
    return function(uint32_t());
  case U64:
    return function(uint64_t());
  case S8:
    return function(int8_t());
  case S16:
    return function(int16_t());
  case S32:
    return function(int32_t());
  case S64:
    return function(int64_t());
  }
}

template <typename Function> void asNumber(int32_t kind, Function function) {
  if (kind == F32)
    function(float());
  else if (kind == F64)
    function(double());
  else
    asInteger(kind, function);
}

template <typename T> bool compare(int32_t comparison, T a, T b) {
  switch (comparison) {
  case Equal:
    return a == b;
  case NotEqual:
    return a != b;
  case Less:
    return a < b;
  case LessEqual:
    return a <= b;
  case Greater:
    return a > b;
  default:
    return a >= b;
  }
}

/// The result of an operation on floating-point numbers that is no number.
template <typename T> T canonicalNan() {
  T value;
  std::memset(&value, 0xFF, sizeof(T));
  return -value; // 0x7FF...
}

/// -0 is less than +0. With one NaN, the other operand.
template <typename T> T extremum(T x, T y, bool least) {
  if (std::isnan(x))
    return y;
  if (std::isnan(y))
    return x;
  if (x == 0 && y == 0)
    return (least ? std::signbit(x) || std::signbit(y) : std::signbit(x) && std::signbit(y)) ? T(-0.0) : T(0.0);
  return (least ? x < y : x > y) ? x : y;
}

/// The float16 nearest to a float32, or the even one of two.
uint16_t toHalf(float number) {
  uint32_t word;
  std::memcpy(&word, &number, sizeof(word));
  uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) // quiet
    return sign | 0x7E00 | (magnitude >> 13 & 0x3FF);
  if (magnitude >= 0x477FF000) // from here on rounded to infinity
    return sign | 0x7C00;
  if (magnitude < 0x38800000) // multiples of 2^-24
    return sign | uint32_t(std::nearbyint(std::fabs(number) * 0x1p24f));
  magnitude += 0xFFF + (magnitude >> 13 & 1);
  return sign | (magnitude - (112u << 23)) >> 13;
}

template <typename T> void arithmetic(Warp &warp, const Step &step, uint32_t mask) {
  auto two = [&](auto function) {
    forEach<T>(warp, step.to, mask,
               [&](int lane) { return function(warp.get<T>(step.a, lane), warp.get<T>(step.b, lane)); });
  };
  auto one = [&](auto function) {
    forEach<T>(warp, step.to, mask, [&](int lane) { return function(warp.get<T>(step.a, lane)); });
  };
  if constexpr (std::is_floating_point_v<T>) {
    switch (step.operation) {
    case Add:
      return two([](T x, T y) { return x + y; });
    case Subtract:
      return two([](T x, T y) { return x - y; });
    case Multiply:
      return two([](T x, T y) { return x * y; });
    case FusedMultiplyAdd:
      return forEach<T>(warp, step.to, mask, [&](int lane) {
        T sum = std::fma(warp.get<T>(step.a, lane), warp.get<T>(step.b, lane), warp.get<T>(step.c, lane));
        return std::isnan(sum) ? canonicalNan<T>() : sum;
      });
    case Minimum:
    case Maximum:
      return two([&](T x, T y) { return extremum(x, y, step.operation == Minimum); });
    case Negate:
      return one([](T x) { return -x; });
    case Absolute:
      return one([](T x) { return std::fabs(x); });
    }
  } else {
    switch (step.operation) {
    case Add:
      return two([](T x, T y) { return bits(x) + bits(y); });
    case Subtract:
      return two([](T x, T y) { return bits(x) - bits(y); });
    case Multiply:
      return two([](T x, T y) { return bits(x) * bits(y); });
    case MultiplyAdd:
      return forEach<T>(warp, step.to, mask, [&](int lane) {
        return bits(warp.get<T>(step.a, lane)) * bits(warp.get<T>(step.b, lane)) + bits(warp.get<T>(step.c, lane));
      });
    case Minimum:
      return two([](T x, T y) { return x < y ? x : y; });
    case Maximum:
      return two([](T x, T y) { return x > y ? x : y; });
    case Negate:
      return one([](T x) { return 0 - bits(x); });
    case Absolute:
      return one([](T x) { return x < 0 ? 0 - bits(x) : bits(x); });
    }
  }
}

void multiplyWide(Warp &warp, const Step &step, uint32_t mask) {
  asInteger(step.kind, [&](auto narrow) {
    asInteger(step.more, [&](auto wide) {
      using Narrow = decltype(narrow);
      using Wide = decltype(wide);
      forEach<Wide>(warp, step.to, mask, [&](int lane) {
        uint64_t product = bits(warp.get<Narrow>(step.a, lane)) * bits(warp.get<Narrow>(step.b, lane));
        return step.c < 0 ? product : product + bits(warp.get<Wide>(step.c, lane));
      });
    });
  });
}

void multiplyHigh(Warp &warp, const Step &step, uint32_t mask) {
  asInteger(step.kind, [&](auto number) {
    using T = decltype(number);
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    forEach<T>(warp, step.to, mask, [&](int lane) {
      Wide product = Wide(warp.get<T>(step.a, lane)) * Wide(warp.get<T>(step.b, lane));
      uint64_t high = uint64_t(product >> (8 * sizeof(T)));
      return step.c < 0 ? high : high + bits(warp.get<T>(step.c, lane));
    });
  });
}

void compareStep(Warp &warp, const Step &step, uint32_t mask) {
  int32_t comparison = step.more & 7, joint = step.more >> 3 & 3;
  bool unordered = step.more >> 5 & 1, notLast = step.more >> 6 & 1;
  auto join = [&](int lane, bool result) {
    bool last = joint != Alone && (warp.get<uint8_t>(step.c, lane) != 0) != notLast;
    return joint == WithAnd ? result && last : joint == WithOr ? result || last : result != last;
  };
  asNumber(step.kind, [&](auto number) {
    using T = decltype(number);
    forEach<uint8_t>(warp, step.to, mask, [&](int lane) {
      T a = warp.get<T>(step.a, lane), b = warp.get<T>(step.b, lane);
      bool result = compare(comparison, a, b);
      if constexpr (std::is_floating_point_v<T>)
        if (std::isnan(a) || std::isnan(b))
          result = unordered;
      return join(lane, result);
    });
  });
}

void extract(Warp &warp, const Step &step, uint32_t mask) {
  asInteger(step.kind, [&](auto number) {
    using T = decltype(number);
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t width = 8 * sizeof(T);
    forEach<U>(warp, step.to, mask, [&](int lane) {
      U x = warp.get<U>(step.a, lane);
      uint32_t at = warp.get<uint32_t>(step.b, lane) & 255, count = warp.get<uint32_t>(step.c, lane) & 255;
      count = count < width ? count : width;
      auto low = [](uint32_t n) { return n >= width ? U(~U(0)) : U((U(1) << n) - 1); };
      U result = at < width ? U((x >> at) & low(count)) : U(0);
      if (std::is_signed_v<T> && count) {
        uint32_t last = at + count - 1 < width - 1 ? at + count - 1 : width - 1;
        uint32_t filled = at + count <= width ? count : at < width ? width - at : 0;
        if (x >> last & 1)
          result |= U(~low(filled));
      }
      return result;
    });
  });
}

uint32_t permuted(uint32_t low, uint32_t high, uint32_t selector) {
  uint64_t both = uint64_t(high) << 32 | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t pick = selector >> (4 * i) & 15, byte = uint32_t(both >> (8 * (pick & 7))) & 255;
    result |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return result;
}

void execute(Warp &warp, const Step &step, uint32_t mask) {
  auto get32 = [&](int32_t row, int lane) { return warp.get<uint32_t>(row, lane); };
  auto logic = [&](auto function) {
    asInteger(step.kind, [&](auto number) {
      using T = decltype(number);
      forEach<T>(warp, step.to, mask,
                 [&](int lane) { return function(warp.get<T>(step.a, lane), warp.get<T>(step.b, lane)); });
    });
  };
  switch (step.operation) {
  case Argument:
    return asInteger(step.kind, [&](auto number) {
      std::memcpy(&number, warp.arguments + step.a, sizeof(number));
      forEach<uint64_t>(warp, step.to, mask, [&](int) { return bits(number); });
    });
  case Move:
    if (step.kind == Predicate)
      return forEach<uint8_t>(warp, step.to, mask, [&](int lane) { return warp.get<uint8_t>(step.a, lane) != 0; });
    return asInteger(step.kind, [&](auto number) {
      forEach<decltype(number)>(warp, step.to, mask,
                                [&](int lane) { return warp.get<decltype(number)>(step.a, lane); });
    });
  case Split: // `more`: the bits of a half, whose kind is the step's
    return asInteger(step.kind, [&](auto half) {
      using Half = decltype(half);
      for (int lane = 0; lane < warpSize; ++lane) {
        if (!(mask >> lane & 1))
          continue;
        uint64_t value = warp.get<uint64_t>(step.a, lane);
        if (step.to >= 0)
          warp.put<Half>(step.to, lane, Half(value));
        if (step.b >= 0)
          warp.put<Half>(step.b, lane, Half(value >> step.more));
      }
    });
  case Join:
    return asInteger(step.kind, [&](auto half) {
      asInteger(step.other, [&](auto whole) {
        using Half = decltype(half);
        forEach<decltype(whole)>(warp, step.to, mask, [&](int lane) {
          return bits(warp.get<Half>(step.a, lane)) | bits(warp.get<Half>(step.b, lane)) << step.more;
        });
      });
    });
  case Convert: // the register may be wider than the type
    return asInteger(step.kind, [&](auto from) {
      asInteger(step.more, [&](auto to) {
        forEach<uint64_t>(warp, step.to, mask,
                          [&](int lane) { return bits(decltype(to)(warp.get<decltype(from)>(step.a, lane))); });
      });
    });
  case Halves: // the low half first
    return forEach<uint32_t>(warp, step.to, mask, [&](int lane) {
      return toHalf(warp.get<float>(step.a, lane)) | uint32_t(toHalf(warp.get<float>(step.b, lane))) << 16;
    });
  case Add:
  case Subtract:
  case Multiply:
  case MultiplyAdd:
  case FusedMultiplyAdd:
  case Minimum:
  case Maximum:
  case Negate:
  case Absolute:
    return asNumber(step.kind, [&](auto number) { arithmetic<decltype(number)>(warp, step, mask); });
  case MultiplyWide:
    return multiplyWide(warp, step, mask);
  case MultiplyHigh:
    return multiplyHigh(warp, step, mask);
  case And:
    return logic([](auto x, auto y) { return x & y; });
  case Or:
    return logic([](auto x, auto y) { return x | y; });
  case Xor:
    return logic([](auto x, auto y) { return x ^ y; });
  case Not:
    if (step.kind == Predicate)
      return forEach<uint8_t>(warp, step.to, mask, [&](int lane) { return warp.get<uint8_t>(step.a, lane) == 0; });
    return asInteger(step.kind, [&](auto number) {
      forEach<decltype(number)>(warp, step.to, mask,
                                [&](int lane) { return ~bits(warp.get<decltype(number)>(step.a, lane)); });
    });
  case ShiftLeft:
  case ShiftRight:
    return asInteger(step.kind, [&](auto number) {
      using T = decltype(number);
      constexpr uint32_t width = 8 * sizeof(T);
      forEach<T>(warp, step.to, mask, [&](int lane) -> uint64_t {
        uint32_t by = get32(step.b, lane), near = by < width ? by : width - 1;
        T x = warp.get<T>(step.a, lane);
        if (step.operation == ShiftLeft)
          return by < width ? bits(x) << by : 0;
        return by < width || std::is_signed_v<T> ? bits(T(x >> near)) : 0;
      });
    });
  case Compare:
    return compareStep(warp, step, mask);
  case Select:
    return asInteger(step.kind, [&](auto number) {
      using T = decltype(number);
      forEach<T>(warp, step.to, mask, [&](int lane) {
        return warp.get<uint8_t>(step.c, lane) ? warp.get<T>(step.a, lane) : warp.get<T>(step.b, lane);
      });
    });
  case Extract:
    return extract(warp, step, mask);
  case Permute:
    return forEach<uint32_t>(warp, step.to, mask, [&](int lane) {
      return permuted(get32(step.a, lane), get32(step.b, lane), get32(step.c, lane));
    });
  case Funnel: // `more`: 1 to the right, 2 modulo 32
    return forEach<uint32_t>(warp, step.to, mask, [&](int lane) {
      uint64_t both = uint64_t(get32(step.b, lane)) << 32 | get32(step.a, lane);
      uint32_t by = get32(step.c, lane);
      by = step.more & 2 ? by & 31 : by < 32 ? by : 32;
      return step.more & 1 ? both >> by : both << by >> 32;
    });
  }
}
} // namespace

/// Runs a warp with all of its lanes from instruction `at` on, for at most `most` instructions, up to the first one
/// that is not encoded and the first branch that only some lanes take. Returns how many it ran, above the number of the
/// next.
EXPORT int64_t runNative(const Context *context, int32_t at, int32_t most, int64_t lane) {
  Warp warp{context->table + lane, context->threads, context->arguments};
  int32_t ran = 0;
  for (; ran < most; ++ran) {
    const Step &step = context->steps[at];
    if (step.operation == Nothing)
      break;
    uint32_t mask = step.predicate < 0 ? everyLane : warp.lanesThat(step.predicate, !step.negated);
    if (step.operation == Branch) {
      if (mask != 0 && mask != everyLane)
        break;
      at = mask ? step.more : at + 1;
      continue;
    }
    if (mask)
      execute(warp, step, mask);
    ++at;
  }
  return int64_t(ran) << 32 | at;
}
