// kiln-insert-barriers: the accesses since the last barrier, followed through the structured control flow.
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/Meeting.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_INSERTBARRIERSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

namespace {
/// Which iteration's slot an access used, seen from now.
enum class Phase : uint8_t { This, Other, Unknown };

/// An access with no barrier after it (or only one that is too narrow).
struct Pending {
  const Access *access;
  Phase phase = Phase::This;
  bool sameRun = true;   ///< its addresses are still those of the values they were computed from
  bool metInCta = false; ///< a barrier of the cta came after it
  bool arrived = false;  ///< the open cluster_arrive came after it

  bool operator==(const Pending &o) const {
    return access == o.access && phase == o.phase && sameRun == o.sameRun && metInCta == o.metInCta &&
           arrived == o.arrived;
  }
};

struct State {
  SmallVector<Pending> pending;

  void add(const Pending &one) {
    if (!llvm::is_contained(pending, one))
      pending.push_back(one);
  }
  void add(const State &other) {
    for (const Pending &one : other.pending)
      add(one);
  }
  bool covers(const State &other) const {
    return llvm::all_of(other.pending, [&](const Pending &one) { return llvm::is_contained(pending, one); });
  }
};

class BarrierInserter {
public:
  explicit BarrierInserter(func::FuncOp function) : function(function), accesses(function) {}
  void run();

private:
  void visit(Block &block, State &state);
  void visit(Operation *op, State &state);
  void visitLoop(Operation *loop, State &state);
  /// One run of a loop's regions from `state`; for a while, also what holds at its exit.
  void visitBody(Operation *loop, State &state, State &exit);
  std::optional<Scope> needed(ArrayRef<Access> next, const State &state);
  void meet(State &state, const Meeting &meeting);

  func::FuncOp function;
  MemoryAccesses accesses;
  /// While only looking (no barrier is inserted): the widest barrier that is missing.
  bool looking = false;
  std::optional<Scope> missing;
};
} // namespace

static std::optional<Scope> wider(std::optional<Scope> a, std::optional<Scope> b) {
  if (!a || !b)
    return a ? a : b;
  return std::max(*a, *b);
}

std::optional<Scope> BarrierInserter::needed(ArrayRef<Access> next, const State &state) {
  std::optional<Scope> scope;
  for (const Access &access : next)
    for (const Pending &pending : state.pending) {
      const Access &earlier = *pending.access;
      if (!conflict(earlier, access, pending.sameRun))
        continue;
      bool alternate =
          earlier.slot && earlier.alloc == access.alloc && access.slot == earlier.slot && pending.phase == Phase::Other;
      if (alternate)
        continue;
      bool cluster = earlier.crosses || access.crosses;
      if (cluster || !pending.metInCta)
        scope = wider(scope, cluster ? Scope::Cluster : Scope::Cta);
    }
  return scope;
}

void BarrierInserter::meet(State &state, const Meeting &meeting) {
  State after;
  for (Pending pending : state.pending) {
    if (meeting.isCluster()) {
      pending.arrived |= meeting.arrives && !meeting.relaxed;
      if (meeting.waits && pending.arrived)
        continue;
    } else {
      if (!accesses.needClusters())
        continue;
      pending.metInCta = true;
    }
    after.add(pending);
  }
  state = after;
}

void BarrierInserter::visit(Operation *op, State &state) {
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    State otherwise = state;
    visit(branch.getThenRegion().front(), state);
    if (!branch.getElseRegion().empty())
      visit(branch.getElseRegion().front(), otherwise);
    state.add(otherwise);
    return;
  }
  if (isa<scf::ForOp, scf::WhileOp>(op))
    return visitLoop(op, state);

  Meetings meetings = meetingsOf(op);
  if (meetings.before)
    meet(state, *meetings.before);
  ArrayRef<Access> next = accesses.of(op);
  if (std::optional<Scope> scope = needed(next, state)) {
    if (looking) {
      missing = wider(missing, scope);
    } else {
      OpBuilder builder(op);
      BarrierOp::create(builder, op->getLoc(), *scope);
    }
    // Looking goes on as if it were there: what follows is not missing a second one.
    meet(state, {*scope});
  }
  for (const Access &access : next) {
    Pending pending{&access};
    if (!access.slot || !alternatesIn(access.slot))
      pending.phase = Phase::Unknown;
    state.add(pending);
  }
  if (meetings.after)
    meet(state, *meetings.after);
}

