// What was emitted for values that are no tiles: a scalar, or a descriptor taken apart.
#pragma once
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"

namespace kiln::cpu {

/// A tensor descriptor, taken apart.
struct Descriptor {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> shape, strides;
  tile::Padding padding;
};

class Values {
public:
  explicit Values(CodeBuilder &b) : b(b) {}

  /// The scalar of a value that was emitted (constants are made where they are used).
  mlir::Value scalar(mlir::Value value);
  void bind(mlir::Value value, mlir::Value lowered) { scalars[value] = lowered; }
  void bind(tile::MakeDescOp op);
  const Descriptor &descriptor(mlir::Value value) const { return descriptors.find(value)->second; }
  /// Appends a scalar, or the base, shape and strides of a descriptor; nothing of a tile.
  void append(mlir::Value value, llvm::SmallVectorImpl<mlir::Value> &list);
  /// The reverse, from `next` on.
  void bindFrom(mlir::Value value, mlir::ValueRange lowered, unsigned &next);
  /// Padding is no run-time value: all descriptors that meet in one value must agree.
  mlir::LogicalResult agreeOnPadding(mlir::Operation *op, mlir::Value result, llvm::ArrayRef<mlir::Value> sources);

private:
  CodeBuilder &b;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, Descriptor> descriptors;
};

} // namespace kiln::cpu
