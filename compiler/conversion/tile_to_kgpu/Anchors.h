// What nodes of the graph ask for and pay: the ops' side of inference.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Candidates.h"
#include "compiler/conversion/tile_to_kgpu/Graph.h"

namespace kiln::assign {

// The cost of a layout an op cannot work in.
constexpr double kImpossible = 1e12;

int64_t elementsOf(const Node &node);
/// A node that proposes layouts: accesses, dots, and what combines elements along an axis.
bool isAnchor(const Node &node);
/// An anchor that may leave the layout of its class. Not a reduction: exchanging partial results is cheaper than moving
/// all.
bool mayLeave(const Node &node);
/// How much depends on the node being served well: bytes moved, or what stands for them.
double weightOf(const Node &node);
/// What the node costs in a layout, times how often it runs.
double costOf(const Node &node, const layout::Layout &layout);
/// What the nodes ask for together. `linked`: what follows from the layout may want runs that no access asks for (pairs
/// that are split, groups with a scale).
Wishes wishesOf(llvm::ArrayRef<const Node *> nodes, bool linked = false);

} // namespace kiln::assign
