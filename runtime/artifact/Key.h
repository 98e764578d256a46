// Content addresses: SHA-256 over length-prefixed fields, so that no two different inputs are one string.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace kiln::artifact {

/// The SHA-256 of `bytes` as 64 hexadecimal digits.
std::string digest(llvm::StringRef bytes);

/// One input of a key, by name. A long value is kept as its digest, so that what a key was made of stays small enough
/// to lie beside it, where a reader finds the field in which two keys differ.
struct KeyField {
  std::string name;
  std::string value;  ///< as it is, or its digest
  uint64_t bytes = 0; ///< of the value, if that is kept as its digest; else 0

  bool operator==(const KeyField &other) const {
    return name == other.name && value == other.value && bytes == other.bytes;
  }
};
/// Longer values, and those that are no UTF-8, are kept as their digest.
constexpr size_t kLongestFieldValue = 512;

KeyField makeField(llvm::StringRef name, llvm::StringRef value);

/// The key of what `fields`, in this order, decide, as 64 hexadecimal digits. `kind` says what it is the key of.
std::string makeKey(llvm::StringRef kind, llvm::ArrayRef<KeyField> fields);

} // namespace kiln::artifact
