// Branches that may be taken at will.
#pragma once
#include "mlir/IR/Operation.h"

namespace kiln {

/// Takes every branch in `root` that a `tile.unlikely` decides: the question is answered yes, and such an `scf.if`
/// becomes what its first region contains.
void takeUnlikely(mlir::Operation *root);

} // namespace kiln
