// The named layouts. A constructor is a function that returns a Layout; there is no class per kind of layout.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// The threads over which a kernel's tiles are spread.
struct Threads {
  int64_t warps = 4; ///< per group; a power of two
  int64_t groups = 1;
  int64_t ctas = 1; ///< per cluster; a power of two
};
Threads threadsOf(const Layout &layout);

/// The digits of every coordinate, as Layout::create takes them.
std::array<Digits, kNumCoords> digitsOf(const Layout &layout);

/// The streaming layout. Along order[0] (the fastest dimension): runs of `vector` elements in registers, then lanes,
/// then warps (then ctas), then further registers; what does not fit there goes on in order[1], and so on. `vector` (a
/// power of two) is lowered until it divides the side. Surplus lanes and warps replicate. The odd digit of a side that
/// is no power of two goes to registers. `splitCtas` is the dimension over which ctas are spread; without it they
/// replicate. Along order[0] ctas take turns, as slower digits than the warps, so that together they walk memory as one
/// block would; along another dimension each cta has one contiguous piece.
Layout blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order, int64_t vector, const Threads &threads,
               std::optional<unsigned> splitCtas = std::nullopt);

/// Every thread holds every element.
Layout replicated(llvm::ArrayRef<int64_t> shape, const Threads &threads);

/// The accumulator of mma.sync m16n8: `shape` is [M, N], or has leading batch sides. Warps are spread warpsM x warpsN,
/// and `warpsBatch` of them over the first batch side.
std::optional<Layout> mmaAccumulator(llvm::ArrayRef<int64_t> shape, int64_t warpsM, int64_t warpsN,
                                     int64_t warpsBatch = 1);
/// Operand A (side 0, 16 x k) or B (side 1, k x 8) of mma.sync, elements of `bits`, matching such an accumulator.
std::optional<Layout> mmaOperand(llvm::ArrayRef<int64_t> shape, unsigned side, unsigned bits, int64_t warpsM,
                                 int64_t warpsN, int64_t warpsBatch = 1);
/// The same layout on `warps` warps, a multiple of its own number: the extra warps hold copies.
Layout onWarps(const Layout &layout, int64_t warps);
/// The accumulator of wgmma m64nN: 4 warps per group along M; any number of groups splits M; N is any multiple of 8.
/// Where M is no multiple of 64 per group, the groups (a power of two) split N instead, in runs dealt out in turn.
std::optional<Layout> wgmmaAccumulator(llvm::ArrayRef<int64_t> shape, int64_t groups);
/// Operand A of wgmma in registers, 64 x k per group.
std::optional<Layout> wgmmaOperandA(llvm::ArrayRef<int64_t> shape, unsigned bits, int64_t groups);
/// The right operand of the same product by single warps, from registers: every warp of every group holds all of it.
std::optional<Layout> wgmmaOperandB(llvm::ArrayRef<int64_t> shape, unsigned bits, int64_t groups);

/// Shared memory without a swizzle, dimensions in the order `order`, fastest first.
Layout rowMajor(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order);
/// The 32/64/128-byte swizzles of TMA and wgmma, for elements of `elementBytes` in rows of `swizzleBytes`.
std::optional<Layout> swizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order, int64_t elementBytes,
                               int64_t swizzleBytes);

/// A tile that a cluster of `ctas` holds together, one `piece` each: the pieces follow each other along `split`, or,
/// without it, every cta holds the same one. std::nullopt where the piece's side along `split` has an odd part.
std::optional<Layout> inCluster(const Layout &piece, int64_t ctas, std::optional<unsigned> split);
/// The inverse of inCluster(): the piece that one cta holds, and the dimension along which pieces follow each other
/// (none: each cta has the whole tile). pieceOf() is std::nullopt where the ctas hold the tile in another way.
struct ClusterPiece {
  Layout piece;
  std::optional<unsigned> split;
};
std::optional<ClusterPiece> pieceOf(const Layout &layout);

} // namespace kiln::layout
