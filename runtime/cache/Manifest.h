// The description that an entry of the store carries, and its text form: JSON whose first line is the digest of
// everything after it.
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
  /// Changes with the meaning of the manifest or the layout of folders; entries of other formats are not read.
  static constexpr int64_t kFormat = 1;
  static constexpr llvm::StringLiteral kFileName{"manifest.json"};

  struct Listed {
    std::string name;
    uint64_t bytes = 0;
    std::string digest;
  };

  std::string kind;                       ///< of the contents: "artifact", "index", …
  std::string subject;                    ///< the kernel that the entry belongs to, by name
  std::vector<artifact::KeyField> fields; ///< the inputs of the key
  llvm::json::Object facts;               ///< information for readers, besides the files
  std::vector<Listed> files;

  std::string getKey() const { return artifact::makeKey(kind, fields); }
  uint64_t getBytes() const;

  /// Equal manifests have equal text.
  std::string print() const;
  /// Checks that the text is whole, and that its fields make the key that it names.
  static ErrorOr<Manifest> parse(llvm::StringRef text);
};

bool isFileName(llvm::StringRef name);
/// True for 64 lower-case hexadecimal digits.
bool isKey(llvm::StringRef text);

} // namespace kiln::cache
