// Barriers of the cta and of the cluster.
#include "compiler/conversion/kgpu_to_nvvm/Mailbox.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static LogicalResult emitArrive(Lowering &lowering, kgpu::ClusterArriveOp op) {
  if (op.getRelaxed()) {
    openMailboxes(lowering);
    lowering.intrinsic("llvm.nvvm.barrier.cluster.arrive.relaxed.aligned", Type(), {});
    return success();
  }
  lowering.intrinsic("llvm.nvvm.barrier.cluster.arrive.aligned", Type(), {});
  return success();
}

static LogicalResult emitWait(Lowering &lowering, kgpu::ClusterWaitOp) {
  lowering.intrinsic("llvm.nvvm.barrier.cluster.wait.aligned", Type(), {});
  return success();
}

static LogicalResult emitBarrier(Lowering &lowering, kgpu::BarrierOp op) {
  if (op.getScope() == kgpu::Scope::Cluster) {
    lowering.intrinsic("llvm.nvvm.barrier.cluster.arrive.aligned", Type(), {});
    lowering.intrinsic("llvm.nvvm.barrier.cluster.wait.aligned", Type(), {});
    return success();
  }
  lowering.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", Type(), {lowering.i32(0)});
  return success();
}

void nvvm::addBarriers(EmitTable &table) {
  table.add<kgpu::BarrierOp, emitBarrier>();
  table.add<kgpu::ClusterArriveOp, emitArrive>();
  table.add<kgpu::ClusterWaitOp, emitWait>();
}
