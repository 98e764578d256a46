// Chooses a layout for every node: heaviest class first, by cost.
#include "compiler/conversion/tile_to_kgpu/ClassCosts.h"
#include "dialects/tile/TileOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Layout;

// The most passes over the classes once all have a layout.
static constexpr int kSweeps = 3;
// The number of links that score() looks across.
static constexpr unsigned kLookahead = 8;
// The most classes that it looks at for one choice, so that long chains of shape ops stay affordable.
static constexpr unsigned kMostLooks = 2000;
// The most classes that carry() reaches.
static constexpr unsigned kMostReached = 16;

namespace {
class Solver : Costs {
public:
  using Costs::Costs;

  void run() {
    collect();
    fixFragments();
    for (auto &[leader, members] : classes)
      if (members.fixed)
        offer(members, members.layout);
    // The heaviest class first, then those linked to it. A class is as urgent as its own accesses, or as what reaches
    // it over its links, which never exceeds the weight of the smaller of the two tiles.
    for (size_t count = classes.size(); count > 0; --count) {
      Class *next = nullptr;
      for (auto &[leader, members] : classes)
        if (!members.decided && (!next || members.urgency > next->urgency))
          next = &members;
      assign(*next);
      next->decided = true;
      for (unsigned index : next->links)
        influence(graph.links[index], next->urgency);
    }
    // Repeat now that every neighbour is known.
    bool changed = true;
    for (int sweep = 0; changed && sweep < kSweeps; ++sweep) {
      changed = false;
      for (auto &[leader, members] : classes)
        if (!members.links.empty())
          changed |= assign(members);
    }
    for (auto &[leader, members] : classes)
      if (!members.links.empty()) {
        carry(members, members.layout);
        if (members.weight > 0)
          for (Ref layout : choicesOf(members))
            carry(members, layout);
      }
    for (auto &[leader, members] : classes)
      settle(members);
    for (unsigned index = 0; index < graph.links.size(); ++index)
      settleLink(index);
  }

private:
  /// A class with an accumulator takes its layout; of several accumulators, that of the most used. An operand fragment
  /// decides only where nothing else in its class has wishes; otherwise accesses keep theirs, and the operand is
  /// converted at its product.
  void fixFragments() {
    for (auto &[leader, members] : classes) {
      const Node *first = nullptr;
      auto before = [](const Node &a, const Node &b) {
        return a.index != b.index ? a.index < b.index : a.frequency > b.frequency;
      };
      bool free = false;
      for (unsigned index : members.nodes) {
        const Node &node = graph.nodes[index];
        free |= !node.fragment && isAnchor(node);
        if (node.fragment && (!first || before(node, *first)))
          first = &node;
      }
      if (!first || (free && first->index > 0))
        continue;
      members.fixed = true;
      members.layout = table.get(Layout(*first->fragment));
    }
  }

  /// Offers a fragment's layout to the classes with wishes that reach it over links. They choose first, when nothing
  /// between them and the product has a layout that they could follow.
  void offer(Class &from, Ref layout, unsigned depth = 0) {
    from.visited = true;
    for (unsigned index : from.links) {
      bool toResult = &classAt(graph.links[index].operand) == &from;
      Class &other = classAt(toResult ? graph.links[index].result : graph.links[index].operand);
      Ref there = other.visited || other.fixed ? nullptr : across(index, toResult, layout);
      if (there && other.weight > 0)
        other.offers.push_back(inRowOrder(there));
      else if (there && depth < kLookahead)
        offer(other, there, depth + 1);
    }
    from.visited = false;
  }

  void collect() {
    for (unsigned index = 0; index < graph.nodes.size(); ++index) {
      Class &members = classes[graph.classOf(index)];
      members.nodes.push_back(index);
      members.weight += weightOf(graph.nodes[index]);
      members.urgency = members.weight;
    }
    for (auto [index, link] : llvm::enumerate(graph.links))
      for (unsigned node : {link.operand, link.result}) {
        SmallVector<unsigned> &list = classAt(node).links;
        if (list.empty() || list.back() != index)
          list.push_back(index);
      }
  }

