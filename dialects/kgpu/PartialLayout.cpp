#include "dialects/kgpu/PartialLayout.h"
#include "dialects/layout/Builder.h"
#include "llvm/Support/MathExtras.h"

using namespace kiln;
using namespace kiln::kgpu;
using namespace kiln::layout;

namespace {
/// A digit that steps along the axis.
struct AxisDigit {
  Coord coord;
  unsigned index; ///< its number in digits(coord)
  int64_t step;   ///< its basis along the axis
  bool odd;
  bool kept; ///< remains along the axis of the partial result
};
} // namespace

static bool leavesWarp(Coord coord) { return coord != Coord::Reg && coord != Coord::Lane; }

/// The digits along `axis` from the fastest to the slowest; std::nullopt unless each steps along this axis alone, by a
/// power of two that is no other digit's step.
static std::optional<llvm::SmallVector<AxisDigit>> axisDigits(const Layout &layout, unsigned axis, bool ordered) {
  llvm::SmallVector<AxisDigit> found;
  uint64_t seen = 0;
  for (unsigned c = 0; c < kNumCoords; ++c) {
    for (auto [index, digit] : llvm::enumerate(layout.digits(Coord(c)))) {
      int64_t step = digit.basis[axis];
      if (step == 0)
        continue;
      bool odd = digit.radix != 2;
      for (auto [dim, other] : llvm::enumerate(digit.basis))
        if (dim != axis && other != 0)
          return std::nullopt;
      // A replicating bit may repeat another's basis: only one of two equal digits could be kept, so neither is
      // accepted.
      if (!llvm::isPowerOf2_64(step) || (!odd && (seen & uint64_t(step))))
        return std::nullopt;
      if (!odd)
        seen |= uint64_t(step);
      found.push_back({Coord(c), unsigned(index), step, odd, leavesWarp(Coord(c))});
    }
  }
  // The odd digit is outermost: its step is larger than every bit's.
  llvm::sort(found, [](const AxisDigit &a, const AxisDigit &b) {
    return std::tie(a.step, a.coord, a.index) < std::tie(b.step, b.coord, b.index);
  });
  if (ordered) {
    bool above = false;
    for (AxisDigit &digit : found) {
      above |= digit.kept;
      // A lane that steps over other warps' elements cannot be kept: the order would be lost.
      if (above && digit.coord == Coord::Lane)
        return std::nullopt;
      digit.kept = above;
    }
  }
  return found;
}

WarpSpread kgpu::warpSpread(const Layout &layout, unsigned axis, bool ordered) {
  WarpSpread spread;
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (const Digit &digit : layout.digits(Coord(c)))
      if (digit.basis[axis] != 0 && leavesWarp(Coord(c))) {
        spread.places *= digit.radix;
        spread.overCtas |= Coord(c) == Coord::Cta;
      }
  auto digits = axisDigits(layout, axis, ordered);
  if (!digits) {
    spread.ownDigits = false;
    return spread;
  }
  spread.places = 1;
  bool above = false;
  for (const AxisDigit &digit : *digits) {
    if (digit.kept)
      spread.places *= digit.odd ? layout.digits(digit.coord)[digit.index].radix : 2;
    above |= leavesWarp(digit.coord);
    spread.inPieces |= above && !leavesWarp(digit.coord);
  }
  return spread;
}

std::optional<Layout> kgpu::partialLayout(const Layout &layout, unsigned axis, bool ordered) {
  auto along = axisDigits(layout, axis, ordered);
  if (!along)
    return std::nullopt;
  LayoutBuilder result(layout);
  int64_t side = 1;
  std::array<uint64_t, kNumCoords> dropped = {};
  for (const AxisDigit &digit : *along) {
    Digit &changed = result[digit.coord][digit.index];
    if (digit.kept) {
      changed.basis[axis] = side;
      side *= changed.radix;
    } else if (digit.coord == Coord::Reg) {
      dropped[unsigned(Coord::Reg)] |= uint64_t(1) << digit.index;
    } else {
      changed.basis[axis] = 0;
    }
  }
  Digits registers;
  for (auto [index, digit] : llvm::enumerate(result[Coord::Reg]))
    if (!(dropped[unsigned(Coord::Reg)] >> index & 1))
      registers.push_back(digit);
  result[Coord::Reg] = registers;
  result.setSide(axis, side);
  return result.finish();
}

bool kgpu::stepsInWarp(const Layout &layout, unsigned axis, int64_t least, int64_t most) {
  int64_t seen = 0;
  for (unsigned c = 0; c < kNumCoords; ++c)
    for (const Digit &digit : layout.digits(Coord(c))) {
      int64_t step = digit.basis[axis];
      if (step == 0)
        continue;
      bool alone = llvm::count_if(digit.basis, [](int64_t basis) { return basis != 0; }) == 1;
      bool inside = Coord(c) == Coord::Reg || Coord(c) == Coord::Lane || step < least || step > most;
      if (!alone || !inside || digit.radix != 2 || !llvm::isPowerOf2_64(step) || (seen & step))
        return false;
      seen |= step;
    }
  return true;
}

std::optional<Layout> kgpu::segmentSums(const Layout &layout, unsigned axis) {
  auto along = axisDigits(layout, axis, /*ordered=*/true);
  if (!along)
    return std::nullopt;
  unsigned lanes = 0;
  bool left = false, warps = false;
  for (const AxisDigit &digit : *along) {
    if (digit.coord == Coord::Group || digit.coord == Coord::Cta)
      return std::nullopt;
    warps |= digit.coord == Coord::Warp;
    if (digit.coord != Coord::Lane) {
      left |= lanes > 0;
      continue;
    }
    if (left)
      return std::nullopt;
    ++lanes;
  }
  // If lanes held other rows too, their sums would lie between those of this row.
  if (lanes != layout.digits(Coord::Lane).size() || !warps)
    return std::nullopt;
  return partialLayout(layout, axis, /*ordered=*/true);
}

Layout kgpu::scannedSums(const Layout &sums, unsigned axis) {
  return inEachWarp(sums.slice(axis), axis, sums.shape()[axis], /*inRegisters=*/0);
}

Layout kgpu::inEachWarp(const Layout &rows, unsigned axis, int64_t places, unsigned inRegisters) {
  Layout whole = rows.expand(axis);
  LayoutBuilder result(whole);
  layout::Side side = *layout::splitSide(places);
  unsigned bits = llvm::Log2_64(side.power), bit = std::min(inRegisters, bits);
  auto axisDigit = [&](int64_t radix, int64_t step) {
    Digit digit{radix, layout::Index(whole.rank(), 0)};
    digit.basis[axis] = step;
    return digit;
  };
  Digits registers;
  for (unsigned i = 0; i < bit; ++i)
    registers.push_back(axisDigit(2, int64_t(1) << i));
  uint64_t repeats = whole.ownerMask(Coord::Lane);
  for (auto [i, digit] : llvm::enumerate(result[Coord::Lane]))
    if (bit < bits && (repeats >> i & 1) && digit.replicates())
      digit = axisDigit(2, int64_t(1) << bit++);
  for (; bit < bits; ++bit)
    registers.push_back(axisDigit(2, int64_t(1) << bit));
  if (side.odd > 1)
    registers.push_back(axisDigit(side.odd, side.power));
  llvm::append_range(registers, result[Coord::Reg]);
  result[Coord::Reg] = registers;
  result.setSide(axis, places);
  return *result.finish();
}
