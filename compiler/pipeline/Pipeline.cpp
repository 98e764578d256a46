// The list of passes, in order. One line per step, with the reason for its place.
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

// Cleaning up: fold, drop what is dead, merge what is equal.
static void addCleanup(OpPassManager &passes) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

// The same where loops carry a value for each register of a tile. The pattern that merges carried values compares each
// with each, again after every change: minutes at a thousand of them. LLVM merges equal phis in no time.
static void addScalarCleanup(OpPassManager &passes) {
  // The name as the compiler of MLIR spells it; test/compiler/pipeline has a loop that shows when it no longer fits.
  static const std::string slow = "(anonymous namespace)::RemoveDuplicateSuccessorInputUses";
  passes.addPass(createCanonicalizerPass(GreedyRewriteConfig(), slow));
  passes.addPass(createCSEPass());
}

void kiln::buildTilePipeline(OpPassManager &passes, const PipelineOptions &options) {
  // Nested jit functions disappear first: every later pass sees one function.
  passes.addPass(createInlinerPass());
  // The inliner folds first: functions whose only call was in a loop that never runs are left over.
  passes.addPass(createSymbolDCEPass());
  // Before anything asks what an op on tiles is: the clean-up then merges what branches repeat.
  passes.addNestedPass<func::FuncOp>(createExpandMapsPass());
  addCleanup(passes);
  // On the user's own sums and products, before any pass makes new ones that rely on rounding.
  if (options.enableFpFusion)
    passes.addPass(createAllowContractionPass());
  OpPassManager &kernel = passes.nest<func::FuncOp>();
  // One form for accesses to boxes, before anything looks at loads.
  kernel.addPass(createLowerBlockPointersPass());
  // On small shapes and with the fewest ops, before unrolling multiplies them.
  kernel.addPass(createCombineTilesPass());
  kernel.addPass(createUnrollLoopsPass());
  // After unrolling: what one iteration repeats is merged by the clean-up, what all repeat leaves the loop.
  kernel.addPass(createHoistInvariantsPass());
  addCleanup(passes);
  // Last: it reads ranges, and those are tightest when everything known has been folded.
  passes.addNestedPass<func::FuncOp>(createWidenOffsetsPass());
}

void kiln::buildCpuPipeline(OpPassManager &passes, const PipelineOptions &options) {
  // Offsets widened twice over are merged here.
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createLowerDescReductionsPass());
  passes.addPass(createTileToCpuPass({options.check}));
  addCleanup(passes);
  // On vectors of the target's width: what the expansion makes is the loop bodies' code.
  passes.addPass(createExpandMathPass());
  passes.addPass(createCSEPass());
  // Before LLVM sees one: its time grows with the square of a vector.
  passes.addPass(createVerifyVectorsPass());
}

void kiln::buildKgpuPipeline(OpPassManager &passes, const PipelineOptions &options) {
  // Offsets widened twice over are merged here.
  passes.addPass(createCSEPass());
  // Before layouts: a loop is split between roles without moving a tile, and each role is then laid out by itself.
  OpPassManager &scheduled = passes.nest<func::FuncOp>();
  // What a launch can be asked is known from here on: signs, and with them what lies side by side.
  scheduled.addPass(createRequireDivisorsPass());
  // Schedules fetch what is loaded through descriptors; after widening, which leaves no address that wraps.
  scheduled.addPass(createDescribePointersPass());
  scheduled.addPass(createChooseSchedulePass());
  scheduled.addPass(createMaterializeSchedulePass());
  // What no schedule has taken.
  scheduled.addPass(createLowerDescReductionsPass());
  // Each role was cloned whole: what it does not use goes, and its scalars fold. From here on nothing canonicalizes:
  // patterns drop layouts.
  addCleanup(passes);
  // What no schedule has taken; before layouts, which fragments dictate.
  passes.addPass(createSelectProductsPass({options.byWarps}));
  OpPassManager &kernel = passes.nest<func::FuncOp>();
  kernel.addPass(createAssignLayoutsPass());
  // As soon as layouts say how many registers a tile takes: everything after this costs time for each.
  kernel.addPass(createCheckRegistersPass());
  kernel.addPass(createVerifyLayoutsPass());
  // What these leave to exchange is conversions and reductions.
  kernel.addPass(createLowerSortsPass());
  // Before reductions are taken apart: one exchange for several.
  kernel.addPass(createMergeReductionsPass());
  // While conversions are ops that can move.
  kernel.addPass(createSinkFactorsPass());
  kernel.addPass(createLowerExchangesPass());
  // When every exchange of a loop is there to be counted.
  kernel.addPass(createAlternateSlotsPass());
  kernel.addPass(createVerifyLayoutsPass());
  // Two trips of one value to one place are one.
  kernel.addPass(createCSEPass());
  // After merging: what is computed twice without a reason is not what waits.
  kernel.addPass(createRecomputeAfterExchangePass());
  // On what is read in the end; it moves nothing.
  kernel.addPass(createHintStreamsPass());
  // When it is known in how many registers a row waits; before barriers, which global memory needs too.
  kernel.addPass(createHoistReadsPass());
  kernel.addPass(createPlanSharedMemoryPass());
  // After planning: memory that is used again needs barriers too.
  kernel.addPass(createInsertBarriersPass());
  kernel.addPass(createVerifyBarriersPass());
  // On what is lowered, fences included: nothing between a schedule and here is trusted.
  kernel.addPass(createVerifyChannelsPass());
  // When no op moves any more: these are about what is issued before what.
  kernel.addPass(createOverlapLaunchesPass());
  kernel.addPass(createCloseReadsPass());
}

void kiln::buildThreadPipeline(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createKgpuToNvvmPass());
  // One thread's scalars: what many registers compute alike (addresses, masks) is merged.
  addScalarCleanup(passes);
  // After merging, so that it expands each function once.
  passes.addPass(createExpandMathPass());
  passes.addPass(createCSEPass());
}

void kiln::buildLLVMPipeline(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createToLLVMPass());
  // What the conversion leaves behind: address arithmetic that folds now that index is i64.
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
