// Transfer functions of the alignment analysis. Every claim must hold modulo 2^width, which is why divisors are powers
// of two. Operations that depend on magnitudes (division, comparison, widening) first cut groups so that no element
// leaves the aligned power-of-two window of its group's first element; such a window never contains a wrap.
#include "compiler/analysis/AxisTransfer.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

namespace kiln::axis {

int64_t powerOfTwoIn(int64_t value) {
  if (value == 0)
    return AxisInfo::kMaxDivisibility;
  uint64_t low = uint64_t(value) & -uint64_t(value);
  return int64_t(std::min<uint64_t>(low, AxisInfo::kMaxDivisibility));
}

int64_t wrapStep(int64_t step, unsigned width) {
  return width >= 64 ? step : llvm::SignExtend64(uint64_t(step), width);
}

static int64_t wrappingMul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
static int64_t wrappingAdd(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }

/// Product of two powers of two, capped: 2^a * 2^b divides the product of the numbers even if that wraps.
static int64_t divisibilityProduct(int64_t a, int64_t b) {
  int64_t exponent = llvm::Log2_64(a) + llvm::Log2_64(b);
  return int64_t(1) << std::min<int64_t>(exponent, 62);
}

static AxisDim makeDim(int64_t group, int64_t step, int64_t divisibility, unsigned width) {
  return {group, group == 1 ? 0 : wrapStep(step, width), divisibility};
}

AxisDim withinWindow(const AxisDim &dim, int64_t window) {
  if (dim.step == 0)
    return dim;
  if (dim.step > 0 && window <= dim.divisibility) {
    if (dim.group - 1 <= (window - 1) / dim.step) // step * (group - 1) < window
      return dim;
    // Shorter groups start at multiples of the window only if it is a whole number of steps. (They then start at
    // multiples of step * size, a divisor of the window, and do not straddle its end.)
    if (window % dim.step == 0)
      return dim.refined(std::gcd(dim.group, window / dim.step));
  }
  return dim.refined(1);
}

AxisInfo meet(const AxisInfo &a, const AxisInfo &b) {
  AxisInfo result;
  if (a.constant == b.constant)
    result.constant = a.constant;
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    int64_t group = x.step == y.step ? std::gcd(x.group, y.group) : 1;
    AxisDim left = x.refined(group), right = y.refined(group);
    result.dims.push_back({group, left.step, std::min(left.divisibility, right.divisibility)});
  }
  return result;
}

template <typename Step> static AxisInfo sum(const AxisInfo &a, const AxisInfo &b, unsigned width, Step step) {
  AxisInfo result;
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    int64_t group = std::gcd(x.group, y.group);
    AxisDim left = x.refined(group), right = y.refined(group);
    result.dims.push_back(
        makeDim(group, step(left.step, right.step), std::min(left.divisibility, right.divisibility), width));
  }
  return result;
}

AxisInfo add(const AxisInfo &a, const AxisInfo &b, unsigned width) { return sum(a, b, width, wrappingAdd); }

AxisInfo sub(const AxisInfo &a, const AxisInfo &b, unsigned width) {
  return sum(a, b, width, [](int64_t x, int64_t y) { return int64_t(uint64_t(x) - uint64_t(y)); });
}

AxisInfo mul(const AxisInfo &a, const AxisInfo &b, unsigned width) {
  AxisInfo result;
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    int64_t group = std::gcd(x.group, y.group);
    AxisDim left = x.refined(group), right = y.refined(group);
    int64_t step = 0;
    if (b.constant)
      step = wrappingMul(left.step, *b.constant);
    else if (a.constant)
      step = wrappingMul(right.step, *a.constant);
    else if (left.step != 0 || right.step != 0) {
      group = 1;
      left = x.refined(1);
      right = y.refined(1);
    }
    result.dims.push_back(makeDim(group, step, divisibilityProduct(left.divisibility, right.divisibility), width));
  }
  return result;
}

AxisInfo divide(const AxisInfo &a, const AxisInfo &b, unsigned width) {
  AxisInfo result;
  // 2^(width - 1) has no positive counterpart in a signed type; a divisor is smaller.
  int64_t limit = int64_t(1) << std::min(width - 1, 62u);
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    // The divisor must be constant within the group.
    AxisDim dividend = x.refined(std::gcd(x.group, y.step == 0 ? y.group : 1));
    AxisDim divisor = y.refined(y.step == 0 ? dividend.group : 1);
    int64_t constant = b.constant && *b.constant > 0 && llvm::isPowerOf2_64(*b.constant) ? *b.constant : 0;
    if (constant && dividend.divisibility >= constant && dividend.step > 0 && dividend.step % constant == 0) {
      AxisDim cut = withinWindow(dividend, std::min(dividend.divisibility, limit));
      result.dims.push_back(
          makeDim(cut.group, cut.step / constant, std::max<int64_t>(cut.divisibility / constant, 1), width));
      continue;
    }
    AxisDim cut = withinWindow(dividend, std::min({dividend.divisibility, divisor.divisibility, limit}));
    // A divisor of the group's first element carries over to the quotient only if the divisor is a known power of two.
    int64_t divisibility = constant && cut.divisibility >= constant ? cut.divisibility / constant : 1;
    result.dims.push_back({cut.group, 0, divisibility});
  }
  return result;
}

