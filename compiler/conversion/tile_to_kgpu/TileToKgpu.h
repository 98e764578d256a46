// Passes of this room; see Passes.td for what they do and RATIONALE.md for why they do it this way.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/conversion/tile_to_kgpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/conversion/tile_to_kgpu/Passes.h.inc"
} // namespace kiln
