// After a pass failed: determines which one and on what IR, and how to reproduce it.
#pragma once
#include "compiler/pipeline/Compile.h"
#include "mlir/Pass/PassManager.h"
#include <memory>

namespace kiln {

/// Counts the passes of a run. `failed` is the position of the pass that failed, or that had just run when the final
/// verification failed.
struct PassCount {
  unsigned started = 0;
  std::optional<unsigned> failed;
  unsigned depth = 0;
};
using PassObserver = std::shared_ptr<PassCount>;

/// Watches a pass manager that has not run yet.
PassObserver observePasses(mlir::PassManager &passes);

/// Runs `passes` (the same as failed) on a copy of `input` up to the failing pass, saves the IR before it in
/// `directory`, and fills in `failure`: pass, irPath, reproduce. Pass order is deterministic, so the second run reaches
/// the same pass. Best effort: a directory that cannot be written leaves the path empty.
void reproduce(mlir::ModuleOp input, mlir::PassManager &passes, const PassCount &count, llvm::StringRef directory,
               llvm::StringRef name, Failure &failure);

/// Writes `text` to `directory`/NAME-DIGEST.EXTENSION, so that the same failure always gives the same file. Returns ""
/// on failure.
std::string saveFile(llvm::StringRef directory, llvm::StringRef name, llvm::StringRef extension, llvm::StringRef text);

} // namespace kiln