AxisInfo remainder(const AxisInfo &a, const AxisInfo &b, unsigned width) {
  AxisInfo result;
  int64_t limit = int64_t(1) << std::min(width - 1, 62u);
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    AxisDim dividend = x.refined(std::gcd(x.group, y.step == 0 ? y.group : 1));
    AxisDim divisor = y.refined(y.step == 0 ? dividend.group : 1);
    AxisDim cut = withinWindow(dividend, std::min({dividend.divisibility, divisor.divisibility, limit}));
    result.dims.push_back(makeDim(cut.group, cut.step, std::min(cut.divisibility, divisor.divisibility), width));
  }
  return result;
}

AxisInfo changedBits(const AxisInfo &a, const AxisInfo &b, unsigned width) {
  AxisInfo result;
  int64_t limit = int64_t(1) << std::min(width - 1, 62u);
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    const AxisDim &steps = y.step == 0 ? x : y, &same = y.step == 0 ? y : x;
    AxisDim moving = steps.refined(std::gcd(steps.group, same.step == 0 ? same.group : 1));
    AxisDim fixed = same.refined(same.step == 0 ? moving.group : 1);
    // Inside a window below the lowest bit of `fixed`, only bits that `fixed` does not have differ.
    AxisDim cut = withinWindow(moving, std::min({moving.divisibility, fixed.divisibility, limit}));
    result.dims.push_back(makeDim(cut.group, cut.step, std::min(cut.divisibility, fixed.divisibility), width));
  }
  return result;
}

AxisInfo maskedBits(const AxisInfo &a, int64_t mask, unsigned width) {
  AxisInfo result;
  int64_t limit = int64_t(1) << std::min(width - 1, 62u);
  int64_t low = powerOfTwoIn(mask), above = mask == -1 ? AxisInfo::kMaxDivisibility : powerOfTwoIn(mask + 1);
  for (const AxisDim &x : a.dims) {
    // A mask of ones from bit 0 preserves differences inside a window of its size; zeros from bit 0 remove them.
    bool keeps = low == 1;
    AxisDim cut = withinWindow(x, std::min({x.divisibility, keeps ? above : low, limit}));
    result.dims.push_back(makeDim(cut.group, keeps ? cut.step : 0, std::max(cut.divisibility, low), width));
  }
  return result;
}

AxisInfo lessThan(const AxisInfo &a, const AxisInfo &b, unsigned width) {
  AxisInfo result;
  int64_t limit = int64_t(1) << std::min(width - 1, 62u);
  for (auto [x, y] : llvm::zip(a.dims, b.dims)) {
    AxisDim left = x.refined(std::gcd(x.group, y.step == 0 ? y.group : 1));
    AxisDim right = y.refined(y.step == 0 ? left.group : 1);
    int64_t window = std::min({left.divisibility, right.divisibility, limit});
    result.dims.push_back({withinWindow(left, window).group, 0, 1});
  }
  return result;
}

AxisInfo equal(const AxisInfo &a, const AxisInfo &b) {
  AxisInfo result;
  for (auto [x, y] : llvm::zip(a.dims, b.dims))
    result.dims.push_back({x.step == y.step ? std::gcd(x.group, y.group) : 1, 0, 1});
  return result;
}

AxisInfo elementwise(llvm::ArrayRef<const AxisInfo *> operands) {
  AxisInfo result;
  for (unsigned dim = 0, rank = operands.front()->rank(); dim < rank; ++dim) {
    int64_t group = 0;
    for (const AxisInfo *operand : operands)
      group = std::gcd(group, operand->constancy(dim));
    result.dims.push_back({group, 0, 1});
  }
  return result;
}

AxisInfo extend(const AxisInfo &a, unsigned fromWidth, bool exact) {
  AxisInfo result;
  int64_t limit = int64_t(1) << std::min(fromWidth - 1, 62u);
  for (const AxisDim &x : a.dims)
    result.dims.push_back(exact ? x : withinWindow(x, std::min(x.divisibility, limit)));
  return result;
}

AxisInfo reshape(const AxisInfo &a, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, unsigned width) {
  AxisInfo result;
  // Facts about aligned runs in row-major order: those of the last dimension whose size is not 1.
  AxisDim flat{1, 0, a.everyElement()};
  for (unsigned dim = from.size(); dim-- > 0;)
    if (from[dim] != 1) {
      flat = a.dims[dim];
      break;
    }
  bool uniform = true;
  for (auto [dim, side] : llvm::enumerate(from))
    uniform &= a.constancy(dim) == side;
  int64_t elements = 1;
  for (int64_t side : to)
    elements *= side;
  if (uniform)
    flat = {elements, 0, a.everyElement()};

  int64_t every = std::max(a.everyElement(), flat.refined(1).divisibility);
  int64_t inner = elements;
  bool samePrefix = true;
  for (auto [dim, side] : llvm::enumerate(to)) {
    inner /= side;
    samePrefix &= dim < from.size() && from[dim] == side;
    AxisDim here{1, 0, every};
    if (uniform) {
      here = {side, 0, every};
    } else if (flat.group % inner == 0) {
      // A run of `count` along this dimension covers count * inner row-major positions, all in one group of the source.
      int64_t count = std::gcd(side, flat.group / inner);
      int64_t step = wrappingMul(flat.step, inner);
      int64_t first = inner == 1 ? flat.refined(count).divisibility : every;
      here = makeDim(count, step, std::max(first, every), width);
    }
    if (samePrefix && a.dims[dim].group > here.group)
      here = a.dims[dim];
    result.dims.push_back(here);
  }
  return result;
}

} // namespace kiln::axis
