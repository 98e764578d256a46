// kiln-insert-barriers: the accesses since the last barrier, followed through the structured control flow; each role as
// a program of its own.
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/layout/Constructors.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

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

/// Beyond so many later ones it is not counted how many.
constexpr int64_t kManyLater = 15;

/// An access with no barrier after it (or only one that is too narrow).
struct Pending {
  const MemoryAccess *access;
  Phase phase = Phase::This;
  bool sameRun = true;      ///< its addresses are those of the values they were computed from, or nobody's by now
  bool passedInCta = false; ///< a barrier of the cta (of the role) came after it
  bool arrived = false;     ///< the open cluster_arrive came after it
  bool passed = false;      ///< a barrier of all came after it: only copy engine and tensor cores may not see it yet
  bool fenced = false;      ///< its thread made it visible to those, and has yet to pass a barrier
  bool shown = false;       ///< and passed a barrier of the cta (of the role) since
  bool passedInGroup = false, shownInGroup = false; ///< the same two of a barrier of each group
  bool underWay = false;                            ///< nobody has waited for it
  int64_t later = 0;                                ///< how many of its kind were begun after it

  auto tied() const {
    return std::tie(access, phase, sameRun, passedInCta, arrived, passed, fenced, shown, passedInGroup, shownInGroup,
                    underWay, later);
  }
  bool operator==(const Pending &other) const { return tied() == other.tied(); }
};

/// What is missing in front of an op.
struct Need {
  std::optional<Scope> scope;
  bool fence = false; ///< a kgpu.fence_async in front of the barrier

  explicit operator bool() const { return scope.has_value(); }
  void add(std::optional<Scope> other, bool otherFence) {
    if (!scope || (other && *other > *scope))
      scope = other ? other : scope;
    fence |= otherFence;
  }
  void add(const Need &other) { add(other.scope, other.fence); }
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
  void visitRoles(RolesOp roles, State &state);
  void visitLoop(Operation *loop, State &state);
  /// One run of a loop's regions from `state`; for a while, also what holds at its exit.
  void visitBody(Operation *loop, State &state, State &exit);
  /// What is missing between what is pending and `next`, in front of `place`.
  Need needed(ArrayRef<MemoryAccess> next, const State &state, Operation *place);
  /// Puts the wait in front of `op` without which it may overtake a copy to global memory.
  void waitForCopies(Operation *op, State &state);
  /// Puts it there (unless only looking) and says what that changes.
  void settle(const Need &need, Operation *place, State &state);
  void passBarrier(State &state, const BarrierUse &use);

  func::FuncOp function;
  MemoryAccesses accesses;
  /// While only looking (no barrier is inserted): the widest barrier that is missing.
  bool looking = false;
  Need missing;
};
} // namespace

/// The same for every element.
static bool isUniform(Value tile) {
  SplatElementsAttr constant;
  return isa_and_nonnull<tile::SplatOp>(tile.getDefiningOp()) || matchPattern(tile, m_Constant(&constant));
}

/// `tile` is `from` with the same number added to every element.
static bool isShifted(Value tile, Value from) {
  while (tile != from) {
    Operation *op = tile.getDefiningOp();
    if (!isa_and_nonnull<arith::AddIOp, tile::AddPtrOp>(op))
      return false;
    bool second = isUniform(op->getOperand(1));
    if (!second && (isa<tile::AddPtrOp>(op) || !isUniform(op->getOperand(0))))
      return false;
    tile = op->getOperand(second ? 0 : 1);
  }
  return true;
}

/// What a tile that a loop carries and shifts is before the loop; null where it is none.
static Value beforeShifts(BlockArgument argument) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  bool shifts =
      loop && argument != loop.getInductionVar() && isShifted(loop.getTiedLoopYieldedValue(argument)->get(), argument);
  return shifts ? loop.getTiedLoopInit(argument)->get() : Value();
}

