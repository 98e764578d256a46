// Content addresses: SHA-256 over length-prefixed fields, so that no two different inputs are one string.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace kiln::artifact {

/// The SHA-256 of `bytes` as 64 hexadecimal digits.
std::string digest(llvm::StringRef bytes);

/// What decides the bytes of an artifact. Every field is part of the key.
struct KeyInputs {
  llvm::StringRef ir;      ///< canonical text of the tile IR, without locations unless they reach the binary
  llvm::StringRef target;  ///< the target row as text
  llvm::StringRef options; ///< every compile option as text
  llvm::ArrayRef<std::string> toolchain; ///< ids of every tool that had a hand in it: Kiln's build, LLVM, assembler
};

/// The key of an artifact, as 64 hexadecimal digits.
std::string makeKey(const KeyInputs &inputs);

} // namespace kiln::artifact
