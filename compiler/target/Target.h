// The capabilities of a machine: limits and named features of one exact target. Passes ask for a feature or a limit; no
// code compares architecture numbers. The target travels on the module as the dictionary attribute `kiln.target`, so
// any machine can compile for (and test) any target.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The runtime's bindings, which are linked without MLIR, read the table too.
namespace mlir {
class DictionaryAttr;
class MLIRContext;
class ModuleOp;
} // namespace mlir

namespace kiln {

enum class TargetKind { Cpu, Cuda };

/// "cpu" or "cuda", as in `kiln.target` and metadata.
llvm::StringRef kindName(TargetKind kind);

/// Features that passes may ask for, spelled in `kiln.target` as in featureName(). A machine has those that its row
/// lists.
enum class Feature : unsigned {
  // Any machine.
  FMA,  ///< fused multiply-add of f32 and f64
  F16C, ///< f16 <-> f32 conversions
  BF16, ///< f32 -> bf16 conversion in hardware
  // CPUs.
  MaskedMemory, ///< masked vector load/store of 32- and 64-bit elements
  MaskedBytes,  ///< masked vector load/store of 8- and 16-bit elements
  Gather,       ///< gather of 32- and 64-bit elements
  Scatter,      ///< scatter of 32- and 64-bit elements
  // GPUs: arithmetic and conversions.
  SpecialFunctions, ///< ex2, lg2, rsqrt, rcp, sqrt, sin, cos, tanh .approx of f32
  F16Math,          ///< add, mul, fma, min, max of f16 and pairs of them
  Bf16Fma,          ///< fma, min, max of bf16 and pairs of them
  Bf16Math,         ///< add, sub, mul of bf16 and pairs of them
  Fp8Convert,       ///< cvt between pairs of fp8 (e4m3, e5m2) and f32 or f16
  PackedF32Math,    ///< add, mul, fma of pairs of f32 in one instruction
  // GPUs: memory.
  CpAsync,           ///< cp.async: global to shared memory, bypassing registers
  BulkCopy,          ///< cp.async.bulk, tensor maps and mbarrier transactions
  Vector256,         ///< 32-byte global accesses by one thread
  PackedF16Atomics,  ///< atomic add of f16x2
  PackedBf16Atomics, ///< atomic add of bf16 and bf16x2
  VectorAtomics,     ///< red.global.add of vectors of f32, f16 and bf16
  MatrixLoad,        ///< ldmatrix
  MatrixStore,       ///< stmatrix
  // GPUs: tensor cores.
  WarpMma,      ///< mma.sync of f16, bf16, tf32, i8 and f64
  Fp8WarpMma,   ///< mma.sync of fp8
  WarpgroupMma, ///< wgmma: four warps multiply from shared memory
  // GPUs: threads.
  Redux,    ///< redux.sync of 32-bit integers over a warp
  ReduxF32, ///< redux.sync min/max of f32 over a warp
  Cluster,  ///< clusters of blocks, distributed shared memory, barrier.cluster
  Pdl,      ///< griddepcontrol: programmatic dependent launch
};
constexpr unsigned kNumFeatures = unsigned(Feature::Pdl) + 1;

llvm::StringRef featureName(Feature feature);

/// The limits of one block, thread or multiprocessor of a GPU.
struct GpuLimits {
  int64_t maxSharedBytes = 0;          ///< per block, with the opt-in
  int64_t sharedBytesPerProcessor = 0; ///< each resident block takes 1 KiB of it besides its own
  int64_t maxThreads = 0;              ///< per block
  int64_t threadsPerProcessor = 0;
  int64_t maxRegisters = 0; ///< per thread, 32 bits each
  int64_t registersPerProcessor = 0;
  int64_t maxCluster = 1;    ///< blocks per cluster, with the opt-in beyond 8
  int64_t minPtxVersion = 0; ///< the first PTX that supports the machine, major * 10 + minor

  bool operator==(const GpuLimits &other) const;
};

/// For every limit: its name in `kiln.target` and metadata, and its field.
llvm::ArrayRef<std::pair<llvm::StringLiteral, int64_t GpuLimits::*>> gpuLimitFields();

/// Threads of one warp.
constexpr int64_t kWarpLanes = 32;

struct Target {
  std::string name; ///< the row: "cpu", "cpu-avx2", "sm_90a", ...
  TargetKind kind = TargetKind::Cpu;
  std::string triple;
  std::string cpu;      ///< LLVM's processor name
  std::string features; ///< LLVM's feature string beyond `cpu`, "+a,-b"

  int64_t vectorBytes = 16;     ///< widest vector register; on a GPU, widest access of one thread
  int64_t vectorRegisters = 16; ///< number of vector registers
  int64_t registerTileRows = 4; ///< f32 accumulator tile that fits the registers besides its operands
  int64_t registerTileCols = 8;
  GpuLimits gpu;             ///< for GPUs
  uint64_t capabilities = 0; ///< bit per Feature

  bool isGpu() const { return kind == TargetKind::Cuda; }

  bool has(Feature feature) const { return capabilities >> unsigned(feature) & 1; }
  bool hasFMA() const { return has(Feature::FMA); }
  bool hasF16C() const { return has(Feature::F16C); }
  bool hasBF16() const { return has(Feature::BF16); }

  /// Lanes of one vector register for elements of `elementBytes`.
  int64_t vectorLanes(int64_t elementBytes) const { return vectorBytes / elementBytes; }
  /// Bytes of the register tile: no vector in generated code may be larger.
  int64_t maxVectorBytes() const { return registerTileRows * registerTileCols * 4; }

  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  /// Empty, with a sentence in `error`, if the dictionary is not one that toAttr() creates.
  static std::optional<Target> fromAttr(mlir::DictionaryAttr attr, std::string *error = nullptr);

  /// The target of `module`. A module without `kiln.target` (hand-written tests) is for the row cpu-avx512, the same on
  /// every machine and never the host. The pass manager's first pass (kiln-set-target) rejects a malformed attribute;
  /// here it reads as that row.
  static Target fromModule(mlir::ModuleOp module);
  void attachTo(mlir::ModuleOp module) const;

  bool operator==(const Target &other) const;
};

constexpr llvm::StringLiteral kTargetAttrName = "kiln.target";

/// Names of all rows, in table order; the first is the host.
std::vector<std::string> targetNames();
/// The row called `name`; std::nullopt if there is none.
std::optional<Target> lookupTarget(llvm::StringRef name);
/// The machine this process runs on (the row "cpu"), detected once.
const Target &hostTarget();
/// "unknown target 'cpu-avx3': expected one of cpu, ... (did you mean 'cpu-avx2'?)"
std::string unknownTargetMessage(llvm::StringRef name);

} // namespace kiln
