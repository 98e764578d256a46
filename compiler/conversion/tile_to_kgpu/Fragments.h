// Layouts that are not chosen: the fragments that instructions of tensor cores take and give.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Graph.h"

namespace kiln::assign {

/// How many warps stand where on the accumulator of warp_mma.
struct WarpArrangement {
  int64_t down, across, batches;
};

/// How many warps stand along M and along N of the accumulator of warp_mma (its last two dimensions), so that each
/// reads as little of the factors as can be: where there are batches, first over these, which share no factor.
/// `alongRows`: along M as far as that goes, so that what is computed from the accumulator is the left factor of
/// another product without leaving its threads. Fewer than all warps where the tile is too small for them; std::nullopt
/// where no instruction is as small as it.
std::optional<WarpArrangement> arrangeWarps(llvm::ArrayRef<int64_t> accumulator, int64_t warps, bool alongRows);

/// The layout that the op of a node asks of that node's tiles; nullopt where any will do. Fails, with a message, where
/// there is none for these threads.
mlir::FailureOr<std::optional<layout::Layout>> fragmentOf(const Graph &graph, unsigned node);

} // namespace kiln::assign
