// Writes the decisions into the IR: types, conversions, and copies of floating values.
#include "compiler/conversion/tile_to_kgpu/Candidates.h"
#include "compiler/conversion/tile_to_kgpu/Cost.h"
#include "compiler/conversion/tile_to_kgpu/Graph.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/LayoutDialect.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;
using layout::Layout;

namespace {
class Rewriter {
public:
  explicit Rewriter(Graph &graph) : graph(graph) {}

  void run() {
    for (Node &node : graph.nodes)
      for (Value def : node.group.defs)
        def.setType(layout::withLayout(cast<RankedTensorType>(def.getType()), *node.layout));
    for (Node &node : graph.nodes)
      for (OpOperand *use : node.group.uses)
        use->set(inLayout(use->get(), *node.layout));
    // Every use has a copy of its own by now.
    for (Value value : llvm::reverse(graph.floatingValues()))
      value.getDefiningOp()->erase();
  }

private:
  /// The value that `value` is a copy of: an op that is recomputed starts from its original operands.
  Value original(Value value) const {
    auto found = originals.find(value);
    return found == originals.end() ? value : found->second;
  }

  Value inLayout(Value value, const Layout &wanted) {
    value = original(value);
    bool floats = graph.isFloating(value);
    if (!floats && layout::getLayout(cast<RankedTensorType>(value.getType())) == wanted)
      return value;
    for (auto &[layout, copy] : copies[value])
      if (layout == wanted)
        return copy;
    Value copy = floats || isBetterRepeated(value, wanted) ? compute(value, wanted) : convert(value, wanted);
    copies[value].push_back({wanted, copy});
    originals[copy] = value;
    return copy;
  }

  /// True when recomputing the value is cheaper than converting it: a cast of something narrower or a broadcast of
  /// something smaller, which is converted instead; or a cast or a change of shape of something that is read again.
  bool isBetterRepeated(Value value, const Layout &wanted) {
    Operation *op = value.getDefiningOp();
    if (!op || isBetterRead(value, wanted))
      return op;
    bool casts = op->getNumOperands() == 1 && isa<CastOpInterface>(op) && isa<arith::ArithDialect>(op->getDialect());
    if (!casts && !isa<tile::BroadcastOp, tile::ExpandDimsOp, tile::TransOp, tile::ReshapeOp>(op))
      return false;
    std::optional<Layout> needed = casts ? wanted : rules::operandFromResult(op, wanted);
    if (!needed)
      return false;
    Value operand = original(op->getOperand(0));
    auto bits = [](Value tile) { return getElementTypeOrSelf(tile).getIntOrFloatBitWidth(); };
    if (isa<tile::BroadcastOp>(op) || (casts && bits(operand) < bits(value)) || graph.isFloating(operand))
      return true;
    return layout::getLayout(operand) == *needed || isBetterRepeated(operand, *needed);
  }

  /// True for a small tile that is cheaper to read twice (the second time from L1) than to move between threads.
  bool isBetterRead(Value value, const Layout &wanted) {
    Operation *op = value.getDefiningOp();
    auto load = dyn_cast_or_null<tile::LoadOp>(op);
    if (!load || load.getIsVolatile())
      return false;
    const Node &node = graph.nodes[*graph.definer(value)];
    bool floats = llvm::all_of(op->getOperands(), [&](Value operand) {
      return !isa<RankedTensorType>(operand.getType()) || graph.isFloating(original(operand));
    });
    // Half the cost: the lines are already being fetched.
    return floats && accessCost(*node.access, wanted) / 2 <
                         conversionCost(*node.layout, wanted, value.getType(), graph.machine.sharedBytes);
  }

  Value convert(Value value, const Layout &wanted) {
    // Right after the value: outside of the loops in which it is invariant, once for all uses.
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto type = layout::withLayout(cast<RankedTensorType>(value.getType()), wanted);
    return kgpu::ConvertOp::create(builder, value.getLoc(), type, value);
  }

  /// Recomputes the op, next to the original, on operands in the layout that it then needs.
  Value compute(Value value, const Layout &wanted) {
    Operation *op = value.getDefiningOp();
    Layout made = wanted, needed = wanted;
    if (rules::isDerived(op)) {
      auto shape = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
      if (auto operand = rules::operandFromResult(op, wanted)) {
        needed = *operand;
      } else {
        needed = plainLayout(shape, graph.threads);
        // The layout of the flat order fits wherever any layout does.
        if (auto result = rules::resultFromOperand(op, needed))
          made = result->withoutReplicatedRegisters();
      }
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isa<RankedTensorType>(operand.getType()) ? inLayout(operand, needed) : operand);
    OpBuilder builder(op);
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    auto type = layout::withLayout(cast<RankedTensorType>(value.getType()), made);
    copy->getResult(0).setType(type);
    if (auto constant = dyn_cast<arith::ConstantOp>(copy))
      constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue()).reshape(type));
    return made == wanted ? copy->getResult(0) : convert(copy->getResult(0), wanted);
  }

  Graph &graph;
  llvm::DenseMap<Value, SmallVector<std::pair<Layout, Value>, 2>> copies;
  llvm::DenseMap<Value, Value> originals;
};
} // namespace

void assign::rewrite(Graph &graph) { Rewriter(graph).run(); }