  Class &classAt(unsigned node) { return classes.find(graph.classOf(node))->second; }

  void influence(const Link &link, double urgency) {
    auto worth = [&](unsigned index) {
      const Node &node = graph.nodes[index];
      return double(elementsOf(node)) * double(tile::memoryBytes(node.group.type().getElementType())) * node.frequency;
    };
    double passed = std::min({urgency, worth(link.operand), worth(link.result)});
    for (unsigned node : {link.operand, link.result})
      classAt(node).urgency = std::max(classAt(node).urgency, passed);
  }

  /// The cost of a class in a layout, links included. A neighbour without anchors may follow, and is then charged what
  /// it costs in turn; others stay as they are.
  double score(Class &members, Ref layout, unsigned depth = 0) {
    double total = classCost(members, layout);
    members.visited = true;
    ++looks;
    for (unsigned index : members.links) {
      const Link &link = graph.links[index];
      bool toResult = &classAt(link.operand) == &members;
      Class &other = classAt(toResult ? link.result : link.operand);
      if (other.visited)
        continue;
      double best = kImpossible;
      if (other.layout)
        best = toResult ? linkCost(index, layout, other.layout) : linkCost(index, other.layout, layout);
      if (!other.fixed && depth < kLookahead && looks < kMostLooks && best > 0 &&
          (other.weight == 0 || !other.layout)) {
        // If the neighbour follows, the link is free, but the neighbour may cost more elsewhere.
        Ref there = across(index, toResult, layout);
        double follows = 0;
        if (there && other.weight == 0)
          follows = score(other, there, depth + 1) - (other.layout ? score(other, other.layout, depth + 1) : 0);
        else if (!there && !isa<tile::ReduceOp>(link.op))
          follows = graph.nodes[link.operand].frequency * exchangeCost(layout->registers());
        best = std::min(best, std::max(0.0, follows));
      }
      if (best < kImpossible)
        total += best;
    }
    members.visited = false;
    return total;
  }

  //===--------------------------------------------------------------------===//
  // Decisions
  //===--------------------------------------------------------------------===//

  /// Returns true when the choice changed.
  bool assign(Class &members) {
    if (members.fixed)
      return false;
    llvm::SmallSetVector<Ref, 16> choices;
    // The current layout, then those that follow from neighbours: they win ties.
    Ref before = members.layout;
    auto consider = [&](Ref layout) {
      if (layout)
        choices.insert(layout);
    };
    consider(before);
    for (unsigned index : members.links) {
      const Class &operand = classAt(graph.links[index].operand), &result = classAt(graph.links[index].result);
      if (&operand != &members && operand.layout)
        consider(across(index, true, operand.layout));
      if (&result != &members && result.layout)
        consider(across(index, false, result.layout));
    }
    llvm::for_each(members.offers, consider);
    if (members.weight > 0 || choices.empty())
      for (Ref layout : choicesOf(members))
        consider(layout);
    double best = 0;
    Ref chosen = nullptr;
    for (Ref layout : choices) {
      looks = 0;
      double cost = score(members, layout);
      if (!chosen || cost < best) {
        best = cost;
        chosen = layout;
      }
    }
    members.layout = chosen;
    return chosen != before;
  }

  /// The cost of a class once all classes have a layout.
  double standing(const Class &members) {
    double total = classCost(members, members.layout);
    for (unsigned index : members.links)
      total += linkCost(index, classAt(graph.links[index].operand).layout, classAt(graph.links[index].result).layout);
    return total;
  }

