// "Valid, but does not fit": the third kind of failure, besides the user's mistakes and ours. A pass that runs into a
// limit of the target reports what was required, what is available and which launch option to reduce; the pipeline
// passes that on as data (Failure::Kind::Resource), and Python raises it as errors.ResourceError.
#pragma once
#include "mlir/IR/Operation.h"
#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

/// The resource that blocks lack whose allocations do not fit.
constexpr llvm::StringLiteral kSharedMemory = "bytes of shared memory per block";

struct OutOfResource {
  std::string resource; ///< kSharedMemory, "blocks per cluster on sm_90a"
  int64_t required = 0;
  int64_t available = 0;
  std::string option; ///< launch options to reduce: "num_stages or the tile's size"; may be empty

  /// "out of bytes of shared memory per block: required 300000, available 232448 (reduce ...)"
  std::string message() const;
};

/// Reports the failure at `op`; the pass then fails as after any other error.
mlir::InFlightDiagnostic emitOutOfResource(mlir::Operation *op, const OutOfResource &what);

/// What emitOutOfResource() put into `diagnostic`, or std::nullopt.
std::optional<OutOfResource> outOfResource(mlir::Diagnostic &diagnostic);

} // namespace kiln
