// kiln-insert-barriers: tracks the accesses since the last barrier through the structured control flow, treating each
// role as a program of its own.
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
/// Which iteration's slot an access used, relative to the current iteration.
enum class Phase : uint8_t { This, Other, Unknown };

/// The count of later operations saturates here.
constexpr int64_t kManyLater = 15;

/// An access with no barrier after it (or only one that is too narrow).
struct Pending {
  const MemoryAccess *access;
  Phase phase = Phase::This;
  bool sameRun = true;      ///< no loop has recomputed the values its addresses depend on, or it never revisits them
  bool passedInCta = false; ///< a barrier of the cta (of the role) came after it
  bool arrived = false;     ///< the open cluster_arrive came after it
  bool passed = false;      ///< a barrier of all threads came after it; copy engine and tensor cores may not see it
  bool fenced = false;      ///< its thread fenced it for those, and has yet to pass a barrier
  bool shown = false;       ///< and has passed a barrier of the cta (of the role) since
  bool passedInGroup = false, shownInGroup = false; ///< the same two for a per-group barrier
  bool underWay = false;                            ///< asynchronous and not waited for yet
  int64_t later = 0;                                ///< how many of its kind were begun after it

  auto tied() const {
    return std::tie(access, phase, sameRun, passedInCta, arrived, passed, fenced, shown, passedInGroup, shownInGroup,
                    underWay, later);
  }
  bool operator==(const Pending &other) const { return tied() == other.tied(); }
};

/// The synchronization missing in front of an op.
struct Need {
  std::optional<Scope> scope;
  bool fence = false; ///< a kgpu.fence_async before the barrier

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
  /// One execution of a loop's regions from `state`; for a while loop, also the state at its exit.
  void visitBody(Operation *loop, State &state, State &exit);
  /// The synchronization missing between the pending accesses and `next`, in front of `place`.
  Need needed(ArrayRef<MemoryAccess> next, const State &state, Operation *place);
  /// Inserts a wait in front of `op` if it might otherwise overtake a copy to global memory.
  void waitForCopies(Operation *op, State &state);
  /// Inserts it (unless only looking) and updates the state.
  void settle(const Need &need, Operation *place, State &state);
  void passBarrier(State &state, const BarrierUse &use);

  func::FuncOp function;
  MemoryAccesses accesses;
  /// While only looking (inserting no barriers): the widest barrier that is missing.
  bool looking = false;
  Need missing;
};
} // namespace

/// All elements are equal.
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

/// The initial value of a loop-carried tile that each iteration shifts; null if it is not one.
static Value beforeShifts(BlockArgument argument) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  bool shifts =
      loop && argument != loop.getInductionVar() && isShifted(loop.getTiedLoopYieldedValue(argument)->get(), argument);
  return shifts ? loop.getTiedLoopInit(argument)->get() : Value();
}

/// No two elements are equal: a range, shifted or not, possibly carried by a loop that shifts it.
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

/// The size of the interval from a tile's least to its greatest element; 0 if unknown.
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

/// The result of stepOf, assuming that sums do not wrap.
static std::optional<int64_t> stepOfExact(Value value, scf::ForOp loop) {
  if (loop.isDefinedOutsideOfLoop(value))
    return 0;
  APInt step;
  if (value == loop.getInductionVar())
    return matchPattern(loop.getStep(), m_ConstantInt(&step)) ? std::optional(step.getSExtValue()) : std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner()->getParentOp() != loop)
      return std::nullopt;
    // Sums the constants that an iteration adds to it.
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

/// What an iteration of `loop` adds to a number, or to each element of a tile; std::nullopt if unknown. Numbers
/// narrower than 64 bits must advance like the loop's induction variable: that does not wrap, so they never take a
/// value twice. Numbers narrower than 32 bits are not tracked: they wrap by less than a tile may span.
static std::optional<int64_t> stepOf(Value value, scf::ForOp loop) {
  std::optional<int64_t> step = stepOfExact(value, loop);
  Type type = getElementTypeOrSelf(value.getType());
  unsigned bits = type.isInteger() ? type.getIntOrFloatBitWidth() : 64;
  APInt own;
  if (step && *step && bits < 64 &&
      (bits < 32 || !matchPattern(loop.getStep(), m_ConstantInt(&own)) ||
       std::abs(*step) != std::abs(own.getSExtValue())))
    return std::nullopt;
  return step;
}

/// Each iteration of the loop steps past everything that the access touches in one iteration, so no two iterations
/// touch the same bytes. The step must be a power of two: it then divides 2^32, so a range that wraps cannot partially
/// overlap another iteration's.
static bool stepsOver(const MemoryAccess &access, Operation *loop) {
  auto counted = dyn_cast<scf::ForOp>(loop);
  if (!counted || !access.tile || !isa<RankedTensorType>(access.pointer.getType()))
    return false;
  std::optional<int64_t> step = stepOf(access.pointer, counted);
  int64_t reach = step && llvm::isPowerOf2_64(std::abs(*step)) ? reachOf(access.pointer) : 0;
  return reach && reach <= std::abs(*step);
}

