// kiln-check-registers: refuses tiles many times larger than a thread's registers before anything is done per register.
#include "compiler/target/Resource.h"
#include "compiler/target/Target.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/layout/LayoutDialect.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

namespace kiln {
#define GEN_PASS_DEF_CHECKREGISTERSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

// Four times the available registers. In processor time ptxas takes 1 s for a sum of two tiles at 1024 elements a
// thread, 5 s for a prefix sum, 54 s for a softmax (7.5 s at 512, 2.3 s at 256); a prefix sum at 4096 did not end in 10
// minutes. A lower bound would refuse tiles with small odd sides, whose odd part each thread holds whole: 27 x 31 is
// 837.
static constexpr int64_t kMaxElements = 1024;
// A sort with 10,000 steps per thread takes 4 s to compile, most of it in ptxas, and the time grows with the steps.
static constexpr int64_t kMaxSortSteps = 16384;

/// Elements of the tile that one thread holds; 0 for a scalar.
static int64_t elementsOf(Value value) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  return tile ? layout::getLayout(tile).withoutReplicatedRegisters().registers() : 0;
}

/// How often a bitonic network compares each element of rows of this length.
static int64_t sortDepth(int64_t side) {
  int64_t digits = llvm::Log2_64_Ceil(uint64_t(side));
  return digits * (digits + 1) / 2;
}

/// Comparisons that one thread makes in a sort; 0 for any other op. For the first k of a row, runs of k are sorted; the
/// rest is one step and a merge of k for each halving.
static int64_t sortStepsOf(Operation *op) {
  if (auto sort = dyn_cast<tile::SortOp>(op))
    return elementsOf(sort.getValue()) * sortDepth(cast<RankedTensorType>(sort.getType()).getShape().back());
  if (auto topk = dyn_cast<tile::TopkOp>(op)) {
    int64_t kept = cast<RankedTensorType>(topk.getType()).getShape().back();
    return elementsOf(topk.getValue()) * (sortDepth(kept) + llvm::Log2_64_Ceil(uint64_t(kept)) + 2);
  }
  return 0;
}

namespace {
struct CheckRegisters : kiln::impl::CheckRegistersPassBase<CheckRegisters> {
  void runOnOperation() override {
    Operation *largest = nullptr;
    int64_t elements = kMaxElements;
    Target target = Target::fromModule(getOperation()->getParentOfType<ModuleOp>());
    std::string option = "the tile's size, or spread it over more threads by num_warps=";
    if (target.has(Feature::Cluster))
      option += " or cluster=";
    WalkResult walked = getOperation()->walk([&](Operation *op) {
      for (Value result : op->getResults())
        if (int64_t count = elementsOf(result); count > elements) {
          elements = count;
          largest = op;
        }
      if (int64_t steps = sortStepsOf(op); steps > kMaxSortSteps) {
        emitOutOfResource(op, {"steps of a sort per thread", steps, kMaxSortSteps, option});
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (!walked.wasInterrupted() && largest)
      emitOutOfResource(largest, {"elements of a tile per thread", elements, kMaxElements, option});
    if (walked.wasInterrupted() || largest)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