  /// Carries a layout of a class over links to classes that cost no more in it, the cheapest step first, and keeps the
  /// prefix of steps that makes the total cheapest. It resolves conversions between two accesses that no class can
  /// remove alone: whichever gives way only moves the conversion to the next link.
  void carry(Class &start, Ref layout) {
    if (classCost(start, layout) > classCost(start, start.layout) || (start.fixed && layout != start.layout))
      return;
    struct Step {
      Class *moved;
      Ref stood;
    };
    SmallVector<Step> steps;
    SmallVector<Class *> reached;
    double total = 0, best = -1e-6;
    size_t kept = 0;
    auto move = [&](Class &one, Ref there, double change) {
      one.visited = true;
      reached.push_back(&one);
      if (one.layout == there)
        return;
      steps.push_back({&one, one.layout});
      one.layout = there;
      total += change;
      if (total < best) {
        best = total;
        kept = steps.size();
      }
    };
    auto changeOf = [&](Class &one, Ref there) {
      Ref stood = one.layout;
      double change = -standing(one);
      one.layout = there;
      change += standing(one);
      one.layout = stood;
      return change;
    };
    move(start, layout, changeOf(start, layout));
    while (reached.size() < kMostReached) {
      Class *next = nullptr;
      Ref nextLayout = nullptr;
      double least = kImpossible;
      for (Class *from : reached)
        for (unsigned index : from->links) {
          bool toResult = &classAt(graph.links[index].operand) == from;
          Class &other = classAt(toResult ? graph.links[index].result : graph.links[index].operand);
          Ref follows = other.visited || other.fixed ? nullptr : across(index, toResult, from->layout);
          if (!follows)
            continue;
          for (Ref there : {follows, inRowOrder(follows)}) {
            // Accesses keep their width: they were weighed one by one.
            if (classCost(other, there) > classCost(other, other.layout))
              continue;
            if (double change = changeOf(other, there); change < least) {
              least = change;
              next = &other;
              nextLayout = there;
            }
          }
        }
      if (!next)
        break;
      move(*next, nextLayout, least);
    }
    for (const Step &step : ArrayRef(steps).drop_front(kept))
      step.moved->layout = step.stood;
    for (Class *one : reached)
      one->visited = false;
  }

  /// The layout of each node of a class: the class's, unless a fragment demands another or an anchor is cheaper on its
  /// own.
  void settle(Class &members) {
    for (unsigned index : members.nodes) {
      Node &node = graph.nodes[index];
      if (node.fragment) {
        node.layout = node.fragment;
        continue;
      }
      Ref chosen = members.layout;
      double best = nodeCost(index, chosen);
      if (mayLeave(node) && members.nodes.size() > 1 && bestAlone(index) < best)
        for (Ref layout : choicesAlone(index)) {
          double cost = nodeCost(index, layout);
          crossings(node, [&](Value value, bool isUse) {
            if (cost < best)
              cost += node.frequency *
                      conversion(isUse ? members.layout : layout, isUse ? layout : members.layout, value.getType());
          });
          if (cost < best) {
            best = cost;
            chosen = layout;
          }
        }
      node.layout = *chosen;
    }
  }

  /// Changes one side of a shape op if the two do not match.
  void settleLink(unsigned index) {
    const Link &link = graph.links[index];
    Node &operand = graph.nodes[link.operand], &result = graph.nodes[link.result];
    Ref from = table.get(*operand.layout), to = table.get(*result.layout);
    Ref made = across(index, true, from), wanted = across(index, false, to);
    if (!wanted && !made) {
      // In row order both shapes hold the same elements in the same sequence, if that is a layout at all. If not, the
      // op itself goes through shared memory.
      Ref flat = table.get(plainLayout(operand.group.type().getShape(), graph.threads));
      if (Ref fitting = across(index, true, flat)) {
        operand.layout = *flat;
        result.layout = *fitting;
      }
      return;
    }
    double atOperand = wanted ? conversion(from, wanted, operand.group.type()) : kImpossible;
    double atResult = made ? conversion(made, to, result.group.type()) : kImpossible;
    if (atOperand <= atResult)
      operand.layout = *wanted;
    else
      result.layout = *made;
  }

  unsigned looks = 0;
  llvm::MapVector<unsigned, Class> classes;
};
} // namespace

void assign::solve(Graph &graph) { Solver(graph).run(); }
