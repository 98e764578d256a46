// Candidates: coalesced layouts of every vector width, with warps along the fast or along the slow dimensions, and
// two-dimensional register tiles for accumulators. All are dealt out in the same way: the low bits of a side go to
// registers (the vector), lanes and warps in some order of dimensions; the rest goes to registers.
#include "compiler/conversion/tile_to_kgpu/Candidates.h"
#include "dialects/layout/Builder.h"
#include "llvm/Support/MathExtras.h"

using namespace kiln;
using namespace kiln::assign;
using layout::Coord;
using layout::Layout;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {
/// Assigns the bits of a tile's sides to coordinates, lowest first.
class Dealer {
public:
  Dealer(ArrayRef<int64_t> shape, const layout::Threads &threads) : threads(threads), result(shape) {
    for (int64_t side : shape) {
      layout::Side parts = *layout::splitSide(side);
      left.push_back(llvm::Log2_64(parts.power));
      next.push_back(0);
      sides.push_back(parts);
    }
  }

  /// Assigns up to `count` of the lowest unassigned bits of a dimension; returns how many there were.
  int64_t give(Coord coord, unsigned dim, int64_t count) {
    count = std::min(count, left[dim]);
    for (int64_t i = 0; i < count; ++i)
      result.push(coord, 2, dim, int64_t(1) << next[dim]++);
    left[dim] -= count;
    return count;
  }
  /// Spreads `count` bits of a coordinate over the dimensions in this order; those that do not fit replicate.
  void spread(Coord coord, ArrayRef<int32_t> order, int64_t count) {
    for (int32_t dim : order)
      count -= give(coord, dim, count);
    result.replicate(coord, int64_t(1) << count);
  }
  /// Ctas take the highest bits of a dimension, so that each has one piece; or, with `inTurns`, those above the warps'
  /// bits, so that the ctas walk the dimension together.
  void splitCtas(std::optional<unsigned> dim, bool inTurns = false) {
    int64_t count = llvm::Log2_64(threads.ctas);
    int64_t along = dim ? std::min(count, left[*dim]) : 0;
    if (dim)
      left[*dim] -= along;
    if (inTurns && along > 0) {
      turns = along;
      turnsOf = *dim;
    } else {
      for (int64_t i = 0; i < along; ++i)
        result.push(Coord::Cta, 2, *dim, int64_t(1) << (next[*dim] + left[*dim] + i));
    }
    result.replicate(Coord::Cta, int64_t(1) << (count - along));
  }
  /// Warps take the highest bits of the slowest dimension that is longer than one; false if those are too few.
  bool splitWarps() {
    int64_t bits = llvm::Log2_64(threads.warps);
    auto slowest = llvm::find_if(sides, [](const layout::Side &side) { return side.power * side.odd > 1; });
    unsigned dim = slowest - sides.begin();
    if (slowest == sides.end() || slowest->odd > 1 || left[dim] < bits)
      return false;
    left[dim] -= bits;
    for (int64_t i = 0; i < bits; ++i)
      result.push(Coord::Warp, 2, dim, int64_t(1) << (next[dim] + left[dim] + i));
    return true;
  }
  /// Assigns the remaining bits to registers.
  Layout finish(ArrayRef<int32_t> order) {
    spreadGroups(order);
    left[turnsOf] += turns;
    give(Coord::Cta, turnsOf, turns);
    for (int32_t dim : order)
      give(Coord::Reg, dim, left[dim]);
    for (int32_t dim : order)
      if (sides[dim].odd > 1)
        result.push(Coord::Reg, sides[dim].odd, dim, sides[dim].power);
    return *result.finish();
  }

private:
  /// Each group gets a piece of the slowest dimension that can be cut so; otherwise the groups replicate.
  void spreadGroups(ArrayRef<int32_t> order) {
    int64_t power = threads.groups & -threads.groups, odd = threads.groups / power;
    for (int64_t bits = llvm::Log2_64(power), i = int64_t(order.size()); bits > 0; bits = 0) {
      do
        --i;
      while (i >= 0 && left[order[i]] < bits);
      unsigned dim = i < 0 ? 0 : unsigned(order[i]);
      if (i >= 0)
        left[dim] -= bits;
      for (int64_t bit = 0; bit < bits; ++bit)
        result.push(Coord::Group, 2, dim, i < 0 ? 0 : int64_t(1) << (next[dim] + left[dim] + bit));
    }
    if (odd == 1)
      return;
    auto fitting = llvm::find_if(llvm::reverse(order), [&](int32_t dim) { return sides[dim].odd == odd; });
    if (fitting == order.rend()) {
      result.replicate(Coord::Group, odd);
      return;
    }
    result.push(Coord::Group, odd, *fitting, sides[*fitting].power);
    sides[*fitting].odd = 1;
  }

  const layout::Threads &threads;
  SmallVector<int64_t, 3> left, next;
  /// Bits of a dimension that are reserved for the ctas until lanes and warps have theirs.
  int64_t turns = 0;
  unsigned turnsOf = 0;
  SmallVector<layout::Side, 3> sides;
  layout::LayoutBuilder result;
};
} // namespace

/// The dimensions over which a cluster's ctas may be spread; cost chooses. None if the tile is too small for all
/// threads.
static SmallVector<std::optional<unsigned>, 3> ctaDimensions(const Wishes &wishes, const layout::Threads &threads) {
  int64_t elements = 1;
  for (int64_t side : wishes.shape)
    elements *= side;
  SmallVector<std::optional<unsigned>, 3> dims;
  if (threads.ctas > 1 && elements >= 32 * threads.warps * threads.groups * threads.ctas)
    for (unsigned dim = 0; dim < wishes.shape.size(); ++dim)
      if (layout::splitSide(wishes.shape[dim])->power >= threads.ctas)
        dims.push_back(dim);
  if (dims.empty())
    dims.push_back(std::nullopt);
  return dims;
}

