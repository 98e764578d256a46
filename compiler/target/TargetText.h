// Rows of the target table as JSON: what metadata, keys and `kiln info --json` show.
#pragma once
#include "compiler/target/Target.h"
#include "llvm/Support/JSON.h"

namespace kiln {

/// The row as JSON.
llvm::json::Object targetJSON(const Target &target);
/// The inverse, for code that was made elsewhere; std::nullopt if fields are missing.
std::optional<Target> targetFromJSON(const llvm::json::Object &object);

} // namespace kiln
