// The syntax of ops that combine along an axis: `tile.reduce(%a, %b) axis 1 { ^bb0(...): ... } : (types) -> (types)`.
#pragma once
#include "mlir/IR/OpImplementation.h"

namespace kiln {

/// `flag` names a unit attribute that may follow the axis.
mlir::ParseResult parseCombine(mlir::OpAsmParser &parser, mlir::OperationState &result, llvm::StringRef flag = {});
void printCombine(mlir::OpAsmPrinter &p, mlir::Operation *op, llvm::StringRef flag = {});

} // namespace kiln