static SmallVector<int32_t> rowMajorOrder(unsigned rank) {
  SmallVector<int32_t> order;
  for (int32_t dim = rank; dim-- > 0;)
    order.push_back(dim);
  return order;
}

static void addProductTiles(const Wishes &wishes, const layout::Threads &threads, std::optional<unsigned> ctas,
                            llvm::function_ref<void(Layout)> add) {
  unsigned rank = wishes.shape.size(), row = rank - 2, column = rank - 1;
  SmallVector<int32_t> order = rowMajorOrder(rank);
  for (int64_t vector : {8, 4, 2, 1})
    for (int64_t across : {5, 4, 3, 2})
      for (bool downFirst : {true, false}) {
        Dealer dealer(wishes.shape, threads);
        dealer.splitCtas(ctas);
        dealer.give(Coord::Reg, column, llvm::Log2_64(vector));
        int64_t lanes = 5;
        lanes -= dealer.give(Coord::Lane, column, across);
        lanes -= dealer.give(Coord::Lane, row, lanes);
        dealer.spread(Coord::Lane, order, lanes);
        SmallVector<int32_t> warps = order;
        if (downFirst)
          std::swap(warps[0], warps[1]);
        dealer.spread(Coord::Warp, warps, llvm::Log2_64(threads.warps));
        add(dealer.finish(order));
      }
}

/// Each warp has a piece of the slowest dimension. At most eight lanes share a row, so that a thread has pieces of few
/// rows and computes few addresses and masks; with pieces of 16 bytes they still read whole lines. Or at most 32 do.
static void addWarpsApart(const Wishes &wishes, const layout::Threads &threads, ArrayRef<int32_t> order, int64_t vector,
                          llvm::function_ref<void(Layout)> add) {
  SmallVector<int32_t> rowsFirst(order.drop_front());
  rowsFirst.push_back(order.front());
  for (int64_t along : {3, 5}) {
    Dealer dealer(wishes.shape, threads);
    if (!dealer.splitWarps())
      return;
    dealer.give(Coord::Reg, order.front(), llvm::Log2_64(vector));
    int64_t lanes = 5 - dealer.give(Coord::Lane, order.front(), along);
    dealer.spread(Coord::Lane, rowsFirst, lanes);
    add(dealer.finish(order));
  }
}

SmallVector<Layout, 16> assign::candidates(const Wishes &wishes, const layout::Threads &threads) {
  SmallVector<Layout, 16> result;
  auto add = [&](Layout layout) {
    if (!llvm::is_contained(result, layout))
      result.push_back(std::move(layout));
  };
  unsigned rank = wishes.shape.size();
  SmallVector<std::optional<unsigned>, 3> ctaChoices = ctaDimensions(wishes, threads);
  if (wishes.product)
    for (std::optional<unsigned> ctas : ctaChoices)
      addProductTiles(wishes, threads, ctas, add);

  SmallVector<SmallVector<int32_t>, 2> orders(wishes.orders);
  if (orders.empty())
    orders.push_back(rowMajorOrder(rank));
  // Also try each reduced axis across lanes, whatever the order of memory.
  for (int32_t axis : wishes.reduced) {
    SmallVector<int32_t> order = rowMajorOrder(rank);
    llvm::erase(order, axis);
    order.insert(order.begin(), axis);
    if (!llvm::is_contained(orders, order))
      orders.push_back(order);
  }
  auto addStreams = [&](std::optional<unsigned> ctas, ArrayRef<int32_t> order, int64_t vector) {
    auto make = [&](ArrayRef<int32_t> warps) {
      Dealer dealer(wishes.shape, threads);
      dealer.splitCtas(ctas, ctas == unsigned(order[0]));
      dealer.give(Coord::Reg, order[0], llvm::Log2_64(vector));
      dealer.spread(Coord::Lane, order, 5);
      dealer.spread(Coord::Warp, warps, llvm::Log2_64(threads.warps));
      add(dealer.finish(order));
    };
    make(order);
    if (wishes.warpsApart && threads.ctas == 1 && threads.groups == 1)
      addWarpsApart(wishes, threads, order, vector, add);
    SmallVector<int32_t> slowFirst(llvm::reverse(order));
    if (rank > 1)
      make(slowFirst);
    // Rows kept whole in a warp: warps that do not fit along the other dimensions replicate.
    for (int32_t axis : wishes.reduced) {
      SmallVector<int32_t> others(slowFirst);
      llvm::erase(others, axis);
      make(others);
    }
  };
  for (std::optional<unsigned> ctas : ctaChoices)
    for (ArrayRef<int32_t> order : orders)
      for (int64_t vector = wishes.widest; vector >= 1; vector /= 2)
        addStreams(ctas, order, vector);
  return result;
}

bool assign::areWarpsApart(const Layout &layout) {
  auto slowest = llvm::find_if(layout.shape(), [](int64_t side) { return side > 1; });
  if (slowest == layout.shape().end())
    return false;
  unsigned dim = slowest - layout.shape().begin();
  int64_t step = *slowest / layout.size(Coord::Warp);
  if (step == 0)
    return false;
  for (const layout::Digit &digit : layout.digits(Coord::Warp)) {
    layout::Index basis(layout.rank(), 0);
    basis[dim] = step;
    if (digit.basis != basis)
      return false;
    step *= digit.radix;
  }
  return true;
}

Layout assign::plainLayout(ArrayRef<int64_t> shape, const layout::Threads &threads) {
  return layout::blocked(shape, rowMajorOrder(shape.size()), 1, threads);
}
