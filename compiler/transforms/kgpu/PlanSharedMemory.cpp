// kiln-plan-shared-memory: computes each allocation's live range, and has the frame planner place the allocations.
#include "compiler/analysis/FramePlan.h"
#include "compiler/target/Resource.h"
#include "compiler/target/Target.h"
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_PLANSHAREDMEMORYPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

/// Extra bytes that the plan may spend on keeping allocations apart where that saves barriers.
static constexpr int64_t kSpareBytes = 4096;

namespace {
struct Life {
  Operation *op; ///< kgpu.alloc or kgpu.channel
  int64_t bytes = 0, align = 1;
  int64_t begin = INT64_MAX, end = -1; ///< numbers of the first and last op that touch it
  int role = -1;                       ///< the role that owns it

  AllocOp alloc() const { return dyn_cast<AllocOp>(op); }
};

/// The live range of each allocation and channel of a function, counted in ops. `untilWaits`: memory touched by
/// products and copies is reused after the wait for them, at the price of barriers.
class Lives {
public:
  Lives(func::FuncOp function, bool untilWaits) : untilWaits(untilWaits) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { number[op] = count++; });
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { last[op] = number[op]; });
    function.walk([&](Operation *op) {
      if (Operation *parent = op->getParentOp(); parent && last.contains(parent))
        last[parent] = std::max(last[parent], last[op]);
    });
    function.walk([&](Operation *op) {
      if (auto alloc = dyn_cast<AllocOp>(op)) {
        if (!alloc.turnNumber())
          lives.push_back(lifeOf(alloc));
        else if (auto [entry, isNew] = turns.try_emplace(*alloc.turnNumber(), lives.size()); isNew)
          lives.push_back(lifeOfTurns(alloc));
        else if (Life &shared = lives[entry->second]; shared.bytes < alloc.getBytes())
          shared.bytes = alloc.getBytes();
      }
      // Copies in flight and arrivals of other roles may touch a channel at any time: it is live from the start to the
      // last barrier of all threads.
      if (auto channel = dyn_cast<ChannelOp>(op)) {
        ReceiveOp end = lastBarrierAt(channel);
        lives.push_back({channel, channel.getBytes(), channel.getAlignment(), 0, end ? number[end] : count});
      }
    });
    for (const Life &life : lives) {
      Operation *store = nullptr, *load = nullptr;
      for (const MemoryAccess &access : accesses[life.op]) {
        if (access.kind == MemoryAccess::Read && (!load || number[access.op] < number[load]))
          load = access.op;
        if (access.kind != MemoryAccess::Read && (!store || number[access.op] > number[store]))
          store = access.op;
      }
      if (load && store && store->getBlock() == load->getBlock() && number[store] < number[load])
        exchanged.push_back({store, load});
    }
  }

  /// The requests to the frame planner. `untilBarrier`: bytes stay taken until the next barrier that exists anyway, so
  /// that the next owner of the bytes needs no barrier of its own.
  std::vector<FrameRequest> requests(bool untilBarrier) const {
    std::vector<FrameRequest> requests;
    for (const Life &life : lives) {
      FrameRequest request{life.bytes, life.align, life.begin, life.end, life.role};
      if (untilBarrier && life.alloc() && !life.alloc().turnNumber())
        request.end = barrierAfter(life);
      requests.push_back(request);
    }
    return requests;
  }
  ArrayRef<Life> all() const { return lives; }
  /// The position in `all()` of the allocations that roles take turns with, by the number of their turn.
  const DenseMap<int32_t, size_t> &ofTurns() const { return turns; }

private:
  Life lifeOf(AllocOp alloc);
  /// Roles take turns with it: it lives as long as any role does.
  Life lifeOfTurns(AllocOp alloc) const {
    RolesOp roles = roleAround(alloc).first;
    return {alloc, alloc.getBytes(), addressAlignment(alloc), number.lookup(roles), last.lookup(roles)};
  }
  int64_t barrierAfter(const Life &life) const;

  bool untilWaits;
  DenseMap<Operation *, int64_t> number, last;               ///< the number of an op, and of the last op inside it
  DenseMap<Operation *, SmallVector<MemoryAccess>> accesses; ///< by allocation
  SmallVector<Life> lives;
  DenseMap<int32_t, size_t> turns;
  /// The last store and the first load of each exchange: there will be a barrier between them.
  SmallVector<std::pair<Operation *, Operation *>> exchanged;
  int64_t count = 0; ///< number of ops in the function
};
} // namespace

