#include "compiler/conversion/tile_to_kgpu/Fragments.h"
#include "compiler/analysis/Grouping.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Layout;

// Rows and columns of one instruction's accumulator.
static constexpr int64_t kRows = 16, kColumns = 8;

std::optional<assign::WarpArrangement> assign::arrangeWarps(ArrayRef<int64_t> accumulator, int64_t warps,
                                                            bool alongRows) {
  int64_t rows = accumulator[accumulator.size() - 2], columns = accumulator.back();
  auto rowSide = layout::splitSide(rows), columnSide = layout::splitSide(columns);
  if (!rowSide || !columnSide)
    return std::nullopt;
  std::optional<WarpArrangement> best;
  int64_t least = 0;
  // As many warps as fit.
  int64_t mostDown = rowSide->power / kRows, mostAcross = columnSide->power / kColumns;
  int64_t batches = accumulator.size() > 2 ? std::min(warps, powerOf2Factor(accumulator.front())) : 1;
  warps = std::min(warps / batches, mostDown * mostAcross);
  for (int64_t down = warps; down >= 1; down /= 2) {
    int64_t across = warps / down;
    if (down > mostDown || across > mostAcross)
      continue;
    // Elements of the operands that a warp reads at each k.
    int64_t reads = rows / down + columns / across;
    if (!best || (!alongRows && reads < least)) {
      best = {down, across, batches};
      least = reads;
    }
  }
  return best;
}

/// True if another product's left operand is computed from this one's accumulator, or this one's from another's.
static bool isChained(const Graph &graph, kgpu::WarpMmaOp op) {
  auto leads = [&](kgpu::WarpMmaOp from, kgpu::WarpMmaOp to) {
    std::optional<unsigned> acc = graph.definer(from.getResult()), lhs = graph.definer(to.getLhs());
    return acc && lhs && graph.classOf(*acc) == graph.classOf(*lhs);
  };
  return llvm::any_of(graph.nodes, [&](const Node &node) {
    auto other = dyn_cast<kgpu::WarpMmaOp>(node.op);
    return other && (leads(op, other) || leads(other, op));
  });
}

/// The dimension along which the ctas of a cluster split the accumulator of a warpgroup_mma: as the operands are split
/// in memory, or, for an operand in registers, as the product was split that it is computed from.
static std::optional<unsigned> splitOf(const Graph &graph, kgpu::WarpgroupMmaOp op, unsigned depth = 0) {
  auto heldAlong = [](Value factor, unsigned dim) {
    auto memory = dyn_cast<kgpu::MemType>(factor.getType());
    auto held = memory ? layout::pieceOf(kgpu::layoutOf(memory)) : std::nullopt;
    return held && held->split == dim;
  };
  if (heldAlong(op.getLhs(), 0) || kgpu::depthPieces(op.getLhs().getType(), op.getRhs().getType()) > 1)
    return 0;
  if (heldAlong(op.getRhs(), 1))
    return 1;
  std::optional<unsigned> lhs = graph.definer(op.getLhs());
  if (lhs && depth < graph.nodes.size())
    for (const Node &node : graph.nodes) {
      auto other = dyn_cast<kgpu::WarpgroupMmaOp>(node.op);
      std::optional<unsigned> acc = other && other != op ? graph.definer(other.getResult()) : std::nullopt;
      if (acc && graph.classOf(*acc) == graph.classOf(*lhs) && splitOf(graph, other, depth + 1) == 0u)
        return 0;
    }
  return std::nullopt;
}

static std::optional<Layout> warpgroupFragment(const Graph &graph, kgpu::WarpgroupMmaOp op, bool isAccumulator) {
  const layout::Threads &threads = graph.threads;
  std::optional<unsigned> split = threads.ctas > 1 ? splitOf(graph, op) : std::nullopt;
  if (!isAccumulator && split == 1u)
    split = std::nullopt;
  auto type = cast<RankedTensorType>((isAccumulator ? op.getAcc() : op.getLhs()).getType());
  SmallVector<int64_t, 2> piece(type.getShape());
  if (split)
    piece[*split] /= threads.ctas;
  std::optional<Layout> fragment = threads.warps != 4 ? std::nullopt
                                   : isAccumulator
                                       ? layout::wgmmaAccumulator(piece, threads.groups)
                                       : layout::wgmmaOperandA(piece, type.getElementTypeBitWidth(), threads.groups);
  return fragment ? layout::inCluster(*fragment, threads.ctas, split) : std::nullopt;
}

