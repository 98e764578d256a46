// What can be read off the region of a reduction.
#pragma once
#include "mlir/IR/Region.h"

namespace kiln::kgpu {

/// combine(a, b) is combine(b, a): every yielded value is one commutative op of its own pair of arguments. (A region
/// that is commutative for deeper reasons is not recognised.)
bool isCommutative(mlir::Region &combine);

/// The one op a region of one operand consists of; null otherwise.
mlir::Operation *singleOp(mlir::Region &combine);

} // namespace kiln::kgpu
