// The pass order of every stage that is passes: one straight line per stage (Pipeline.cpp).
#pragma once
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace kiln {

/// What changes the code that comes out, apart from the target.
struct PipelineOptions {
  std::string check = "none"; ///< none, bounds or races
  bool enableFpFusion = true; ///< let the user's products and sums fuse into fma
  bool lineInfo = false;      ///< keep source lines in the machine code
};

/// tile -> opt
void buildTilePipeline(mlir::OpPassManager &passes, const PipelineOptions &options);
/// opt -> cpu
void buildCpuPipeline(mlir::OpPassManager &passes, const PipelineOptions &options);
/// cpu -> the LLVM dialect, which codegen translates
void buildLLVMPipeline(mlir::OpPassManager &passes, const PipelineOptions &options);

/// Makes every pass of Kiln, and the pipelines above as kiln-{tile,cpu,llvm}-pipeline, known to kiln-opt.
void registerPasses();

} // namespace kiln
