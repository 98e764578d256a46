// PTX written by the user (kl.inline_asm_elementwise), which only the assembler checks: attributes its errors to the
// user.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Location.h"
#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// Texts with their operands as $0, $1, …, and where they were written.
using UserAssembly = std::vector<std::pair<std::string, mlir::Location>>;

/// Collects them from a module before the compiler adds inline assembly of its own.
UserAssembly collectAssembly(mlir::ModuleOp module);

/// Reports the user's text behind a line of `ptx` that ptxas refused, if there is one. `said`: all of ptxas's output.
mlir::LogicalResult reportRefused(const UserAssembly &texts, llvm::StringRef ptx, llvm::StringRef said);

} // namespace kiln
