// Content addresses: SHA-256 over length-prefixed fields, so that different inputs never form the same string.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace kiln::artifact {

/// The SHA-256 of `bytes` as 64 hexadecimal digits.
std::string digest(llvm::StringRef bytes);

/// One named input of a key. A long value is kept as its digest, so that a key's inputs stay small enough to store
/// beside it; readers use them to find the field in which two keys differ.
struct KeyField {
  std::string name;
  std::string value;  ///< the value, or its digest
  uint64_t bytes = 0; ///< the value's size, if it is kept as its digest; else 0

  bool operator==(const KeyField &other) const {
    return name == other.name && value == other.value && bytes == other.bytes;
  }
};
/// Longer values, and those that are not UTF-8, are kept as their digest.
constexpr size_t kLongestFieldValue = 512;

KeyField makeField(llvm::StringRef name, llvm::StringRef value);

/// The key of the result that `fields`, in this order, determine, as 64 hexadecimal digits. `kind` is the result's
/// kind.
std::string makeKey(llvm::StringRef kind, llvm::ArrayRef<KeyField> fields);

} // namespace kiln::artifact
