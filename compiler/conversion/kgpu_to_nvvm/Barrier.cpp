// Barriers of the cta and of the cluster, all of them: emitted from what dialects/kgpu/BarrierUse.h says of an op.
#include "compiler/conversion/kgpu_to_nvvm/Channel.h"
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

/// Two groups come to a turn's barrier: the one whose turn it is, which waits, and the one before it.
static void comeToTurn(Lowering &lowering, bool waits) {
  CodeBuilder &b = lowering.b;
  b.intrinsic(waits ? "llvm.nvvm.barrier.cta.sync.aligned.count" : "llvm.nvvm.barrier.cta.arrive.aligned.count", Type(),
              {lowering.place.turnBarrier(/*ofNext=*/!waits), b.i32(2 * 32 * lowering.place.warps())});
}

static LogicalResult emitBeginTurn(Lowering &lowering, kgpu::BeginTurnOp) {
  comeToTurn(lowering, /*waits=*/true);
  return success();
}

static LogicalResult emitEndTurn(Lowering &lowering, kgpu::EndTurnOp) {
  comeToTurn(lowering, /*waits=*/false);
  return success();
}

void nvvm::openTurns(Lowering &lowering, bool opens) {
  CodeBuilder &b = lowering.b;
  Value group = b.i32(opens ? lowering.place.groups() - 1 : 0);
  Value comes = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.group(), group);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(scf::IfOp::create(b, comes, /*withElseRegion=*/false).thenBlock());
  comeToTurn(lowering, /*waits=*/!opens);
}

/// For ops that consist of their barrier alone.
static LogicalResult emitNothing(Lowering &, Operation *) { return success(); }

void nvvm::addBarriers(EmitTable &table) {
  table.add<kgpu::ClusterArriveOp, emitArrive>();
  table.add<kgpu::BeginTurnOp, emitBeginTurn>();
  table.add<kgpu::EndTurnOp, emitEndTurn>();
  table.addAll<emitNothing, kgpu::BarrierOp, kgpu::ClusterWaitOp, tile::BarrierOp>();
}
