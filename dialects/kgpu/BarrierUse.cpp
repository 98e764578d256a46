// Which ops bring a barrier, which leave something under way, and which wait for that.
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

/// All threads that do what `op` says: those of its role, or of the program instance. (In a cluster a role is of all
/// ctas, and no barrier is of those alone: kiln-verify-barriers refuses the cluster's there.)
static BarrierUse ofInstance(Operation *op) {
  if (clusterSize(op) > 1)
    return {Scope::Cluster};
  return {roleAround(op).first ? Scope::Role : Scope::Cta};
}

/// An atomic's order is about the accesses of the whole instance: those before it are done before it releases, those
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

/// Behind the last channel that has mbarriers there is a barrier of all threads that may use one, so that nobody does
/// before it is set up. In a cluster the fence behind setting up is what shows it to others: the barrier itself orders
/// nothing.
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

/// Threads that have waited for their own copies know nothing of those of others: a barrier follows a slot's wait.
static BarrierUses ofReceive(ReceiveOp receive) {
  auto channel = receive.getChannel().getDefiningOp<ChannelOp>();
  if (!channel || channel.getCompletion() != Completion::Groups)
    return {};
  return {{}, ofInstance(receive)};
}

/// No cta of a cluster ends while another one may still send to it or tell it something.
static BarrierUses ofReturn(Operation *op) {
  bool sends = false;
  for (Operation &other : *op->getBlock())
    if (auto channel = dyn_cast<ChannelOp>(other))
      sends |= channel.isMulticast();
  BarrierUse last{Scope::Cluster};
  last.relaxed = true; // it is about being there still, not about what was written
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
