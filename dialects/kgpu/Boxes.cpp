// How the copy engine fills a memory: tries the constructors of the layouts that the engine can write.
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

// The most elements that one copy moves along a dimension; the bytes that divide its rows, and its place in memory.
static constexpr int64_t kMaxBoxSide = 256, kRowAlign = 16, kBoxAlign = 128;
// Rows after which a swizzle repeats.
static constexpr int64_t kSwizzleRows = 8;

/// The swizzle of a layout that is row-major or swizzled with the last dimension fastest, as a box lies in memory.
static std::optional<int32_t> swizzleOf(const Layout &piece, int64_t elementBytes) {
  SmallVector<int32_t> order;
  for (int32_t dim = int32_t(piece.rank()) - 1; dim >= 0; --dim)
    order.push_back(dim);
  for (int32_t swizzle : {128, 64, 32})
    if (layout::swizzled(piece.shape(), order, elementBytes, swizzle) == piece)
      return swizzle;
  if (layout::rowMajor(piece.shape(), order) == piece)
    return 0;
  return std::nullopt;
}

std::optional<BoxPlan> kgpu::planBoxes(MemType type, int64_t pieces, int64_t asked) {
  std::optional<layout::ClusterPiece> held = layout::pieceOf(layoutOf(type));
  int64_t bytes = type.getElementBytes();
  std::optional<int32_t> swizzle = held ? swizzleOf(held->piece, bytes) : std::nullopt;
  if (!swizzle)
    return std::nullopt;
  ArrayRef<int64_t> sides = held->piece.shape();
  unsigned inner = sides.size() - 1, outer = 0;
  BoxPlan plan;
  plan.swizzle = *swizzle;
  plan.box.assign(sides.begin(), sides.end());
  if (*swizzle)
    plan.box[inner] = *swizzle / bytes;
  // The rows of a panel, in as few boxes as the limits of a copy and the cut into pieces allow. Only the slowest
  // dimension is cut, so that boxes follow each other in memory.
  if (sides[outer] % pieces)
    return std::nullopt;
  int64_t rows = sides[outer] / pieces;
  while (rows > kMaxBoxSide && rows % 2 == 0)
    rows /= 2;
  if (asked) {
    if (asked > rows || rows % asked)
      return std::nullopt;
    rows = asked;
  }
  plan.box[outer] = rows;
  plan.boxBytes = bytes;
  for (int64_t side : plan.box) {
    if (side > kMaxBoxSide)
      return std::nullopt;
    plan.boxBytes *= side;
  }
  int64_t panels = outer == inner ? 1 : sides[inner] / plan.box[inner];
  bool many = panels > 1 || rows != sides[outer];
  if (plan.box[inner] * bytes % kRowAlign || (many && plan.boxBytes % (*swizzle ? *swizzle * kSwizzleRows : kBoxAlign)))
    return std::nullopt;
  for (int64_t panel = 0; panel < panels; ++panel)
    for (int64_t row = 0; row < sides[outer]; row += rows) {
      layout::Index start(sides.size(), 0);
      start[inner] = panel * plan.box[inner];
      start[outer] += row; // outer == inner if there is only one dimension
      plan.starts.push_back(start);
    }
  return plan;
}

bool kgpu::isView(Operation *op) { return isa<SlotOp, ViewOp, TransOp>(op); }

SmallVector<Value> kgpu::viewsOf(Value memory) {
  SmallVector<Value> views = {memory};
  for (size_t i = 0; i < views.size(); ++i)
    for (Operation *user : views[i].getUsers())
      if (isView(user))
        views.push_back(user->getResult(0));
  return views;
}

bool kgpu::isReadAsynchronously(Value memory) {
  return llvm::any_of(viewsOf(memory), [](Value view) {
    return llvm::any_of(view.getUsers(), [](Operation *user) { return isa<CopyOutOp, WarpgroupMmaOp>(user); });
  });
}

int64_t kgpu::addressAlignment(AllocOp alloc) {
  if (!isReadAsynchronously(alloc))
    return kSharedAlign;
  std::optional<BoxPlan> plan = planBoxes(alloc.getMem().getType());
  return plan && plan->swizzle == 0 ? kCopyAlign : kSwizzleAlign;
}
