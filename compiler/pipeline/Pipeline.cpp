// The list of passes, in order. One line per step, with the reason for its position.
#include "compiler/pipeline/Pipeline.h"
#include "compiler/codegen/Passes.h"
#include "compiler/conversion/kgpu_to_nvvm/KgpuToNvvm.h"
#include "compiler/conversion/tile_to_cpu/TileToCpu.h"
#include "compiler/conversion/tile_to_kgpu/TileToKgpu.h"
#include "compiler/target/Passes.h"
#include "compiler/transforms/describe/Passes.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/math/Passes.h"
#include "compiler/transforms/schedule/Passes.h"
#include "compiler/transforms/tile/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

// Folds, removes dead code, merges equal ops.
static void addCleanup(OpPassManager &passes) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

// The same for loops that carry a value for each register of a tile. The pattern that merges carried values compares
// all pairs, again after every change: minutes for a thousand of them. LLVM merges equal phis in no time.
static void addScalarCleanup(OpPassManager &passes) {
  // The name as the compiler that built MLIR spells it; a loop in test/compiler/pipeline shows if it no longer matches.
  static const std::string slow = "(anonymous namespace)::RemoveDuplicateSuccessorInputUses";
  passes.addPass(createCanonicalizerPass(GreedyRewriteConfig(), slow));
  passes.addPass(createCSEPass());
}

void kiln::buildTilePipeline(OpPassManager &passes, const PipelineOptions &options) {
  // Inline nested jit functions first, so that every later pass sees one function.
  passes.addPass(createInlinerPass());
  // The inliner folds first, which leaves functions whose only call was in a loop that never runs.
  passes.addPass(createSymbolDCEPass());
  // Before any pass looks at ops on tiles; the clean-up then merges what branches repeat.
  passes.addNestedPass<func::FuncOp>(createExpandMapsPass());
  addCleanup(passes);
  // On the user's own sums and products, before any pass creates new ones that rely on rounding.
  if (options.enableFpFusion)
    passes.addPass(createAllowContractionPass());
  OpPassManager &kernel = passes.nest<func::FuncOp>();
  // One form for accesses to boxes, before any pass looks at loads.
  kernel.addPass(createLowerBlockPointersPass());
  // Before other passes look at masks and what they select.
  kernel.addPass(createDropMasksPass());
  // On small shapes and with few ops, before unrolling multiplies them.
  kernel.addPass(createCombineTilesPass());
  kernel.addPass(createUnrollLoopsPass());
  // After unrolling: the clean-up merges what one iteration repeats, and invariants leave the loop.
  kernel.addPass(createHoistInvariantsPass());
  addCleanup(passes);
  // Last: it uses ranges, which are tightest once everything known has been folded.
  passes.addNestedPass<func::FuncOp>(createWidenOffsetsPass());
}

void kiln::buildCpuPipeline(OpPassManager &passes, const PipelineOptions &options) {
  // No loop runs while it is known whether another will be needed.
  passes.addNestedPass<func::FuncOp>(createTakeUnlikelyPass());
  // Removes what only served to ask, before it becomes loops; merges offsets that were widened twice.
  addCleanup(passes);
  passes.addNestedPass<func::FuncOp>(createLowerDescReductionsPass());
  passes.addPass(createTileToCpuPass({options.check}));
  addCleanup(passes);
  // On vectors of the target's width: the expansion becomes the loop bodies' code.
  passes.addPass(createExpandMathPass());
  passes.addPass(createCSEPass());
  // Before LLVM sees a large vector: its time grows with the square of a vector's size.
  passes.addPass(createVerifyVectorsPass());
}

