// Elements of fragments as instructions take them: neighbouring registers packed into words of 32 bits.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

namespace kiln::nvvm {

/// Elements of 8, 16 or 32 bits, the first of each word in its low bits, as i32.
Registers packWords(Lowering &lowering, llvm::ArrayRef<mlir::Value> values);
/// The reverse, as `element`.
Registers unpackWords(Lowering &lowering, llvm::ArrayRef<mlir::Value> words, mlir::Type element);

/// As mnemonics of products name it: f32 factors are tf32.
llvm::StringRef productTypeName(mlir::Type type, bool isFactor);

} // namespace kiln::nvvm