/// No two elements are equal: counted up, shifted, carried by a loop that shifts them.
static bool areDistinct(Value tile) {
  if (auto argument = dyn_cast<BlockArgument>(tile)) {
    Value before = beforeShifts(argument);
    return before && areDistinct(before);
  }
  Operation *op = tile.getDefiningOp();
  if (isa<tile::MakeRangeOp>(op))
    return true;
  if (isa<tile::HintOp, tile::ExpandDimsOp, ConvertOp, arith::ExtSIOp, arith::ExtUIOp>(op))
    return areDistinct(op->getOperand(0));
  if (isa<arith::AddIOp, tile::AddPtrOp>(op))
    return (areDistinct(op->getOperand(0)) && isUniform(op->getOperand(1))) ||
           (isUniform(op->getOperand(0)) && areDistinct(op->getOperand(1)));
  return false;
}

/// How many numbers there are from the least to the greatest of a tile; 0 where that is not known.
static int64_t reachOf(Value tile) {
  if (isUniform(tile))
    return 1;
  Operation *op = tile.getDefiningOp();
  if (auto range = dyn_cast_or_null<tile::MakeRangeOp>(op))
    return range.getType().getNumElements();
  if (auto argument = dyn_cast<BlockArgument>(tile)) {
    Value before = beforeShifts(argument);
    return before ? reachOf(before) : 0;
  }
  if (isa_and_nonnull<tile::HintOp, tile::ExpandDimsOp, ConvertOp, arith::ExtSIOp>(op))
    return reachOf(op->getOperand(0));
  if (!isa_and_nonnull<arith::AddIOp, tile::AddPtrOp>(op))
    return 0;
  int64_t first = reachOf(op->getOperand(0)), second = reachOf(op->getOperand(1));
  return first && second ? first + second - 1 : 0;
}

static std::optional<int64_t> stepOf(Value value, scf::ForOp loop);

/// What stepOf says, if sums do not wrap.
static std::optional<int64_t> stepOfExact(Value value, scf::ForOp loop) {
  if (loop.isDefinedOutsideOfLoop(value))
    return 0;
  APInt step;
  if (value == loop.getInductionVar())
    return matchPattern(loop.getStep(), m_ConstantInt(&step)) ? std::optional(step.getSExtValue()) : std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner()->getParentOp() != loop)
      return std::nullopt;
    // Constants that are added to it.
    int64_t sum = 0;
    for (Value next = loop.getTiedLoopYieldedValue(argument)->get(); next != argument;) {
      Operation *op = next.getDefiningOp();
      DenseIntElementsAttr added;
      if (!isa_and_nonnull<arith::AddIOp, tile::AddPtrOp>(op) || !matchPattern(op->getOperand(1), m_Constant(&added)) ||
          !added.isSplat())
        return std::nullopt;
      sum += added.getSplatValue<APInt>().getSExtValue();
      next = op->getOperand(0);
    }
    return sum;
  }
  Operation *op = value.getDefiningOp();
  if (isa<tile::SplatOp, tile::HintOp, tile::ExpandDimsOp, ConvertOp, arith::ExtSIOp>(op))
    return stepOf(op->getOperand(0), loop);
  if (!isa<arith::AddIOp, tile::AddPtrOp>(op))
    return std::nullopt;
  std::optional<int64_t> first = stepOf(op->getOperand(0), loop), second = stepOf(op->getOperand(1), loop);
  return first && second ? std::optional(*first + *second) : std::nullopt;
}

/// What an iteration of `loop` adds to a number, or to each of a tile; std::nullopt where that is not known. Numbers of
/// fewer than 64 bits have to go on as the loop's own does: that one does not wrap, and they come to none a second
/// time.
static std::optional<int64_t> stepOf(Value value, scf::ForOp loop) {
  std::optional<int64_t> step = stepOfExact(value, loop);
  Type type = getElementTypeOrSelf(value.getType());
  bool narrow = type.isInteger() && type.getIntOrFloatBitWidth() < 64;
  APInt own;
  if (step && *step && narrow &&
      !(matchPattern(loop.getStep(), m_ConstantInt(&own)) && std::abs(*step) == std::abs(own.getSExtValue())))
    return std::nullopt;
  return step;
}

