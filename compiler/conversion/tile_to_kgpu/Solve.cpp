// Choosing a layout for every node: heaviest class first, by cost.
#include "compiler/conversion/tile_to_kgpu/Candidates.h"
#include "compiler/conversion/tile_to_kgpu/Cost.h"
#include "compiler/conversion/tile_to_kgpu/Graph.h"
#include "dialects/tile/TileOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Layout;

// A layout an op cannot work in.
static constexpr double kImpossible = 1e12;

//===----------------------------------------------------------------------===//
// What a node asks for and pays
//===----------------------------------------------------------------------===//

static int64_t elementsOf(const Node &node) { return node.group.type().getNumElements(); }

/// The axis along which the node combines elements, if it does.
static std::optional<int32_t> axisOf(const Node &node) {
  return llvm::TypeSwitch<Operation *, std::optional<int32_t>>(node.op)
      .Case<tile::ReduceOp, tile::ScanOp>([&](auto op) { return int32_t(op.getAxis()); })
      .Case<tile::SortOp, tile::TopkOp>([&](Operation *) { return int32_t(node.group.type().getRank() - 1); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Consecutive elements one piece of assembly takes.
static int64_t packedBy(const Node &node) {
  auto assembly = dyn_cast<tile::InlineAsmOp>(node.op);
  return assembly ? int64_t(assembly.getPacked()) : 1;
}

static bool isAnchor(const Node &node) {
  if (node.access || packedBy(node) > 1)
    return true;
  return node.index == 0 && isa<tile::ReduceOp, tile::ScanOp, tile::SortOp, tile::TopkOp, tile::DotOp>(node.op);
}

/// An anchor that may leave the layout of its class. Not a reduction: exchanging partial results is cheaper than moving
/// all.
static bool mayLeave(const Node &node) { return isAnchor(node) && !isa<tile::ReduceOp>(node.op); }

static int64_t depthOf(tile::DotOp dot) { return cast<RankedTensorType>(dot.getLhs().getType()).getShape().back(); }

/// How much depends on the node being served well: bytes moved, or what stands for them.
static double weightOf(const Node &node) {
  if (!isAnchor(node))
    return 0;
  double elements = double(elementsOf(node)) * node.frequency;
  if (node.access)
    return elements * double(node.access->bytes) * (node.access->streams ? 1 : 0.5);
  if (auto dot = dyn_cast<tile::DotOp>(node.op))
    return elements * double(depthOf(dot));
  return elements;
}

static double costOf(const Node &node, const Layout &layout) {
  double registers = layout.registers();
  auto once = [&]() -> double {
    if (node.access)
      return accessCost(*node.access, layout);
    if (layout.contiguity(layout.rank() - 1) % packedBy(node) != 0)
      return kImpossible;
    // Moves: loops, ifs, what is handed over.
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

static Wishes wishesOf(ArrayRef<const Node *> nodes) {
  Wishes wishes;
  wishes.shape = llvm::to_vector<3>(nodes.front()->group.type().getShape());
  for (const Node *node : nodes) {
    if (node->access) {
      SmallVector<int32_t> order = node->access->order();
      if (!llvm::is_contained(wishes.orders, order))
        wishes.orders.push_back(order);
      wishes.widest = std::max(wishes.widest, node->access->dims[order[0]].vector);
    }
    wishes.widest = std::max(wishes.widest, int64_t(llvm::PowerOf2Ceil(packedBy(*node))));
    std::optional<int32_t> axis = axisOf(*node);
    if (axis && node->index == 0 && !llvm::is_contained(wishes.reduced, *axis))
      wishes.reduced.push_back(*axis);
    wishes.product |= node->index == 0 && isa<tile::DotOp>(node->op);
  }
  return wishes;
}

//===----------------------------------------------------------------------===//
// The solver
//===----------------------------------------------------------------------===//

namespace {
struct Class {
  SmallVector<unsigned> nodes;
  SmallVector<unsigned> links; ///< that touch it
  double weight = 0;           ///< of its anchors
  double urgency = 0;          ///< its weight or what it passes on
  std::optional<Layout> layout;
};

class Solver {
public:
  explicit Solver(Graph &graph) : graph(graph) {}

  void run() {
    collect();
    // The heaviest class first, then what hangs on it: a class is as urgent as its own accesses or as what comes over
    // its links, which is never more than the smaller of the two tiles is worth.
    for (size_t count = classes.size(); count > 0; --count) {
      Class *next = nullptr;
      for (auto &[leader, members] : classes)
        if (!members.layout && (!next || members.urgency > next->urgency))
          next = &members;
      assign(*next);
      for (unsigned index : next->links)
        influence(graph.links[index], next->urgency);
    }
    for (auto &[leader, members] : classes)
      settle(members);
    for (const Link &link : graph.links)
      settle(link);
  }

private:
  void collect() {
    for (unsigned index = 0; index < graph.nodes.size(); ++index) {
      Class &members = classes[graph.classOf(index)];
      members.nodes.push_back(index);
      members.weight += weightOf(graph.nodes[index]);
      members.urgency = members.weight;
    }
    for (auto [index, link] : llvm::enumerate(graph.links))
      for (unsigned node : {link.operand, link.result}) {
        SmallVector<unsigned> &list = classes[graph.classOf(node)].links;
        if (list.empty() || list.back() != index)
          list.push_back(index);
      }
  }

  Class &classAt(unsigned node) { return classes[graph.classOf(node)]; }

  void influence(const Link &link, double urgency) {
    auto worth = [&](unsigned index) {
      const Node &node = graph.nodes[index];
      return double(elementsOf(node)) * double(bytesInMemory(node.group.type().getElementType())) * node.frequency;
    };
    double passed = std::min({urgency, worth(link.operand), worth(link.result)});
    for (unsigned node : {link.operand, link.result})
      classAt(node).urgency = std::max(classAt(node).urgency, passed);
  }

  /// What it costs to bring the operand's layout to the result's, on the cheaper side of the op.
  double linkCost(const Link &link, const Layout &operand, const Layout &result) {
    const Node &from = graph.nodes[link.operand], &to = graph.nodes[link.result];
    double best = kImpossible;
    if (auto wanted = rules::operandFromResult(link.op, result))
      best = conversionCost(operand, *wanted, from.group.type());
    if (best > 0)
      if (auto made = rules::resultFromOperand(link.op, operand))
        best = std::min(best, conversionCost(*made, result, to.group.type()));
    if (best == kImpossible)
      best = 2 * exchangeCost(result.registers());
    return best * from.frequency;
  }

  /// The cheapest a node alone can be.
  double bestAlone(unsigned index) {
    auto [entry, isNew] = alone.try_emplace(index, kImpossible);
    if (isNew)
      for (const Layout &layout : candidates(wishesOf({&graph.nodes[index]}), graph.threads))
        entry->second = std::min(entry->second, costOf(graph.nodes[index], layout));
    return entry->second;
  }

  /// Calls `visit` for each value that has to be converted when a node leaves the layout of its class.
  void crossings(const Node &node, llvm::function_ref<void(Value, bool isUse)> visit) {
    SmallVector<Value> seen;
    for (OpOperand *use : node.group.uses)
      if (!graph.isFloating(use->get()) && !llvm::is_contained(seen, use->get())) {
        seen.push_back(use->get());
        visit(use->get(), true);
      }
    for (Value def : node.group.defs)
      if (!def.use_empty())
        visit(def, false);
  }

  double score(const Class &members, const Layout &layout) {
    double total = 0;
    for (unsigned index : members.nodes) {
      const Node &node = graph.nodes[index];
      double cost = costOf(node, layout);
      if (mayLeave(node) && members.nodes.size() > 1) {
        double apart = bestAlone(index);
        crossings(node, [&](Value, bool) { apart += node.frequency * exchangeCost(layout.registers()); });
        cost = std::min(cost, apart);
      }
      total += cost;
    }
    for (unsigned index : members.links) {
      const Link &link = graph.links[index];
      const Class &operand = classAt(link.operand), &result = classAt(link.result);
      if (&operand != &members && operand.layout)
        total += linkCost(link, *operand.layout, layout);
      else if (&result != &members && result.layout)
        total += linkCost(link, layout, *result.layout);
    }
    return total;
  }

  void assign(Class &members) {
    SmallVector<const Node *> nodes;
    for (unsigned index : members.nodes)
      nodes.push_back(&graph.nodes[index]);
    SmallVector<Layout, 16> choices;
    // What follows from neighbours comes first: it wins ties.
    auto consider = [&](std::optional<Layout> layout) {
      if (layout && !llvm::is_contained(choices, *layout))
        choices.push_back(layout->withoutReplicatedRegisters());
    };
    for (unsigned index : members.links) {
      const Link &link = graph.links[index];
      const Class &operand = classAt(link.operand), &result = classAt(link.result);
      if (&operand != &members && operand.layout)
        consider(rules::resultFromOperand(link.op, *operand.layout));
      if (&result != &members && result.layout)
        consider(rules::operandFromResult(link.op, *result.layout));
    }
    if (members.weight > 0 || choices.empty())
      for (Layout &layout : candidates(wishesOf(nodes), graph.threads))
        consider(std::move(layout));
    double best = 0;
    for (const Layout &layout : choices) {
      double cost = score(members, layout);
      if (!members.layout || cost < best) {
        best = cost;
        members.layout = layout;
      }
    }
  }

  /// The layout of each node of a class: the class's, unless an anchor is better off on its own.
  void settle(Class &members) {
    for (unsigned index : members.nodes) {
      Node &node = graph.nodes[index];
      node.layout = members.layout;
      if (!mayLeave(node) || members.nodes.size() == 1)
        continue;
      double best = costOf(node, *members.layout);
      if (bestAlone(index) >= best)
        continue;
      for (const Layout &layout : candidates(wishesOf({&graph.nodes[index]}), graph.threads)) {
        double cost = costOf(node, layout);
        crossings(node, [&](Value value, bool isUse) {
          if (cost < best)
            cost += node.frequency *
                    conversionCost(isUse ? *members.layout : layout, isUse ? layout : *members.layout, value.getType());
        });
        if (cost < best) {
          best = cost;
          node.layout = layout;
        }
      }
    }
  }

  /// One side of a shape op gives way where the two do not fit.
  void settle(const Link &link) {
    Node &operand = graph.nodes[link.operand], &result = graph.nodes[link.result];
    std::optional<Layout> made = rules::resultFromOperand(link.op, *operand.layout);
    std::optional<Layout> wanted = rules::operandFromResult(link.op, *result.layout);
    if (made)
      made = made->withoutReplicatedRegisters();
    if (!wanted && !made) {
      // Row by row both shapes are the same elements in the same order, where that is a layout at all.
      Layout flat = plainLayout(operand.group.type().getShape(), graph.threads);
      if (auto fitting = rules::resultFromOperand(link.op, flat)) {
        operand.layout = flat;
        result.layout = fitting;
      }
      return;
    }
    double atOperand = wanted ? conversionCost(*operand.layout, *wanted, operand.group.type()) : kImpossible;
    double atResult = made ? conversionCost(*made, *result.layout, result.group.type()) : kImpossible;
    if (atOperand <= atResult)
      operand.layout = wanted;
    else
      result.layout = made;
  }

  Graph &graph;
  llvm::MapVector<unsigned, Class> classes;
  llvm::DenseMap<unsigned, double> alone;
};
} // namespace

void assign::solve(Graph &graph) { Solver(graph).run(); }
