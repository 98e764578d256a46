// kiln-alternate-slots: lets the iterations of a loop alternate between two slots. An exchange in a loop stores, waits
// at a barrier, loads; the next iteration's stores must not overtake this one's loads. If another exchange in the
// loop's body puts its barrier in between, nothing is needed; otherwise the memory gets two slots, and the barrier of
// the intervening iteration is enough.
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln {
#define GEN_PASS_DEF_ALTERNATESLOTSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

/// Numbers the exchange that each access at the block's top level belongs to: an exchange ends where a store follows a
/// load. Each exchange has a barrier in every execution of the block.
static DenseMap<Operation *, unsigned> exchangesOf(Block &block, unsigned &count) {
  DenseMap<Operation *, unsigned> groups;
  bool loaded = true;
  count = 0;
  for (Operation &op : block)
    for (const MemoryAccess &access : sharedAccesses(&op)) {
      if (!AllocOp(access.alloc))
        continue;
      bool reads = access.kind == MemoryAccess::Read;
      if (!reads && loaded)
        ++count;
      loaded = reads;
      groups[&op] = count;
    }
  return groups;
}

static scf::ForOp loopOf(Operation *op) {
  while ((op = op->getParentOp())) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return loop;
    // A while loop carries no slot: insert-barriers adds a barrier instead.
    if (isa<scf::WhileOp>(op))
      return {};
  }
  return {};
}

/// Adds a loop-carried value: 0 in the first iteration, then 1, 0, ...
static std::pair<scf::ForOp, Value> addPhase(scf::ForOp loop) {
  IRRewriter rewriter(loop.getContext());
  Location loc = loop.getLoc();
  rewriter.setInsertionPoint(loop);
  Value first = arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(0));
  Value one = arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(1));
  auto flip = [&](OpBuilder &builder, Location at, ArrayRef<BlockArgument> arguments) -> SmallVector<Value> {
    return {arith::XOrIOp::create(builder, at, arguments.front(), one)};
  };
  auto attributes = loop->getDiscardableAttrDictionary();
  FailureOr<LoopLikeOpInterface> replaced =
      loop.replaceWithAdditionalYields(rewriter, first, /*replaceInitOperandUsesInLoop=*/false, flip);
  auto grown = cast<scf::ForOp>(replaced->getOperation());
  grown->setDiscardableAttrs(attributes);
  return {grown, grown.getRegionIterArgs().back()};
}

namespace {
struct AlternateSlots : kiln::impl::AlternateSlotsPassBase<AlternateSlots> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    // By loop, innermost first: replacing a loop leaves the ops in its body where they are.
    llvm::MapVector<scf::ForOp, SmallVector<AllocOp>> byLoop;
    function.walk([&](AllocOp alloc) {
      // Asynchronous reads are waited for explicitly: one slot is enough.
      if (scf::ForOp loop = isReadAsynchronously(alloc) ? scf::ForOp() : loopOf(alloc))
        byLoop[loop].push_back(alloc);
    });
    for (auto &[loop, allocs] : byLoop) {
      unsigned count = 0;
      DenseMap<Operation *, unsigned> groups = exchangesOf(*loop.getBody(), count);
      SmallVector<AllocOp> alternating;
      for (AllocOp alloc : allocs) {
        unsigned own = 0;
        for (Operation *user : alloc.getMem().getUsers())
          if (unsigned group = groups.lookup(user))
            own = group;
        if (alloc.getMbarrier() || count == 0 || (count == 1 && own == 1))
          alternating.push_back(alloc);
      }
      if (alternating.empty())
        continue;
      auto [grown, phase] = addPhase(loop);
      for (AllocOp alloc : alternating) {
        alloc.setSlots(2);
        OpBuilder builder(alloc->getContext());
        builder.setInsertionPointAfter(alloc);
        Value slot = SlotOp::create(builder, alloc.getLoc(), alloc.getMem().getType(), alloc.getMem(), phase);
        alloc.getMem().replaceAllUsesExcept(slot, slot.getDefiningOp());
      }
    }
  }
};
} // namespace