/// No two elements of a block of the array share an address: strides are known, and each steps past the extent of the
/// dimensions inside it.
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

/// Any thread that touches a byte in one access is the one that touches it in the other: the addresses are the same,
/// each belongs to one element, and the layouts assign that to the same thread. Only the owner of an element writes it,
/// but every thread that holds it reads it.
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

/// Both are performed by the one thread of the role that issues all its copies to global memory.
static bool areOfCopier(const MemoryAccess &a, const MemoryAccess &b) {
  return !a.isShared() && a.isByOneCopier() && b.isByOneCopier() && roleAround(a.op) == roleAround(b.op);
}

/// The memory of an access to a whole allocation that threads, or the copy engine per group, perform.
static Value memoryByGroups(Operation *op) {
  if (auto store = dyn_cast<LocalStoreOp>(op))
    return store.getMem();
  if (auto load = dyn_cast<LocalLoadOp>(op))
    return load.getMem();
  auto copy = dyn_cast<CopyOutOp>(op);
  return copy && copy.getByGroup() ? Value(copy.getMem()) : Value();
}

/// The rows of a cta's matrix that each group has, one group after the other, if the op touches only those in each
/// group; otherwise 0.
static int64_t rowsOfGroup(Operation *op) {
  using layout::Coord;
  if (auto copy = dyn_cast<CopyOutOp>(op))
    return copy.rowsOfGroup();
  auto store = dyn_cast<LocalStoreOp>(op);
  auto tile = cast<RankedTensorType>(store ? store.getValue().getType() : op->getResult(0).getType());
  const layout::Layout &held = layoutOf(tile);
  if (tile.getRank() != 2)
    return 0;
  // The rows that the threads of one group cover; the next group's follow.
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

/// Each group touches the same rows in both accesses, and no other group touches those.
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
      // No barrier ends an asynchronous access that is in flight: kiln-verify-barriers demands the wait.
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
    // After a barrier all threads see the write; the copy engine sees it only if a fence came before.
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
  // While only looking, continue as if the barrier were there, so that the following accesses ask for no second one.
  if (need.fence)
    fence(state);
  passBarrier(state, {*need.scope});
}

/// Updates the state for the waits of `op`, and for what it begins.
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

/// Blocks that are copied out one after the other may overlap, and copies are not ordered: the issuing thread waits for
/// the earlier ones. It issues the next only after the work for a whole block, by which time they are long done. It
/// also waits before a release of what the program has written.
void BarrierInserter::waitForCopies(Operation *op, State &state) {
  bool releases = releasesCopies(op);
  bool missing = llvm::any_of(state.pending, [&](const Pending &pending) {
    const MemoryAccess &earlier = *pending.access;
    auto overtakes = [&](const MemoryAccess &access) {
      return areOfCopier(earlier, access) && mayConflict(earlier, access);
    };
    bool released = releases && earlier.flight == Flight::CopyOut && !earlier.isShared();
    return pending.underWay && (released || llvm::any_of(accesses.of(op), overtakes));
  });
  if (!missing)
    return;
  OpBuilder builder(op);
  // Inserted even while only looking: no barrier elsewhere can make this wait unnecessary.
  follow(CopyOutWaitOp::create(builder, op->getLoc(), /*read=*/false, /*pending=*/0), state);
}

/// Each role starts with nothing pending: conflicts with earlier accesses are settled before all roles, since no
/// barrier inside a role includes outside threads. For the same reason all accesses of the roles are pending after
/// them.
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

/// The state as seen from the next iteration.
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
  // First, conflicts between iterations, as if nothing had come before the loop.
  State around, exit;
  while (true) {
    State run = around;
    visitBody(loop, run, exit);
    State next = nextIteration(loop, run);
    if (around.covers(next))
      break;
    around.add(next);
  }
  // Then accesses before the loop: a single barrier in front of the loop settles those for all iterations.
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
  // A counted loop may not run at all. After it, the slot used last is unknown.
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

/// Whether the op implies a whole cluster barrier, from arrival to wait.
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
  // A cta may be written to only once it runs: each arrives first thing, and the first writer waits for that.
  ClusterWaitOp wait;
  if (firstCrossing) {
    OpBuilder builder = OpBuilder::atBlockBegin(&entry);
    ClusterArriveOp::create(builder, function.getLoc(), /*relaxed=*/true);
    builder.setInsertionPoint(firstCrossing);
    wait = ClusterWaitOp::create(builder, firstCrossing->getLoc());
  }
  State state;
  visit(entry, state);
  // No thread may arrive twice without a wait in between, so a whole cluster barrier before the first such store must
  // come after the wait.
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
