// Which memory accesses of a kernel cannot touch one byte.
//
// A pointer argument marked `tile.disjoint` points into a storage that no other argument reaches (the kernel was
// specialised for such a call). Two accesses are then disjoint when each address is provably a step away from one
// kernel argument, the arguments differ, and one of them is marked: no valid access leaves its argument's storage.
#pragma once
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace kiln {

/// The one kernel argument that `pointer` (a pointer, a tile of pointers or a descriptor) steps from, or null.
mlir::Value pointerArgument(mlir::Value pointer);

/// The pointer or descriptor that a tile memory op goes through, or null for any other op.
mlir::Value accessedPointer(mlir::Operation *access);

/// True when two tile memory ops of one kernel provably touch no common byte.
bool areDisjoint(mlir::Operation *a, mlir::Operation *b);

} // namespace kiln
