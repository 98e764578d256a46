// Which elements of a tile are evaluated: one, or several consecutive ones along a dimension, at coordinates of the
// surrounding loops.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace kiln::cpu {

/// One coordinate: a run-time value plus a constant.
struct Coord {
  mlir::Value value;
  int64_t constant = 0;
};

/// The elements to evaluate: one, or `width` consecutive ones along `vectorDim`, starting there.
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

/// True for ops whose elements are their operand's at another index, which operandIndex() gives.
bool isRenaming(mlir::Operation *op);
Index operandIndex(mlir::Operation *op, const Index &at);

} // namespace kiln::cpu
