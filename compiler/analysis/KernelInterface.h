// What the metadata of a kernel says of its arguments and source positions, alike for every target.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {

/// As signatures spell types: "*fp32", "i32".
std::string spellType(mlir::Type type);

/// Frames of a location, innermost first, as [file, line, column, function]. `function` is that of the outermost.
void collectFrames(mlir::Location loc, llvm::StringRef function, mlir::Builder &b,
                   llvm::SmallVectorImpl<mlir::Attribute> &frames);

/// One entry of `kiln.arguments`: argument `index` of `kernel`, `bytes` wide and aligned, at `offset` of the block.
mlir::DictionaryAttr describeArgument(mlir::func::FuncOp kernel, unsigned index, int64_t offset, int64_t bytes,
                                      bool written);

} // namespace kiln
