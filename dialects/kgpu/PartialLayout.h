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

/// The layout of the partial results; nothing unless the digits along the axis are its own.
std::optional<layout::Layout> partialLayout(const layout::Layout &layout, unsigned axis, bool ordered);

} // namespace kiln::kgpu
