// kiln-hoist-invariants: loop-invariant code motion for pure ops, and for loads proven harmless.
#include "compiler/analysis/Range.h"
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

namespace kiln {
#define GEN_PASS_DEF_HOISTINVARIANTSPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// True if something in the loop may write memory, wait for another instance that does, or stop the instance before a
/// load in the loop is reached.
static bool mayDisturbLoads(Operation *loop) {
  return loop
      ->walk([&](Operation *op) {
        // These declare effects so that they are not removed or reordered, but they write no memory.
        if (isa<tile::PrintOp, tile::AssumeOp, tile::LaunchDependentsOp, tile::PrefetchOp>(op) ||
            op->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
          return WalkResult::advance();
        bool harmless = isMemoryEffectFree(op) || hasSingleEffect<MemoryEffects::Read>(op);
        return harmless ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

static bool runsAtLeastOnce(scf::ForOp loop, const RangeAnalysis &ranges) {
  const ConstantIntRanges &lower = ranges.get(loop.getLowerBound()), &upper = ranges.get(loop.getUpperBound());
  return loop.getUnsignedCmp() ? lower.umax().ult(upper.umin()) : lower.smax().slt(upper.smin());
}

static bool isPlainLoad(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return !load.getIsVolatile();
  return isa<tile::DescLoadOp>(op);
}

namespace {
struct HoistInvariants : kiln::impl::HoistInvariantsPassBase<HoistInvariants> {
  void runOnOperation() override {
    // Hoisting moves ops and creates no values, so the ranges of loop bounds stay valid.
    RangeAnalysis ranges(getOperation());
    getOperation().walk([&](LoopLikeOpInterface loop) {
      if (loop->hasAttr("tile.no_licm"))
        return;
      auto counted = dyn_cast<scf::ForOp>(loop.getOperation());
      bool loadsMayMove = counted && runsAtLeastOnce(counted, ranges) && !mayDisturbLoads(loop);
      moveLoopInvariantCode(
          loop.getLoopRegions(), [&](Value value, Region *) { return loop.isDefinedOutsideOfLoop(value); },
          [&](Operation *op, Region *region) {
            if (isMemoryEffectFree(op) && isSpeculatable(op))
              return true;
            return loadsMayMove && op->getParentRegion() == region && isPlainLoad(op);
          },
          [&](Operation *op, Region *) { loop.moveOutOfLoop(op); });
    });
  }
};
} // namespace
