// kiln-sink-factors: converts operands of warp products right before they are multiplied, and tiles that are loaded
// next to a ring behind its first copies.
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/ReadRuns.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_SINKFACTORSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Moves what is computed from loaded tiles in front of `fill`, and only used behind it, there: the copies then do not
/// wait for these tiles.
static void sinkBehind(Operation &fill) {
  SmallVector<Operation *> waiting;
  DenseSet<Value> loaded;
  for (Operation &op : llvm::make_range(fill.getBlock()->begin(), fill.getIterator())) {
    bool waits = llvm::any_of(op.getOperands(), [&](Value value) { return loaded.contains(value); });
    bool pure = isMemoryEffectFree(&op) && op.getNumRegions() == 0;
    if (waits && pure)
      waiting.push_back(&op);
    bool loads = isa<tile::LoadOp, tile::DescLoadOp>(op) && isa<RankedTensorType>(op.getResult(0).getType());
    if (loads || (waits && pure))
      loaded.insert_range(op.getResults());
  }
  // From the last to the first, so that users have moved before.
  for (Operation *op : llvm::reverse(waiting)) {
    bool after = llvm::all_of(op->getUsers(), [&](Operation *user) {
      Operation *top = fill.getBlock()->findAncestorOpInBlock(*user);
      return top && fill.isBeforeInBlock(top);
    });
    if (after)
      op->moveAfter(&fill);
  }
}

namespace {
struct SinkFactors : kiln::impl::SinkFactorsPassBase<SinkFactors> {
  void runOnOperation() override {
    getOperation().walk([](kgpu::WarpMmaOp product) {
      for (Value factor : {product.getLhs(), product.getRhs()})
        if (auto convert = factor.getDefiningOp<kgpu::ConvertOp>())
          if (convert->hasOneUse() && convert->getBlock() == product->getBlock())
            convert->moveBefore(product);
    });
    for (Operation &op : getOperation().front())
      if (kgpu::fillsRing(&op))
        sinkBehind(op);
  }
};
} // namespace
