// The pass order of every stage that consists of passes: one straight line per stage (Pipeline.cpp).
#pragma once
#include "runtime/artifact/Artifact.h"
#include <cstdint>
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace kiln {

/// The options that affect the generated code, apart from the target.
struct PipelineOptions {
  std::string check = "none"; ///< none, bounds or races
  bool enableFpFusion = true; ///< let the user's products and sums fuse into fma
  bool lineInfo = false;      ///< keep source lines in the machine code

  // GPUs. Zero: the module's value, or else the default.
  int64_t numWarps = 0;     ///< warps of a group; 4
  int64_t cluster = 0;      ///< blocks per program instance; 1
  int64_t maxRegisters = 0; ///< per thread; not limited
  bool pdl = false;         ///< programmatic dependent launch
  bool singleWave = false;  ///< the launch's programs all run at once
  bool streaming = false;   ///< the launch reads several times what the L2 holds, and most of it once
  std::string schedule;     ///< one of kSchedules; empty: the module's, or else the compiler chooses
  int64_t stages = 0;       ///< slots of the channels that feed products; default: the compiler chooses
  int64_t consumers = 0;    ///< groups of warps that multiply; default: the compiler chooses
  bool byWarps = false;     ///< products by single warps only, since those of groups run out of registers
  /// Turn loads and stores through pointers that walk a box into descriptor accesses; the launch must keep within
  /// artifact::kMostCount and kMostPrograms.
  bool describePointers = false;
  int64_t ptxVersion = 0;   ///< major * 10 + minor; default: the newest that LLVM writes
  std::string ptxas;        ///< path of the assembler; empty: the driver assembles
  std::string ptxasVersion; ///< its id, for keys and metadata
  std::string libdevice;    ///< CUDA's device library, for kernels that call it
};

/// The schedule names: chosen by the compiler, one of the materialisers, or none.
constexpr const char *kSchedules[] = {"auto",    "simple",   "lanes",  "cooperative", "attention", "streams",
                                      "rotated", "pingpong", "skinny", "split",       "none"};

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
