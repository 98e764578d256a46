// Properties of the combine region of a reduction.
#pragma once
#include "mlir/IR/Region.h"

namespace kiln::kgpu {

/// combine(a, b) equals combine(b, a): every yielded value is one commutative op on its own pair of arguments. (Regions
/// that are commutative for other reasons are not recognised.)
bool isCommutative(mlir::Region &combine);

/// The single op in a region that combines one operand; null otherwise.
mlir::Operation *singleOp(mlir::Region &combine);

} // namespace kiln::kgpu
