// How an element is stored in memory, on every target; the only place that defines types and sizes in memory.
#pragma once
#include "mlir/IR/Types.h"

namespace kiln::tile {

/// The type of an element in memory, and in vectors that are loaded or stored: i1 is a byte, an 8-bit float an integer
/// (LLVM has no such floats), a pointer its address; all other types are unchanged.
mlir::Type memoryType(mlir::Type element);
/// Also accepts an LLVM pointer.
int64_t memoryBytes(mlir::Type element);

} // namespace kiln::tile
