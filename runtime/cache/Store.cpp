// See Store.h.
#include "runtime/cache/Store.h"
#include "runtime/support/ForkGuard.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <unistd.h>

using namespace kiln;
using namespace kiln::cache;
using artifact::KeyField;

static constexpr int64_t kSecond = 1000000000, kHour = 3600 * kSecond;
/// A staged folder older than this may be from a process that is gone.
static constexpr int64_t kStale = 60 * kSecond;
/// Reading an entry marks it as used if its mark is older than this.
static constexpr int64_t kMarkEvery = kHour;
static constexpr uint64_t kBlock = 4096;
static constexpr size_t kQuarantined = 32, kNamed = 16, kNamedAtMost = 128, kLooked = 8;
static constexpr uint64_t kLargestFile = uint64_t(1) << 32;

static std::string describeError(int code) { return std::strerror(code < 0 ? -code : code); }

/// True for errors of this process or of the moment, which say nothing about the entry.
static bool isPassing(int code) {
  switch (-code) {
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case ESTALE:
  case EBUSY:
  case EAGAIN:
    return true;
  default:
    return false;
  }
}

const std::string *Entry::find(llvm::StringRef name) const {
  for (const File &file : files)
    if (file.name == name)
      return &file.bytes;
  return nullptr;
}

//===-- Opening --------------------------------------------------------------------------------------------------===//

Store::Store(std::string path, StoreOptions options, int root)
    : path(std::move(path)), options(options), files(*options.files), root(root) {}

Store::~Store() { files.close(root); }

/// Opens the root and checks its owner: returns a descriptor, or an error with the reason in `why`.
static int openRoot(FileSystem &files, const std::string &path, bool readOnly, std::string &why) {
  if (!readOnly) {
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
      (void)files.makeDirectory(-1, path.substr(0, at).c_str(), 0755);
    int made = files.makeDirectory(-1, path.c_str(), 0700);
    if (made < 0 && made != -EEXIST) {
      why = "cannot make " + path + ": " + describeError(made);
      return made;
    }
  }
  Descriptor root(files, files.openDirectory(-1, path.c_str()));
  if (!root.ok()) {
    bool link = root.error() == ELOOP || root.error() == ENOTDIR;
    why = link ? "expected " + path +
                     " to be a folder (because what a link leads to may be another's), got a link or a"
                     " file"
               : "cannot open " + path + ": " + describeError(root.error());
    return -root.error();
  }
  FileFacts facts;
  if (int code = files.describe(root.get(), facts); code < 0) {
    why = "cannot look at " + path + ": " + describeError(code);
    return code;
  }
  bool mine = facts.owner == files.user();
  if (!mine && !(readOnly && facts.owner == 0)) {
    why = "expected " + path + " to belong to this user (because code is loaded from it), got user " +
          std::to_string(facts.owner);
    return -EPERM;
  }
  if (readOnly ? (facts.mode & 002) != 0 : (facts.mode & 022) != 0) {
    std::vector<std::string> names;
    bool empty = files.listDirectory(root.get(), names) == 0 && names.empty();
    if (readOnly || !empty) {
      why =
          llvm::formatv("expected {0} to be writable only by this user (because code is loaded from it), got mode "
                        "{1}; remove it, or chmod 700 it if you trust what is in it",
                        path, llvm::utostr((facts.mode >> 6 & 7) * 100 + (facts.mode >> 3 & 7) * 10 + (facts.mode & 7)))
              .str();
      return -EPERM;
    }
  }
  if (!readOnly && (facts.mode & 077))
    if (int code = files.changeMode(root.get(), 0700); code < 0) {
      why = "cannot chmod 700 " + path + ": " + describeError(code);
      return code;
    }
  return root.release();
}

ErrorOr<std::unique_ptr<Store>> Store::open(const std::string &path, StoreOptions options) {
  if (!options.files)
    options.files = &FileSystem::real();
  // A link's name with a trailing slash would refer to its target.
  std::string plain = llvm::StringRef(path).rtrim('/').str();
  if (plain.empty())
    return invalidArgument("expected the path of a folder for the cache, got '" + path + "'");
  std::string why;
  int root = openRoot(*options.files, plain, options.readOnly, why);
  if (root < 0)
    return invalidArgument(std::move(why));
  return std::unique_ptr<Store>(new Store(std::move(plain), options, root));
}