/// Each iteration of the loop steps over all that the access touches in one, so that no two touch the same. By powers
/// of two, which go into 2^32: what reaches beyond it is not where an iteration began.
static bool stepsOver(const MemoryAccess &access, Operation *loop) {
  auto counted = dyn_cast<scf::ForOp>(loop);
  if (!counted || !access.tile || !isa<RankedTensorType>(access.pointer.getType()))
    return false;
  std::optional<int64_t> step = stepOf(access.pointer, counted);
  int64_t reach = step && llvm::isPowerOf2_64(std::abs(*step)) ? reachOf(access.pointer) : 0;
  return reach && reach <= std::abs(*step);
}

/// No two elements of a block of the array share a place: strides are known, each steps over what the next ones reach.
static bool areApart(Value desc, ArrayRef<int64_t> sides) {
  auto made = desc.getDefiningOp<tile::MakeDescOp>();
  if (!made)
    return false;
  int64_t reach = 1;
  for (auto [stride, side] : llvm::reverse(llvm::zip(made.getStrides(), sides))) {
    APInt step;
    if (!matchPattern(stride, m_ConstantInt(&step)) || step.getSExtValue() < reach)
      return false;
    reach = step.getSExtValue() * side;
  }
  return true;
}

/// Who touches a byte in one access touches it in the other: the addresses are the same, each is one element's, and the
/// layouts give that to the same thread. The owner of an element writes it, but whoever holds it reads it.
static bool ofOneThread(const MemoryAccess &a, const MemoryAccess &b) {
  using layout::Coord;
  if (a.isShared() || a.isAsync() || b.isAsync() || !a.pointer || a.address != b.address ||
      bool(a.tile) != bool(b.tile))
    return false;
  bool reads = a.kind == MemoryAccess::Read || b.kind == MemoryAccess::Read;
  if (!a.tile)
    return !reads; // the first thread writes scalars
  if (layoutOf(a.tile) != layoutOf(b.tile))
    return false;
  if (reads && llvm::any_of(ArrayRef{Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta},
                            [&](Coord coord) { return layoutOf(a.tile).isReplicated(coord); }))
    return false;
  return isa<tile::DescType>(a.pointer.getType()) ? areApart(a.pointer, a.tile.getShape()) : areDistinct(a.pointer);
}

/// Both are done for one thread of the role, which issues all its copies to global memory.
static bool areOfCopier(const MemoryAccess &a, const MemoryAccess &b) {
  return !a.isShared() && a.isByOneCopier() && b.isByOneCopier() && roleAround(a.op) == roleAround(b.op);
}

/// Memory of an access to all of an allocation that threads or the copy engine make by groups.
static Value memoryByGroups(Operation *op) {
  if (auto store = dyn_cast<LocalStoreOp>(op))
    return store.getMem();
  if (auto load = dyn_cast<LocalLoadOp>(op))
    return load.getMem();
  auto copy = dyn_cast<CopyOutOp>(op);
  return copy && copy.getByGroup() ? Value(copy.getMem()) : Value();
}

/// Rows of a cta's matrix that a group has, one group behind the other, if the op touches no more of it by each; else
/// 0.
static int64_t rowsOfGroup(Operation *op) {
  using layout::Coord;
  if (auto copy = dyn_cast<CopyOutOp>(op))
    return copy.rowsOfGroup();
  auto store = dyn_cast<LocalStoreOp>(op);
  auto tile = cast<RankedTensorType>(store ? store.getValue().getType() : op->getResult(0).getType());
  const layout::Layout &held = layoutOf(tile);
  if (tile.getRank() != 2)
    return 0;
  // As far as the threads of one group go, and then the next group's.
  int64_t rows = 1;
  for (Coord coord : {Coord::Reg, Coord::Lane, Coord::Warp})
    for (const layout::Digit &digit : held.digits(coord))
      rows += (digit.radix - 1) * digit.basis[0];
  for (int64_t group = 0; group < held.size(Coord::Group); ++group)
    if (held.at(Coord::Group, group) != layout::Index{group * rows, 0})
      return 0;
  auto piece = layout::pieceOf(layoutOf(cast<MemType>(memoryByGroups(op).getType())));
  return piece && piece->piece.shape()[0] == rows * held.size(Coord::Group) ? rows : 0;
}

