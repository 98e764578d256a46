// Passes on the module's target; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/target/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/target/Passes.h.inc"
} // namespace kiln