// The folder may have been removed, or removed and recreated, while it was open.
bool Store::reopenRoot() {
  std::string why;
  int fresh = openRoot(files, path, options.readOnly, why);
  if (fresh < 0)
    return false;
  ForkGuard guard;
  std::lock_guard<std::mutex> lock(retiring);
  retired.emplace_back(files, root.exchange(fresh)); // another thread may still use it
  return true;
}

// A writable root is closed to others (0700), whatever the modes below it; a read-only one may not be.
bool Store::isTrusted(const FileFacts &facts) const {
  if (options.readOnly)
    return (facts.owner == files.user() || facts.owner == 0) && !(facts.mode & 002);
  return facts.owner == files.user();
}

Descriptor Store::openWithin(int at, const char *name) {
  Descriptor folder(files, files.openDirectory(at, name));
  if (!folder.ok())
    return folder;
  FileFacts facts;
  int code = files.describe(folder.get(), facts);
  if (code == 0 && !isTrusted(facts))
    code = -EPERM;
  if (code < 0)
    return Descriptor(files, code);
  return folder;
}

Descriptor Store::openFolder(const char *name, bool make) {
  int at = getRoot();
  for (bool again = make;; again = false) {
    if (make)
      if (int code = files.makeDirectory(at, name, 0700); code < 0 && code != -EEXIST)
        return Descriptor(files, code);
    Descriptor folder = openWithin(at, name);
    if (!again || (folder.error() != ENOTDIR && folder.error() != ELOOP))
      return folder;
    // A link or a file is in the folder's place, where nothing could ever be written. A link's target is not touched.
    (void)files.removeFile(at, name);
  }
}

std::string Store::uniqueName() {
  // The process id is part of the name because a forked child continues with the same numbers.
  static std::atomic<uint64_t> counter{0};
  thread_local std::random_device device;
  return llvm::formatv("{0}-{1}-{2:x-}{3:x-}", ::getpid(), counter++, device(), device()).str();
}

//===-- Reading --------------------------------------------------------------------------------------------------===//

// Returns an error; for a failure that is not a system error, puts a sentence in `why`.
int Store::readAll(int at, const char *name, std::string &into, std::string &why) {
  Descriptor file(files, files.openFile(at, name));
  FileFacts facts;
  int code = file.ok() ? files.describe(file.get(), facts) : -file.error();
  if (code == 0 && (facts.kind != FileFacts::Kind::File || !isTrusted(facts) || facts.bytes > kLargestFile))
    code = -EPERM;
  if (code < 0) {
    why = std::string(name) + ": " + (code == -EPERM ? "no file of this user" : describeError(code));
    return code;
  }
  into.resize(facts.bytes);
  size_t done = 0;
  while (done < into.size()) {
    ssize_t count = files.read(file.get(), into.data() + done, into.size() - done);
    if (count < 0) {
      why = std::string(name) + ": " + describeError(int(count));
      return int(count);
    }
    if (count == 0)
      break;
    done += count;
  }
  into.resize(done);
  return 0;
}

ErrorOr<Manifest> Store::readManifest(int entry, llvm::StringRef key, int &code) {
  std::string text, why;
  code = readAll(entry, Manifest::kFileName.data(), text, why);
  if (code < 0)
    return corrupt(std::move(why));
  ErrorOr<Manifest> manifest = Manifest::parse(text);
  if (manifest.ok() && manifest->getKey() != key)
    return corrupt("the manifest is that of " + manifest->getKey());
  return manifest;
}

/// One attempt to read an entry.
struct Store::Attempt {
  Found found;
  int code = 0;                    ///< the error that caused the doubt, if any
  std::optional<FileFacts> folder; ///< of the entry's folder, if it could be opened
};