/// What each group touches in one it touches in the other, and no other group does.
static bool areOfOneGroup(const MemoryAccess &a, const MemoryAccess &b) {
  Value memory = memoryByGroups(a.op);
  if (!a.isShared() || !b.isShared() || !memory || memory != memoryByGroups(b.op) ||
      roleAround(a.op) != roleAround(b.op) || !roleAround(a.op).first)
    return false;
  int64_t rows = rowsOfGroup(a.op);
  return rows && rows == rowsOfGroup(b.op);
}

Need BarrierInserter::needed(ArrayRef<MemoryAccess> next, const State &state, Operation *place) {
  Need need;
  Scope narrow = roleAround(place).first ? Scope::Role : Scope::Cta;
  for (const MemoryAccess &access : next)
    for (const Pending &pending : state.pending) {
      const MemoryAccess &earlier = *pending.access;
      // What is under way no barrier ends: kiln-verify-barriers asks for the wait.
      if (pending.underWay || !mayConflict(earlier, access) || areOfCopier(earlier, access) ||
          (pending.sameRun && ofOneThread(earlier, access)))
        continue;
      bool alternate =
          earlier.slot && earlier.alloc == access.alloc && access.slot == earlier.slot && pending.phase == Phase::Other;
      if (alternate)
        continue;
      bool cluster = earlier.crosses || access.crosses, ofGroup = !cluster && areOfOneGroup(earlier, access);
      Scope least = cluster ? Scope::Cluster : ofGroup ? Scope::Group : narrow;
      if (earlier.isShared() && access.isAsync() && !earlier.isAsync() && (cluster || !pending.shown)) {
        if (!ofGroup || !pending.shownInGroup)
          need.add(least, !pending.fenced);
      } else if (!pending.passed && (cluster || !pending.passedInCta)) {
        if (!ofGroup || !pending.passedInGroup)
          need.add(least, false);
      }
    }
  return need;
}

static void fence(State &state) {
  State after;
  for (Pending pending : state.pending) {
    pending.fenced |= !pending.access->isAsync();
    after.add(pending);
  }
  state = after;
}

void BarrierInserter::passBarrier(State &state, const BarrierUse &use) {
  State after;
  for (Pending pending : state.pending) {
    if (pending.underWay) {
      after.add(pending);
      continue;
    }
    bool over = false;
    if (use.isCluster()) {
      pending.arrived |= use.arrives && !use.relaxed;
      over = use.waits && pending.arrived;
    } else if (use.scope == Scope::Group) {
      pending.passedInGroup = true;
      pending.shownInGroup |= pending.fenced;
    } else {
      over = !accesses.needClusters();
      pending.passedInCta = true;
      pending.shown |= pending.fenced && use.isWhole();
    }
    // What threads wrote is there for all of them, and for the copy engine only if a fence came before.
    bool shown = !accesses.haveAsync() || !pending.access->isShared() || pending.access->kind == MemoryAccess::Read ||
                 pending.access->isAsync() || (pending.fenced && use.isWhole());
    if (over && shown)
      continue;
    pending.passed |= over;
    if (pending.passed) {
      pending.passedInCta = pending.arrived = false;
      pending.sameRun = true;
    }
    after.add(pending);
  }
  state = after;
}

void BarrierInserter::settle(const Need &need, Operation *place, State &state) {
  if (!need)
    return;
  if (looking) {
    missing.add(need);
  } else {
    OpBuilder builder(place);
    if (need.fence)
      FenceAsyncOp::create(builder, place->getLoc());
    BarrierOp::create(builder, place->getLoc(), *need.scope);
  }
  // Looking goes on as if it were there: what follows is not missing a second one.
  if (need.fence)
    fence(state);
  passBarrier(state, {*need.scope});
}

/// The waits of `op`, and what it begins.
static void follow(Operation *op, State &state) {
  std::optional<Wait> wait = waitOf(op);
  std::optional<Flight> begun = flightOf(op);
  if (!wait && !begun)
    return;
  State after;
  for (Pending pending : state.pending) {
    if (wait && pending.underWay && pending.access->isOverBehind(*wait, pending.later))
      pending.underWay = false;
    if (begun && pending.underWay && pending.access->flight == begun)
      pending.later = std::min(pending.later + 1, kManyLater);
    if (!pending.underWay)
      pending.later = 0;
    after.add(pending);
  }
  state = after;
}

