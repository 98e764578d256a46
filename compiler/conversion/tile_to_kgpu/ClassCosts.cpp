// The cost of nodes, links and classes in a layout.
#include "compiler/conversion/tile_to_kgpu/ClassCosts.h"
#include "dialects/layout/Builder.h"
#include "dialects/tile/TileOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Layout;

double Costs::conversion(Ref from, Ref to, Type type) {
  if (from == to)
    return 0;
  Type element = getElementTypeOrSelf(type);
  auto [entry, isNew] = conversions.try_emplace({from, to, unsigned(tile::memoryBytes(element))}, 0);
  if (isNew)
    entry->second = conversionCost(*from, *to, element, graph.machine.sharedBytes);
  return entry->second;
}

double Costs::nodeCost(unsigned index, Ref layout) {
  auto [entry, isNew] = nodeCosts.try_emplace({index, layout}, 0);
  if (!isNew)
    return entry->second;
  const Node &node = graph.nodes[index];
  double cost = node.fragment
                    ? node.frequency * conversion(layout, table.get(Layout(*node.fragment)), node.group.type())
                    : costOf(node, *layout);
  return nodeCosts[{index, layout}] = cost;
}

Ref Costs::across(unsigned index, bool toResult, Ref layout) {
  auto [entry, isNew] = followers.try_emplace({2 * index + toResult, layout}, nullptr);
  if (isNew) {
    Operation *op = graph.links[index].op;
    Ref there = table.get(toResult ? rules::resultFromOperand(op, *layout) : rules::operandFromResult(op, *layout));
    return followers[{2 * index + toResult, layout}] = there;
  }
  return entry->second;
}

double Costs::linkCost(unsigned index, Ref operand, Ref result) {
  const Node &from = graph.nodes[graph.links[index].operand], &to = graph.nodes[graph.links[index].result];
  double best = kImpossible;
  if (Ref wanted = across(index, false, result))
    best = conversion(operand, wanted, from.group.type());
  if (best > 0)
    if (Ref made = across(index, true, operand))
      best = std::min(best, conversion(made, result, to.group.type()));
  if (best == kImpossible)
    best = 2 * exchangeCost(result->registers());
  return best * from.frequency;
}

ArrayRef<Ref> Costs::choicesAlone(unsigned index) {
  SmallVector<Ref> &choices = alone[index];
  if (choices.empty())
    for (Layout &layout : candidates(wishesOf({&graph.nodes[index]}), graph.threads))
      choices.push_back(table.get(std::move(layout)));
  return choices;
}

double Costs::bestAlone(unsigned index) {
  double best = kImpossible;
  for (Ref layout : choicesAlone(index))
    best = std::min(best, nodeCost(index, layout));
  return best;
}

void Costs::crossings(const Node &node, llvm::function_ref<void(Value, bool isUse)> visit) {
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

double Costs::classCost(const Class &members, Ref layout) {
  double total = 0;
  for (unsigned index : members.nodes) {
    const Node &node = graph.nodes[index];
    double cost = nodeCost(index, layout);
    if (mayLeave(node) && members.nodes.size() > 1) {
      double apart = bestAlone(index);
      crossings(node, [&](Value, bool) { apart += node.frequency * exchangeCost(layout->registers()); });
      cost = std::min(cost, apart);
    }
    total += cost;
  }
  return total;
}

SmallVector<Ref> Costs::choicesOf(const Class &members) {
  SmallVector<const Node *> nodes;
  for (unsigned index : members.nodes)
    nodes.push_back(&graph.nodes[index]);
  SmallVector<Ref> choices;
  for (Layout &layout : candidates(wishesOf(nodes, !members.links.empty()), graph.threads))
    choices.push_back(table.get(std::move(layout)));
  return choices;
}

Ref Costs::inRowOrder(Ref layout) {
  layout::LayoutBuilder result(*layout);
  llvm::sort(result[layout::Coord::Reg], [](const layout::Digit &a, const layout::Digit &b) {
    if ((a.radix == 2) != (b.radix == 2))
      return a.radix == 2;
    for (size_t dim = a.basis.size(); dim-- > 0;)
      if (a.basis[dim] != b.basis[dim])
        return b.basis[dim] == 0 || (a.basis[dim] != 0 && a.basis[dim] < b.basis[dim]);
    return false;
  });
  std::optional<Layout> ordered = result.finish();
  return ordered ? table.get(std::move(*ordered)) : layout;
}
