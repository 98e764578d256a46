// Keys of artifacts.
#include "runtime/artifact/Key.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SHA256.h"

using namespace kiln::artifact;

std::string kiln::artifact::digest(llvm::StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

static void addNumber(llvm::SHA256 &hash, uint64_t number) {
  uint8_t bytes[8];
  llvm::support::endian::write64le(bytes, number);
  hash.update(bytes);
}

static void addText(llvm::SHA256 &hash, llvm::StringRef text) {
  addNumber(hash, text.size());
  hash.update(text);
}

KeyField kiln::artifact::makeField(llvm::StringRef name, llvm::StringRef value) {
  if (value.size() <= kLongestFieldValue && llvm::json::isUTF8(value))
    return {name.str(), value.str(), 0};
  return {name.str(), digest(value), value.size()};
}

std::string kiln::artifact::makeKey(llvm::StringRef kind, llvm::ArrayRef<KeyField> fields) {
  llvm::SHA256 hash;
  addText(hash, "kiln key 1");
  addText(hash, kind);
  addNumber(hash, fields.size());
  for (const KeyField &field : fields) {
    addText(hash, field.name);
    addText(hash, field.value);
    addNumber(hash, field.bytes);
  }
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}
