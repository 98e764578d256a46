// Seeded random layouts, and helpers that visit all positions or elements of one.
#pragma once
#include "dialects/layout/Constructors.h"
#include <functional>
#include <random>

namespace kiln::layout {

using Rng = std::mt19937;

/// A number from `low` to `high`.
int64_t pick(Rng &rng, int64_t low, int64_t high);
/// A shape of rank 1 to 3 with at most 2^maxBits elements before odd parts; each side is odd with probability 1/3.
llvm::SmallVector<int64_t, 3> randomShape(Rng &rng, unsigned maxBits = 10);

struct RandomForm {
  unsigned warpBits = 2, groupBits = 0, ctaBits = 0;
  bool mix = true;      ///< XOR steps together instead of only distributing them
  unsigned repeats = 2; ///< largest number of digits that repeat elements
};
/// A register layout with 32 lanes.
Layout randomLayout(Rng &rng, llvm::ArrayRef<int64_t> shape, const RandomForm &form);
/// A memory layout that stores every element once.
Layout randomMemory(Rng &rng, llvm::ArrayRef<int64_t> shape);
/// Another layout with the same warps, groups and CTAs, reachable by shuffles.
Layout shuffledInWarp(Rng &rng, const Layout &layout);

void forEachPoint(const Layout &layout, const std::function<void(const Point &)> &visit);
int64_t linear(llvm::ArrayRef<int64_t> shape, const Index &element);
int64_t elements(llvm::ArrayRef<int64_t> shape);

} // namespace kiln::layout
