// What a machine can do: limits and named features of one exact target. Passes ask for a feature or a limit; nothing
// compares architecture numbers. The target travels on the module as the dictionary attribute `kiln.target`, so any
// machine can compile for (and test) any target.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

enum class TargetKind { Cpu };

/// Features passes may ask for. Spelled in `kiln.target` as in featureName().
enum class Feature : unsigned {
  FMA,          ///< fused multiply-add of f32/f64 vectors
  F16C,         ///< f16 <-> f32 vector conversions
  BF16,         ///< f32 -> bf16 vector conversion in hardware
  MaskedMemory, ///< masked vector load/store of 32- and 64-bit elements
  MaskedBytes,  ///< masked vector load/store of 8- and 16-bit elements
  Gather,       ///< gather of 32- and 64-bit elements
  Scatter,      ///< scatter of 32- and 64-bit elements
};
constexpr unsigned kNumFeatures = 7;

llvm::StringRef featureName(Feature feature);

struct Target {
  std::string name; ///< the row: "cpu", "cpu-avx2", ...
  TargetKind kind = TargetKind::Cpu;
  std::string triple;
  std::string cpu;      ///< LLVM's processor name
  std::string features; ///< LLVM's feature string beyond `cpu`, "+a,-b"

  int64_t vectorBytes = 16;     ///< widest vector register
  int64_t vectorRegisters = 16; ///< how many of them
  int64_t registerTileRows = 4; ///< f32 accumulator tile that fits the registers beside its operands
  int64_t registerTileCols = 8;
  uint64_t capabilities = 0; ///< bit per Feature

  bool has(Feature feature) const { return capabilities >> unsigned(feature) & 1; }
  bool hasFMA() const { return has(Feature::FMA); }
  bool hasF16C() const { return has(Feature::F16C); }
  bool hasBF16() const { return has(Feature::BF16); }

  /// Lanes of one vector register for elements of `elementBytes`.
  int64_t vectorLanes(int64_t elementBytes) const { return vectorBytes / elementBytes; }
  /// No vector in generated code may be larger than the register tile.
  int64_t maxVectorBytes() const { return registerTileRows * registerTileCols * 4; }

  mlir::DictionaryAttr toAttr(mlir::MLIRContext *context) const;
  /// Empty, with a sentence in `error`, when the dictionary is not one that toAttr() makes.
  static std::optional<Target> fromAttr(mlir::DictionaryAttr attr, std::string *error = nullptr);

  /// The target of `module`. A module without `kiln.target` (hand-written tests) is for the row cpu-avx512: the same
  /// on every machine, never the host. A malformed attribute is refused by the pass manager's first pass
  /// (kiln-set-target verifies) and reads as that row here.
  static Target fromModule(mlir::ModuleOp module);
  void attachTo(mlir::ModuleOp module) const;

  bool operator==(const Target &other) const;
};

constexpr llvm::StringLiteral kTargetAttrName = "kiln.target";

/// Names of all rows, in table order; the first is the host.
std::vector<std::string> targetNames();
/// The row called `name`; nothing if there is none.
std::optional<Target> lookupTarget(llvm::StringRef name);
/// The machine this process runs on (the row "cpu"), detected once.
const Target &hostTarget();
/// "unknown target 'cpu-avx3': expected one of cpu, ... (did you mean 'cpu-avx2'?)"
std::string unknownTargetMessage(llvm::StringRef name);

} // namespace kiln
