// Barriers of the cta and of the cluster, all of them: emitted from what dialects/kgpu/BarrierUse.h says of an op.
#include "compiler/conversion/kgpu_to_nvvm/Mbarrier.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

void Lowering::emitBarrier(const kgpu::BarrierUse &use) {
  if (!use.isCluster()) {
    // A role has a barrier for its own threads, identified by number, and so has each of its groups.
    bool ofGroup = use.scope == kgpu::Scope::Group;
    int64_t together = ofGroup ? 32 * place.warps() : place.threads();
    if (together == 32)
      b.syncWarp();
    else if (ofGroup)
      b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count", Type(), {place.groupBarrier(), b.i32(together)});
    else if (place.barrier())
      b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count", Type(), {b.i32(place.barrier()), b.i32(place.threads())});
    else
      b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", Type(), {b.i32(0)});
    return;
  }
  if (use.arrives)
    b.intrinsic(use.relaxed ? "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned"
                            : "llvm.nvvm.barrier.cluster.arrive.aligned",
                Type(), {});
  if (use.waits)
    b.intrinsic("llvm.nvvm.barrier.cluster.wait.aligned", Type(), {});
}

void CodeBuilder::syncWarp() { intrinsic("llvm.nvvm.bar.warp.sync", Type(), {i32(-1)}); }

/// The first arrival also publishes the initialised mbarriers.
static LogicalResult emitArrive(Lowering &lowering, kgpu::ClusterArriveOp op) {
  if (op.getRelaxed())
    openMbarriers(lowering);
  return success();
}

/// For ops that consist of their barrier alone.
static LogicalResult emitNothing(Lowering &, Operation *) { return success(); }

void nvvm::addBarriers(EmitTable &table) {
  table.add<kgpu::ClusterArriveOp, emitArrive>();
  table.addAll<emitNothing, kgpu::BarrierOp, kgpu::ClusterWaitOp, tile::BarrierOp>();
}