/// The layout in which ctas load the parts of accumulators that they have sent each other: each thread has its places
/// in an accumulator of the cta's piece.
static std::optional<Layout> dealtFragment(const Graph &graph, kgpu::LocalLoadOp op) {
  auto view = op.getMem().getDefiningOp<kgpu::ViewOp>();
  if (!view || !kgpu::mbarrierOf(view.getMem()) || graph.threads.warps != 4)
    return std::nullopt;
  std::optional<layout::ClusterPiece> held = layout::pieceOf(kgpu::layoutOf(view.getType()));
  if (!held || !held->split || held->piece.rank() != 2)
    return std::nullopt;
  std::optional<Layout> fragment = layout::wgmmaAccumulator(held->piece.shape(), graph.threads.groups);
  return fragment ? layout::inCluster(*fragment, graph.threads.ctas, held->split) : std::nullopt;
}

static std::optional<Layout> warpFragment(const Graph &graph, kgpu::WarpMmaOp op, unsigned index) {
  const layout::Threads &threads = graph.threads;
  auto shapeOf = [](Value tile) { return cast<RankedTensorType>(tile.getType()).getShape(); };
  unsigned bits = cast<RankedTensorType>(op.getLhs().getType()).getElementTypeBitWidth();
  // In a role, four warps multiply what their group otherwise multiplies together, so that results lie alike.
  ArrayRef<int64_t> sums = shapeOf(op.getAcc());
  bool inGroups = sums.size() == 2 && sums[0] % (64 * threads.groups) == 0 && threads.warps == 4 && threads.ctas == 1;
  std::optional<Layout> ofGroup =
      inGroups && kgpu::roleAround(op).first
          ? (index == 0   ? layout::wgmmaAccumulator(shapeOf(op.getAcc()), threads.groups)
             : index == 1 ? layout::wgmmaOperandA(shapeOf(op.getLhs()), bits, threads.groups)
                          : layout::wgmmaOperandB(shapeOf(op.getRhs()), bits, threads.groups))
          : std::nullopt;
  if (ofGroup || threads.groups > 1)
    return ofGroup;
  auto warps = arrangeWarps(shapeOf(op.getAcc()), threads.warps, isChained(graph, op));
  if (!warps)
    return std::nullopt;
  auto [down, across, batches] = *warps;
  std::optional<Layout> fragment = index == 0 ? layout::mmaAccumulator(shapeOf(op.getAcc()), down, across, batches)
                                   : index == 1
                                       ? layout::mmaOperand(shapeOf(op.getLhs()), 0, bits, down, across, batches)
                                       : layout::mmaOperand(shapeOf(op.getRhs()), 1, bits, down, across, batches);
  // Warps that do not fit replicate the others.
  return fragment ? layout::inCluster(layout::onWarps(*fragment, threads.warps), threads.ctas, std::nullopt)
                  : std::nullopt;
}

FailureOr<std::optional<Layout>> assign::fragmentOf(const Graph &graph, unsigned index) {
  const Node &node = graph.nodes[index];
  std::optional<Layout> fragment;
  if (auto op = dyn_cast<kgpu::WarpgroupMmaOp>(node.op))
    fragment = warpgroupFragment(graph, op, /*isAccumulator=*/node.index == 0);
  else if (auto op = dyn_cast<kgpu::WarpMmaOp>(node.op))
    fragment = warpFragment(graph, op, node.index);
  else if (auto op = dyn_cast<kgpu::LocalLoadOp>(node.op))
    return dealtFragment(graph, op);
  else
    return fragment;
  if (fragment)
    return fragment;
  return node.op->emitOpError() << "expected tiles that its threads can hold as fragments (because the instruction "
                                   "fixes which thread holds which element), got "
                                << node.group.type() << " for " << graph.threads.groups << " groups of "
                                << graph.threads.warps << " warps";
}
