// Builds the graph.
#include "compiler/conversion/tile_to_kgpu/Graph.h"
#include "compiler/conversion/tile_to_kgpu/Fragments.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;

// The most ops that recomputing a value in another layout, register by register, may take; beyond that, a conversion is
// cheaper.
static constexpr int64_t kFloatingOps = 24;
// The factor by which a loop, whose trip count is mostly unknown, multiplies frequencies.
static constexpr double kLoopFrequency = 8;

static double frequencyOf(Operation *op) {
  double frequency = 1;
  for (Operation *parent = op->getParentOp(); parent && !isa<func::FuncOp>(parent); parent = parent->getParentOp()) {
    if (isa<scf::ForOp, scf::WhileOp>(parent))
      frequency *= kLoopFrequency;
    else if (isa<scf::IfOp>(parent))
      frequency /= 2;
  }
  return frequency;
}

/// The ops of one floating step; std::nullopt for an op that is computed once and converted.
static std::optional<int64_t> floatingCost(Operation *op) {
  if (isa<tile::SplatOp, tile::MakeRangeOp, arith::ConstantOp, ub::PoisonOp>(op))
    return 0;
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp, tile::JoinOp>(op))
    return 0;
  if (isa<tile::AddPtrOp, tile::PtrCastOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::HintOp>(op))
    return 1;
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
          arith::CeilDivUIOp, arith::DivFOp, arith::RemFOp>(op))
    return 8;
  bool plain = op->getName().getDialectNamespace() == "arith" && op->getNumResults() == 1 &&
               OpTrait::hasElementwiseMappableTraits(op);
  return plain ? std::optional<int64_t>(1) : std::nullopt;
}

void Graph::noteFloating(Operation *op) {
  if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return;
  std::optional<int64_t> cost = floatingCost(op);
  if (!cost)
    return;
  for (Value operand : op->getOperands()) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    auto known = floating.find(operand);
    if (known == floating.end())
      return;
    *cost += known->second;
  }
  if (*cost > kFloatingOps)
    return;
  floating[op->getResult(0)] = *cost;
  floatingOrder.push_back(op->getResult(0));
}

unsigned Graph::classOf(unsigned node) const {
  while (nodes[node].parent != node)
    node = nodes[node].parent;
  return node;
}

void Graph::join(unsigned a, unsigned b) {
  a = classOf(a);
  b = classOf(b);
  // The earlier node becomes the root, so that classes are in program order.
  nodes[std::max(a, b)].parent = std::min(a, b);
}

std::optional<unsigned> Graph::definer(Value value) const {
  auto found = definers.find(value);
  return found == definers.end() ? std::nullopt : std::optional<unsigned>(found->second);
}

FailureOr<Graph> Graph::build(Region &scope, const Machine &machine, const AlignmentAnalysis &analysis) {
  Graph graph(machine);
  auto visit = [&](Operation *op) {
    // A role has threads of its own, hence a graph of its own.
    if (isa<kgpu::RolesOp>(op))
      return WalkResult::skip();
    graph.noteFloating(op);
    if (op->getNumResults() == 1 && graph.isFloating(op->getResult(0)))
      return WalkResult::advance();
    auto groups = rules::groupsOf(op);
    if (!groups) {
      op->emitOpError("has tiles but no rule for their layouts");
      return WalkResult::interrupt();
    }
    std::optional<AccessShape> access = groups->empty() ? std::nullopt : accessOf(op, analysis, machine.accessBytes);
    unsigned first = graph.nodes.size();
    for (auto [index, group] : llvm::enumerate(*groups)) {
      Node node;
      node.op = op;
      node.index = index;
      node.group = group;
      node.access = access;
      node.parent = graph.nodes.size();
      node.frequency = frequencyOf(op);
      for (Value def : group.defs)
        graph.definers[def] = graph.nodes.size();
      graph.nodes.push_back(std::move(node));
    }
    if (rules::isDerived(op) && groups->size() == 2)
      graph.links.push_back({op, first, first + 1});
    return WalkResult::advance();
  };
  // The arguments of a function belong to its own graph.
  if (auto func = dyn_cast<func::FuncOp>(scope.getParentOp()); func && visit(func).wasInterrupted())
    return failure();
  if (scope.walk<WalkOrder::PreOrder>(visit).wasInterrupted())
    return failure();
  for (unsigned index = 0; index < graph.nodes.size(); ++index)
    for (OpOperand *use : graph.nodes[index].group.uses)
      if (std::optional<unsigned> definer = graph.definer(use->get()))
        graph.join(index, *definer);
  for (unsigned index = 0; index < graph.nodes.size(); ++index) {
    auto fragment = fragmentOf(graph, index);
    if (failed(fragment))
      return failure();
    graph.nodes[index].fragment = *fragment;
  }
  return graph;
}
