// The named layouts: streaming and replicated register layouts, tensor-core fragments, shared memory.
#include "dialects/layout/Constructors.h"
#include "dialects/layout/Builder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kiln::layout {

namespace {
/// A builder that hands out the free bits of each side, from the fastest up or from the slowest down.
class Build : public LayoutBuilder {
public:
  explicit Build(ArrayRef<int64_t> shape) : LayoutBuilder(shape) {
    for (int64_t side : shape) {
      Side parts = *splitSide(side);
      low.push_back(1);
      high.push_back(parts.power);
      power.push_back(parts.power);
      odd.push_back(parts.odd);
    }
  }
  bool hasBit(unsigned dim) const { return low[dim] < high[dim]; }
  int64_t freeBits(unsigned dim) const { return high[dim] / low[dim]; }
  int64_t oddOf(unsigned dim) const { return odd[dim]; }
  /// The fastest free bit of `dim` becomes the next digit of `coord`.
  void takeLow(Coord coord, unsigned dim) {
    push(coord, 2, dim, low[dim]);
    low[dim] *= 2;
  }
  /// `values` (a power of two) values of `coord` take the slowest free bits of `dim`; false if there are too few.
  bool takeHigh(Coord coord, unsigned dim, int64_t values) {
    if (freeBits(dim) < values)
      return false;
    high[dim] /= values;
    for (int64_t value = 1; value < values; value *= 2)
      push(coord, 2, dim, high[dim] * value);
    return true;
  }
  /// Sets `values` of the free positions of `dim` aside; takeReserved() hands them out later, fastest first.
  void reserve(unsigned dim, int64_t values) { high[dim] /= values; }
  void takeReserved(Coord coord, unsigned dim, int64_t values) {
    high[dim] *= values;
    for (int64_t value = 1; value < values; value *= 2)
      takeLow(coord, dim);
  }
  void takeOdd(Coord coord, unsigned dim) {
    if (odd[dim] > 1)
      push(coord, odd[dim], dim, power[dim]);
    odd[dim] = 1;
  }
  /// All that is still free of `dim`, fastest first.
  void takeRest(Coord coord, unsigned dim) {
    while (hasBit(dim))
      takeLow(coord, dim);
    takeOdd(coord, dim);
  }

private:
  SmallVector<int64_t, 3> low, high, power, odd;
};
} // namespace

static bool legal(ArrayRef<int64_t> shape) {
  return llvm::all_of(shape, [](int64_t side) { return splitSide(side).has_value(); });
}

Threads threadsOf(const Layout &layout) {
  return {layout.size(Coord::Warp), layout.size(Coord::Group), layout.size(Coord::Cta)};
}

std::array<Digits, kNumCoords> digitsOf(const Layout &layout) {
  std::array<Digits, kNumCoords> digits;
  for (unsigned c = 0; c < kNumCoords; ++c)
    digits[c].assign(layout.digits(Coord(c)).begin(), layout.digits(Coord(c)).end());
  return digits;
}

//===-- Streaming ------------------------------------------------------------------------------------------------===//