/// Blocks that are copied out one after the other may be the same, and copies keep no order: the thread that issues
/// them waits for those before. It comes to the next one after the work for a whole block, when they are long over.
void BarrierInserter::waitForCopies(Operation *op, State &state) {
  bool missing = llvm::any_of(state.pending, [&](const Pending &pending) {
    return pending.underWay && llvm::any_of(accesses.of(op), [&](const MemoryAccess &access) {
             return areOfCopier(*pending.access, access) && mayConflict(*pending.access, access);
           });
  });
  if (!missing)
    return;
  OpBuilder builder(op);
  // Also while only looking: it is no barrier, which another place might save.
  follow(CopyOutWaitOp::create(builder, op->getLoc(), /*read=*/false, /*pending=*/0), state);
}

/// Each role starts with nothing pending: what came before is settled in front of all of them, since no barrier inside
/// is of the threads outside. For the same reason everything they do is pending behind them.
void BarrierInserter::visitRoles(RolesOp roles, State &state) {
  State before;
  for (Pending pending : state.pending) {
    pending.sameRun = false; // other threads
    pending.phase = Phase::Unknown;
    before.add(pending);
  }
  Need need;
  SmallVector<const MemoryAccess *> inside;
  roles->walk([&](Operation *op) {
    for (const MemoryAccess &access : accesses.of(op)) {
      need.add(needed(access, before, roles));
      inside.push_back(&access);
    }
  });
  settle(need, roles, state);
  for (Region &body : roles.getBodies()) {
    State own;
    visit(body.front(), own);
    for (Pending pending : own.pending)
      if (pending.underWay)
        state.add(pending);
  }
  for (const MemoryAccess *access : inside) {
    Pending pending{access, Phase::Unknown};
    pending.sameRun = false;
    state.add(pending);
  }
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
  if (auto roles = dyn_cast<RolesOp>(op))
    return visitRoles(roles, state);
  if (isa<FenceAsyncOp>(op))
    fence(state);

  BarrierUses uses = barriersOf(op);
  if (uses.before)
    passBarrier(state, *uses.before);
  ArrayRef<MemoryAccess> next = accesses.of(op);
  settle(needed(next, state, op), op, state);
  waitForCopies(op, state);
  follow(op, state);
  for (const MemoryAccess &access : next) {
    Pending pending{&access};
    pending.underWay = access.isAsync();
    if (!access.slot || !alternatesIn(access.slot))
      pending.phase = Phase::Unknown;
    state.add(pending);
  }
  if (uses.after)
    passBarrier(state, *uses.after);
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
    if (isOverPrograms(loop) && !pending.access->isShared())
      continue;
    Value slot = pending.access->slot;
    if (slot && alternatesIn(slot) == loop && pending.phase != Phase::Unknown)
      pending.phase = pending.phase == Phase::This ? Phase::Other : Phase::This;
    pending.sameRun &= !pending.access->changesIn(loop) || stepsOver(*pending.access, loop);
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
  auto followIn = [&]() {
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
  Need outerMissing = missing;
  looking = true;
  missing = {};
  followIn();
  looking = outer;
  Need before = missing;
  missing = outerMissing;
  if (before) {
    settle(before, loop, state);
    looking = true;
    Need kept = missing;
    followIn();
    looking = outer;
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

/// Whether the op brings a whole barrier of the cluster, from arrival to wait.
static bool bringsClusterBarrier(Operation *op) {
  BarrierUses uses = barriersOf(op);
  auto isOne = [](const std::optional<BarrierUse> &use) { return use && use->isCluster() && use->isWhole(); };
  return isOne(uses.before) || isOne(uses.after);
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
  // Nobody arrives a second time before having waited: a whole barrier of the cluster before the first such store
  // comes after the wait.
  if (wait)
    function.walk([&](Operation *op) {
      Operation *top = bringsClusterBarrier(op) ? entry.findAncestorOpInBlock(*op) : nullptr;
      if (top && top->isBeforeInBlock(wait))
        wait->moveBefore(top);
    });
}

namespace {
struct InsertBarriers : kiln::impl::InsertBarriersPassBase<InsertBarriers> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    if (failed(checkAccesses(getOperation())))
      return signalPassFailure();
    BarrierInserter(getOperation()).run();
  }
};
} // namespace
