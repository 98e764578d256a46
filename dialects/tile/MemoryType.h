// How an element lies in memory, on every target: the one place that says what takes how many bytes.
#pragma once
#include "mlir/IR/Types.h"

namespace kiln::tile {

/// The type an element has in memory and in vectors on their way there: a bit is a byte, a float of 8 bits an integer
/// (LLVM has no such floats), a pointer its address; all others stay what they are.
mlir::Type memoryType(mlir::Type element);
/// Also of a pointer of LLVM's.
int64_t memoryBytes(mlir::Type element);

} // namespace kiln::tile
