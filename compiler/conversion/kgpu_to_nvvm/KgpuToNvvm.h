// The conversion from kgpu IR to the code of one thread; see Passes.td and RATIONALE.md.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/conversion/kgpu_to_nvvm/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/conversion/kgpu_to_nvvm/Passes.h.inc"
} // namespace kiln
