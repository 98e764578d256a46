// Which elements of a tile are meant: one, or some neighbours along a dimension, at coordinates of the loops around
// them.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace kiln::cpu {

/// One coordinate: a run-time value plus a constant.
struct Coord {
  mlir::Value value;
  int64_t constant = 0;
};

/// Which elements to evaluate: one, or `width` consecutive ones along `vectorDim`, starting there.
struct Index {
  llvm::SmallVector<Coord> at;
  int vectorDim = -1;
  int64_t width = 1;

  bool isVector() const { return vectorDim >= 0; }
  Index lane0() const {
    Index index = *this;
    index.vectorDim = -1;
    index.width = 1;
    return index;
  }
};

/// True for ops whose elements are their operand's under another index: operandIndex().
bool isRenaming(mlir::Operation *op);
Index operandIndex(mlir::Operation *op, const Index &at);

} // namespace kiln::cpu
