// Rewrites tile IR into forms that the lowering handles well: see Prepare.cpp for the rewrites, before and after.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cpu {
/// Idempotent; the result is valid tile IR with the same meaning.
void prepareKernel(mlir::func::FuncOp kernel);
} // namespace kiln::cpu