void kiln::buildKgpuPipeline(OpPassManager &passes, const PipelineOptions &options) {
  // Merges offsets that were widened twice.
  passes.addPass(createCSEPass());
  // Before layouts: a loop is then split between roles without moving a tile, and each role is laid out separately.
  OpPassManager &scheduled = passes.nest<func::FuncOp>();
  // From here on the launch's guarantees are known: signs, and with them what is contiguous.
  scheduled.addPass(createRequireDivisorsPass());
  // Schedules fetch what is loaded through descriptors; after widening, so that no address wraps.
  scheduled.addPass(createDescribePointersPass());
  scheduled.addPass(createChooseSchedulePass());
  scheduled.addPass(createMaterializeSchedulePass());
  // The questions that no schedule asks.
  scheduled.addPass(createTakeUnlikelyPass());
  // The reductions that no schedule has taken.
  scheduled.addPass(createLowerDescReductionsPass());
  // Each role was cloned whole: remove what it does not use and fold its scalars. No canonicalization after this, since
  // its patterns drop layouts.
  addCleanup(passes);
  // The products that no schedule has taken; before layouts, which fragments dictate.
  passes.addPass(createSelectProductsPass({options.byWarps}));
  OpPassManager &kernel = passes.nest<func::FuncOp>();
  kernel.addPass(createAssignLayoutsPass());
  // As soon as layouts say how many registers a tile takes, since everything after this spends time on each register.
  kernel.addPass(createCheckRegistersPass());
  kernel.addPass(createVerifyLayoutsPass());
  // Leaves only conversions and reductions to exchange.
  kernel.addPass(createLowerSortsPass());
  // Before reductions are split up, so that several share one exchange.
  kernel.addPass(createMergeReductionsPass());
  // While conversions are still ops that can move.
  kernel.addPass(createSinkFactorsPass());
  kernel.addPass(createLowerExchangesPass());
  // Once every load of a slot has its final layout; before barriers, which then do without those of the slots.
  kernel.addPass(createWaitByWarpPass());
  // Once all exchanges of a loop exist and can be counted.
  kernel.addPass(createAlternateSlotsPass());
  kernel.addPass(createVerifyLayoutsPass());
  // Merges repeated exchanges of one value to one layout.
  kernel.addPass(createCSEPass());
  // After merging, so that what is computed twice needlessly does not count as a waiting tile.
  kernel.addPass(createRecomputeAfterExchangePass());
  // On the final set of reads; moves nothing.
  kernel.addPass(createHintStreamsPass());
  // Once it is known how many registers a waiting row takes; before barriers, which global memory needs too.
  kernel.addPass(createHoistReadsPass());
  kernel.addPass(createPlanSharedMemoryPass());
  // After planning: reused memory needs barriers too.
  kernel.addPass(createInsertBarriersPass());
  kernel.addPass(createVerifyBarriersPass());
  // On the lowered form, including fences: nothing between a schedule and here is trusted.
  kernel.addPass(createVerifyChannelsPass());
  // Once no op moves any more: these depend on the order in which ops are issued.
  kernel.addPass(createOverlapLaunchesPass());
  kernel.addPass(createCloseReadsPass());
}

void kiln::buildThreadPipeline(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createKgpuToNvvmPass());
  // One thread's scalars: merges what many registers compute alike (addresses, masks).
  addScalarCleanup(passes);
  // After merging, so that each function is expanded once.
  passes.addPass(createExpandMathPass());
  passes.addPass(createCSEPass());
}

void kiln::buildLLVMPipeline(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createToLLVMPass());
  // Merges leftovers of the conversion: address arithmetic that folds now that index is i64.
  passes.addPass(createCSEPass());
  if (options.lineInfo)
    passes.addPass(createLineInfoPass());
}

namespace {
struct PipelineFlags : PassPipelineOptions<PipelineFlags> {
  Option<std::string> check{*this, "check", llvm::cl::desc("none, bounds or races"), llvm::cl::init("none")};
  Option<bool> fusion{*this, "enable-fp-fusion", llvm::cl::desc("fuse products and sums"), llvm::cl::init(true)};
  Option<bool> lineInfo{*this, "line-info", llvm::cl::desc("keep source lines"), llvm::cl::init(false)};

  PipelineOptions options() const {
    PipelineOptions options;
    options.check = check;
    options.enableFpFusion = fusion;
    options.lineInfo = lineInfo;
    return options;
  }
};
} // namespace

void kiln::registerPasses() {
  registerTransformsPasses();
  registerTargetPasses();
  registerCodegenPasses();
  registerMathPasses();
  registerTilePasses();
  registerTileToCpuPasses();
  registerTileToKgpuPasses();
  registerKgpuPasses();
  registerDescribePasses();
  registerSchedulePasses();
  registerKgpuToNvvmPasses();

  using Build = void (*)(OpPassManager &, const PipelineOptions &);
  auto pipeline = [](StringRef name, StringRef summary, Build build) {
    PassPipelineRegistration<PipelineFlags>(
        name, summary, [build](OpPassManager &passes, const PipelineFlags &flags) { build(passes, flags.options()); });
  };
  pipeline("kiln-tile-pipeline", "stage tile to stage opt", buildTilePipeline);
  pipeline("kiln-cpu-pipeline", "stage opt to stage cpu", buildCpuPipeline);
  pipeline("kiln-kgpu-pipeline", "stage opt to stage kgpu", buildKgpuPipeline);
  pipeline("kiln-thread-pipeline", "stage kgpu to the code of one thread", buildThreadPipeline);
  pipeline("kiln-llvm-pipeline", "stage cpu or the code of one thread to the LLVM dialect", buildLLVMPipeline);
}
