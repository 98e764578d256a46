// The part of a kernel's metadata that describes arguments and source positions; the same for every target.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {

/// A type as signatures spell it: "*fp32", "i32".
std::string spellType(mlir::Type type);

/// One entry of `kiln.sites`: an op that reports to the host (a print, an assert, a checked access), with the tiles
/// that it prints or whose coordinate it names. `function` is the kernel's name.
mlir::DictionaryAttr describeSite(mlir::Operation *op, llvm::StringRef function);

/// One entry of `kiln.arguments`: argument `index` of `kernel`, `bytes` in size and alignment, at `offset` of the
/// block.
mlir::DictionaryAttr describeArgument(mlir::func::FuncOp kernel, unsigned index, int64_t offset, int64_t bytes,
                                      bool written);

} // namespace kiln
