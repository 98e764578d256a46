// The passes that turn pointers into descriptors; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/transforms/describe/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/transforms/describe/Passes.h.inc"
} // namespace kiln
