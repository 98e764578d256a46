// Passes from tile IR to tile IR; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/transforms/tile/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln
