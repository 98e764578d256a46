// Ops on scalars, and regions of them: what elementwise ops, reductions, scans and maps do to each element.
#pragma once
#include "compiler/analysis/Alignment.h"
#include "compiler/conversion/kgpu_to_nvvm/CodeBuilder.h"
#include "dialects/tile/TileOps.h"

namespace kiln::nvvm {

class ScalarOps {
public:
  /// `outside`: gives the scalar for a value that a region uses from outside.
  ScalarOps(CodeBuilder &b, const AlignmentAnalysis &alignment, std::function<mlir::Value(mlir::Value)> outside)
      : b(b), alignment(alignment), outside(std::move(outside)) {}

  /// Emits one arith, math or pointer op on scalars; empty for an unknown op (reported).
  llvm::SmallVector<mlir::Value, 2> apply(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands);
  /// Emits a single-block region of scalar ops (reduce, scan, portable) and returns what it yields; empty if it holds
  /// an unknown op (reported).
  Registers applyRegion(mlir::Region &region, llvm::ArrayRef<mlir::Value> arguments);

private:
  mlir::Value guardDivisor(mlir::Operation *op, mlir::Value dividend, mlir::Value divisor);
  mlir::Value remainderOfGrid(mlir::Value number, mlir::Value side);

  CodeBuilder &b;
  const AlignmentAnalysis &alignment;
  std::function<mlir::Value(mlir::Value)> outside;
};

/// In Library.cpp: applies assembly once, to a group of elements of each operand; returns a group for each result.
llvm::SmallVector<Registers> emitAssembly(CodeBuilder &b, tile::InlineAsmOp op, llvm::ArrayRef<Registers> groups);

/// In Library.cpp: a call of a library function on scalars; null if there is no such function (reported).
mlir::Value emitExternCall(CodeBuilder &b, tile::ExternCallOp op, llvm::ArrayRef<mlir::Value> operands);

} // namespace kiln::nvvm
