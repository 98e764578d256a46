// Layouts with a name. A constructor is a function that returns a Layout, never a class of layouts.
#pragma once
#include "dialects/layout/Layout.h"

namespace kiln::layout {

/// The threads a kernel's tiles are spread over.
struct Threads {
  int64_t warps = 4; ///< a power of two, of one group
  int64_t groups = 1;
  int64_t ctas = 1; ///< of one cluster; a power of two
};
Threads threadsOf(const Layout &layout);

/// The digits of every coordinate, as Layout::create takes them.
std::array<Digits, kNumCoords> digitsOf(const Layout &layout);

/// The streaming layout: along order[0] (the fastest dimension) runs of `vector` elements per register group, then
/// lanes, then warps (then ctas), then further registers; what does not fit the fastest dimension goes on in order[1]
/// and so on. `vector` (a power of two) is lowered until it divides the side. Lanes and warps left over replicate.
/// Sides that are no powers of two put their odd digit into registers. `splitCtas`: along which dimension ctas are
/// spread; nothing: they replicate. Along order[0] they take turns behind the warps, so that together they walk memory
/// as one block would; along another dimension each cta has one contiguous piece.
Layout blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order, int64_t vector, const Threads &threads,
               std::optional<unsigned> splitCtas = std::nullopt);

/// Every thread holds every element.
Layout replicated(llvm::ArrayRef<int64_t> shape, const Threads &threads);

/// mma.sync m16n8 accumulator: `shape` [M, N] (or with leading batch sides), warps spread warpsM x warpsN, and
/// `warpsBatch` of them over the first batch side.
std::optional<Layout> mmaAccumulator(llvm::ArrayRef<int64_t> shape, int64_t warpsM, int64_t warpsN,
                                     int64_t warpsBatch = 1);
/// mma.sync operand A (side 0, 16 x k) or B (side 1, k x 8) for elements of `bits`, beside such an accumulator.
std::optional<Layout> mmaOperand(llvm::ArrayRef<int64_t> shape, unsigned side, unsigned bits, int64_t warpsM,
                                 int64_t warpsN, int64_t warpsBatch = 1);
/// The same on `warps` warps, a multiple of the layout's: those beyond hold what the others do.
Layout onWarps(const Layout &layout, int64_t warps);
/// wgmma m64nN accumulator: 4 warps per group along M; groups split M (any count), N any multiple of 8. Where M is no
/// multiple of 64 for each, groups (a power of two) split N in runs, which go to them by turns.
std::optional<Layout> wgmmaAccumulator(llvm::ArrayRef<int64_t> shape, int64_t groups);
/// wgmma operand A in registers, 64 x k per group.
std::optional<Layout> wgmmaOperandA(llvm::ArrayRef<int64_t> shape, unsigned bits, int64_t groups);

/// Shared memory, row-major with `order` fastest first, no swizzle.
Layout rowMajor(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order);
/// The 32/64/128-byte swizzles of TMA and wgmma for elements of `elementBytes`: rows of `swizzleBytes`.
std::optional<Layout> swizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> order, int64_t elementBytes,
                               int64_t swizzleBytes);

/// Of a tile that a cluster of `ctas` holds together, one `piece` each: the pieces one behind the other along `split`,
/// or, without it, the same one in every cta. std::nullopt where the piece's side along `split` has an odd part.
std::optional<Layout> inCluster(const Layout &piece, int64_t ctas, std::optional<unsigned> split);
/// What one cta holds of a tile that inCluster() made: the piece, and along which dimension pieces lie (nothing: each
/// cta has the whole). Nothing at all where the ctas hold it in another way.
struct ClusterPiece {
  Layout piece;
  std::optional<unsigned> split;
};
std::optional<ClusterPiece> pieceOf(const Layout &layout);

} // namespace kiln::layout
