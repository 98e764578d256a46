// The list of passes, in order. One line per step, with the reason for its place.
#include "compiler/pipeline/Pipeline.h"
#include "compiler/codegen/Passes.h"
#include "compiler/target/Passes.h"
#include "compiler/transforms/math/Passes.h"
#include "compiler/transforms/tile/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

void kiln::buildTilePipeline(OpPassManager &passes, const PipelineOptions &options) {
  // Nested jit functions disappear first: every later pass sees one function.
  passes.addPass(createInlinerPass());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // On the user's own sums and products, before any pass makes new ones that rely on rounding.
  if (options.enableFpFusion)
    passes.addPass(createAllowContractionPass());
}

void kiln::buildCpuPipeline(OpPassManager &passes, const PipelineOptions &options) {}

void kiln::buildLLVMPipeline(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createCpuToLLVMPass());
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

  PipelineOptions options() const { return {check, fusion, lineInfo}; }
};
} // namespace

void kiln::registerPasses() {
  registerTransformsPasses();
  registerTargetPasses();
  registerCodegenPasses();
  registerMathPasses();
  registerTilePasses();

  using Build = void (*)(OpPassManager &, const PipelineOptions &);
  auto pipeline = [](StringRef name, StringRef summary, Build build) {
    PassPipelineRegistration<PipelineFlags>(
        name, summary, [build](OpPassManager &passes, const PipelineFlags &flags) { build(passes, flags.options()); });
  };
  pipeline("kiln-tile-pipeline", "stage tile to stage opt", buildTilePipeline);
  pipeline("kiln-cpu-pipeline", "stage opt to stage cpu", buildCpuPipeline);
  pipeline("kiln-llvm-pipeline", "stage cpu to the LLVM dialect", buildLLVMPipeline);
}
