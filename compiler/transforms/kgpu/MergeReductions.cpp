// kiln-merge-reductions: merges independent reductions of tiles with the same layout along the same axis into one op:
// their partial results cross the warps together, with one barrier.
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/kgpu/PartialLayout.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace kiln {
#define GEN_PASS_DEF_MERGEREDUCTIONSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

static bool crossesWarps(tile::ReduceOp reduce) {
  WarpSpread spread = warpSpread(layoutOf(reduce.getOperand(0).getType()), reduce.getAxis());
  return spread.ownDigits && spread.places > 1;
}

static bool isLike(tile::ReduceOp a, tile::ReduceOp b) {
  return a.getAxis() == b.getAxis() && layoutOf(a.getOperand(0).getType()) == layoutOf(b.getOperand(0).getType()) &&
         a.getResult(0).getType().getTypeID() == b.getResult(0).getType().getTypeID();
}

/// The ops between `first` and `second` that need a result of `first`; std::nullopt if one of them cannot move
/// after `second`, or if `second` itself needs one.
static std::optional<SmallVector<Operation *>> dependents(tile::ReduceOp first, tile::ReduceOp second) {
  DenseSet<Operation *> found;
  SmallVector<Operation *> ordered;
  auto needs = [&](Operation *op) {
    bool result = false;
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          result |= producer == first.getOperation() || found.contains(producer);
    });
    return result;
  };
  for (Operation *op = first->getNextNode(); op != second; op = op->getNextNode()) {
    if (!needs(op))
      continue;
    if (!isPure(op))
      return std::nullopt;
    found.insert(op);
    ordered.push_back(op);
  }
  if (needs(second))
    return std::nullopt;
  return ordered;
}

static tile::ReduceOp merge(tile::ReduceOp first, tile::ReduceOp second, ArrayRef<Operation *> after) {
  OpBuilder builder(second);
  SmallVector<Value> operands(first.getOperands());
  llvm::append_range(operands, second.getOperands());
  SmallVector<Type> types(first.getResultTypes());
  llvm::append_range(types, second.getResultTypes());
  Location loc = FusedLoc::get(builder.getContext(), {first.getLoc(), second.getLoc()});
  auto both = tile::ReduceOp::create(builder, loc, types, operands, first.getAxis());
  // The new region's first tuple is the first tuple of both regions; likewise the second.
  unsigned counts[] = {first.getNumOperands(), second.getNumOperands()}, total = counts[0] + counts[1];
  SmallVector<Type> elements;
  for (Value operand : operands)
    elements.push_back(cast<RankedTensorType>(operand.getType()).getElementType());
  llvm::append_range(elements, SmallVector<Type>(elements));
  Block *block = builder.createBlock(&both.getCombine(), {}, elements, SmallVector<Location>(elements.size(), loc));
  SmallVector<Value> yielded;
  unsigned start = 0;
  for (unsigned which : {0u, 1u}) {
    tile::ReduceOp reduce = which == 0 ? first : second;
    IRMapping map;
    Block &source = reduce.getCombine().front();
    for (unsigned i = 0; i < counts[which]; ++i) {
      map.map(source.getArgument(i), block->getArgument(start + i));
      map.map(source.getArgument(i + counts[which]), block->getArgument(total + start + i));
    }
    for (Operation &op : source.without_terminator())
      builder.clone(op, map);
    for (Value value : source.getTerminator()->getOperands())
      yielded.push_back(map.lookupOrDefault(value));
    start += counts[which];
  }
  tile::YieldOp::create(builder, loc, yielded);
  first.replaceAllUsesWith(both.getResults().take_front(counts[0]));
  second.replaceAllUsesWith(both.getResults().drop_front(counts[0]));
  Operation *last = both;
  for (Operation *op : after) {
    op->moveAfter(last);
    last = op;
  }
  first.erase();
  second.erase();
  return both;
}

namespace {
struct MergeReductions : kiln::impl::MergeReductionsPassBase<MergeReductions> {
  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks) {
      SmallVector<tile::ReduceOp> reductions;
      for (auto reduce : block->getOps<tile::ReduceOp>())
        if (crossesWarps(reduce))
          reductions.push_back(reduce);
      for (size_t i = 0; i < reductions.size(); ++i)
        for (size_t j = i + 1; j < reductions.size(); ++j) {
          if (!isLike(reductions[i], reductions[j]))
            continue;
          auto after = dependents(reductions[i], reductions[j]);
          if (!after)
            continue;
          reductions[j] = merge(reductions[i], reductions[j], *after);
          // Reductions that need the first have moved after the second.
          llvm::sort(reductions.begin() + i + 1, reductions.end(),
                     [](tile::ReduceOp a, tile::ReduceOp b) { return a->isBeforeInBlock(b); });
          break;
        }
    }
  }
};
} // namespace
