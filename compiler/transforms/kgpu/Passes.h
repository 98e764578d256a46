// Passes from kgpu IR to kgpu IR; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/transforms/kgpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln
