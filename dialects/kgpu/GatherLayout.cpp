#include "dialects/kgpu/GatherLayout.h"
#include "dialects/kgpu/PartialLayout.h"
#include "llvm/Support/MathExtras.h"

using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Digit;
using layout::Layout;

// The most elements of a row that a thread selects from; with more, the gather goes through memory.
static constexpr int64_t kMostChoices = 8;
// The same where each candidate takes a shuffle.
static constexpr int64_t kMostShuffles = 4;

GatherDigits kgpu::gatherDigits(const Layout &source, unsigned axis) {
  GatherDigits digits;
  for (auto [index, digit] : llvm::enumerate(source.digits(Coord::Reg)))
    if (digit.basis[axis] != 0)
      digits.registers.push_back({unsigned(index), digit.basis[axis]});
  for (auto [index, digit] : llvm::enumerate(source.digits(Coord::Lane)))
    if (digit.basis[axis] != 0)
      digits.lanes.push_back({unsigned(index), digit.basis[axis]});
  return digits;
}

/// True when every digit along the axis steps along it alone, and none is a digit of warps, groups or ctas.
static bool isInsideWarp(const Layout &layout, unsigned axis) {
  for (unsigned c = 0; c < layout::kNumCoords; ++c)
    for (const Digit &digit : layout.digits(Coord(c)))
      if (digit.basis[axis] != 0 && ((Coord(c) != Coord::Reg && Coord(c) != Coord::Lane) ||
                                     llvm::count_if(digit.basis, [](int64_t basis) { return basis != 0; }) != 1))
        return false;
  return true;
}

/// True when lanes, warps, groups and ctas of both layouts agree in all dimensions but the axis.
static bool standAlike(const Layout &source, const Layout &indices, unsigned axis) {
  for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta}) {
    llvm::ArrayRef<Digit> from = source.digits(coord), to = indices.digits(coord);
    if (from.size() != to.size())
      return false;
    for (auto [a, b] : llvm::zip(from, to))
      for (unsigned dim = 0; dim < source.rank(); ++dim)
        if (a.radix != b.radix || (dim != axis && a.basis[dim] != b.basis[dim]))
          return false;
  }
  return true;
}

static int64_t registersAlong(const Layout &layout, unsigned axis) {
  int64_t count = 1;
  for (const Digit &digit : layout.digits(Coord::Reg))
    if (digit.basis[axis] != 0)
      count *= digit.radix;
  return count;
}

GatherKind kgpu::gatherKind(const Layout &source, const Layout &indices, unsigned axis, llvm::ArrayRef<int32_t> known) {
  if (!isInsideWarp(source, axis) || !standAlike(source, indices, axis))
    return GatherKind::Memory;
  int64_t choices = registersAlong(source, axis);
  if (gatherDigits(source, axis).lanes.empty()) {
    // The register is a constant only if an index's place along the axis depends on its register alone.
    bool fixed = gatherDigits(indices, axis).lanes.empty() && isInsideWarp(indices, axis);
    return (!known.empty() && fixed) || choices <= kMostChoices ? GatherKind::Registers : GatherKind::Memory;
  }
  if (!stepsInWarp(source, axis, 1, INT64_MAX))
    return GatherKind::Memory;
  if (!known.empty() && source == indices) {
    bool flips = true;
    for (auto [place, index] : llvm::enumerate(known))
      flips &= index == (int32_t(place) ^ known.front());
    if (flips)
      return GatherKind::Flip;
  }
  return choices <= kMostShuffles ? GatherKind::Shuffle : GatherKind::Memory;
}
