// PTX that the user wrote (kl.inline_asm_elementwise) and that only the assembler reads: where it is to blame.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Location.h"
#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// Texts with their operands as $0, $1, …, and where they were written.
using UserAssembly = std::vector<std::pair<std::string, mlir::Location>>;

/// Of a module before any op of the compiler's own is among them.
UserAssembly collectAssembly(mlir::ModuleOp module);

/// Reports the user's text that a line of `ptx` was made from, if ptxas refused one. `said`: all that ptxas said.
mlir::LogicalResult reportRefused(const UserAssembly &texts, llvm::StringRef ptx, llvm::StringRef said);

} // namespace kiln