Store::Attempt Store::read(llvm::StringRef key) {
  Attempt attempt;
  std::string name = key.str();
  auto doubt = [&](int code, std::string why) {
    attempt.code = code;
    attempt.found.doubt = std::move(why);
    return std::move(attempt);
  };
  Descriptor shard = openFolder(name.substr(0, 2).c_str(), /*make=*/false);
  Descriptor folder = shard.ok() ? openWithin(shard.get(), name.c_str()) : Descriptor(files, -shard.error());
  if (!folder.ok())
    return folder.error() == ENOENT ? std::move(attempt)
                                    : doubt(-folder.error(), "its folder: " + describeError(folder.error()));
  FileFacts facts;
  if (int code = files.describe(folder.get(), facts); code < 0)
    return doubt(code, "its folder: " + describeError(code));
  attempt.folder = facts;
  int code = 0;
  ErrorOr<Manifest> manifest = readManifest(folder.get(), key, code);
  if (!manifest.ok())
    return doubt(code, manifest.getStatus().getMessage());
  Entry entry{name, std::move(*manifest), {}};
  for (const Manifest::Listed &listed : entry.manifest.files) {
    File file{listed.name, {}};
    std::string why;
    if (int code = readAll(folder.get(), file.name.c_str(), file.bytes, why); code < 0)
      return doubt(code, std::move(why));
    if (file.bytes.size() != listed.bytes)
      return doubt(0, llvm::formatv("{0}: expected {1} bytes, got {2}", file.name, listed.bytes, file.bytes.size()));
    if (artifact::digest(file.bytes) != listed.digest)
      return doubt(0, file.name + ": its bytes are not what was written");
    entry.files.push_back(std::move(file));
  }
  std::vector<std::string> names;
  if (int code = files.listDirectory(folder.get(), names); code < 0)
    return doubt(code, "its folder: " + describeError(code));
  for (const std::string &inner : names)
    // File systems and desktops add files of their own, with names that begin with a dot.
    if (inner.front() != '.' && inner != Manifest::kFileName && !entry.find(inner))
      return doubt(0, inner + ": no file of this entry");
  if (!options.readOnly) {
    int64_t now = files.now();
    if (files.describeAt(folder.get(), Manifest::kFileName.data(), facts) == 0 &&
        (facts.modified > now || now - facts.modified > kMarkEvery))
      (void)files.stamp(folder.get(), Manifest::kFileName.data(), now);
  }
  attempt.found.entry = std::move(entry);
  return attempt;
}

/// True if what was read is still what is in its place.
static bool isInPlace(FileSystem &files, int shard, const std::string &key, const std::optional<FileFacts> &folder) {
  FileFacts facts;
  return files.describeAt(shard, key.c_str(), facts) == 0 && (!folder || facts.identity == folder->identity);
}

Found Store::load(llvm::StringRef key) {
  if (!isKey(key))
    return {};
  Attempt attempt;
  // An entry that is removed during the read lacks files, and another may have taken its place by then.
  for (int tries = 0; tries < 4; ++tries) {
    attempt = read(key);
    if (attempt.found.doubt.empty() || isPassing(attempt.code))
      return std::move(attempt.found);
    Descriptor shard = openFolder(key.take_front(2).str().c_str(), /*make=*/false);
    if (shard.ok() && isInPlace(files, shard.get(), key.str(), attempt.folder))
      break;
  }
  if (!options.readOnly)
    quarantine(key, attempt);
  return std::move(attempt.found);
}

void Store::quarantine(llvm::StringRef key, const Attempt &attempt) {
  std::string name = key.str(), shardName = name.substr(0, 2);
  Descriptor shard(files, files.openDirectory(getRoot(), shardName.c_str()));
  Descriptor into = openFolder("quarantine", /*make=*/true);
  // A link or a file is in the place of a folder of entries, so that none could be written there.
  if (shard.error() == ENOTDIR || shard.error() == ELOOP)
    if (!into.ok() ||
        files.rename(getRoot(), shardName.c_str(), into.get(), (shardName + "." + uniqueName()).c_str()) < 0)
      (void)files.removeFile(getRoot(), shardName.c_str());
  if (!shard.ok() || !isInPlace(files, shard.get(), name, attempt.folder))
    return;
  // What cannot be moved to quarantine is removed, so that it is written anew.
  if (!into.ok() || files.rename(shard.get(), name.c_str(), into.get(), (name + "." + uniqueName()).c_str()) < 0)
    removeTree(shard.get(), name.c_str());
  pruneQuarantine();
}

void Store::setAside(llvm::StringRef key) {
  if (isKey(key) && !options.readOnly)
    quarantine(key, {});
}

//===-- Writing --------------------------------------------------------------------------------------------------===//