/// The wait that completes an asynchronous access, if it is in the same block as the allocation and the access.
static Operation *findWait(const MemoryAccess &access) {
  if (access.op->getBlock() != AllocOp(access.alloc)->getBlock())
    return nullptr;
  for (Operation *op = access.op->getNextNode(); op; op = op->getNextNode())
    if (std::optional<Wait> wait = waitOf(op); wait && access.isOverBehind(*wait, /*later=*/0))
      return op;
  return nullptr;
}

Life Lives::lifeOf(AllocOp alloc) {
  Life life{alloc, alloc.getBytes(), addressAlignment(alloc)};
  auto [roles, role] = roleAround(alloc);
  if (roles)
    life.role = int(role);
  for (Value view : viewsOf(alloc))
    for (Operation *user : view.getUsers())
      for (const MemoryAccess &access : sharedAccesses(user))
        if (access.alloc == alloc)
          accesses[alloc].push_back(access);
  // Another cta may send before this one reaches the exchange.
  if (alloc.getMbarrier()) {
    life.begin = 0;
    life.end = count;
    return life;
  }
  auto cover = [&](int64_t begin, int64_t end) {
    life.begin = std::min(life.begin, begin);
    life.end = std::max(life.end, end);
  };
  for (const MemoryAccess &access : accesses[alloc]) {
    Operation *user = access.op;
    cover(number[user], number[user]);
    // An asynchronous access lasts until an op waits for it. If that wait is not looked for or not found, it lasts for
    // the whole role or kernel.
    Operation *wait = access.isAsync() && untilWaits ? findWait(access) : nullptr;
    if (wait) {
      cover(number[user], number[wait]);
    } else if (access.isAsync()) {
      life.begin = roles ? number[roles] : 0;
      life.end = roles ? last[roles] : count;
    }
    // Allocated outside the roles: meanwhile other roles may be anywhere in their bodies.
    if (RolesOp around = roleAround(user).first; around && !roles)
      cover(number[around], last[around]);
    // Allocated outside a loop: live as long as the loop runs.
    for (Operation *op = user; op != alloc->getParentOp(); op = op->getParentOp())
      if (isa<LoopLikeOpInterface>(op))
        cover(number[op], last[op]);
  }
  // Likewise for slots that iterations alternate between.
  if (int32_t(alloc.getSlots()) > 1)
    if (auto loop = alloc->getParentOfType<LoopLikeOpInterface>())
      cover(number[loop], last[loop]);
  return life;
}

/// Where the live range must end if the next owner of the bytes is to need no barrier of its own: at the barrier of the
/// first exchange that starts later and always executes. An allocation in a loop is first extended to the whole loop.
int64_t Lives::barrierAfter(const Life &life) const {
  Operation *place = life.op;
  int64_t end = life.end;
  for (auto loop = place->getParentOfType<LoopLikeOpInterface>(); loop;
       loop = loop->getParentOfType<LoopLikeOpInterface>()) {
    place = loop;
    end = std::max(end, last.lookup(loop));
  }
  int64_t best = count;
  for (auto [store, load] : exchanged)
    if (number.lookup(store) > end && number.lookup(load) < best && store->getBlock() == place->getBlock())
      best = number.lookup(load);
  return best;
}

/// Removes memory that nothing loads from, with its stores.
static void dropUnread(func::FuncOp function) {
  SmallVector<AllocOp> allocs;
  function.walk([&](AllocOp alloc) { allocs.push_back(alloc); });
  for (AllocOp alloc : allocs) {
    SmallVector<Operation *> users;
    bool read = false;
    for (Value view : viewsOf(alloc))
      for (Operation *user : view.getUsers()) {
        users.push_back(user);
        read |= !isa<LocalStoreOp, SlotOp, ViewOp, TransOp, AwaitOp>(user);
      }
    if (read)
      continue;
    for (Operation *user : llvm::reverse(users))
      user->erase();
    alloc.erase();
  }
}

