// Passes that replace elementary functions and narrow floats; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/transforms/math/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/transforms/math/Passes.h.inc"
} // namespace kiln