int Store::writeFile(int at, const char *name, llvm::StringRef bytes) {
  Descriptor file(files, files.create(at, name));
  if (!file.ok())
    return -file.error();
  while (!bytes.empty()) {
    ssize_t count = files.write(file.get(), bytes.data(), bytes.size());
    if (count <= 0)
      return count < 0 ? int(count) : -EIO;
    bytes = bytes.drop_front(count);
  }
  if (int code = files.sync(file.get()); code < 0)
    return code;
  return file.close();
}

int Store::publishOnce(const std::string &key, const Manifest &manifest, llvm::ArrayRef<File> contents) {
  Descriptor folder = openFolder("tmp", /*make=*/true);
  if (!folder.ok())
    return -folder.error();
  std::string name = uniqueName();
  if (int code = files.makeDirectory(folder.get(), name.c_str(), 0700); code < 0)
    return code;
  int code = [&] {
    Descriptor staged(files, files.openDirectory(folder.get(), name.c_str()));
    if (!staged.ok())
      return -staged.error();
    // Tells cleaners that this folder is being written. Without the lock it may be removed once it is old.
    (void)files.lock(staged.get());
    for (const File &file : contents)
      if (int code = writeFile(staged.get(), file.name.c_str(), file.bytes); code < 0)
        return code;
    if (int code = writeFile(staged.get(), Manifest::kFileName.data(), manifest.print()); code < 0)
      return code;
    if (int code = files.sync(staged.get()); code < 0)
      return code;
    Descriptor shard = openFolder(key.substr(0, 2).c_str(), /*make=*/true);
    if (!shard.ok())
      return -shard.error();
    if (int code = files.rename(folder.get(), name.c_str(), shard.get(), key.c_str()); code < 0)
      return code;
    name.clear();
    // Every process sees the entry now; a failure from here on can only lose it after a power failure.
    (void)files.sync(shard.get());
    return 0;
  }();
  if (!name.empty())
    removeTree(folder.get(), name.c_str());
  return code == -EEXIST || code == -ENOTEMPTY ? 0 : code;
}

ErrorOr<std::string> Store::publish(Manifest manifest, llvm::ArrayRef<File> contents) {
  if (options.readOnly)
    return invalidArgument("the cache " + path + " is only read");
  manifest.files.clear();
  llvm::StringSet<> names;
  uint64_t bytes = 0;
  for (const File &file : contents) {
    if (!isFileName(file.name) || file.name == Manifest::kFileName || !names.insert(file.name).second)
      return invalidArgument("expected the name of a file of an entry, got '" + file.name + "'");
    manifest.files.push_back({file.name, file.bytes.size(), artifact::digest(file.bytes)});
    bytes += (file.bytes.size() + kBlock - 1) / kBlock * kBlock;
  }
  std::string key = manifest.getKey();
  int code = publishOnce(key, manifest, contents);
  if ((code == -ENOENT || code == -ESTALE) && reopenRoot())
    code = publishOnce(key, manifest, contents);
  if (code < 0)
    return resourceError("cannot write to " + path + ": " + describeError(code));
  remember(manifest.kind, manifest.subject, key);
  account(bytes + 2 * kBlock); // the manifest and the folder
  return key;
}

//===-- The last entries of a subject ----------------------------------------------------------------------------===//

static std::string listName(llvm::StringRef kind, llvm::StringRef subject) {
  return artifact::digest((kind + llvm::Twine('\0') + subject).str()).substr(0, 32);
}

void Store::remember(llvm::StringRef kind, llvm::StringRef subject, llvm::StringRef key) {
  Descriptor folder = openFolder("names", /*make=*/true);
  if (!folder.ok())
    return;
  std::string name = listName(kind, subject), known, why;
  Descriptor file(files, files.openAppending(folder.get(), name.c_str()));
  FileFacts facts;
  if (!file.ok() || files.describe(file.get(), facts) < 0 || facts.kind != FileFacts::Kind::File)
    return;
  if (facts.bytes > kNamedAtMost * 65 && readAll(folder.get(), name.c_str(), known, why) == 0 &&
      known.size() >= kNamed * 65) { // another process may have shortened it since
    known = known.substr(known.size() - kNamed * 65);
    (void)files.truncate(file.get(), 0);
  } else {
    known.clear();
  }
  known += key.str() + "\n";
  (void)files.write(file.get(), known.data(), known.size());
}

