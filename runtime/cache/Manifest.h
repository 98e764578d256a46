// What an entry of the store says about itself, and how that is written: JSON whose first line is the digest of all
// that follows it.
#pragma once
#include "runtime/artifact/Key.h"
#include "runtime/support/Status.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace kiln::cache {

/// One file of an entry.
struct File {
  std::string name; ///< of letters, digits, '.', '-' and '_'; does not begin with '.'
  std::string bytes;
};

struct Manifest {
  /// Changes with what the manifest or the layout of folders means; an entry of another format is not read.
  static constexpr int64_t kFormat = 1;
  static constexpr llvm::StringLiteral kFileName{"manifest.json"};

  struct Listed {
    std::string name;
    uint64_t bytes = 0;
    std::string digest;
  };

  std::string kind;                       ///< what is kept: "artifact", "index", …
  std::string subject;                    ///< of what, in a word: the kernel's name
  std::vector<artifact::KeyField> fields; ///< what the key is made of
  llvm::json::Object facts;               ///< what a reader is told beside the files
  std::vector<Listed> files;

  std::string getKey() const { return artifact::makeKey(kind, fields); }
  uint64_t getBytes() const;

  /// Equal manifests have equal text.
  std::string print() const;
  /// Whoever parses a manifest has checked that it is whole, and that its fields make the key it names.
  static ErrorOr<Manifest> parse(llvm::StringRef text);
};

bool isFileName(llvm::StringRef name);
/// 64 digits of base 16, in lower case.
bool isKey(llvm::StringRef text);

} // namespace kiln::cache
