// Ops on single elements or vectors of them, regions of such ops, and library functions by name. Everything that this
// target does not support is refused before any code is emitted, so that no evaluation fails half-way.
#pragma once
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cpu {

/// Fails, reported, if the kernel has assembly without a portable body, calls a function that this target lacks, or
/// combines elements by anything but arithmetic.
mlir::LogicalResult verifyScalarOps(mlir::func::FuncOp kernel);

/// Emits an arith or math op on scalars (width 1) or vectors. Divisors that would trap are guarded.
mlir::Operation *cloneFor(CodeBuilder &b, mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);

/// Evaluates a single-block region of scalar ops on scalars or vectors; `outside` gives the scalar for a value that the
/// region uses from outside.
llvm::SmallVector<mlir::Value> emitRegion(CodeBuilder &b, mlir::Region &region, llvm::ArrayRef<mlir::Value> arguments,
                                          llvm::function_ref<mlir::Value(mlir::Value)> outside);

mlir::Value emitExternCall(CodeBuilder &b, tile::ExternCallOp op, llvm::ArrayRef<mlir::Value> operands);
/// In Library.cpp: true if this target has the function for the operands' types.
bool isKnownFunction(tile::ExternCallOp op);

} // namespace kiln::cpu
