// Layouts that are not chosen: the fragments that instructions of tensor cores demand.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Graph.h"

namespace kiln::assign {

/// How many warps lie along M, along N, and over the batches of a warp_mma accumulator.
struct WarpArrangement {
  int64_t down, across, batches;
};

/// Spreads warps along M and N of a warp_mma accumulator (its last two dimensions) so that each reads as few elements
/// of the operands as possible; batches come first, since they share no operand. `alongRows`: along M as far as
/// possible, so that what is computed from the accumulator can be the left operand of another product without leaving
/// its threads. Uses fewer than all warps where the tile is too small; std::nullopt where it is smaller than any
/// instruction.
std::optional<WarpArrangement> arrangeWarps(llvm::ArrayRef<int64_t> accumulator, int64_t warps, bool alongRows);

/// The layout that the op of a node demands for that node's tiles; std::nullopt where any will do. Fails, with a
/// message, where these threads have none.
mlir::FailureOr<std::optional<layout::Layout>> fragmentOf(const Graph &graph, unsigned node);

} // namespace kiln::assign
