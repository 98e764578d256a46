// The code of a kernel and its metadata: the product of a compile, and all that a launch needs. The metadata describes
// the packed argument block, the scratch memory, and the sites that hooks report. ARCHITECTURE.md documents its JSON
// form; printing is deterministic, so equal metadata has equal bytes.
#pragma once
#include "runtime/artifact/ElementType.h"
#include "runtime/artifact/LaunchNumber.h"
#include "runtime/support/Status.h"
#include "llvm/Support/JSON.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::artifact {

enum class ArgumentKind : uint8_t { Pointer, Scalar };

/// One flattened argument (tuples and descriptors have already become their pointers and scalars, in order).
struct ArgumentSpec {
  std::string name;
  std::string type; ///< "*fp32", "i32" …
  ArgumentKind kind = ArgumentKind::Scalar;
  ElementType element = ElementType::I32; ///< of the scalar, or of what the pointer points to
  uint32_t offset = 0;
  uint32_t size = 0;
  uint32_t align = 0;
  bool written = false;  ///< a pointer that the code provably stores through; not set for memory reached in other ways
  bool disjoint = false; ///< a pointer whose storage the code assumes no other argument reaches
};

/// The value of an integer argument in the packed parameters.
int64_t readInteger(const ArgumentSpec &argument, const char *parameters, bool isUnsigned);

/// A spec with everything but its offset, from a type such as "*fp32" or "i32".
ErrorOr<ArgumentSpec> makeArgument(std::string name, std::string type);

/// Gives each argument its offset: in order, at natural alignment. Returns the size of the block, a multiple of 8.
uint32_t layoutArguments(std::vector<ArgumentSpec> &arguments);

/// One frame of a source location.
struct SourceFrame {
  std::string file;
  int64_t line = 0;
  int64_t column = 0;
  std::string function;
};

enum class SiteKind : uint8_t { Print, Assert, Load, Store, Atomic };

/// A place in the kernel that calls a hook: its kind, its source location, the values it reports.
struct Site {
  struct Operand {
    ElementType type = ElementType::I32;
    bool pointer = false;       ///< printed as an address
    std::vector<int64_t> shape; ///< empty for a scalar
  };
  SiteKind kind = SiteKind::Print;
  std::string message;
  std::vector<SourceFrame> location; ///< innermost first
  std::vector<Operand> operands;     ///< printed values; for an assert or access: the tile whose coordinate is reported
  bool hex = false;
};

/// A tensor map that the launch creates from the arguments and passes after them. Dimensions are outermost first, sizes
/// in elements; the last stride is 1.
struct TensorMapSpec {
  /// An extent or stride: an integer argument, read as signed or unsigned, or a constant.
  struct Number {
    int32_t argument = -1; ///< index; negative: the constant
    bool isUnsigned = false;
    int64_t constant = 0;
  };
  uint32_t offset = 0; ///< of the 128 bytes in the kernel's parameters, a multiple of 64
  ElementType element = ElementType::FP16;
  uint32_t base = 0; ///< index of the pointer argument
  std::vector<Number> shape, strides;
  std::vector<int64_t> box; ///< what one copy moves
  int64_t swizzle = 0;      ///< bytes of a swizzled row in shared memory; 0: plain rows
  bool nanPadding = false;  ///< nan outside the array, else zeros

  unsigned rank() const { return unsigned(box.size()); }
};

/// What code assumes if its pointers may have become descriptors: integer arguments are from 0 to `kMostCount`, so that
/// sums and products of positions do not wrap, and the grid has at most `kMostPrograms` along each axis.
constexpr int64_t kMostCount = int64_t(1) << 30, kMostPrograms = int64_t(1) << 19;

constexpr uint32_t kTensorMapBytes = 128, kTensorMapAlign = 64;

/// The metadata object "cuda": facts about the code that a launch on an NVIDIA GPU needs.
struct CudaLaunch {
  /// What the assembler reports as used; absent where the driver assembles.
  struct Usage {
    int64_t registers = 0, spillStores = 0, spillLoads = 0, stack = 0, shared = 0; ///< per thread; shared per block
  };
  int64_t numWarps = 4;
  int64_t threads = 128;    ///< per block
  int64_t cluster = 1;      ///< blocks per program instance
  int64_t sharedBytes = 0;  ///< dynamic shared memory per block
  int64_t maxRegisters = 0; ///< the limit asked for, per thread; 0: not limited
  bool pdl = false;         ///< the code itself waits for the previous grid
  int64_t ptxVersion = 0;   ///< major * 10 + minor
  std::string form;         ///< of the binary: "cubin", or "ptx" for the driver to assemble
  /// The hardware grid has as many clusters as are resident at once, or fewer; the logical grid follows the other
  /// parameters as three i32.
  bool persistent = false;
  bool roles = false;                 ///< its warps have different roles, each with its own number of registers
  bool attends = false;               ///< its loops are those of the schedule `attention`
  bool bounded = false;               ///< valid only for launches within kMostCount and kMostPrograms
  std::vector<LaunchNumber> positive; ///< valid only for launches for which each of these is positive
  std::vector<TensorMapSpec> tensorMaps;
  std::optional<Usage> usage;
};

struct Metadata {
  int64_t abi = 0;
  std::string name;   ///< of the kernel, as the user wrote it
  std::string symbol; ///< of the entry in the binary
  llvm::json::Object target;
  std::string check = "none"; ///< none, bounds or races
  std::vector<ArgumentSpec> arguments;
  uint32_t argumentsBytes = 0;
  uint64_t frameBytes = 0;
  uint64_t workspaceBytes = 0;
  bool waits = false; ///< on the CPU: it has loops that may wait for another program instance's writes
  std::vector<Site> sites;
  std::optional<CudaLaunch> cuda; ///< exactly for targets of kind "cuda"
  llvm::json::Object extra;       ///< options, toolchain ids and what later versions add: kept, not interpreted

  Metadata() = default;
  Metadata(const Metadata &other) = default;
  Metadata(Metadata &&other) = default;
  Metadata &operator=(const Metadata &other) = default;
  Metadata &operator=(Metadata &&other) = default;

  /// The first number that has to be positive and is not, for a launch of these programs; null if the code is valid.
  const LaunchNumber *findNotPositive(const void *block, const std::array<int64_t, 3> &programs) const;

  llvm::json::Value toJSON() const;
  std::string print() const;

  /// The result refers to nothing in `value`, nor to text that `value` only refers to.
  static ErrorOr<Metadata> fromJSON(const llvm::json::Value &value);
  static ErrorOr<Metadata> parse(llvm::StringRef text);
};

/// Where the hidden parameters of GPU code lie, after the arguments: the address of the log, if there are sites; the
/// logical grid of a persistent kernel; then tensor maps.
struct HiddenParameters {
  uint32_t log = 0, grid = 0;
  uint32_t end = 0; ///< the end of arguments, log and grid
};
HiddenParameters layoutHidden(const Metadata &metadata);

struct Artifact {
  std::string binary; ///< for the CPU a relocatable object; for NVIDIA GPUs a cubin or PTX text
  Metadata metadata;
};

} // namespace kiln::artifact
