// Layouts that nodes of the graph propose, and their costs: all that layout inference knows of ops.
#pragma once
#include "compiler/conversion/tile_to_kgpu/Candidates.h"
#include "compiler/conversion/tile_to_kgpu/Graph.h"

namespace kiln::assign {

// The cost of a layout that an op does not support.
constexpr double kImpossible = 1e12;

int64_t elementsOf(const Node &node);
/// True for a node that proposes layouts: accesses, dots, and ops that combine elements along an axis.
bool isAnchor(const Node &node);
/// True for an anchor that may leave the layout of its class. Not a reduction: exchanging partial results is cheaper
/// than moving the whole tile.
bool mayLeave(const Node &node);
/// How much it matters to serve the node well: bytes moved, or an equivalent.
double weightOf(const Node &node);
/// The cost of the node in a layout, times how often it runs.
double costOf(const Node &node, const layout::Layout &layout);
/// The layouts that the nodes propose together. `linked`: tiles that follow from the layout by a link may need runs
/// that no access asks for (pairs that are split, groups with a scale).
Wishes wishesOf(llvm::ArrayRef<const Node *> nodes, bool linked = false);

} // namespace kiln::assign
