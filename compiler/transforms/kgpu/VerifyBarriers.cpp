// kiln-verify-barriers: walks from every access along every path to the next barrier, looking for a conflicting access,
// and checks that barriers and mbarriers are used correctly.
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/transforms/kgpu/Owners.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/VerifyBarrierOrder.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <set>

namespace kiln {
#define GEN_PASS_DEF_VERIFYBARRIERSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

/// The count of later operations saturates here.
static constexpr int64_t kManyLater = 15;

namespace {
/// A position on a path: the next op, and what happened since the access at which the path starts.
struct Place {
  Operation *op;      ///< executed next
  int flips;          ///< 0, 1: iterations of the loop whose slots alternate, modulo 2; 2: outside that loop
  bool passedInCta;   ///< a barrier of the cta was passed (but one of the cluster is needed)
  bool arrived;       ///< cluster_arrive was passed
  bool sameRun;       ///< no loop has recomputed the addresses, or the loop never revisits them
  bool underWay;      ///< asynchronous and not waited for yet
  int64_t later;      ///< how many of its kind were begun since
  bool fenced;        ///< kgpu.fence_async was passed since the access, before the barrier
  bool passed;        ///< a barrier of all threads was passed; copy engine and tensor cores may still see older data
  bool shown = false; ///< after the fence a barrier was passed, so within this cta (this role) those see it
  /// The same two for a per-group barrier, which orders only what one group does by itself.
  bool passedInGroup = false, shownInGroup = false;
  auto key() const {
    return std::make_tuple(op, flips, passedInCta, arrived, sameRun, underWay, later, fenced, passed, shown,
                           passedInGroup, shownInGroup);
  }
};

class PathWalker {
public:
  PathWalker(const MemoryAccess &start, const MemoryAccesses &accesses, Owners &owners)
      : start(start), accesses(accesses), owners(owners), loop(alternatesIn(start.slot)), role(roleAround(start.op)) {
    asyncFollows = !start.isAsync() && start.kind != MemoryAccess::Read &&
                   llvm::any_of(accesses.all(), [&](const MemoryAccess &other) {
                     return other.isAsync() && mayConflict(start, other);
                   });
  }
  LogicalResult run();

private:
  /// Where control may go after `op` (or into it, for an op with regions).
  void after(Operation *op, Place place);
  void into(Block &block, Place place) {
    place.op = &block.front();
    open.push_back(place);
  }
  LogicalResult check(const Place &place);
  InFlightDiagnostic missing(const Place &place, const Twine &what, StringRef reason);
  LogicalResult walk();
  /// Whether the path ends here, because all relevant threads have passed a barrier.
  bool passBarrier(const std::optional<BarrierUse> &use, Place &place) const;

