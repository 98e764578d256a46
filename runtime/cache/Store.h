// A folder of entries that are found by their key: whole or not there, whatever ends a writer and whoever reads along.
//
//   ROOT/<two digits>/<key>/manifest.json, FILE, …   an entry, there by one rename
//   ROOT/tmp/                                        entries that are being written or removed
//   ROOT/quarantine/                                 entries that were not what their manifest says
//   ROOT/names/                                      by subject, the keys of its last entries
//   ROOT/ledger                                      as many bytes as 4 KiB blocks were written since it was counted
//
// Only entries matter: whatever happens to the rest costs time or space. RATIONALE.md says why it is as it is.
#pragma once
#include "runtime/cache/FileSystem.h"
#include "runtime/cache/Manifest.h"
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace kiln::cache {

struct Entry {
  std::string key;
  Manifest manifest;
  std::vector<File> files; ///< in the order of the manifest

  /// Null if there is no such file.
  const std::string *find(llvm::StringRef name) const;
};

/// What a search came to.
struct Found {
  std::optional<Entry> entry;
  /// Why an entry that was there is not given: it is in quarantine then, where the store can be written.
  std::string doubt;
};

/// One entry as a list of all shows it.
struct Listed {
  std::string key;
  std::string kind, subject; ///< empty where the manifest cannot be read
  uint64_t bytes = 0;        ///< of all its files
  int64_t used = 0;          ///< when it was last used, to an hour
};

struct Collected {
  uint64_t entries = 0, bytes = 0;               ///< that stay
  uint64_t removedEntries = 0, removedBytes = 0; ///< that went
};

struct StoreOptions {
  bool readOnly = false;
  uint64_t bound = 0; ///< bytes of all entries beyond which the least recently used go; 0: none
  FileSystem *files = nullptr;
};

/// Safe between threads and between processes. Nothing here waits for anybody.
class Store {
public:
  /// Opens the folder at `path`, which is made (for this user alone) unless the store is read-only. Refused: a link,
  /// and what belongs to somebody else or could be written by others.
  static ErrorOr<std::unique_ptr<Store>> open(const std::string &path, StoreOptions options = {});
  ~Store();

  const std::string &getPath() const { return path; }

  /// The entry with this key, every byte of it checked.
  Found load(llvm::StringRef key);

  /// Moves the entry with this key to quarantine, if there is one: what is in it is what was written, and yet wrong.
  void setAside(llvm::StringRef key);

  /// Adds an entry; where there is one with its key, that one stays. The key is made of the manifest's fields; its list
  /// of files is made here. Returns the key.
  ErrorOr<std::string> publish(Manifest manifest, llvm::ArrayRef<File> files);

  /// Every entry, by key; `manifest`, where given, gets those that can be read too, in the same order.
  std::vector<Listed> list(std::vector<std::optional<Manifest>> *manifests = nullptr);

  /// Removes the entries not used for longest until the others take at most `bound` bytes, what dead writers left, and
  /// old quarantine.
  Collected collect(uint64_t bound);

  /// The manifests of the last few entries of this kind about `subject`, the last first.
  std::vector<Manifest> recent(llvm::StringRef kind, llvm::StringRef subject);
  /// Of these the one that has most fields in common with `fields`, but not all.
  std::optional<Manifest> nearest(llvm::StringRef kind, llvm::StringRef subject,
                                  llvm::ArrayRef<artifact::KeyField> fields);

private:
  Store(std::string path, StoreOptions options, int root);

  int getRoot() const { return root; }
  bool reopenRoot();
  bool isTrusted(const FileFacts &facts) const;
  /// A folder below the root, made if need be.
  Descriptor openFolder(const char *name, bool make);
  Descriptor openWithin(int at, const char *name);
  std::string uniqueName();

  int readAll(int at, const char *name, std::string &into, std::string &why);
  ErrorOr<Manifest> readManifest(int entry, llvm::StringRef key, int &code);
  struct Attempt;
  Attempt read(llvm::StringRef key);
  void quarantine(llvm::StringRef key, const Attempt &attempt);

  int writeFile(int at, const char *name, llvm::StringRef bytes);
  int publishOnce(const std::string &key, const Manifest &manifest, llvm::ArrayRef<File> files);
  void remember(llvm::StringRef kind, llvm::StringRef subject, llvm::StringRef key);

  void account(uint64_t bytes);
  void removeTree(int at, const char *name);
  void removeStale();
  void pruneQuarantine();

  std::string path;
  StoreOptions options;
  FileSystem &files;
  std::atomic<int> root;
  std::mutex retiring;             ///< of what follows
  std::vector<Descriptor> retired; ///< roots that were replaced while threads may have used them
};

} // namespace kiln::cache