std::vector<Manifest> Store::recent(llvm::StringRef kind, llvm::StringRef subject) {
  std::vector<Manifest> manifests;
  Descriptor folder = openFolder("names", /*make=*/false);
  std::string text, why;
  if (!folder.ok() || readAll(folder.get(), listName(kind, subject).c_str(), text, why) < 0)
    return manifests;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  llvm::StringSet<> seen;
  for (llvm::StringRef key : llvm::reverse(lines)) {
    if (!isKey(key) || !seen.insert(key).second)
      continue;
    if (seen.size() > kLooked)
      break;
    Descriptor shard = openFolder(key.take_front(2).str().c_str(), /*make=*/false);
    Descriptor entry = shard.ok() ? openWithin(shard.get(), key.str().c_str()) : Descriptor(files, -ENOENT);
    if (!entry.ok())
      continue;
    int code = 0;
    ErrorOr<Manifest> manifest = readManifest(entry.get(), key, code);
    if (manifest.ok() && manifest->kind == kind && manifest->subject == subject)
      manifests.push_back(std::move(*manifest));
  }
  return manifests;
}

std::optional<Manifest> Store::nearest(llvm::StringRef kind, llvm::StringRef subject, llvm::ArrayRef<KeyField> fields) {
  std::optional<Manifest> best;
  size_t bestCommon = 0;
  for (Manifest &manifest : recent(kind, subject)) {
    if (llvm::ArrayRef<KeyField>(manifest.fields) == fields)
      continue;
    size_t common = 0;
    for (const KeyField &field : fields)
      common += llvm::is_contained(manifest.fields, field);
    if (best && common <= bestCommon)
      continue;
    best = std::move(manifest);
    bestCommon = common;
  }
  return best;
}

//===-- Space ----------------------------------------------------------------------------------------------------===//

void Store::account(uint64_t bytes) {
  if (!options.bound)
    return;
  Descriptor ledger(files, files.openAppending(getRoot(), "ledger"));
  FileFacts facts;
  if (!ledger.ok() || files.describe(ledger.get(), facts) < 0 || facts.kind != FileFacts::Kind::File)
    return;
  std::string marks((bytes + kBlock - 1) / kBlock, '.');
  bool fresh = facts.bytes == 0; // nothing has been counted yet
  (void)files.write(ledger.get(), marks.data(), marks.size());
  if (!fresh && (facts.bytes + marks.size()) * kBlock <= options.bound)
    return;
  // Shrink to somewhat below the bound, so that the next entry does not trigger another count.
  Collected left = collect(fresh ? options.bound : options.bound - options.bound / 8);
  (void)files.truncate(ledger.get(), 0);
  marks.assign(left.bytes / kBlock + 1, '.');
  (void)files.write(ledger.get(), marks.data(), marks.size());
}

void Store::removeTree(int at, const char *name) {
  {
    Descriptor folder(files, files.openDirectory(at, name));
    if (!folder.ok()) {
      (void)files.removeFile(at, name);
      return;
    }
    std::vector<std::string> names;
    (void)files.listDirectory(folder.get(), names);
    // The manifest goes first: without it, the rest does not count as an entry.
    auto manifest = llvm::find(names, Manifest::kFileName);
    if (manifest != names.end())
      std::swap(*manifest, names.front());
    for (const std::string &inner : names)
      removeTree(folder.get(), inner.c_str());
  }
  (void)files.removeDirectory(at, name);
}

// Removes what dead writers left: they hold no lock any more.
void Store::removeStale() {
  Descriptor folder = openFolder("tmp", /*make=*/false);
  std::vector<std::string> names;
  if (!folder.ok() || files.listDirectory(folder.get(), names) < 0)
    return;
  int64_t now = files.now();
  for (const std::string &name : names) {
    FileFacts facts;
    if (files.describeAt(folder.get(), name.c_str(), facts) < 0)
      continue;
    // A time in the future, from a wrong clock, counts as stale too.
    if (facts.modified <= now && now - facts.modified < kStale)
      continue;
    Descriptor staged(files, files.openDirectory(folder.get(), name.c_str()));
    if (!staged.ok() || files.lock(staged.get()) == 0)
      removeTree(folder.get(), name.c_str());
  }
}

