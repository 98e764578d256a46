// kiln-expand-math and its patterns, for pipelines; see Passes.td.
#pragma once
#include "compiler/transforms/math/Passes.h"

namespace kiln {
struct Target;

/// The patterns of kiln-expand-math. `target` must outlive them.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns, const Target &target);

/// Whether the target has no instruction for `op`, so that the patterns must replace it (or fail to).
bool needsMathExpansion(mlir::Operation *op, const Target &target);
} // namespace kiln
