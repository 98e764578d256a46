// Passes on the way from loops over vectors to LLVM IR; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/codegen/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/codegen/Passes.h.inc"
} // namespace kiln
