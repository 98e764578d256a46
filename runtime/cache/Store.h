// A folder of entries found by their key. An entry is whole or absent, even if its writer is killed or other
// processes read meanwhile.
//
//   ROOT/<two digits>/<key>/manifest.json, FILE, …   an entry, published by one rename
//   ROOT/tmp/                                        entries that are being written or removed
//   ROOT/quarantine/                                 entries that did not match their manifest
//   ROOT/names/                                      per subject, the keys of its last entries
//   ROOT/ledger                                      one byte per 4 KiB block written since the last count
//
// Only entries matter: damage to the rest costs time or space. RATIONALE.md gives the reasons.
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

/// The result of a search.
struct Found {
  std::optional<Entry> entry;
  /// Why an existing entry is not returned. Where the store is writable, that entry has been moved to quarantine.
  std::string doubt;
};

/// An entry in the list of all entries.
struct Listed {
  std::string key;
  std::string kind, subject; ///< empty where the manifest cannot be read
  uint64_t bytes = 0;        ///< of all its files
  int64_t used = 0;          ///< time of the last use, to the hour
};

struct Collected {
  uint64_t entries = 0, bytes = 0;               ///< that remain
  uint64_t removedEntries = 0, removedBytes = 0; ///< that were removed
};

struct StoreOptions {
  bool readOnly = false;
  uint64_t bound = 0; ///< bytes of all entries above which the least recently used are removed; 0: no bound
  FileSystem *files = nullptr;
};

/// Safe to use from several threads and processes. No call blocks on another thread or process.
class Store {
public:
  /// Opens the folder at `path`, and creates it (for this user alone) unless the store is read-only. Refuses links, and
  /// folders that another user owns or can write to.
  static ErrorOr<std::unique_ptr<Store>> open(const std::string &path, StoreOptions options = {});
  ~Store();

  const std::string &getPath() const { return path; }

  /// The entry with this key; every byte of it is checked.
  Found load(llvm::StringRef key);

  /// Moves the entry with this key, if there is one, to quarantine: its contents are as written, and yet wrong.
  void setAside(llvm::StringRef key);

  /// Adds an entry; an existing entry with its key stays. The key is computed from the manifest's fields, and its list
  /// of files is filled in. Returns the key.
  ErrorOr<std::string> publish(Manifest manifest, llvm::ArrayRef<File> files);

  /// Every entry, by key. `manifests`, if given, gets the manifests in the same order, where they can be read.
  std::vector<Listed> list(std::vector<std::optional<Manifest>> *manifests = nullptr);

  /// Removes the least recently used entries until the others take at most `bound` bytes; also removes leftovers of
  /// dead writers and old quarantine.
  Collected collect(uint64_t bound);

  /// The manifests of the last few entries of this kind on `subject`, the last one first.
  std::vector<Manifest> recent(llvm::StringRef kind, llvm::StringRef subject);
  /// The one among these that has the most fields in common with `fields`, but not all.
  std::optional<Manifest> nearest(llvm::StringRef kind, llvm::StringRef subject,
                                  llvm::ArrayRef<artifact::KeyField> fields);

private:
  Store(std::string path, StoreOptions options, int root);

  int getRoot() const { return root; }
  bool reopenRoot();
  bool isTrusted(const FileFacts &facts) const;
  /// Opens a folder below the root; creates it if `make`.
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
  std::mutex retiring;             ///< guards `retired`
  std::vector<Descriptor> retired; ///< roots that were replaced while threads might still use them
};

} // namespace kiln::cache
