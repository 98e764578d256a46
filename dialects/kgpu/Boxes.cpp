// How the copy engine fills a memory: read off the layout by trying the constructors whose memory it can write.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

// What one copy may move along each dimension.
static constexpr int64_t kMaxBoxSide = 256;

/// The order of dimensions, fastest first, and the swizzle of a layout that is row-major or swizzled.
static std::optional<std::pair<SmallVector<int32_t>, int32_t>> formOf(const Layout &piece, int64_t elementBytes) {
  SmallVector<int32_t> order;
  for (int32_t dim = int32_t(piece.rank()) - 1; dim >= 0; --dim)
    order.push_back(dim);
  // A transposed memory is filled as the array it is a transposed view of: then the first dimension is the fastest.
  for (int turn = 0; turn < 2; ++turn) {
    for (int32_t swizzle : {128, 64, 32})
      if (layout::swizzled(piece.shape(), order, elementBytes, swizzle) == piece)
        return std::pair(order, swizzle);
    if (layout::rowMajor(piece.shape(), order) == piece)
      return std::pair(order, 0);
    if (piece.rank() < 2)
      break;
    std::swap(order[0], order[1]);
  }
  return std::nullopt;
}

std::optional<BoxPlan> kgpu::planBoxes(MemType type, int64_t pieces) {
  std::optional<layout::ClusterPiece> held = layout::pieceOf(layoutOf(type));
  int64_t bytes = type.getElementBytes();
  auto form = held ? formOf(held->piece, bytes) : std::nullopt;
  if (!form)
    return std::nullopt;
  auto &[order, swizzle] = *form;
  ArrayRef<int64_t> sides = held->piece.shape();
  unsigned inner = order[0], outer = order.back();
  BoxPlan plan;
  plan.swizzle = swizzle;
  plan.box.assign(sides.begin(), sides.end());
  if (swizzle)
    plan.box[inner] = std::min(plan.box[inner], swizzle / bytes);
  else if (plan.box[inner] > kMaxBoxSide)
    return std::nullopt;
  // Rows of a panel, in as few boxes as a copy's sides and the cut into pieces allow. Only the slowest dimension is
  // cut: boxes of memory lie one behind the other.
  if (plan.box[outer] % pieces)
    return std::nullopt;
  int64_t rows = plan.box[outer] / pieces;
  while (rows > kMaxBoxSide && rows % 2 == 0)
    rows /= 2;
  if (outer != inner)
    plan.box[outer] = rows;
  for (int64_t side : plan.box)
    if (side < 1 || side > kMaxBoxSide)
      return std::nullopt;
  // A swizzle repeats every eight rows.
  if (swizzle && pieces * rows != sides[outer] && rows % 8)
    return std::nullopt;
  plan.boxBytes = bytes;
  for (int64_t side : plan.box)
    plan.boxBytes *= side;
  for (int64_t panel = 0; panel < sides[inner]; panel += plan.box[inner])
    for (int64_t row = 0; row < (outer == inner ? 1 : sides[outer]); row += plan.box[outer]) {
      layout::Index start(sides.size(), 0);
      start[inner] = panel;
      if (outer != inner)
        start[outer] = row;
      plan.starts.push_back(start);
    }
  return plan;
}
