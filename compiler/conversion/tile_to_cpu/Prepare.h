// Rewrites of tile IR that make the lowering's job simple; see Prepare.cpp.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cpu {
/// Idempotent; the result is valid tile IR with the same meaning.
void prepareKernel(mlir::func::FuncOp kernel);
} // namespace kiln::cpu
