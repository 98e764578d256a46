// kiln-overlap-launches: marks where the next launch may begin, and where this one waits for the previous one.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/ReadRuns.h"
#include "dialects/kgpu/KgpuAttributes.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/kgpu/LaunchFacts.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace kiln {
#define GEN_PASS_DEF_OVERLAPLAUNCHESPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// The kernel contains such an op itself, on whatever path.
template <typename Op> static bool says(func::FuncOp kernel) {
  return kernel.walk([](Op) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Accesses global memory, which another grid may have written.
static bool accessesGlobal(Operation *op) {
  return op
      ->walk([](Operation *inner) { return globalEffect(inner) ? WalkResult::interrupt() : WalkResult::advance(); })
      .wasInterrupted();
}

/// The op before which the next launch may begin; null if it may begin at once.
static Operation *findTrigger(func::FuncOp kernel) {
  kgpu::ReadRuns runs(kernel);
  for (Operation &op : kernel.front().without_terminator()) {
    runs.take(&op);
    if (runs.size() == 0 && isa<LoopLikeOpInterface>(op))
      return nullptr;
    // A write, a branch or a loop ends the run too, whether or not it needs it: after it the next launch would be late.
    // But not a loop of a ring's first copies: the next launch would ask for memory ahead of these.
    bool branches = isa<RegionBranchOpInterface>(op) && !kgpu::fillsRing(&op);
    if (runs.size() > 0 && (runs.ends() || writesGlobal(&op) || branches))
      return &op;
    if (runs.ends())
      runs.close();
  }
  return nullptr;
}

/// The op before which the next launch may begin at once: after this block's arrival, which the cluster's other blocks
/// wait for.
static Operation *findStart(func::FuncOp kernel) {
  auto arrivals = kernel.front().getOps<kgpu::ClusterArriveOp>();
  return arrivals.empty() ? nullptr : (*arrivals.begin())->getNextNode();
}

/// Inserts a wait before the block's first op that accesses global memory; returns whether there is one.
static bool waitIn(Block &block) {
  for (Operation &op : block.without_terminator()) {
    // Each role waits for itself.
    if (auto roles = dyn_cast<kgpu::RolesOp>(op)) {
      for (Region &body : roles.getBodies())
        waitIn(body.front());
      continue;
    }
    if (!accessesGlobal(&op))
      continue;
    OpBuilder b(&op);
    tile::WaitForGridOp::create(b, op.getLoc());
    return true;
  }
  return false;
}

static void addTrigger(Operation *before, Location where) {
  OpBuilder b(before);
  tile::LaunchDependentsOp::create(b, where);
}

namespace {
struct OverlapLaunches : kiln::impl::OverlapLaunchesPassBase<OverlapLaunches> {
  using Base = kiln::impl::OverlapLaunchesPassBase<OverlapLaunches>;
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr("tile.kernel") || kernel.isExternal() ||
        !kernel->getParentOfType<ModuleOp>()->hasAttr(kgpu::kPdlAttrName))
      return;
    Block &block = kernel.front();
    bool waits = says<tile::WaitForGridOp>(kernel), triggers = says<tile::LaunchDependentsOp>(kernel);
    // Programs that all run at once lose no resources to the next launch.
    bool atOnce = kgpu::moduleHas(kernel, kgpu::kSingleWaveAttrName);
    Operation *trigger = triggers ? nullptr : atOnce ? findStart(kernel) : findTrigger(kernel);
    if (trigger)
      addTrigger(trigger, trigger->getLoc());
    // Also if there is nothing to wait for: the next grid waits only for this one, and thereby for all before it.
    bool isLast = !waits && !waitIn(block);
    if (isLast) {
      OpBuilder b(block.getTerminator());
      tile::WaitForGridOp::create(b, kernel.getLoc());
    }
    if (triggers || trigger)
      return;
    // If programs begin the next launch before they wait, those of several launches wait at the same time, and take the
    // place of others.
    auto own = block.getOps<tile::WaitForGridOp>();
    bool first = atOnce || isLast || own.empty();
    addTrigger(first ? &block.front() : (*own.begin())->getNextNode(), kernel.getLoc());
  }
};
} // namespace
