// The layout of `kgpu.partial_reduce`'s result: what remains after each warp has reduced its own elements.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::kgpu {

/// How a layout spreads one axis over coordinates beyond a warp.
struct WarpSpread {
  int64_t places = 1;    ///< elements along the axis of the partial result
  bool ownDigits = true; ///< the digits along the axis step along it alone (partial_reduce_c5)
  bool inPieces = false; ///< a warp's elements lie in several pieces, with elements of other warps between them
  bool overCtas = false; ///< some of the places are in different ctas
};
WarpSpread warpSpread(const layout::Layout &layout, unsigned axis, bool ordered = false);

/// The layout of the partial results; std::nullopt unless the digits along the axis step along it alone.
std::optional<layout::Layout> partialLayout(const layout::Layout &layout, unsigned axis, bool ordered);

/// True when digits that step along `axis` alone spread it, and those from `least` to `most` are digits of registers
/// and lanes: steps along the axis in this range stay inside a warp.
bool stepsInWarp(const layout::Layout &layout, unsigned axis, int64_t least, int64_t most);

/// The layout of a scan's sums over the segments of `axis` that a warp holds alone. std::nullopt unless the axis is
/// spread over registers, then all lanes, then registers and warps, in this order, by digits that step along it alone.
std::optional<layout::Layout> segmentSums(const layout::Layout &layout, unsigned axis);

/// The layout in which those sums are scanned: in every warp, along the axis in lanes, then in registers.
layout::Layout scannedSums(const layout::Layout &sums, unsigned axis);

/// A tile with `places` elements along `axis` that each warp holds whole. Its rows are where `rows` (which lacks the
/// axis) has them; the axis is in 2^inRegisters fast registers, then in lanes over which rows would only replicate,
/// then in further registers.
layout::Layout inEachWarp(const layout::Layout &rows, unsigned axis, int64_t places, unsigned inRegisters);

} // namespace kiln::kgpu
