// The classes of values that share a layout, and what each costs in one. Every figure is computed once.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Anchors.h"
#include "compiler/conversion/tile_to_kgpu/Cost.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace kiln::assign {

/// A layout of this run, once in memory: compared and remembered by address.
using Ref = const layout::Layout *;

/// Keeps every layout of a run; a pointer to one stays valid.
class LayoutTable {
public:
  Ref get(layout::Layout layout) {
    llvm::SmallVector<std::unique_ptr<layout::Layout>, 1> &bucket = table[hash_value(layout)];
    for (const std::unique_ptr<layout::Layout> &known : bucket)
      if (*known == layout)
        return known.get();
    bucket.push_back(std::make_unique<layout::Layout>(std::move(layout)));
    return bucket.back().get();
  }
  Ref get(const std::optional<layout::Layout> &layout) {
    return layout ? get(layout->withoutReplicatedRegisters()) : nullptr;
  }

private:
  llvm::DenseMap<size_t, llvm::SmallVector<std::unique_ptr<layout::Layout>, 1>> table;
};

/// Nodes that have one layout in common, unless one is better off on its own.
struct Class {
  llvm::SmallVector<unsigned> nodes;
  llvm::SmallVector<unsigned> links; ///< that touch it
  double weight = 0;                 ///< of its anchors
  double urgency = 0;                ///< its weight or what it passes on
  Ref layout = nullptr;
  bool fixed = false;   ///< a fragment: the layout stands from the start
  bool decided = false; ///< its turn has come
  bool visited = false; ///< by score() or carry(), which walk over links
};

/// Costs of nodes, links and classes of a graph.
class Costs {
public:
  explicit Costs(Graph &graph) : graph(graph) {}

  double conversion(Ref from, Ref to, mlir::Type type);
  double nodeCost(unsigned index, Ref layout);
  /// The layout the other side of a link has if it follows this side; null where it cannot.
  Ref across(unsigned index, bool toResult, Ref layout);
  /// What it costs to bring the operand's layout to the result's, on the cheaper side of the op.
  double linkCost(unsigned index, Ref operand, Ref result);
  /// What nodes ask for alone, and the cheapest they can be.
  llvm::ArrayRef<Ref> choicesAlone(unsigned index);
  double bestAlone(unsigned index);
  /// Calls `visit` for each value that has to be converted when a node leaves the layout of its class.
  void crossings(const Node &node, llvm::function_ref<void(mlir::Value, bool isUse)> visit);
  double classCost(const Class &members, Ref layout);
  /// What the nodes of a class ask for together.
  llvm::SmallVector<Ref> choicesOf(const Class &members);
  /// The same elements in each thread, in registers that follow the rows: what accesses read off in wide pieces. A
  /// conversion to it is a renaming.
  Ref inRowOrder(Ref layout);

protected:
  Graph &graph;
  LayoutTable table;

private:
  llvm::DenseMap<unsigned, llvm::SmallVector<Ref>> alone;
  llvm::DenseMap<std::tuple<Ref, Ref, unsigned>, double> conversions;
  llvm::DenseMap<std::pair<unsigned, Ref>, double> nodeCosts;
  llvm::DenseMap<std::pair<unsigned, Ref>, Ref> followers;
};

} // namespace kiln::assign