  const MemoryAccess &start;
  const MemoryAccesses &accesses;
  Owners &owners;
  scf::ForOp loop;
  std::pair<RolesOp, unsigned> role; ///< the role that contains the access
  bool asyncFollows;                 ///< the copy engine or the tensor cores may read what it wrote
  SmallVector<Place> open;
};
} // namespace

void PathWalker::after(Operation *op, Place place) {
  Operation *parent = op->getParentOp();
  if (Operation *next = op->getNextNode()) {
    place.op = next;
    open.push_back(place);
    return;
  }
  // At the end of a region.
  Place again = place;
  again.sameRun &= !start.changesIn(parent) || owners.stepsOver(start, parent);
  if (auto counted = dyn_cast<scf::ForOp>(parent)) {
    Place left = place;
    if (counted == loop && place.flips != 2) {
      again.flips = 1 - place.flips;
      left.flips = 2;
    }
    // Nothing orders what two program instances do to global memory.
    if (start.isShared() || !isOverPrograms(counted))
      into(*counted.getBody(), again);
    return after(parent, left);
  }
  // An access in a role continues after the roles as a separate path (see run).
  if (auto roles = dyn_cast<RolesOp>(parent))
    return role.first == roles ? void() : after(parent, place);
  if (auto branch = dyn_cast<scf::IfOp>(parent))
    return after(parent, place);
  if (auto until = dyn_cast<scf::WhileOp>(parent)) {
    if (op->getParentRegion() == &until.getAfter())
      return into(*until.getBeforeBody(), again);
    into(*until.getAfterBody(), place);
    return after(parent, place);
  }
}

InFlightDiagnostic PathWalker::missing(const Place &place, const Twine &what, StringRef reason) {
  InFlightDiagnostic error = place.op->emitOpError()
                             << "expected " << what << " between this and an earlier access (because " << reason
                             << "), got a path without one";
  error.attachNote(start.op->getLoc()) << "the earlier access";
  return error;
}

LogicalResult PathWalker::check(const Place &place) {
  bool sameThreads = roleAround(place.op) == role;
  if (place.underWay && sameThreads && !start.isShared() && start.flight == Flight::CopyOut && releasesCopies(place.op))
    return missing(place, "a wait", "this releases what the program has written, and the copy is still in flight");
  for (const MemoryAccess &access : accesses.of(place.op)) {
    if (!mayConflict(start, access) || (place.sameRun && sameThreads && owners.ofOneThread(start, access)))
      continue;
    // Another slot: the same index, an odd number of flips later.
    if (start.alloc == access.alloc && start.slot && start.slot == access.slot && loop && place.flips == 1)
      continue;
    if (place.underWay)
      return missing(place, "a wait", "the earlier access is still in flight, and one of the two writes");
    // One thread issues all of its role's copies to global memory, and it has waited.
    if (sameThreads && !start.isShared() && start.isByOneCopier() && access.isByOneCopier())
      continue;
    bool cluster = start.crosses || access.crosses;
    bool ofGroup = place.passedInGroup && sameThreads && !cluster && owners.ofOneGroup(start, access);
    bool ordered = place.passed || (place.passedInCta && !cluster) || ofGroup;
    if (!ordered)
      return missing(place, Twine("a barrier") + (cluster ? " of the cluster" : ""),
                     "both may access the same bytes, and one writes them");
    bool shown = (place.shown && !cluster) || (place.shownInGroup && ofGroup);
    if (access.isAsync() && !start.isAsync() && start.kind != MemoryAccess::Read && !shown) {
      if (!start.isShared())
        return missing(place, "known disjoint arrays",
                       "no fence here makes the threads' writes to global memory visible to the copy engine");
      return missing(place, "a kgpu.fence_async followed by a barrier",
                     "it reads what threads wrote through the async proxy, which does not see unfenced stores");
    }
  }
  // Shared memory must outlive the asynchronous accesses to it.
  bool ends = isa<func::ReturnOp, EndRoleOp>(place.op);
  if (ends && place.underWay && start.isShared())
    return missing(place, "a wait", "a copy may still be reading shared memory");
  return success();
}

bool PathWalker::passBarrier(const std::optional<BarrierUse> &use, Place &place) const {
  if (!use)
    return false;
  bool over = false;
  if (use->isCluster()) {
    place.arrived |= use->arrives && !use->relaxed;
    over = use->waits && place.arrived;
  } else if (use->scope == Scope::Group) {
    if (roleAround(place.op) == role) {
      place.passedInGroup = true;
      place.shownInGroup |= start.isShared() && place.fenced;
    }
  } else {
    // A role's barrier covers only its own threads.
    bool ours = use->scope != Scope::Role || roleAround(place.op) == role;
    place.passedInCta |= ours;
    place.shown |= ours && start.isShared() && place.fenced && use->isWhole();
    over = ours && !accesses.needClusters();
  }
  if (!over || place.underWay)
    return false;
  if (!asyncFollows || (start.isShared() && place.fenced && use->isWhole()))
    return true;
  place.passed = true;
  return false;
}

LogicalResult PathWalker::run() {
  Place begin{start.op, 0, false, false, true, start.isAsync(), 0, false, false};
  if (!passBarrier(barriersOf(start.op).after, begin))
    after(start.op, begin);
  if (failed(walk()))
    return failure();
  if (!role.first)
    return success();
  // After the roles: no barrier inside its own role counts, since those do not cover other threads.
  begin.sameRun = begin.underWay = false;
  begin.flips = 2;
  after(role.first, begin);
  return walk();
}

LogicalResult PathWalker::walk() {
  std::set<decltype(open.front().key())> seen;
  while (!open.empty()) {
    Place place = open.pop_back_val();
    if (!seen.insert(place.key()).second)
      continue;
    Operation *op = place.op;
    BarrierUses uses = barriersOf(op);
    if (passBarrier(uses.before, place))
      continue;
    if (failed(check(place)))
      return failure();
    place.fenced |= isa<FenceAsyncOp>(op);
    if (std::optional<Wait> wait = waitOf(op); wait && place.underWay && start.isOverBehind(*wait, place.later)) {
      // From here on, treat it as an access just made by the threads that waited.
      place.underWay = place.passedInCta = place.passedInGroup = place.arrived = place.passed = false;
    }
    if (place.underWay && flightOf(op) == start.flight)
      place.later = std::min<int64_t>(place.later + 1, kManyLater);
    if (passBarrier(uses.after, place))
      continue;
    if (auto roles = dyn_cast<RolesOp>(op)) {
      for (Region &body : roles.getBodies())
        into(body.front(), place);
      continue;
    }
    if (auto counted = dyn_cast<scf::ForOp>(op)) {
      into(*counted.getBody(), place);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      into(branch.getThenRegion().front(), place);
      if (!branch.getElseRegion().empty()) {
        into(branch.getElseRegion().front(), place);
        continue;
      }
    } else if (auto until = dyn_cast<scf::WhileOp>(op)) {
      into(*until.getBeforeBody(), place);
      continue;
    }
    after(op, place);
  }
  return success();
}

/// Memory with an mbarrier in a loop must have two slots that iterations alternate between; it must be awaited before
/// it is loaded from, and sent to before it is awaited.
static LogicalResult verifyMbarrier(AllocOp alloc) {
  Operation *parent = alloc->getParentOp();
  auto loop = dyn_cast<scf::ForOp>(parent);
  if (!isa<func::FuncOp, RolesOp>(parent) && !(loop && isa<func::FuncOp, RolesOp>(loop->getParentOp())))
    return alloc.emitOpError(
        "expected memory with an mbarrier in the body of the function or of a role, or in a loop directly in it "
        "(because elsewhere one slot may be used twice in a row), got it nested deeper");
  Value slot = alloc.getMem();
  if (loop) {
    auto chosen = slot.hasOneUse() ? dyn_cast<SlotOp>(*slot.getUsers().begin()) : SlotOp();
    if (int32_t(alloc.getSlots()) != 2 || !chosen || alternatesIn(chosen.getIndex()) != loop)
      return alloc.emitOpError("expected two slots that the loop's iterations alternate between (because nothing tells "
                               "a sender that a slot has been read), got slots used otherwise");
    slot = chosen.getResult();
  }
  bool sent = false, awaited = false;
  SmallVector<Value> views = viewsOf(slot);
  for (Operation &op : *alloc->getBlock()) {
    if (isView(&op) || llvm::none_of(op.getOperands(), [&](Value used) { return llvm::is_contained(views, used); }))
      continue;
    bool fits = isa<LocalStoreOp>(op) ? !awaited : isa<AwaitOp>(op) ? sent : isa<LocalLoadOp>(op) && awaited;
    if (!fits)
      return op.emitOpError(
          "expected memory with an mbarrier to be stored to, awaited and read in this order, got another order");
    sent |= isa<LocalStoreOp>(op);
    awaited |= isa<AwaitOp>(op);
  }
  for (Value view : views)
    for (Operation *user : view.getUsers())
      if (user->getBlock() != alloc->getBlock())
        return user->emitOpError("expected memory with an mbarrier to be used in the block of its allocation (because "
                                 "each run of that block is one phase of the mbarrier), got another block");
  return success();
}

/// The first write into another cta comes after all ctas have started, and after mbarriers were initialized, which the
/// relaxed arrival does.
static LogicalResult verifyStart(func::FuncOp function) {
  bool waited = false, opened = false, ready = false, hasMbarrier = false;
  function.walk([&](AllocOp alloc) { hasMbarrier |= alloc.getMbarrier(); });
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto arrive = dyn_cast<ClusterArriveOp>(op);
    if (hasMbarrier && arrive && arrive.getRelaxed()) {
      if (opened || op->getParentOp() != function) {
        op->emitOpError(
            "expected one relaxed arrival, in the function's body (because it initialises the mbarriers), got ")
            << (opened ? "a second" : "it deeper");
        return WalkResult::interrupt();
      }
      opened = true;
    }
    BarrierUses uses = barriersOf(op);
    for (const std::optional<BarrierUse> &use : {uses.before, uses.after})
      if (use && use->isCluster() && use->waits && op->getParentOp() == function) {
        waited = true;
        ready |= opened;
      }
    auto store = dyn_cast<LocalStoreOp>(op);
    if (!store || !store.crossesCtas())
      return WalkResult::advance();
    if (!waited) {
      store.emitOpError("expected a barrier of the cluster first (because the shared memory of another cta may be "
                        "written only after that cta has started), got none");
      return WalkResult::interrupt();
    }
    if (hasMbarrier && !ready) {
      store.emitOpError("expected a relaxed arrival at the barrier of the cluster and a wait for it first (because it "
                        "initialises the mbarriers), got none");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// An allocation may use a ring's bytes only after the ring's last barrier.
static LogicalResult verifyRings(func::FuncOp function) {
  for (auto channel : function.getOps<ChannelOp>()) {
    auto offset = channel.getOffset();
    if (!offset)
      continue;
    int64_t begin = int64_t(*offset), end = begin + channel.getBytes();
    ReceiveOp last = lastBarrierAt(channel);
    auto isBehind = [&](Operation *op) {
      Operation *around = last ? last->getBlock()->findAncestorOpInBlock(*op) : nullptr;
      return around && last->isBeforeInBlock(around);
    };
    WalkResult result = function.walk([&](AllocOp alloc) {
      auto place = alloc.getOffset();
      if (!place || int64_t(*place) >= end || int64_t(*place) + alloc.getBytes() <= begin)
        return WalkResult::advance();
      for (Value view : viewsOf(alloc))
        for (Operation *user : view.getUsers())
          if (!isa<SlotOp, ViewOp, TransOp>(user) && !isBehind(user)) {
            InFlightDiagnostic error = user->emitOpError(
                "expected memory that overlaps no ring, or that is used only after the ring's last barrier of all "
                "threads (because its slots are filled and read until then), got a use before that barrier");
            error.attachNote(channel.getLoc()) << "the ring";
            return WalkResult::interrupt();
          }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
  }
  return success();
}

/// Roles take turns with this memory, whole allocations of the same bytes; kiln-verify-channels proves it.
static bool takeTurns(const MemoryAccess &one, const MemoryAccess &other) {
  AllocOp first = one.alloc, second = other.alloc;
  return first && second && first.turnNumber() && first.turnNumber() == second.turnNumber() &&
         first.getOffset() == second.getOffset();
}

/// Roles run concurrently, and only channels order the accesses of one role before those of another.
static LogicalResult verifyApart(const MemoryAccesses &accesses) {
  for (const MemoryAccess &one : accesses.all()) {
    auto role = roleAround(one.op);
    if (!role.first)
      continue;
    for (const MemoryAccess &other : accesses.all()) {
      if (other.op == one.op || roleAround(other.op).first != role.first ||
          roleAround(other.op).second <= role.second || !mayConflict(one, other))
        continue;
      // Accesses of two programs that roles take turns with: nothing orders programs, in one block or in two.
      auto program = programOfPair(one.op), another = programOfPair(other.op);
      if (!one.isShared() && program && another && program != another)
        continue;
      if (takeTurns(one, other))
        continue;
      InFlightDiagnostic error =
          other.op->emitOpError()
          << "expected no other role to touch the same "
          << (other.isShared() ? "shared memory" : "array, unless the arrays are known to be disjoint")
          << " (because roles run concurrently, and only channels order them), got such an access";
      error.attachNote(one.op->getLoc()) << "in the other role";
      return failure();
    }
  }
  return success();
}

namespace {
struct VerifyBarriers : kiln::impl::VerifyBarriersPassBase<VerifyBarriers> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    bool failedOnce = false;
    getOperation().walk([&](AllocOp alloc) {
      if (alloc.getMbarrier())
        failedOnce |= failed(verifyMbarrier(alloc));
    });
    if (failed(verifyBarrierOrder(getOperation())) || failed(checkAccesses(getOperation())))
      return signalPassFailure();
    MemoryAccesses accesses(getOperation());
    failedOnce |= failed(verifyRings(getOperation())) || failed(verifyApart(accesses));
    Owners owners;
    for (const MemoryAccess &access : accesses.all()) {
      // Most global accesses conflict with nothing, so there is no path to walk.
      bool worth = access.isAsync() ||
                   llvm::any_of(accesses.all(), [&](const MemoryAccess &other) { return mayConflict(access, other); });
      if (worth)
        failedOnce |= failed(PathWalker(access, accesses, owners).run());
    }
    failedOnce |= failed(verifyStart(getOperation()));
    if (failedOnce)
      signalPassFailure();
  }
};
} // namespace
