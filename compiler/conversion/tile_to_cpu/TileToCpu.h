// The passes of this folder; see Passes.td for what they do and RATIONALE.md for why.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/conversion/tile_to_cpu/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/conversion/tile_to_cpu/Passes.h.inc"
} // namespace kiln
