// What a reduction inside each warp leaves: the layout of `kgpu.partial_reduce`'s result.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::kgpu {

/// How a layout spreads one axis over what a warp cannot reach by itself.
struct WarpSpread {
  int64_t places = 1;    ///< elements along the axis of the partial result
  bool ownDigits = true; ///< the digits along the axis belong to it alone (partial_reduce_c5)
  bool inPieces = false; ///< a warp's elements lie in several pieces, with those of others between them
  bool overCtas = false; ///< some of the places are in different ctas
};
WarpSpread warpSpread(const layout::Layout &layout, unsigned axis, bool ordered = false);

/// The layout of the partial results; std::nullopt unless the digits along the axis are its own.
std::optional<layout::Layout> partialLayout(const layout::Layout &layout, unsigned axis, bool ordered);

/// Whether `axis` is spread by bits of its own, of which those from `least` to `most` are of registers and lanes: steps
/// along it in this range leave no warp.
bool stepsInWarp(const layout::Layout &layout, unsigned axis, int64_t least, int64_t most);

/// The layout of a scan's sums over the segments of `axis` that a warp holds alone. nullopt unless registers, then all
/// lanes, then registers and warps stand along the axis, in this order, by digits of its own.
std::optional<layout::Layout> segmentSums(const layout::Layout &layout, unsigned axis);

/// Those sums in every warp, as they are scanned: along the axis in lanes, then in registers.
layout::Layout scannedSums(const layout::Layout &sums, unsigned axis);

/// A tile of `places` elements along `axis` that each warp has whole: rows where `rows` (without the axis) has them,
/// the axis in 2^inRegisters fast registers, then in lanes that would only repeat rows, then in further registers.
layout::Layout inEachWarp(const layout::Layout &rows, unsigned axis, int64_t places, unsigned inRegisters);

} // namespace kiln::kgpu
