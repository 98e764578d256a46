// kiln-hoist-invariants: loop-invariant code motion for pure ops, and for loads that are proven harmless.
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

/// True when something in the loop may write memory, wait for another instance that does, or stop the instance before a
/// load in it is reached.
static bool mayDisturbLoads(Operation *loop) {
  return loop
      ->walk([&](Operation *op) {
        // Ordered with memory so as not to be lost or swapped, but they write none.
        if (isa<tile::PrintOp, tile::AssumeOp, tile::LaunchDependentsOp>(op) ||
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
    // Hoisting moves ops and makes no values, so what is known of the loops' bounds stays true.
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
