// Passes that choose schedules and write them out; see Passes.td.
#pragma once
#include "mlir/Pass/Pass.h"

namespace kiln {
#define GEN_PASS_DECL
#include "compiler/transforms/schedule/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "compiler/transforms/schedule/Passes.h.inc"
} // namespace kiln