Layout blocked(ArrayRef<int64_t> shape, ArrayRef<int32_t> order, int64_t vector, const Threads &threads,
               std::optional<unsigned> splitCtas) {
  Build build(shape);
  // Along the fastest dimension ctas take turns, as slower digits than lanes and warps; along others each has one
  // piece.
  int64_t ctas = 1;
  bool inTurns = splitCtas && !order.empty() && *splitCtas == unsigned(order[0]);
  if (splitCtas) {
    ctas = std::min(threads.ctas, build.freeBits(*splitCtas));
    if (inTurns)
      build.reserve(*splitCtas, ctas);
    else
      build.takeHigh(Coord::Cta, *splitCtas, ctas);
  }

  if (!order.empty())
    for (int64_t run = 1; run < vector && build.hasBit(order[0]); run *= 2)
      build.takeLow(Coord::Reg, order[0]);
  // Lanes, then warps, then groups take the free bits of the dimensions in their order; the surplus replicates.
  unsigned position = 0;
  auto spread = [&](Coord coord, int64_t values) {
    for (; values % 2 == 0; values /= 2) {
      while (position < order.size() && !build.hasBit(order[position]))
        ++position;
      if (position == order.size())
        break;
      build.takeLow(coord, order[position]);
    }
    return values;
  };
  build.replicate(Coord::Lane, spread(Coord::Lane, 32));
  build.replicate(Coord::Warp, spread(Coord::Warp, threads.warps));
  int64_t groups = spread(Coord::Group, threads.groups);
  for (unsigned i = order.size(); i-- > 0 && groups > 1;)
    if (build.oddOf(order[i]) > 1 && build.oddOf(order[i]) == groups) {
      build.takeOdd(Coord::Group, order[i]);
      groups = 1;
    }
  build.replicate(Coord::Group, groups);
  if (inTurns)
    build.takeReserved(Coord::Cta, *splitCtas, ctas);
  build.replicate(Coord::Cta, threads.ctas / ctas);
  for (int32_t dim : order)
    build.takeRest(Coord::Reg, dim);
  return *build.finish();
}

Layout replicated(ArrayRef<int64_t> shape, const Threads &threads) {
  Build build(shape);
  for (unsigned dim = shape.size(); dim-- > 0;)
    build.takeRest(Coord::Reg, dim);
  build.replicate(Coord::Lane, 32);
  build.replicate(Coord::Warp, threads.warps);
  build.replicate(Coord::Group, threads.groups);
  build.replicate(Coord::Cta, threads.ctas);
  return *build.finish();
}

//===-- Tensor-core fragments ------------------------------------------------------------------------------------===//

/// Repeats a fragment's atom in further registers: along `first`, then `second`, then the leading batch sides.
static void repeatAtom(Build &build, unsigned first, unsigned second, unsigned rank) {
  build.takeRest(Coord::Reg, first);
  build.takeRest(Coord::Reg, second);
  for (unsigned dim = rank - 2; dim-- > 0;)
    build.takeRest(Coord::Reg, dim);
}

/// The elements of a 32-bit register are consecutive along k; four lanes span k, eight lanes the other dimension.
/// `rowHalves`: the atom has 16 rows (operand A) and not 8 (B).
static bool operandAtom(Build &build, unsigned row, unsigned k, unsigned bits, bool rowHalves) {
  int64_t packed = 32 / bits;
  if (build.freeBits(k) < packed * 8 || build.freeBits(row) < (rowHalves ? 16 : 8))
    return false;
  for (int64_t i = 1; i < packed; i *= 2)
    build.takeLow(Coord::Reg, k);
  for (unsigned i = 0; i < 2; ++i)
    build.takeLow(Coord::Lane, k);
  for (unsigned i = 0; i < 3; ++i)
    build.takeLow(Coord::Lane, row);
  if (rowHalves)
    build.takeLow(Coord::Reg, row);
  build.takeLow(Coord::Reg, k);
  return true;
}

static bool accumulatorAtom(Build &build, unsigned row, unsigned column) {
  if (build.freeBits(column) < 8 || build.freeBits(row) < 16)
    return false;
  build.takeLow(Coord::Reg, column);
  for (unsigned i = 0; i < 2; ++i)
    build.takeLow(Coord::Lane, column);
  for (unsigned i = 0; i < 3; ++i)
    build.takeLow(Coord::Lane, row);
  build.takeLow(Coord::Reg, row);
  return true;
}

static bool operandBits(unsigned bits) { return bits == 4 || bits == 8 || bits == 16 || bits == 32; }

/// Spreads `warps` further warps over the first batch side.
static bool spreadBatches(Build &build, unsigned rank, int64_t warps) {
  return warps == 1 || (rank > 2 && isPowerOf2_64(warps) && build.takeHigh(Coord::Warp, 0, warps));
}

