// Rows of the target table as JSON, as shown in metadata, keys and `kiln info --json`.
#pragma once
#include "compiler/target/Target.h"
#include "llvm/Support/JSON.h"

namespace kiln {

/// The row as JSON.
llvm::json::Object targetJSON(const Target &target);
/// The inverse, for code that was compiled elsewhere; std::nullopt if fields are missing.
std::optional<Target> targetFromJSON(const llvm::json::Object &object);

} // namespace kiln
