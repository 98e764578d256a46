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
  AllocOp alloc;
  int64_t begin = INT64_MAX, end = -1; ///< numbers of the first and last op that touch it
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
    function.walk([&](AllocOp alloc) { lives.push_back(lifeOf(alloc)); });
    // Where a barrier is certain: between the stores and the loads of an exchange.
    for (const Life &life : lives) {
      Operation *store = nullptr, *load = nullptr;
      for (auto &[use, access] : uses[life.alloc]) {
        (void)use;
        if (access.kind == Access::Read && (!load || number[access.op] < number[load]))
          load = access.op;
        if (access.kind != Access::Read && (!store || number[access.op] > number[store]))
          store = access.op;
      }
      if (load && store && store->getBlock() == load->getBlock() && number[store] < number[load])
        meetings.push_back({store, load});
    }
  }

  std::vector<FrameRequest> requests(bool untilBarrier) const {
    std::vector<FrameRequest> requests;
    for (const Life &life : lives) {
      AllocOp alloc = life.alloc;
      FrameRequest request{alloc.getBytes(), kSharedAlign, life.begin, life.end};
      if (untilBarrier)
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
  DenseMap<Operation *, SmallVector<std::pair<Operation *, Access>>> uses;
  SmallVector<Life> lives;
  SmallVector<std::pair<Operation *, Operation *>> meetings;
  int64_t count = 0;
};
} // namespace

/// The memory itself, its slots, and parts of them.
static SmallVector<Value> viewsOf(AllocOp alloc) {
  SmallVector<Value> views = {alloc.getMem()};
  for (size_t i = 0; i < views.size(); ++i)
    for (Operation *user : views[i].getUsers())
      if (isa<SlotOp, ViewOp, TransOp>(user))
        views.push_back(user->getResult(0));
  return views;
}

Life Lives::lifeOf(AllocOp alloc) {
  Life life;
  life.alloc = alloc;
  for (Value view : viewsOf(alloc))
    for (Operation *user : view.getUsers())
      for (const Access &access : sharedAccesses(user))
        if (access.alloc == alloc)
          uses[alloc].push_back({user, access});
  // Another cta may send before this one has come to the exchange.
  if (alloc.getMailbox()) {
    life.begin = 0;
    life.end = count;
    return life;
  }
  bool carried = int32_t(alloc.getSlots()) > 1;
  for (auto &[user, access] : uses[alloc]) {
    life.begin = std::min(life.begin, number[user]);
    life.end = std::max(life.end, number[user]);
    // Read until somebody has waited, wherever that is.
    if (access.isAsync())
      life.end = count;
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
  AllocOp alloc = life.alloc;
  Operation *place = alloc;
  int64_t end = life.end;
  for (auto loop = place->getParentOfType<LoopLikeOpInterface>(); loop;
       loop = loop->getParentOfType<LoopLikeOpInterface>()) {
    place = loop;
    end = std::max(end, last.lookup(loop));
  }
  int64_t best = count;
  for (auto [store, load] : meetings)
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
    if (failed(checkRoots(function)))
      return signalPassFailure();
    dropUnread(function);
    Lives lives(function);
    FramePlan least = planFrame(lives.requests(/*untilBarrier=*/false));
    FramePlan plan = planFrame(lives.requests(/*untilBarrier=*/true));
    if (plan.bytes > least.bytes + kSpareBytes)
      plan = least;
    Target target = Target::fromModule(function->getParentOfType<ModuleOp>());
    if (target.isGpu() && plan.bytes > target.gpu.maxSharedBytes) {
      plan = least;
      if (plan.bytes > target.gpu.maxSharedBytes) {
        // At the largest piece: that is the op to make smaller.
        AllocOp largest = lives.all().front().alloc;
        for (const Life &life : lives.all())
          if (AllocOp(life.alloc).getBytes() > largest.getBytes())
            largest = life.alloc;
        emitOutOfResource(
            largest, {"bytes of shared memory per block", plan.bytes, target.gpu.maxSharedBytes,
                      target.has(Feature::Cluster) ? "the tile's size, or split it over cluster=" : "the tile's size"});
        return signalPassFailure();
      }
    }
    Builder builder(function.getContext());
    for (auto [life, offset] : llvm::zip(lives.all(), plan.offsets))
      AllocOp(life.alloc).setOffset(offset);
    function->setAttr(kSharedBytesAttrName, builder.getI64IntegerAttr(plan.bytes));
  }
};
} // namespace