std::optional<Layout> mmaAccumulator(ArrayRef<int64_t> shape, int64_t warpsM, int64_t warpsN, int64_t warpsBatch) {
  unsigned rank = shape.size();
  if (rank < 2 || !legal(shape) || !isPowerOf2_64(warpsM) || !isPowerOf2_64(warpsN))
    return std::nullopt;
  Build build(shape);
  // Each warp has one contiguous piece of the tile, so that one ldmatrix can load operands for adjacent atoms.
  if (!accumulatorAtom(build, rank - 2, rank - 1) || !build.takeHigh(Coord::Warp, rank - 2, warpsM) ||
      !build.takeHigh(Coord::Warp, rank - 1, warpsN) || !spreadBatches(build, rank, warpsBatch))
    return std::nullopt;
  repeatAtom(build, rank - 1, rank - 2, rank);
  return build.finish();
}

std::optional<Layout> mmaOperand(ArrayRef<int64_t> shape, unsigned side, unsigned bits, int64_t warpsM, int64_t warpsN,
                                 int64_t warpsBatch) {
  unsigned rank = shape.size();
  if (rank < 2 || side > 1 || !legal(shape) || !operandBits(bits) || !isPowerOf2_64(warpsM) || !isPowerOf2_64(warpsN))
    return std::nullopt;
  Build build(shape);
  unsigned row = side == 0 ? rank - 2 : rank - 1, k = side == 0 ? rank - 1 : rank - 2;
  if (!operandAtom(build, row, k, bits, /*rowHalves=*/side == 0))
    return std::nullopt;
  // Warps that differ only along the accumulator's other dimension hold the same operand.
  if (side == 1)
    build.replicate(Coord::Warp, warpsM);
  if (!build.takeHigh(Coord::Warp, row, side == 0 ? warpsM : warpsN))
    return std::nullopt;
  if (side == 0)
    build.replicate(Coord::Warp, warpsN);
  if (!spreadBatches(build, rank, warpsBatch))
    return std::nullopt;
  repeatAtom(build, k, row, rank);
  return build.finish();
}

Layout onWarps(const Layout &layout, int64_t warps) {
  LayoutBuilder result(layout);
  for (int64_t held = layout.size(Coord::Warp); held < warps; held *= 2)
    result.replicate(Coord::Warp, 2);
  return *result.finish();
}

/// Four warps of 16 rows, then the groups over the remaining rows: the slowest bits, and the odd part if groups have
/// one.
static bool spreadGroups(Build &build, unsigned row, int64_t groups) {
  for (unsigned i = 0; i < 2; ++i) {
    if (!build.hasBit(row))
      return false;
    build.takeLow(Coord::Warp, row);
  }
  int64_t power = groups & -groups, odd = groups / power;
  if (!build.takeHigh(Coord::Group, row, power))
    return false;
  if (odd > 1) {
    if (build.oddOf(row) != odd)
      return false;
    build.takeOdd(Coord::Group, row);
  }
  return true;
}

std::optional<Layout> wgmmaAccumulator(ArrayRef<int64_t> shape, int64_t groups) {
  if (shape.size() != 2 || !legal(shape) || groups < 1)
    return std::nullopt;
  Build build(shape);
  if (!accumulatorAtom(build, 0, 1))
    return std::nullopt;
  // Where there are too few rows to split over all groups, each group has runs of columns.
  bool byRows = shape[0] % (64 * groups) == 0;
  if (!spreadGroups(build, 0, byRows ? groups : 1) ||
      (!byRows && (!isPowerOf2_64(groups) || !build.takeHigh(Coord::Group, 1, groups))))
    return std::nullopt;
  repeatAtom(build, 1, 0, 2);
  return build.finish();
}

std::optional<Layout> wgmmaOperandA(ArrayRef<int64_t> shape, unsigned bits, int64_t groups) {
  if (shape.size() != 2 || !legal(shape) || !operandBits(bits) || groups < 1)
    return std::nullopt;
  Build build(shape);
  if (!operandAtom(build, 0, 1, bits, /*rowHalves=*/true) || !spreadGroups(build, 0, groups))
    return std::nullopt;
  repeatAtom(build, 1, 0, 2);
  return build.finish();
}

