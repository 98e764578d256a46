// Layouts as text: the constructor form where one fits, else the digits of each coordinate. Prints and parses both.
//
//   blocked [128, 64] order [1, 0] vector 4 warps 4 (groups 2) (ctas 2) (split 0)
//   replicated [64] warps 4          mma_acc [64, 64] warps 2x2       mma_a|mma_b [64, 32] bits 16 warps 2x2
//   wgmma_acc [192, 176] groups 3    wgmma_a [128, 64] bits 16 groups 2
//   row_major [64, 64] order [1, 0]  swizzled [64, 64] order [1, 0] element 2 bytes 128
//   digits [3, 4] reg 3*(1, 0) lane (0, 1) (0, 2)
// The forms of fragments and of shared memory may end in "ctas 2" or "ctas 2 split 0".
#include "dialects/layout/Constructors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"
#include <numeric>

using namespace llvm;

namespace kiln::layout {

//===-- Print ----------------------------------------------------------------------------------------------------===//

template <typename Range> static std::string listed(const Range &values) {
  std::string text;
  raw_string_ostream os(text);
  llvm::interleaveComma(values, os);
  return text;
}

static SmallVector<int32_t, 3> lastFastest(unsigned rank) {
  SmallVector<int32_t, 3> order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

/// " order [..]" unless the last dimension is the fastest.
static std::string orderText(ArrayRef<int32_t> order) {
  return order == ArrayRef<int32_t>(lastFastest(order.size())) ? "" : " order [" + listed(order) + "]";
}

/// Calls `visit` on orders of the dimensions, the natural one first, until it returns true. For high ranks it tries
/// only the natural order.
static bool anyOrder(unsigned rank, function_ref<bool(ArrayRef<int32_t>)> visit) {
  SmallVector<int32_t, 3> order = lastFastest(rank);
  if (visit(order))
    return true;
  if (rank > 4)
    return false;
  std::sort(order.begin(), order.end());
  do {
    if (order != lastFastest(rank) && visit(order))
      return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

static std::string threadsText(const Threads &threads) {
  std::string text = " warps " + std::to_string(threads.warps);
  if (threads.groups != 1)
    text += " groups " + std::to_string(threads.groups);
  if (threads.ctas != 1)
    text += " ctas " + std::to_string(threads.ctas);
  return text;
}

/// How a cluster's tile is made of pieces: " ctas 2 split 0", or " ctas 2" where each cta has the whole.
static std::string clusterText(int64_t ctas, std::optional<unsigned> split) {
  return " ctas " + std::to_string(ctas) + (split ? " split " + std::to_string(*split) : "");
}

/// The text of one cta's piece, with the shape of the whole tile.
static std::string ofCluster(const Layout &layout, std::string (*formOf)(const Layout &)) {
  std::optional<ClusterPiece> piece = pieceOf(layout);
  std::string text = piece ? formOf(piece->piece) : "";
  if (text.empty())
    return "";
  size_t open = text.find('['), close = text.find(']');
  return text.substr(0, open + 1) + listed(layout.shape()) + text.substr(close) +
         clusterText(layout.size(Coord::Cta), piece->split);
}

static std::string memoryForm(const Layout &layout) {
  if (layout.size(Coord::Cta) != 1)
    return ofCluster(layout, memoryForm);
  std::string text;
  anyOrder(layout.rank(), [&](ArrayRef<int32_t> order) {
    if (rowMajor(layout.shape(), order) == layout) {
      text = "row_major [" + listed(layout.shape()) + "]" + orderText(order);
      return true;
    }
    for (int64_t element : {2, 1, 4, 8})
      for (int64_t bytes : {128, 64, 32}) {
        std::optional<Layout> candidate = swizzled(layout.shape(), order, element, bytes);
        if (candidate && *candidate == layout) {
          text = "swizzled [" + listed(layout.shape()) + "]" + orderText(order) + " element " +
                 std::to_string(element) + " bytes " + std::to_string(bytes);
          return true;
        }
      }
    return false;
  });
  return text;
}

static std::string fragmentForm(const Layout &layout) {
  if (layout.size(Coord::Cta) != 1)
    return ofCluster(layout, fragmentForm);
  if (layout.rank() < 2)
    return "";
  std::string shape = " [" + listed(layout.shape()) + "]";
  int64_t warps = layout.size(Coord::Warp), groups = layout.size(Coord::Group);
  auto is = [&](const std::optional<Layout> &candidate) { return candidate && *candidate == layout; };
  for (int64_t m = 1; groups == 1 && m <= warps; m *= 2) {
    std::string split = " warps " + std::to_string(m) + "x" + std::to_string(warps / m);
    if (is(mmaAccumulator(layout.shape(), m, warps / m)))
      return "mma_acc" + shape + split;
    for (unsigned bits : {16, 8, 32, 4})
      for (unsigned side : {0, 1})
        if (is(mmaOperand(layout.shape(), side, bits, m, warps / m)))
          return (side == 0 ? "mma_a" : "mma_b") + shape + " bits " + std::to_string(bits) + split;
  }
  if (warps != 4)
    return "";
  if (is(wgmmaAccumulator(layout.shape(), groups)))
    return "wgmma_acc" + shape + " groups " + std::to_string(groups);
  for (unsigned bits : {16, 8, 32, 4})
    if (is(wgmmaOperandA(layout.shape(), bits, groups)))
      return "wgmma_a" + shape + " bits " + std::to_string(bits) + " groups " + std::to_string(groups);
  return "";
}

static std::string streamingForm(const Layout &layout) {
  Threads threads = threadsOf(layout);
  std::string shape = " [" + listed(layout.shape()) + "]";
  std::string text;
  if (replicated(layout.shape(), threads) == layout)
    return "replicated" + shape + threadsText(threads);
  anyOrder(layout.rank(), [&](ArrayRef<int32_t> order) {
    for (int64_t vector = 1; vector <= layout.registers(); vector *= 2)
      for (unsigned split = 0; split < (threads.ctas > 1 ? layout.rank() + 1 : 1); ++split) {
        std::optional<unsigned> dim = split ? std::optional<unsigned>(split - 1) : std::nullopt;
        if (blocked(layout.shape(), order, vector, threads, dim) != layout)
          continue;
        text = "blocked" + shape + orderText(order) + " vector " + std::to_string(vector) + threadsText(threads);
        if (dim)
          text += " split " + std::to_string(*dim);
        return true;
      }
    return false;
  });
  return text;
}

static std::string digitsForm(const Layout &layout) {
  std::string text = "digits [" + listed(layout.shape()) + "]";
  for (unsigned c = 0; c < kNumCoords; ++c) {
    ArrayRef<Digit> digits = layout.digits(Coord(c));
    if (digits.empty())
      continue;
    text += " " + coordName(Coord(c)).str();
    for (const Digit &digit : digits) {
      text += " ";
      if (digit.radix != 2)
        text += std::to_string(digit.radix) + "*";
      text += "(" + listed(digit.basis) + ")";
    }
  }
  return text;
}

std::string Layout::print() const {
  std::string text;
  bool threads = size(Coord::Lane) == 32 && isPowerOf2_64(size(Coord::Warp)) && isPowerOf2_64(size(Coord::Cta));
  bool offsets = !digits(Coord::Offset).empty();
  bool onlyOffsets =
      offsets && registers() == 1 && size(Coord::Lane) == 1 && size(Coord::Warp) == 1 && size(Coord::Group) == 1;
  if (onlyOffsets)
    text = memoryForm(*this);
  else if (threads && !offsets && splitSide(size(Coord::Group)))
    text = streamingForm(*this);
  if (text.empty() && threads && !offsets)
    text = fragmentForm(*this);
  return text.empty() ? digitsForm(*this) : text;
}

//===-- Parse ----------------------------------------------------------------------------------------------------===//

namespace {
/// Reads the text word by word; keeps the first error.
struct Reader {
  StringRef rest;
  std::string error;

  bool fail(const Twine &text) {
    if (error.empty())
      error = text.str();
    return false;
  }
  void skipSpace() { rest = rest.ltrim(); }
  bool accept(StringRef token) {
    skipSpace();
    return rest.consume_front(token);
  }
  bool expect(StringRef token) {
    return accept(token) || fail("expected '" + token + "', got '" + rest.take_front(12) + "'");
  }
  StringRef word() {
    skipSpace();
    StringRef text = rest.take_while([](char c) { return isAlnum(c) || c == '_'; });
    rest = rest.drop_front(text.size());
    return text;
  }
  bool integer(int64_t &value) {
    skipSpace();
    // Ten digits suffice for every side, step and count, and no sum of such numbers overflows.
    StringRef text = rest.take_while([](char c) { return isDigit(c); });
    if (text.empty() || text.size() > 10 || text.getAsInteger(10, value))
      return fail("expected a number, got '" + rest.take_front(12) + "'");
    rest = rest.drop_front(text.size());
    return true;
  }
  template <typename T, unsigned N> bool list(StringRef open, StringRef close, SmallVector<T, N> &values) {
    if (!expect(open))
      return false;
    if (accept(close))
      return true;
    do {
      int64_t value = 0;
      if (!integer(value))
        return false;
      values.push_back(T(value));
    } while (accept(","));
    return expect(close);
  }
};

/// The options that may follow the shape of a constructor.
struct Options {
  SmallVector<int32_t, 3> order;
  int64_t vector = 1, bits = 16, element = 2, bytes = 128, warpsM = 1, warpsN = 1;
  Threads threads;
  std::optional<unsigned> split;
};
} // namespace

static bool parseOptions(Reader &in, unsigned rank, Options &options) {
  options.order = lastFastest(rank);
  for (in.skipSpace(); !in.rest.empty(); in.skipSpace()) {
    StringRef key = in.word();
    int64_t value = 0;
    if (key == "order") {
      options.order.clear();
      if (!in.list("[", "]", options.order))
        return false;
      SmallVector<int32_t, 3> sorted(options.order), all = lastFastest(rank);
      llvm::sort(sorted);
      std::reverse(all.begin(), all.end());
      if (sorted != all)
        return in.fail("expected order to name each of " + Twine(rank) + " dimensions once");
      continue;
    }
    if (!StringSwitch<bool>(key)
             .Cases({"vector", "bits", "element", "bytes", "warps", "groups", "ctas", "split"}, true)
             .Default(false))
      return in.fail("expected order, vector, bits, element, bytes, warps, groups, ctas or split, got '" +
                     (key.empty() ? in.rest.take_front(12) : key) + "'");
    if (!in.integer(value))
      return false;
    bool power = isPowerOf2_64(value) && value <= 1024;
    if (key == "split") {
      if (value >= rank)
        return in.fail("expected split to name one of " + Twine(rank) + " dimensions, got " + Twine(value));
      options.split = unsigned(value);
    } else if (key == "groups") {
      std::optional<Side> parts = splitSide(value);
      if (!parts || parts->power > 32)
        return in.fail("expected groups 2^k * m with m odd and at most 31, got " + Twine(value));
      options.threads.groups = value;
    } else if (!power) {
      return in.fail("expected " + key + " to be a power of two up to 1024, got " + Twine(value));
    } else if (key == "vector") {
      options.vector = value;
    } else if (key == "bits") {
      options.bits = value;
    } else if (key == "element") {
      options.element = value;
    } else if (key == "bytes") {
      options.bytes = value;
    } else if (key == "ctas") {
      options.threads.ctas = value;
    } else {
      options.threads.warps = options.warpsM = value;
      if (in.rest.starts_with("x") && in.accept("x")) {
        if (!in.integer(options.warpsN))
          return false;
        if (!isPowerOf2_64(options.warpsN) || options.warpsN > 1024)
          return in.fail("expected warps to be powers of two up to 1024, got " + Twine(options.warpsN));
      }
    }
  }
  return true;
}

static std::optional<Layout> parseDigits(Reader &in, ArrayRef<int64_t> shape) {
  std::array<Digits, kNumCoords> digits;
  Digits *current = nullptr;
  for (in.skipSpace(); !in.rest.empty(); in.skipSpace()) {
    if (isAlpha(in.rest.front())) {
      StringRef name = in.word();
      current = nullptr;
      for (unsigned c = 0; c < kNumCoords; ++c)
        if (coordName(Coord(c)) == name)
          current = &digits[c];
      if (!current || !current->empty()) {
        in.fail("expected reg, lane, warp, group, cta or offset, each once, got '" + name + "'");
        return std::nullopt;
      }
      continue;
    }
    Digit digit;
    if (isDigit(in.rest.front()) && (!in.integer(digit.radix) || !in.expect("*")))
      return std::nullopt;
    if (!in.list("(", ")", digit.basis))
      return std::nullopt;
    if (!current) {
      in.fail("expected a coordinate before its digits");
      return std::nullopt;
    }
    current->push_back(digit);
  }
  return Layout::create(shape, digits, &in.error);
}

static std::optional<Layout> parseForm(Reader &in) {
  StringRef name = in.word();
  bool known = StringSwitch<bool>(name)
                   .Cases({"blocked", "replicated", "mma_acc", "mma_a", "mma_b", "wgmma_acc", "wgmma_a"}, true)
                   .Cases({"row_major", "swizzled", "digits"}, true)
                   .Default(false);
  if (!known) {
    in.fail("expected blocked, replicated, mma_acc, mma_a, mma_b, wgmma_acc, wgmma_a, row_major, swizzled or digits, "
            "got '" +
            (name.empty() ? in.rest.take_front(12) : name) + "'");
    return std::nullopt;
  }
  SmallVector<int64_t, 3> shape;
  if (!in.list("[", "]", shape))
    return std::nullopt;
  int64_t elements = 1;
  for (int64_t side : shape) {
    if (!splitSide(side) || side > int64_t(1) << 31 || (elements *= side) > int64_t(1) << 31) {
      in.fail("expected sides 2^k * m with m odd and at most 31, and less than 2^31 elements, got " + Twine(side));
      return std::nullopt;
    }
  }
  if (name == "digits")
    return parseDigits(in, shape);
  Options options;
  if (!parseOptions(in, shape.size(), options))
    return std::nullopt;
  auto fits = [&](std::optional<Layout> layout) {
    if (!layout)
      in.fail("expected a shape that " + name + " fits, got [" + listed(shape) + "]");
    return layout;
  };
  if (name == "blocked")
    return blocked(shape, options.order, options.vector, options.threads, options.split);
  if (name == "replicated")
    return replicated(shape, options.threads);
  int64_t ctas = options.threads.ctas;
  SmallVector<int64_t, 3> piece(shape);
  if (options.split)
    piece[*options.split] /= ctas;
  auto whole = [&](std::optional<Layout> one) {
    std::optional<Layout> layout = one && ctas > 1 ? inCluster(*one, ctas, options.split) : one;
    return fits(layout && ArrayRef(layout->shape()) == ArrayRef(shape) ? layout : std::nullopt);
  };
  if (name == "row_major")
    return whole(rowMajor(piece, options.order));
  if (name == "swizzled")
    return whole(swizzled(piece, options.order, options.element, options.bytes));
  if (name == "mma_acc")
    return whole(mmaAccumulator(piece, options.warpsM, options.warpsN));
  if (name == "wgmma_acc")
    return whole(wgmmaAccumulator(piece, options.threads.groups));
  if (name == "wgmma_a")
    return whole(wgmmaOperandA(piece, options.bits, options.threads.groups));
  return whole(mmaOperand(piece, name == "mma_a" ? 0 : 1, options.bits, options.warpsM, options.warpsN));
}

std::optional<Layout> Layout::parse(StringRef text, std::string *error) {
  Reader in{text, {}};
  std::optional<Layout> layout = parseForm(in);
  if (!layout && error)
    *error = in.error;
  return layout;
}

} // namespace kiln::layout
