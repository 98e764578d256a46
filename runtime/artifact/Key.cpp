// Keys of artifacts.
#include "runtime/artifact/Key.h"
#include "runtime/launch/Abi.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"

using namespace kiln::artifact;

std::string kiln::artifact::digest(llvm::StringRef bytes) {
  llvm::SHA256 hash;
  hash.update(bytes);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

static void addField(llvm::SHA256 &hash, llvm::StringRef field) {
  uint8_t length[8];
  llvm::support::endian::write64le(length, field.size());
  hash.update(length);
  hash.update(field);
}

std::string kiln::artifact::makeKey(const KeyInputs &inputs) {
  llvm::SHA256 hash;
  addField(hash, "kiln artifact, interface " + std::to_string(KILN_ABI_VERSION));
  addField(hash, inputs.ir);
  addField(hash, inputs.target);
  addField(hash, inputs.options);
  addField(hash, std::to_string(inputs.toolchain.size()));
  for (llvm::StringRef tool : inputs.toolchain)
    addField(hash, tool);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}
