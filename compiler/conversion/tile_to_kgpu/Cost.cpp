// The cost model. Constants are issue slots of one warp; their order of magnitude matters, not the last digit.
#include "compiler/conversion/tile_to_kgpu/Cost.h"
#include "compiler/conversion/tile_to_kgpu/Candidates.h"
#include "dialects/layout/Conversion.h"
#include "dialects/tile/TileOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Coord;
using layout::Layout;

// Issuing an access: address arithmetic, the slot itself, and an entry in the queue of outstanding accesses.
static constexpr double kAccess = 6;
static constexpr int64_t kSectorBytes = 32, kLineBytes = 128;
// Accesses of one thread within the same 64 bytes hit the line in L1; further ones may not.
static constexpr int64_t kReuseBytes = 64;
static constexpr double kShuffle = 4;
// A barrier with the latency of shared memory around it; the same for a cluster.
static constexpr double kBarrier = 40, kClusterBarrier = 120;
// The least bytes of a copy that bypasses registers; narrower ones are loaded, waited for and stored.
static constexpr int64_t kLeastCopy = 4;
static constexpr double kMemory = 1000;
// What one part of a slot costs its whole step if warps read what others have copied: the barrier, at which each warp
// waits for the last one's copies.
static constexpr double kCopiedByOthers = 2 * kBarrier;
// More than any access costs, however scattered its addresses.
static constexpr double kDoesNotFit = 1e7;
// A row of up to this many registers per lane is kept in one warp.
static constexpr int64_t kSortRegisters = 64;
// Exchanging a whole tile instead of partial results: every thread waits for the slowest store of all.
static constexpr double kExchange = 50;

/// The number of distinct blocks of `unit` bytes that the lanes touch, with `bytes` from each lane's element on.
static int64_t touched(const AccessShape &access, unsigned fastest, ArrayRef<layout::Index> lanes, int64_t bytes,
                       int64_t unit) {
  SmallVector<std::pair<int64_t, int64_t>, 64> places;
  for (const layout::Index &at : lanes) {
    int64_t row = 0, offset = 0;
    for (auto [dim, known] : llvm::enumerate(access.dims)) {
      int64_t group = dim == fastest ? known.run : known.same;
      row = row * 1048583 + at[dim] / group;
      if (dim == fastest)
        offset = at[dim] % group * access.bytes;
    }
    for (int64_t block = offset / unit; block <= (offset + bytes - 1) / unit; ++block)
      places.push_back({row, block});
  }
  llvm::sort(places);
  return std::unique(places.begin(), places.end()) - places.begin();
}

static int64_t replicas(const Layout &layout, Coord coord) {
  int64_t count = 1;
  for (const layout::Digit &digit : layout.digits(coord))
    count *= digit.replicates() ? digit.radix : 1;
  return count;
}

double assign::accessCost(const AccessShape &access, const Layout &layout) {
  unsigned fastest = access.fastest();
  int64_t registers = layout.registers(), run = layout.contiguity(fastest);
  int64_t vector = std::min(access.dims[fastest].vector, run);
  // Stores to parts of a sector are not merged on their way out.
  int64_t piece = access.stores ? vector : std::max(vector, std::min(run, kReuseBytes / access.bytes));
  SmallVector<layout::Index, 32> lanes;
  for (int64_t lane = 0; lane < layout.size(Coord::Lane); ++lane)
    lanes.push_back(layout.at(Coord::Lane, lane));
  double lines = touched(access, fastest, lanes, vector * access.bytes, kLineBytes);
  double sectors = touched(access, fastest, lanes, piece * access.bytes, kSectorBytes);
  double cost = double(registers) / vector * (kAccess + lines) + double(registers) / piece * sectors;
  if (access.copies && vector * access.bytes < kLeastCopy)
    cost += kMemory;
  if (access.warpsApart && !areWarpsApart(layout))
    cost += kCopiedByOthers;
  // Of warps with the same elements only one stores.
  if (access.stores)
    cost /= double(replicas(layout, Coord::Warp) * replicas(layout, Coord::Cta));
  return access.streams ? cost : cost / 2;
}

/// The number of digits of a coordinate that step along a dimension.
static unsigned digitsAlong(const Layout &layout, Coord coord, unsigned dim) {
  return llvm::count_if(layout.digits(coord), [&](const layout::Digit &digit) { return digit.basis[dim] != 0; });
}

static double exchangeAlong(const Layout &layout, unsigned axis, double values) {
  if (digitsAlong(layout, Coord::Cta, axis))
    return kClusterBarrier + 8 * values;
  if (digitsAlong(layout, Coord::Warp, axis) || digitsAlong(layout, Coord::Group, axis))
    return kBarrier + 8 * values;
  return 0;
}

double assign::reduceCost(const Layout &layout, unsigned axis, unsigned values) {
  double results = double(layout.slice(axis).registers()) * values;
  return double(layout.registers()) * values + kShuffle * digitsAlong(layout, Coord::Lane, axis) * results +
         exchangeAlong(layout, axis, results);
}

double assign::scanCost(const Layout &layout, unsigned axis, unsigned values) {
  // Each thread sums its runs of registers, then lanes combine for each run.
  double registers = double(layout.registers()) * values;
  double runs = registers / layout.contiguity(axis);
  return 2 * registers + kShuffle * digitsAlong(layout, Coord::Lane, axis) * runs + exchangeAlong(layout, axis, runs);
}

double assign::sortCost(const Layout &layout) {
  unsigned axis = layout.rank() - 1;
  double registers = layout.registers(), lanes = digitsAlong(layout, Coord::Lane, axis);
  double along = 0;
  for (Coord coord : {Coord::Reg, Coord::Lane, Coord::Warp})
    along += digitsAlong(layout, coord, axis);
  // Of the log2(n)^2 / 2 steps, those with strides in lanes are shuffles, those with strides in warps exchanges.
  double exchanges = exchangeAlong(layout, axis, registers);
  // Rows that fit a warp's registers are to be sorted without barriers.
  if (exchanges > 0 && layout.shape()[axis] <= 32 * kSortRegisters)
    exchanges *= 100;
  return registers * along * along / 2 + kShuffle * registers * lanes * along / 2 + exchanges * along;
}

double assign::dotCost(const Layout &accumulator, int64_t depth) {
  unsigned rank = accumulator.rank();
  double rows = accumulator.slice(rank - 1).registers(), columns = accumulator.slice(rank - 2).registers();
  return double(depth) * (double(accumulator.registers()) + rows + columns);
}

double assign::conversionCost(const Layout &from, const Layout &to, Type element, int64_t sharedBytes) {
  if (from == to)
    return 0;
  int64_t bytes = tile::memoryBytes(getElementTypeOrSelf(element));
  layout::Conversion plan = layout::planConversion(from, to, bytes);
  switch (plan.kind) {
  case layout::ConversionKind::None:
    return 0;
  case layout::ConversionKind::Registers: // renames registers, no instructions
    return 1;
  case layout::ConversionKind::Shuffle: // shuffles share a quarter-rate unit, and what follows waits for them
    return 8 + 2 * double(plan.cost) * std::max(1.0, double(bytes) / 4);
  case layout::ConversionKind::Shared:
    break;
  }
  int64_t elements = 1;
  for (int64_t side : from.shape())
    elements *= side;
  if (elements * bytes * replicas(from, Coord::Cta) > sharedBytes * from.size(Coord::Cta))
    return kDoesNotFit;
  return double(plan.cost) + (plan.crossesCtas ? kClusterBarrier : kExchange);
}

double assign::exchangeCost(int64_t registers) { return kExchange + 4 * double(registers); }
