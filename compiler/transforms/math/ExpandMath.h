// kiln-expand-math and its patterns, for pipelines; see Passes.td.
#pragma once
#include "compiler/transforms/math/Passes.h"

namespace kiln {
struct Target;

/// The patterns of kiln-expand-math. `target` must outlive them.
void populateExpandMathPatterns(mlir::RewritePatternSet &patterns, const Target &target);

/// Whether `op` computes something the target has no instruction for and that the patterns would replace, or cannot.
bool needsMathExpansion(mlir::Operation *op, const Target &target);
} // namespace kiln
