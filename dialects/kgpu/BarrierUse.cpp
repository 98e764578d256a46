// Which ops bring a barrier, which leave something in flight, and which wait for that.
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

int64_t kgpu::clusterSize(Operation *op) { return moduleNumber(op, kClusterAttrName, 1); }

/// All threads that execute `op`: those of its role, or of the program instance. (In a cluster a role runs in all ctas,
/// and no barrier covers its threads alone: kiln-verify-barriers refuses barriers of the cluster in roles.)
static BarrierUse ofInstance(Operation *op) {
  if (clusterSize(op) > 1)
    return {Scope::Cluster};
  return {roleAround(op).first ? Scope::Role : Scope::Cta};
}

/// The order of an atomic covers the accesses of the whole instance: those before it are done before it releases, those
/// after it wait until it has acquired.
static BarrierUses ofAtomic(Operation *op, tile::MemSemantic sem) {
  using tile::MemSemantic;
  BarrierUses uses;
  if (sem == MemSemantic::Release || sem == MemSemantic::AcqRel)
    uses.before = ofInstance(op);
  if (sem == MemSemantic::Acquire || sem == MemSemantic::AcqRel)
    uses.after = ofInstance(op);
  return uses;
}

/// After the last channel with mbarriers there is a barrier of all threads that may use one, so that none does before
/// they are initialised. In a cluster the fence after the initialisation makes it visible to others, so the barrier
/// itself orders no memory.
static BarrierUses ofChannel(ChannelOp channel) {
  auto hasBarriers = [](ChannelOp op) { return op.getCompletion() != Completion::Groups; };
  if (!hasBarriers(channel))
    return {};
  for (Operation *next = channel->getNextNode(); next; next = next->getNextNode())
    if (auto other = dyn_cast<ChannelOp>(next); other && hasBarriers(other))
      return {};
  BarrierUse use = ofInstance(channel);
  use.relaxed = use.isCluster();
  return {{}, use};
}

/// A thread that has waited for its own copies knows nothing of other threads' copies, so a barrier follows the wait:
/// none of those here if a warp reads only what it has copied. The barrier of a warp is no matter of the instance.
static BarrierUses ofReceive(ReceiveOp receive) {
  auto channel = receive.getChannel().getDefiningOp<ChannelOp>();
  if (!channel || channel.getCompletion() != Completion::Groups || receive.getByWarp())
    return {};
  return {{}, ofInstance(receive)};
}

/// No cta of a cluster ends while another may still write to its memory or arrive at its barriers.
static BarrierUses ofReturn(Operation *op) {
  bool sends = false;
  for (Operation &other : *op->getBlock())
    if (auto channel = dyn_cast<ChannelOp>(other))
      sends |= channel.isMulticast();
  BarrierUse last{Scope::Cluster};
  last.relaxed = true; // it only keeps the ctas alive; it orders no writes
  return clusterSize(op) > 1 && sends ? BarrierUses{last, {}} : BarrierUses();
}

BarrierUses kgpu::barriersOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, BarrierUses>(op)
      .Case([](BarrierOp barrier) { return BarrierUses{{}, BarrierUse{barrier.getScope()}}; })
      .Case([](ClusterArriveOp arrive) {
        return BarrierUses{{}, BarrierUse{Scope::Cluster, /*arrives=*/true, /*waits=*/false, arrive.getRelaxed()}};
      })
      .Case(
          [](ClusterWaitOp) { return BarrierUses{{}, BarrierUse{Scope::Cluster, /*arrives=*/false, /*waits=*/true}}; })
      .Case([](ChannelOp channel) { return ofChannel(channel); })
      .Case([](ReceiveOp receive) { return ofReceive(receive); })
      .Case([](func::ReturnOp op) { return ofReturn(op); })
      .Case([](tile::BarrierOp barrier) { return BarrierUses{{}, ofInstance(barrier)}; })
      .Case([](tile::AtomicRMWOp atomic) { return ofAtomic(atomic, atomic.getSem()); })
      .Case([](tile::AtomicCASOp atomic) { return ofAtomic(atomic, atomic.getSem()); })
      .Default([](Operation *) { return BarrierUses(); });
}

bool kgpu::releasesCopies(Operation *op) {
  return isa<tile::AtomicRMWOp, tile::AtomicCASOp>(op) && barriersOf(op).before && !op->hasAttr(kPassesTurnAttrName);
}

std::optional<Flight> kgpu::flightOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Flight>>(op)
      .Case([](WarpgroupMmaOp) { return Flight::Product; })
      .Case<CopyInOp, CopyBlockOp, CopyTileOp>([](Operation *) { return Flight::CopyIn; })
      .Case([](CopyOutOp) { return Flight::CopyOut; })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Wait> kgpu::waitOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Wait>>(op)
      .Case([](MmaWaitOp wait) { return Wait{Flight::Product, int32_t(wait.getPending()), /*readsOnly=*/false}; })
      .Case([](CopyOutWaitOp wait) { return Wait{Flight::CopyOut, int32_t(wait.getPending()), wait.getRead()}; })
      .Default([](Operation *) { return std::nullopt; });
}
