// The pass order of every stage that is passes: one straight line per stage (Pipeline.cpp).
#pragma once
#include "runtime/artifact/Artifact.h"
#include <cstdint>
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

  // GPUs. Zero: what the module says, else the default.
  int64_t numWarps = 0;     ///< warps of a group; 4
  int64_t cluster = 0;      ///< blocks per program instance; 1
  int64_t maxRegisters = 0; ///< per thread; not limited
  bool pdl = false;         ///< programmatic dependent launch
  bool singleWave = false;  ///< the launch's programs all run at once
  bool streaming = false;   ///< the launch reads several times what the L2 holds, and most of it once
  std::string schedule;     ///< one of kSchedules; empty: what the module says, else the compiler chooses
  int64_t stages = 0;       ///< slots of the channels that feed products; the compiler chooses
  int64_t consumers = 0;    ///< groups of warps that multiply; the compiler chooses
  bool byWarps = false;     ///< no products of groups of warps, which are out of registers
  /// Loads and stores through pointers that walk a box go through descriptors, where the launch keeps to what
  /// artifact::kMostCount and kMostPrograms say.
  bool describePointers = false;
  int64_t ptxVersion = 0;   ///< major * 10 + minor; the newest LLVM writes
  std::string ptxas;        ///< the assembler; empty: the driver assembles
  std::string ptxasVersion; ///< its id, for keys and metadata
  std::string libdevice;    ///< CUDA's device library, for kernels that call it
};

/// What a schedule may be called: chosen by the compiler, the materialisers, or none of them.
constexpr const char *kSchedules[] = {"auto",     "simple", "cooperative", "attention", "streams",
                                      "pingpong", "skinny", "split",       "none"};

/// tile -> opt
void buildTilePipeline(mlir::OpPassManager &passes, const PipelineOptions &options);
/// opt -> cpu
void buildCpuPipeline(mlir::OpPassManager &passes, const PipelineOptions &options);
/// opt -> kgpu
void buildKgpuPipeline(mlir::OpPassManager &passes, const PipelineOptions &options);
/// kgpu -> the code of one thread, scalars only
void buildThreadPipeline(mlir::OpPassManager &passes, const PipelineOptions &options);
/// cpu, or the code of one thread -> the LLVM dialect, which codegen translates
void buildLLVMPipeline(mlir::OpPassManager &passes, const PipelineOptions &options);

/// Makes every pass of Kiln, and the pipelines above as kiln-{tile,cpu,kgpu,thread,llvm}-pipeline, known to kiln-opt.
void registerPasses();

} // namespace kiln
