// Ops on single elements or vectors of them, and regions of such ops; functions of libraries by name. All that this
// target does not have is refused before anything is emitted, so that nothing fails in the middle of an evaluation.
#pragma once
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cpu {

/// Fails, reported, where the kernel has assembly without a portable body, calls a function that this target has not,
/// or combines elements by anything but arithmetic.
mlir::LogicalResult verifyScalarOps(mlir::func::FuncOp kernel);

/// An arith or math op on scalars (width 1) or vectors. A divisor that would trap is guarded.
mlir::Operation *cloneFor(CodeBuilder &b, mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, int64_t width);

/// Evaluates a single-block region of scalar ops on scalars or vectors; `outside` is the scalar of a value that it
/// takes from around it.
llvm::SmallVector<mlir::Value> emitRegion(CodeBuilder &b, mlir::Region &region, llvm::ArrayRef<mlir::Value> arguments,
                                          llvm::function_ref<mlir::Value(mlir::Value)> outside);

mlir::Value emitExternCall(CodeBuilder &b, tile::ExternCallOp op, llvm::ArrayRef<mlir::Value> operands);
/// Library.cpp: this target has the function, of the operands' types.
bool isKnownFunction(tile::ExternCallOp op);

} // namespace kiln::cpu