std::optional<Layout> wgmmaOperandB(ArrayRef<int64_t> shape, unsigned bits, int64_t groups) {
  std::optional<Layout> ofWarps = mmaOperand(shape, 1, bits, /*warpsM=*/4, /*warpsN=*/1);
  if (!ofWarps || shape.size() != 2)
    return std::nullopt;
  LayoutBuilder result(*ofWarps);
  result.replicate(Coord::Group, groups);
  return result.finish();
}

//===-- Shared memory --------------------------------------------------------------------------------------------===//

Layout rowMajor(ArrayRef<int64_t> shape, ArrayRef<int32_t> order) {
  Build build(shape);
  for (int32_t dim : order)
    build.takeRest(Coord::Offset, dim);
  return *build.finish();
}

std::optional<Layout> swizzled(ArrayRef<int64_t> shape, ArrayRef<int32_t> order, int64_t elementBytes,
                               int64_t swizzleBytes) {
  if (shape.size() < 2 || order.size() != shape.size() || !legal(shape) || !isPowerOf2_64(elementBytes) ||
      elementBytes > 16 || (swizzleBytes != 32 && swizzleBytes != 64 && swizzleBytes != 128))
    return std::nullopt;
  Build build(shape);
  unsigned inner = order[0], row = order[1];
  int64_t columns = swizzleBytes / elementBytes;
  // The pattern repeats every eight rows; panels of eight rows follow each other.
  if (build.freeBits(inner) < columns || build.freeBits(row) < 8)
    return std::nullopt;
  for (int64_t column = 1; column < columns; column *= 2)
    build.takeLow(Coord::Offset, inner);
  for (int32_t dim : order.drop_front())
    build.takeRest(Coord::Offset, dim);
  build.takeRest(Coord::Offset, inner);
  // Address bit 7 + i flips chunk bit 4 + i, for as many chunks of 16 bytes as a row has.
  Digits &offset = build[Coord::Offset];
  unsigned elementLog = Log2_64(elementBytes);
  for (unsigned i = 0, bits = Log2_64(swizzleBytes) - 4; i < bits; ++i)
    offset[7 + i - elementLog].basis[inner] ^= int64_t(16 << i) / elementBytes;
  return build.finish();
}

//===-- Clusters -------------------------------------------------------------------------------------------------===//

std::optional<Layout> inCluster(const Layout &piece, int64_t ctas, std::optional<unsigned> split) {
  if (!isPowerOf2_64(ctas) || piece.size(Coord::Cta) != 1 || (split && *split >= piece.rank()))
    return std::nullopt;
  std::array<Digits, kNumCoords> digits = digitsOf(piece);
  SmallVector<int64_t, 3> shape(piece.shape());
  if (split && splitSide(shape[*split])->odd != 1)
    return std::nullopt;
  for (int64_t bit = 1; bit < ctas; bit *= 2) {
    Digit digit{2, Index(piece.rank(), 0)};
    if (split) {
      digit.basis[*split] = shape[*split];
      shape[*split] *= 2;
    }
    digits[unsigned(Coord::Cta)].push_back(digit);
  }
  return Layout::create(shape, digits);
}

std::optional<ClusterPiece> pieceOf(const Layout &layout) {
  int64_t ctas = layout.size(Coord::Cta);
  std::array<Digits, kNumCoords> digits = digitsOf(layout);
  digits[unsigned(Coord::Cta)].clear();
  auto matches = [&](ArrayRef<int64_t> shape, std::optional<unsigned> split) -> std::optional<ClusterPiece> {
    std::optional<Layout> piece = Layout::create(shape, digits);
    if (!piece || inCluster(*piece, ctas, split) != layout)
      return std::nullopt;
    return ClusterPiece{*piece, split};
  };
  if (std::optional<ClusterPiece> whole = matches(layout.shape(), std::nullopt))
    return whole;
  for (unsigned dim = 0; dim < layout.rank(); ++dim) {
    SmallVector<int64_t, 3> shape(layout.shape());
    if (shape[dim] % ctas)
      continue;
    shape[dim] /= ctas;
    if (std::optional<ClusterPiece> piece = matches(shape, dim))
      return piece;
  }
  return std::nullopt;
}

} // namespace kiln::layout
