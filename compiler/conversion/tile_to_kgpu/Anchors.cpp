// Which ops propose layouts, how much they weigh, and what they cost in a layout.
#include "compiler/conversion/tile_to_kgpu/Anchors.h"
#include "compiler/conversion/tile_to_kgpu/Cost.h"
#include "dialects/tile/TileOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Layout;

int64_t assign::elementsOf(const Node &node) { return node.group.type().getNumElements(); }

/// The axis along which the node combines elements, if any.
static std::optional<int32_t> axisOf(const Node &node) {
  return llvm::TypeSwitch<Operation *, std::optional<int32_t>>(node.op)
      .Case<tile::ReduceOp, tile::ScanOp>([&](auto op) { return int32_t(op.getAxis()); })
      .Case<tile::SortOp, tile::TopkOp>([&](Operation *) { return int32_t(node.group.type().getRank() - 1); })
      .Default([](Operation *) { return std::nullopt; });
}

/// The number of consecutive elements that one piece of inline assembly takes.
static int64_t packedBy(const Node &node) {
  auto assembly = dyn_cast<tile::InlineAsmOp>(node.op);
  return assembly ? int64_t(assembly.getPacked()) : 1;
}

bool assign::isAnchor(const Node &node) {
  if (node.access || packedBy(node) > 1)
    return true;
  return node.fragment ||
         (node.index == 0 && isa<tile::ReduceOp, tile::ScanOp, tile::SortOp, tile::TopkOp, tile::DotOp>(node.op));
}

bool assign::mayLeave(const Node &node) { return isAnchor(node) && !node.fragment && !isa<tile::ReduceOp>(node.op); }

static int64_t depthOf(tile::DotOp dot) { return cast<RankedTensorType>(dot.getLhs().getType()).getShape().back(); }

double assign::weightOf(const Node &node) {
  if (!isAnchor(node))
    return 0;
  double elements = double(elementsOf(node)) * node.frequency;
  if (node.access)
    return elements * double(node.access->bytes) * (node.access->streams ? 1 : 0.5);
  if (auto dot = dyn_cast<tile::DotOp>(node.op))
    return elements * double(depthOf(dot));
  return elements;
}

double assign::costOf(const Node &node, const Layout &layout) {
  double registers = layout.registers();
  auto once = [&]() -> double {
    if (node.access)
      return accessCost(*node.access, layout);
    if (layout.rank() && layout.contiguity(layout.rank() - 1) % packedBy(node) != 0)
      return kImpossible;
    // Loops, ifs and terminators only pass tiles on.
    if (node.op->getNumRegions() > 0 && !isa<tile::ReduceOp, tile::ScanOp>(node.op))
      return 0;
    if (node.index > 0)
      return 0;
    return llvm::TypeSwitch<Operation *, double>(node.op)
        .Case([&](tile::ReduceOp op) { return reduceCost(layout, op.getAxis(), op.getNumOperands()); })
        .Case([&](tile::ScanOp op) { return scanCost(layout, op.getAxis(), op.getNumOperands()); })
        .Case<tile::SortOp, tile::TopkOp>([&](Operation *) { return sortCost(layout); })
        .Case([&](tile::DotOp op) { return dotCost(layout, depthOf(op)); })
        .Default([&](Operation *) { return node.group.defs.empty() ? 0 : registers / 2; });
  };
  return once() * node.frequency;
}

Wishes assign::wishesOf(ArrayRef<const Node *> nodes, bool linked) {
  Wishes wishes;
  wishes.widest = linked ? 8 : 1;
  wishes.shape = llvm::to_vector<3>(nodes.front()->group.type().getShape());
  for (const Node *node : nodes) {
    if (node->access) {
      SmallVector<int32_t> order = node->access->order();
      if (!llvm::is_contained(wishes.orders, order))
        wishes.orders.push_back(order);
      wishes.widest = std::max(wishes.widest, node->access->dims[order[0]].vector);
      wishes.warpsApart |= node->access->warpsApart;
    }
    wishes.widest = std::max(wishes.widest, int64_t(llvm::PowerOf2Ceil(packedBy(*node))));
    std::optional<int32_t> axis = axisOf(*node);
    if (axis && node->index == 0 && !llvm::is_contained(wishes.reduced, *axis))
      wishes.reduced.push_back(*axis);
    wishes.product |= node->index == 0 && isa<tile::DotOp>(node->op);
  }
  return wishes;
}