void Store::pruneQuarantine() {
  Descriptor folder = openFolder("quarantine", /*make=*/false);
  std::vector<std::string> names;
  if (!folder.ok() || files.listDirectory(folder.get(), names) < 0 || names.size() <= kQuarantined)
    return;
  std::vector<std::pair<int64_t, std::string>> byAge;
  for (std::string &name : names) {
    FileFacts facts;
    if (files.describeAt(folder.get(), name.c_str(), facts) == 0)
      byAge.emplace_back(facts.modified, std::move(name));
  }
  llvm::sort(byAge);
  for (size_t i = 0; i + kQuarantined < byAge.size(); ++i)
    removeTree(folder.get(), byAge[i].second.c_str());
}

std::vector<Listed> Store::list(std::vector<std::optional<Manifest>> *manifests) {
  std::vector<Listed> all;
  std::vector<std::string> shards;
  if (files.listDirectory(getRoot(), shards) < 0)
    return all;
  llvm::sort(shards);
  for (const std::string &name : shards) {
    if (name.size() != 2 || !llvm::all_of(name, llvm::isHexDigit))
      continue;
    Descriptor shard = openFolder(name.c_str(), /*make=*/false);
    std::vector<std::string> keys;
    if (!shard.ok() || files.listDirectory(shard.get(), keys) < 0)
      continue;
    llvm::sort(keys);
    for (std::string &key : keys) {
      if (!isKey(key) || key.compare(0, 2, name) != 0)
        continue;
      Listed listed;
      FileFacts facts;
      Descriptor entry = openWithin(shard.get(), key.c_str());
      std::vector<std::string> names;
      if (entry.ok())
        (void)files.listDirectory(entry.get(), names);
      listed.bytes = kBlock;
      for (const std::string &file : names) {
        if (files.describeAt(entry.get(), file.c_str(), facts) < 0)
          continue;
        listed.bytes += (facts.bytes + kBlock - 1) / kBlock * kBlock;
        if (file == Manifest::kFileName)
          listed.used = facts.modified;
      }
      if (manifests) {
        int code = 0;
        ErrorOr<Manifest> manifest = entry.ok() ? readManifest(entry.get(), key, code) : corrupt("no folder");
        manifests->push_back(manifest.ok() ? std::optional(std::move(*manifest)) : std::nullopt);
        if (const std::optional<Manifest> &read = manifests->back()) {
          listed.kind = read->kind;
          listed.subject = read->subject;
        }
      }
      listed.key = std::move(key);
      all.push_back(std::move(listed));
    }
  }
  return all;
}

Collected Store::collect(uint64_t bound) {
  Collected done;
  if (options.readOnly)
    return done;
  removeStale();
  pruneQuarantine();
  std::vector<Listed> all = list();
  int64_t now = files.now();
  for (Listed &listed : all) {
    done.bytes += listed.bytes;
    if (listed.used <= now)
      continue;
    // The clock was wrong when the mark was made, or is wrong now; from here on the entry ages like the others.
    listed.used = now;
    Descriptor shard = openFolder(listed.key.substr(0, 2).c_str(), /*make=*/false);
    Descriptor entry = shard.ok() ? openWithin(shard.get(), listed.key.c_str()) : Descriptor(files, -ENOENT);
    if (entry.ok())
      (void)files.stamp(entry.get(), Manifest::kFileName.data(), now);
  }
  done.entries = all.size();
  if (done.bytes <= bound)
    return done;
  llvm::sort(all, [](const Listed &a, const Listed &b) { return std::tie(a.used, a.key) < std::tie(b.used, b.key); });
  Descriptor aside = openFolder("tmp", /*make=*/true);
  for (const Listed &listed : all) {
    if (done.bytes <= bound)
      break;
    Descriptor shard = openFolder(listed.key.substr(0, 2).c_str(), /*make=*/false);
    if (!shard.ok())
      continue;
    // Moved away as a whole, so that readers find all or nothing.
    std::string name = uniqueName();
    if (aside.ok() && files.rename(shard.get(), listed.key.c_str(), aside.get(), name.c_str()) == 0)
      removeTree(aside.get(), name.c_str());
    else
      removeTree(shard.get(), listed.key.c_str());
    FileFacts facts;
    if (files.describeAt(shard.get(), listed.key.c_str(), facts) != -ENOENT)
      continue;
    done.bytes -= listed.bytes;
    --done.entries;
    done.removedBytes += listed.bytes;
    ++done.removedEntries;
  }
  return done;
}
