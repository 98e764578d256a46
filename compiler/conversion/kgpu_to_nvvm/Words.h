// Elements of fragments in the form that instructions take: consecutive registers packed into 32-bit words.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

namespace kiln::nvvm {

/// Packs elements of 8, 16 or 32 bits into i32 words, the first element of each word in its low bits.
Registers packWords(Lowering &lowering, llvm::ArrayRef<mlir::Value> values);
/// Unpacks words to elements of type `element`.
Registers unpackWords(Lowering &lowering, llvm::ArrayRef<mlir::Value> words, mlir::Type element);

/// The type's name in the mnemonics of products; an f32 operand is tf32.
llvm::StringRef productTypeName(mlir::Type type, bool isFactor);

} // namespace kiln::nvvm