void BarrierInserter::visit(Block &block, State &state) {
  for (Operation &op : llvm::make_early_inc_range(block))
    visit(&op, state);
}

void BarrierInserter::visitBody(Operation *loop, State &state, State &exit) {
  if (auto counted = dyn_cast<scf::ForOp>(loop)) {
    visit(*counted.getBody(), state);
    exit = state;
    return;
  }
  auto open = cast<scf::WhileOp>(loop);
  visit(*open.getBeforeBody(), state);
  exit = state;
  visit(*open.getAfterBody(), state);
}

/// Seen from the next iteration.
static State nextIteration(Operation *loop, const State &state) {
  State next;
  for (Pending pending : state.pending) {
    Value slot = pending.access->slot;
    if (slot && alternatesIn(slot) == loop && pending.phase != Phase::Unknown)
      pending.phase = pending.phase == Phase::This ? Phase::Other : Phase::This;
    pending.sameRun &= !pending.access->changesIn(loop);
    next.add(pending);
  }
  return next;
}

void BarrierInserter::visitLoop(Operation *loop, State &state) {
  // First what iterations have with each other, as if nothing had come before.
  State around, exit;
  while (true) {
    State run = around;
    visitBody(loop, run, exit);
    State next = nextIteration(loop, run);
    if (around.covers(next))
      break;
    around.add(next);
  }
  // Then what came before: if that conflicts, one barrier in front of the loop settles it for all iterations.
  auto follow = [&]() {
    State from = around;
    from.add(state);
    while (true) {
      State run = from;
      visitBody(loop, run, exit);
      State next = nextIteration(loop, run);
      if (from.covers(next))
        break;
      from.add(next);
    }
  };
  bool outer = looking;
  std::optional<Scope> outerMissing = missing;
  looking = true;
  missing = std::nullopt;
  follow();
  looking = outer;
  std::optional<Scope> before = missing;
  missing = outerMissing;
  if (before) {
    if (looking) {
      missing = wider(missing, before);
    } else {
      OpBuilder builder(loop);
      BarrierOp::create(builder, loop->getLoc(), *before);
    }
    meet(state, {*before});
    bool wasLooking = looking;
    looking = true;
    std::optional<Scope> kept = missing;
    follow();
    looking = wasLooking;
    missing = kept;
  }
  // A counted loop may not run at all. Outside of it, which slot was used last is not known.
  if (isa<scf::ForOp>(loop))
    exit.add(state);
  State after;
  for (Pending pending : exit.pending) {
    if (pending.access->slot && alternatesIn(pending.access->slot) == loop)
      pending.phase = Phase::Unknown;
    after.add(pending);
  }
  state = after;
}

/// Whether all ctas of a cluster meet in the code of this op, from beginning to end.
static bool meetsCluster(Operation *op) {
  Meetings meetings = meetingsOf(op);
  auto isOne = [](const std::optional<Meeting> &meeting) {
    return meeting && meeting->isCluster() && meeting->isWhole();
  };
  return isOne(meetings.before) || isOne(meetings.after);
}

void BarrierInserter::run() {
  Operation *firstCrossing = nullptr;
  Block &entry = function.getBody().front();
  function.walk([&](LocalStoreOp store) {
    if (!store.crossesCtas())
      return;
    Operation *top = entry.findAncestorOpInBlock(*store);
    if (!firstCrossing || top->isBeforeInBlock(firstCrossing))
      firstCrossing = top;
  });
  // A cta may be written to only once it runs: it says so first thing, and who writes first waits for that.
  ClusterWaitOp wait;
  if (firstCrossing) {
    OpBuilder builder = OpBuilder::atBlockBegin(&entry);
    ClusterArriveOp::create(builder, function.getLoc(), /*relaxed=*/true);
    builder.setInsertionPoint(firstCrossing);
    wait = ClusterWaitOp::create(builder, firstCrossing->getLoc());
  }
  State state;
  visit(entry, state);
  // Nobody arrives a second time before having waited: whatever meets at the barrier of the cluster before the first
  // such store comes after the wait.
  if (wait)
    function.walk([&](Operation *op) {
      Operation *top = meetsCluster(op) ? entry.findAncestorOpInBlock(*op) : nullptr;
      if (top && top->isBeforeInBlock(wait))
        wait->moveBefore(top);
    });
}

namespace {
struct InsertBarriers : kiln::impl::InsertBarriersPassBase<InsertBarriers> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      BarrierInserter(getOperation()).run();
  }
};
} // namespace
