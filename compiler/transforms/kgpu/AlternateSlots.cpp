// kiln-alternate-slots: slots used in turn by the iterations of a loop. An exchange in a loop stores, waits at a
// barrier, loads; the next iteration's stores must not overtake this one's loads. Where another exchange of the loop's
// body brings its barrier in between nothing is needed; where there is none, the memory gets two slots, and the barrier
// of the iteration in between is enough.
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

/// Which exchange of the block each access at its top level is part of: an exchange ends where a store follows a load.
/// Each of them has a barrier in every run of the block.
static DenseMap<Operation *, unsigned> exchangesOf(Block &block, unsigned &count) {
  DenseMap<Operation *, unsigned> groups;
  bool loaded = true;
  count = 0;
  for (Operation &op : block)
    for (const MemoryAccess &access : sharedAccesses(&op)) {
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
    // An unstructured number of iterations carries no slot: insert-barriers adds a barrier instead.
    if (isa<scf::WhileOp>(op))
      return {};
  }
  return {};
}

/// A new value of the loop: 0 in the first iteration, then 1, 0, ...
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
    // By loop, innermost loops first: replacing one leaves the ops in its body where they are.
    llvm::MapVector<scf::ForOp, SmallVector<AllocOp>> byLoop;
    function.walk([&](AllocOp alloc) {
      // What is read past the threads is waited for: one place is enough.
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
