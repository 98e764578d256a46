// Maps values that are not tiles to the code emitted for them: a scalar, or a descriptor's components.
#pragma once
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"

namespace kiln::cpu {

/// The components of a tensor descriptor.
struct Descriptor {
  mlir::Value base;
  llvm::SmallVector<mlir::Value> shape, strides;
  tile::Padding padding;
};

class Values {
public:
  explicit Values(CodeBuilder &b) : b(b) {}

  /// The scalar that was emitted for a value (constants are materialised where they are used).
  mlir::Value scalar(mlir::Value value);
  void bind(mlir::Value value, mlir::Value lowered) { scalars[value] = lowered; }
  void bind(tile::MakeDescOp op);
  const Descriptor &descriptor(mlir::Value value) const { return descriptors.find(value)->second; }
  /// Appends a scalar, or the base, shape and strides of a descriptor; nothing for a tile.
  void append(mlir::Value value, llvm::SmallVectorImpl<mlir::Value> &list);
  /// The reverse, from `next` on.
  void bindFrom(mlir::Value value, mlir::ValueRange lowered, unsigned &next);
  /// Padding is not a run-time value, so all descriptors that one value may refer to must agree on it.
  mlir::LogicalResult agreeOnPadding(mlir::Operation *op, mlir::Value result, llvm::ArrayRef<mlir::Value> sources);

private:
  CodeBuilder &b;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, Descriptor> descriptors;
};

} // namespace kiln::cpu