/// Moves the ops that drain a ring (receives whose slots are not read, with their releases) right after the last use
/// before them, so that exchanges after the loop may use the ring's bytes.
static void endRingsEarly(func::FuncOp function) {
  Block &block = function.front();
  llvm::SmallDenseMap<Value, Operation *> lastUse; // channel → the last op of the block that touches it
  for (Operation &op : llvm::make_early_inc_range(block)) {
    Operation *anchor = nullptr;
    auto follow = [&](Operation *before) {
      if (before && before->getBlock() == &block && (!anchor || anchor->isBeforeInBlock(before)))
        anchor = before;
    };
    if (isa<ReceiveOp, ReleaseOp, AdvanceOp>(op) && (!isa<ReceiveOp>(op) || op.use_empty())) {
      for (Value operand : op.getOperands()) {
        follow(operand.getDefiningOp());
        follow(lastUse.lookup(operand));
      }
      if (anchor)
        op.moveAfter(anchor);
    }
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (isa<ChannelType>(operand.getType()))
          lastUse[operand] = &op;
    });
  }
}

static LogicalResult checkSlots(const Lives &lives) {
  for (const Life &life : lives.all())
    if (AllocOp alloc = life.alloc(); alloc && int32_t(alloc.getSlots()) > 1 && alloc.getSlotBytes() % life.align)
      return alloc.emitOpError() << "expected slots of a multiple of " << life.align
                                 << " bytes (because the copy engine and products need that alignment), got "
                                 << alloc.getSlotBytes();
  return success();
}

/// Reports that a target has too little shared memory, at the largest piece: the one to shrink.
static void reportShortage(const Lives &lives, int64_t bytes, const Target &target) {
  const Life *largest = &lives.all().front();
  for (const Life &life : lives.all())
    if (life.bytes > largest->bytes)
      largest = &life;
  std::string option = isa<ChannelOp>(largest->op) ? "stages= or the tile's size" : "the tile's size";
  if (target.has(Feature::Cluster))
    option += ", or split it over cluster=";
  emitOutOfResource(largest->op, {kSharedMemory.str(), bytes, target.gpu.maxSharedBytes, option});
}

namespace {
struct PlanSharedMemory : kiln::impl::PlanSharedMemoryPassBase<PlanSharedMemory> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function->hasAttr("tile.kernel"))
      return;
    if (failed(checkAccesses(function)))
      return signalPassFailure();
    dropUnread(function);
    Target target = Target::fromModule(function->getParentOfType<ModuleOp>());
    auto fits = [&](const FramePlan &plan) { return !target.isGpu() || plan.bytes <= target.gpu.maxSharedBytes; };
    // Only if memory is short: otherwise the barrier is better placed after the exchange.
    auto fitsApart = [&] {
      return fits(planFrame(Lives(function, /*untilWaits=*/false).requests(/*untilBarrier=*/false)));
    };
    bool isShort = !fitsApart();
    if (isShort)
      endRingsEarly(function);
    Lives lives(function, /*untilWaits=*/isShort && !fitsApart());
    if (failed(checkSlots(lives)))
      return signalPassFailure();
    FramePlan least = planFrame(lives.requests(/*untilBarrier=*/false));
    FramePlan apart = planFrame(lives.requests(/*untilBarrier=*/true));
    const FramePlan &plan = apart.bytes <= least.bytes + kSpareBytes && fits(apart) ? apart : least;
    if (!fits(plan)) {
      reportShortage(lives, plan.bytes, target);
      return signalPassFailure();
    }
    for (auto [life, offset] : llvm::zip(lives.all(), plan.offsets)) {
      if (auto channel = dyn_cast<ChannelOp>(life.op))
        channel.setOffset(offset);
      else
        life.alloc().setOffset(offset);
    }
    function.walk([&](AllocOp alloc) {
      if (alloc.turnNumber())
        alloc.setOffset(plan.offsets[lives.ofTurns().lookup(*alloc.turnNumber())]);
    });
    Builder builder(function.getContext());
    function->setAttr(kSharedBytesAttrName, builder.getI64IntegerAttr(plan.bytes));
  }
};
} // namespace
