// kiln-plan-shared-memory: lives of allocations, then the planner of frames places them.
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

/// What keeping allocations apart to save barriers may cost.
static constexpr int64_t kSpareBytes = 4096;

namespace {
struct Life {
  Operation *op; ///< kgpu.alloc or kgpu.channel
  int64_t bytes = 0, align = 1;
  int64_t begin = INT64_MAX, end = -1; ///< numbers of the first and last op that touch it
  int role = -1;                       ///< whose memory it is

  AllocOp alloc() const { return dyn_cast<AllocOp>(op); }
};

class Lives {
public:
  explicit Lives(func::FuncOp function) {
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { number[op] = count++; });
    function.walk<WalkOrder::PreOrder>([&](Operation *op) { last[op] = number[op]; });
    function.walk([&](Operation *op) {
      if (Operation *parent = op->getParentOp(); parent && last.contains(parent))
        last[parent] = std::max(last[parent], last[op]);
    });
    function.walk([&](Operation *op) {
      if (auto alloc = dyn_cast<AllocOp>(op))
        lives.push_back(lifeOf(alloc));
      // Copies that are under way, and arrivals of others, keep no time that can be read off the text; but where all
      // threads have met for the last time.
      if (auto channel = dyn_cast<ChannelOp>(op)) {
        ReceiveOp last = lastBarrierAt(channel);
        lives.push_back({channel, channel.getBytes(), kSwizzleAlign, 0, last ? number[last] : count});
      }
    });
    // Where a barrier is certain: between the stores and the loads of an exchange.
    for (const Life &life : lives) {
      Operation *store = nullptr, *load = nullptr;
      for (auto &[use, access] : uses[life.op]) {
        (void)use;
        if (access.kind == MemoryAccess::Read && (!load || number[access.op] < number[load]))
          load = access.op;
        if (access.kind != MemoryAccess::Read && (!store || number[access.op] > number[store]))
          store = access.op;
      }
      if (load && store && store->getBlock() == load->getBlock() && number[store] < number[load])
        exchanged.push_back({store, load});
    }
  }

  std::vector<FrameRequest> requests(bool untilBarrier) const {
    std::vector<FrameRequest> requests;
    for (const Life &life : lives) {
      FrameRequest request{life.bytes, life.align, life.begin, life.end, life.role};
      if (untilBarrier && life.alloc())
        request.end = barrierAfter(life);
      requests.push_back(request);
    }
    return requests;
  }
  ArrayRef<Life> all() const { return lives; }

private:
  Life lifeOf(AllocOp alloc);
  int64_t barrierAfter(const Life &life) const;

  DenseMap<Operation *, int64_t> number, last;
  DenseMap<Operation *, SmallVector<std::pair<Operation *, MemoryAccess>>> uses;
  SmallVector<Life> lives;
  SmallVector<std::pair<Operation *, Operation *>> exchanged;
  int64_t count = 0;
};
} // namespace

Life Lives::lifeOf(AllocOp alloc) {
  Life life{alloc, alloc.getBytes(), addressAlignment(alloc)};
  auto [roles, role] = roleAround(alloc);
  if (roles)
    life.role = int(role);
  for (Value view : viewsOf(alloc))
    for (Operation *user : view.getUsers())
      for (const MemoryAccess &access : sharedAccesses(user))
        if (access.alloc == alloc)
          uses[alloc].push_back({user, access});
  // Another cta may send before this one has come to the exchange.
  if (alloc.getMbarrier()) {
    life.begin = 0;
    life.end = count;
    return life;
  }
  bool carried = int32_t(alloc.getSlots()) > 1;
  for (auto &[user, access] : uses[alloc]) {
    life.begin = std::min(life.begin, number[user]);
    life.end = std::max(life.end, number[user]);
    // Reached until somebody has waited, wherever that is: as long as those run that do so.
    if (access.isAsync()) {
      life.begin = roles ? number[roles] : 0;
      life.end = roles ? last[roles] : count;
    }
    // Made outside of roles: another role may be anywhere in its own part meanwhile.
    if (RolesOp around = roleAround(user).first; around && !roles) {
      life.begin = std::min(life.begin, number[around]);
      life.end = std::max(life.end, last[around]);
    }
    // Made outside of a loop, or kept from one iteration to the next: alive all the time the loop runs.
    for (Operation *op = user; op != alloc->getParentOp(); op = op->getParentOp())
      if (isa<LoopLikeOpInterface>(op)) {
        life.begin = std::min(life.begin, number[op]);
        life.end = std::max(life.end, last[op]);
      }
  }
  if (carried)
    if (auto loop = alloc->getParentOfType<LoopLikeOpInterface>()) {
      life.begin = std::min(life.begin, number[loop]);
      life.end = std::max(life.end, last[loop]);
    }
  return life;
}

/// The end of the life if whoever takes the bytes next is to find a barrier in between: that of the first exchange that
/// starts later and is certain to run. Inside a loop: all of the loop, and on from there.
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

/// Stores into memory nobody loads from, and then the memory.
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

namespace {
struct PlanSharedMemory : kiln::impl::PlanSharedMemoryPassBase<PlanSharedMemory> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function->hasAttr("tile.kernel"))
      return;
    if (failed(checkAccesses(function)))
      return signalPassFailure();
    dropUnread(function);
    Lives lives(function);
    for (const Life &life : lives.all())
      if (AllocOp alloc = life.alloc(); alloc && int32_t(alloc.getSlots()) > 1 && alloc.getSlotBytes() % life.align) {
        alloc.emitOpError() << "expected slots of a multiple of " << life.align
                            << " bytes (because the copy engine or products reach them), got " << alloc.getSlotBytes();
        return signalPassFailure();
      }
    FramePlan least = planFrame(lives.requests(/*untilBarrier=*/false));
    FramePlan plan = planFrame(lives.requests(/*untilBarrier=*/true));
    if (plan.bytes > least.bytes + kSpareBytes)
      plan = least;
    Target target = Target::fromModule(function->getParentOfType<ModuleOp>());
    if (target.isGpu() && plan.bytes > target.gpu.maxSharedBytes) {
      plan = least;
      if (plan.bytes > target.gpu.maxSharedBytes) {
        // At the largest piece: that is the op to make smaller.
        const Life *largest = &lives.all().front();
        for (const Life &life : lives.all())
          if (life.bytes > largest->bytes)
            largest = &life;
        std::string option = isa<ChannelOp>(largest->op) ? "stages= or the tile's size" : "the tile's size";
        if (target.has(Feature::Cluster))
          option += ", or split it over cluster=";
        emitOutOfResource(largest->op,
                          {"bytes of shared memory per block", plan.bytes, target.gpu.maxSharedBytes, option});
        return signalPassFailure();
      }
    }
    Builder builder(function.getContext());
    for (auto [life, offset] : llvm::zip(lives.all(), plan.offsets)) {
      if (auto channel = dyn_cast<ChannelOp>(life.op))
        channel.setOffset(offset);
      else
        life.alloc().setOffset(offset);
    }
    function->setAttr(kSharedBytesAttrName, builder.getI64IntegerAttr(plan.bytes));
  }
};
} // namespace
