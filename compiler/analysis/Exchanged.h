// Tiles that pass through shared memory on their way from one layout to another.
#pragma once
#include "mlir/IR/Operation.h"

namespace kiln {

/// The tile whose elements `op`, a kgpu.local_load, returns, each at its position. It was stored before, in the same
/// iteration of every loop around the store. Null if the memory may hold anything else, and for any other op.
mlir::Value exchangedTile(mlir::Operation *op);

} // namespace kiln
