// The classes of values that share a layout, and their cost in each layout. Every cost is computed once.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Anchors.h"
#include "compiler/conversion/tile_to_kgpu/Cost.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace kiln::assign {

/// A layout in the LayoutTable, where each exists once, so that layouts are compared and memoised by address.
using Ref = const layout::Layout *;

/// Holds every layout of one run of the solver; pointers to them stay valid.
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

/// Nodes that share a layout, unless one is better off with its own.
struct Class {
  llvm::SmallVector<unsigned> nodes;
  llvm::SmallVector<unsigned> links; ///< links that touch it
  llvm::SmallVector<Ref, 1> offers;  ///< layouts in which it would reach a fragment without a conversion
  double weight = 0;                 ///< of its anchors
  double urgency = 0;                ///< its own weight, or what reaches it over links
  Ref layout = nullptr;
  bool fixed = false;   ///< has a fragment, which determines the layout from the start
  bool decided = false; ///< has been assigned a layout
  bool visited = false; ///< by score() or carry(), which walk the links
};

/// The costs of the nodes, links and classes of a graph.
class Costs {
public:
  explicit Costs(Graph &graph) : graph(graph) {}

  double conversion(Ref from, Ref to, mlir::Type type);
  double nodeCost(unsigned index, Ref layout);
  /// The layout of a link's other side if it follows this side; null where it cannot.
  Ref across(unsigned index, bool toResult, Ref layout);
  /// The cost of converting the operand's layout to the result's, on the cheaper side of the op.
  double linkCost(unsigned index, Ref operand, Ref result);
  /// What a node proposes by itself, and the least that it can cost.
  llvm::ArrayRef<Ref> choicesAlone(unsigned index);
  double bestAlone(unsigned index);
  /// Calls `visit` for each value that needs a conversion when a node leaves the layout of its class.
  void crossings(const Node &node, llvm::function_ref<void(mlir::Value, bool isUse)> visit);
  double classCost(const Class &members, Ref layout);
  /// What the nodes of a class propose together.
  llvm::SmallVector<Ref> choicesOf(const Class &members);
  /// The same elements in each thread, with registers in row order, so that accesses can be wide. Converting to it only
  /// renames registers.
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
