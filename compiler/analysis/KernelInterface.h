// What the metadata of a kernel says of its arguments and source positions, alike for every target.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {

/// As signatures spell types: "*fp32", "i32".
std::string spellType(mlir::Type type);

/// One entry of `kiln.sites`: a place that reports to the host (a print, an assert, a checked access), with the tiles
/// it shows or whose coordinate it names. `function` is the kernel's name.
mlir::DictionaryAttr describeSite(mlir::Operation *op, llvm::StringRef function);

/// One entry of `kiln.arguments`: argument `index` of `kernel`, `bytes` wide and aligned, at `offset` of the block.
mlir::DictionaryAttr describeArgument(mlir::func::FuncOp kernel, unsigned index, int64_t offset, int64_t bytes,
                                      bool written);

} // namespace kiln
