// The store in use: what was published is found, and what differs from what was written is not returned.
#include "Faults.h"
#include "Folder.h"
#include "llvm/ADT/STLExtras.h"
#include <atomic>
#include <map>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::test;
namespace fs = std::filesystem;

static constexpr int64_t kHour = int64_t(3600) * 1000000000;

static std::string refusal(const std::string &path, bool readOnly = false) {
  StoreOptions options;
  options.readOnly = readOnly;
  ErrorOr<std::unique_ptr<Store>> store = Store::open(path, options);
  return store.ok() ? "" : store.getStatus().getMessage();
}

TEST(Store, publishedEntriesAreFoundByOtherStores) {
  TestFolder folder;
  auto writer = openStore(folder.root());
  publish(*writer, 1);
  publish(*writer, 2);
  auto reader = openStore(folder.root());
  expectThere(*reader, 1);
  expectThere(*reader, 2);
  Found none = reader->load(keyOf(3));
  EXPECT_FALSE(none.entry);
  EXPECT_EQ(none.doubt, "");
  EXPECT_FALSE(reader->load("../../etc/passwd").entry);
  EXPECT_EQ(countIn(fs::path(folder.root()) / "tmp"), 0u);
}

TEST(Store, theFirstOfTwoWithOneKeyStays) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  ErrorOr<std::string> again = store->publish(makeManifest(1), {{"object", "other"}});
  ASSERT_TRUE(again.ok());
  expectThere(*store, 1);
  EXPECT_EQ(countIn(fs::path(folder.root()) / "tmp"), 0u);
}

TEST(Store, theRootIsPrivateToTheUser) {
  TestFolder folder;
  openStore(folder.root());
  struct stat status;
  ASSERT_EQ(::stat(folder.root().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);

  fs::path link = folder.path / "link";
  fs::create_directory_symlink(folder.root(), link);
  EXPECT_NE(refusal(link).find("got a link"), std::string::npos);
  EXPECT_NE(refusal(link.string() + "/").find("got a link"), std::string::npos);

  // Readable by others: made private. Writable by others and not empty: rejected.
  fs::path open = folder.path / "open", shared = folder.path / "shared";
  fs::create_directory(open);
  ::chmod(open.c_str(), 0775);
  EXPECT_EQ(refusal(open), "");
  ASSERT_EQ(::stat(open.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  fs::create_directories(shared / "ab");
  ::chmod(shared.c_str(), 0777);
  EXPECT_NE(refusal(shared).find("got mode 777"), std::string::npos);
  EXPECT_NE(refusal(shared, /*readOnly=*/true).find("got mode 777"), std::string::npos);
  EXPECT_NE(refusal("").find("expected the path"), std::string::npos);
  EXPECT_NE(refusal((folder.path / "absent").string(), /*readOnly=*/true).find("cannot open"), std::string::npos);
}

namespace {
/// A process of another user.
struct OtherUser : FileSystem {
  uid_t user() override { return FileSystem::user() + 1; }
};
} // namespace

TEST(Store, foldersOfOtherUsersAreRejected) {
  TestFolder folder;
  openStore(folder.root());
  OtherUser files;
  StoreOptions options;
  options.files = &files;
  ErrorOr<std::unique_ptr<Store>> store = Store::open(folder.root(), options);
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.getStatus().getMessage().find("to belong to this user"), std::string::npos);
}

TEST(Store, anEntryThatIsALinkIsSetAside) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  fs::path entry = folderOf(folder.root(), keyOf(1)), elsewhere = folder.path / "elsewhere";
  fs::rename(entry, elsewhere);
  fs::create_directory_symlink(elsewhere, entry);
  Found found = store->load(keyOf(1));
  EXPECT_FALSE(found.entry);
  EXPECT_NE(found.doubt, "");
  EXPECT_TRUE(fs::exists(elsewhere / "object")) << "what a link leads to stays";
  publish(*store, 1);
  expectThere(*store, 1);

  fs::rename(entry / "object", folder.path / "object");
  fs::create_symlink(folder.path / "object", entry / "object");
  EXPECT_FALSE(store->load(keyOf(1)).entry);
}

TEST(Store, linksAndFilesInPlaceOfFoldersAreReplaced) {
  TestFolder folder;
  auto store = openStore(folder.root());
  fs::path elsewhere = folder.path / "elsewhere";
  fs::create_directory(elsewhere);
  fs::path root = folder.root(), entry = folderOf(folder.root(), keyOf(1));
  for (const fs::path &place : {root / "tmp", root / "names", root / "quarantine", entry.parent_path()})
    for (bool link : {true, false}) {
      fs::remove_all(place);
      link ? fs::create_directory_symlink(elsewhere, place) : void(std::ofstream(place) << "a file");
      publish(*store, 1);
      expectThere(*store, 1);
      std::ofstream(entry / "object") << "damaged";
      EXPECT_FALSE(store->load(keyOf(1)).entry) << place;
      EXPECT_FALSE(fs::exists(entry)) << place;
      publish(*store, 1);
      expectThere(*store, 1);
    }
  EXPECT_TRUE(fs::is_empty(elsewhere)) << "what a link leads to is not written";
}

TEST(Store, aFolderOfEntriesThatIsALinkIsSetAside) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  fs::path shard = folderOf(folder.root(), keyOf(1)).parent_path(), elsewhere = folder.path / "elsewhere";
  fs::rename(shard, elsewhere);
  fs::create_directory_symlink(elsewhere, shard);
  EXPECT_FALSE(store->load(keyOf(1)).entry);
  EXPECT_TRUE(fs::exists(elsewhere / keyOf(1) / "object")) << "what a link leads to stays";
  publish(*store, 1);
  expectThere(*store, 1);
}

TEST(Store, anExtraFileIsDetected) {
  TestFolder folder;
  auto store = openStore(folder.root());
  for (const char *extra : {"extra", "sub"}) {
    publish(*store, 1);
    fs::path entry = folderOf(folder.root(), keyOf(1));
    std::ofstream(entry / ".nfs0001") << "a file system's own";
    expectThere(*store, 1);
    extra == std::string("sub") ? void(fs::create_directory(entry / extra)) : void(std::ofstream(entry / extra) << "x");
    Found found = store->load(keyOf(1));
    EXPECT_FALSE(found.entry);
    EXPECT_EQ(found.doubt, std::string(extra) + ": no file of this entry");
    EXPECT_FALSE(fs::exists(entry));
  }
}

TEST(Store, quarantinedEntriesAreRewritten) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  publish(*store, 2);
  store->setAside(keyOf(1));
  store->setAside(keyOf(3)); // does not exist
  store->setAside("../../etc");
  Found found = store->load(keyOf(1));
  EXPECT_FALSE(found.entry);
  EXPECT_EQ(found.doubt, "");
  expectThere(*store, 2);
  publish(*store, 1);
  expectThere(*store, 1);
}

TEST(Store, filesOfAnotherEntryAreDetected) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  fs::path wrong = folderOf(folder.root(), keyOf(2));
  fs::create_directories(wrong.parent_path());
  fs::copy(folderOf(folder.root(), keyOf(1)), wrong, fs::copy_options::recursive);
  Found found = store->load(keyOf(2));
  EXPECT_FALSE(found.entry);
  EXPECT_NE(found.doubt.find("the manifest is that of"), std::string::npos) << found.doubt;
  EXPECT_FALSE(fs::exists(wrong));
  expectThere(*store, 1);
}

TEST(Store, aReadOnlyStoreIsReadAndNeverChanged) {
  TestFolder folder;
  publish(*openStore(folder.root()), 1);
  publish(*openStore(folder.root()), 2);
  std::ofstream(folderOf(folder.root(), keyOf(2)) / "object", std::ios::app) << "more";
  StoreOptions options;
  options.readOnly = true;
  auto store = Store::open(folder.root(), options);
  ASSERT_TRUE(store.ok());
  expectThere(**store, 1);
  EXPECT_NE((*store)->load(keyOf(2)).doubt, "");
  EXPECT_TRUE(fs::exists(folderOf(folder.root(), keyOf(2))));
  EXPECT_FALSE((*store)->publish(makeManifest(3), makeFiles(3)).ok());
  EXPECT_EQ((*store)->collect(0).removedEntries, 0u);
  (*store)->setAside(keyOf(1));
  expectThere(**store, 1);

  // What others can write to is not trusted as shipped.
  fs::path object = folderOf(folder.root(), keyOf(1)) / "object";
  for (const fs::path &path : {object, object.parent_path(), object.parent_path().parent_path()}) {
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    EXPECT_FALSE((*store)->load(keyOf(1)).entry) << path;
    fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
    expectThere(**store, 1);
  }
}

TEST(Store, theLeastRecentlyUsedAreEvicted) {
  TestFolder folder;
  FaultyFiles files;
  files.clock = -10 * kHour;
  auto store = openStore(folder.root(), &files);
  for (unsigned number = 0; number < 10; ++number) {
    publish(*store, number);
    // Timestamps of the file system's own clock, which end up ten hours apart.
    fs::path manifest = folderOf(folder.root(), keyOf(number)) / Manifest::kFileName.str();
    fs::last_write_time(manifest, fs::file_time_type::clock::now() - std::chrono::hours(20 - number));
  }
  files.clock = 0;
  expectThere(*store, 3); // used now
  std::vector<Listed> all = store->list();
  ASSERT_EQ(all.size(), 10u);
  uint64_t total = 0;
  for (const Listed &listed : all)
    total += listed.bytes;
  Collected done = store->collect(total / 2);
  EXPECT_LE(done.bytes, total / 2);
  EXPECT_EQ(done.bytes + done.removedBytes, total);
  EXPECT_EQ(done.entries + done.removedEntries, 10u);
  for (unsigned number = 0; number < 10; ++number)
    EXPECT_EQ(bool(store->load(keyOf(number)).entry), number == 3 || number >= done.removedEntries + 1) << number;
}

TEST(Store, publishingStaysWithinTheBound) {
  TestFolder folder;
  constexpr uint64_t bound = 256 << 10;
  auto store = openStore(folder.root(), nullptr, bound);
  for (unsigned number = 0; number < 60; ++number) {
    publish(*store, number);
    expectThere(*store, number);
    EXPECT_LE(store->collect(UINT64_MAX).bytes, bound + (32 << 10)) << number;
  }
  fs::remove(fs::path(folder.root()) / "ledger"); // counted again
  publish(*store, 60);
  EXPECT_LE(store->collect(UINT64_MAX).bytes, bound + (32 << 10));
}

TEST(Store, aClockThatJumpsLosesNothing) {
  TestFolder folder;
  FaultyFiles files;
  auto store = openStore(folder.root(), &files, 1 << 20);
  for (unsigned number = 0; number < 40; ++number) {
    files.clock = (int64_t(number % 3) - 1) * 400 * 24 * kHour;
    publish(*store, number);
    expectThere(*store, number);
  }
  files.clock = 0;
  for (unsigned number = 0; number < 40; ++number)
    expectThere(*store, number);
  // Timestamps in the future do not keep an entry forever: it ages from when they are first seen.
  files.clock = 400 * 24 * kHour;
  for (unsigned number = 0; number < 40; ++number)
    expectThere(*store, number);
  files.clock = 0;
  store->collect(UINT64_MAX);
  for (const Listed &listed : store->list())
    EXPECT_LE(listed.used, files.now());
}

TEST(Store, filesOfDeadWritersAreRemovedAndThoseOfLivingOnesKept) {
  TestFolder folder;
  FaultyFiles files;
  auto store = openStore(folder.root(), &files);
  publish(*store, 0);
  fs::path tmp = fs::path(folder.root()) / "tmp";
  // The dead writer.
  fs::create_directories(tmp / "dead");
  std::ofstream(tmp / "dead" / "object") << "half";
  // The living writer holds its lock, in another process.
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready) | ::pipe(done), 0);
  fs::create_directories(tmp / "living");
  pid_t child = ::fork();
  if (child == 0) {
    int held = FileSystem::real().openDirectory(-1, (tmp / "living").c_str());
    char c = FileSystem::real().lock(held) == 0 ? 'y' : 'n';
    (void)!::write(ready[1], &c, 1);
    (void)!::read(done[0], &c, 1);
    ::_exit(0);
  }
  char c = 0;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  ASSERT_EQ(c, 'y');
  store->collect(UINT64_MAX);
  EXPECT_EQ(countIn(tmp), 2u) << "both are new";
  for (int64_t jump : {kHour, -kHour}) {
    files.clock = jump;
    store->collect(UINT64_MAX);
    EXPECT_FALSE(fs::exists(tmp / "dead")) << jump;
    EXPECT_TRUE(fs::exists(tmp / "living")) << jump;
    fs::create_directories(tmp / "dead");
  }
  (void)!::write(done[1], &c, 1);
  ::waitpid(child, nullptr, 0);
  store->collect(UINT64_MAX);
  EXPECT_EQ(countIn(tmp), 0u);
}

TEST(Store, quarantineIsBounded) {
  TestFolder folder;
  auto store = openStore(folder.root());
  for (unsigned number = 0; number < 50; ++number) {
    publish(*store, number);
    std::ofstream(folderOf(folder.root(), keyOf(number)) / "object") << "other";
    EXPECT_NE(store->load(keyOf(number)).doubt, "");
  }
  EXPECT_LE(countIn(fs::path(folder.root()) / "quarantine"), 32u);
}

TEST(Store, aDeletedFolderIsRecreated) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  fs::remove_all(folder.root());
  EXPECT_FALSE(store->load(keyOf(1)).entry);
  EXPECT_EQ(store->load(keyOf(1)).doubt, "");
  publish(*store, 1);
  expectThere(*store, 1);
  fs::remove_all(folder.root());
  openStore(folder.root()); // as another process would
  publish(*store, 2);
  expectThere(*openStore(folder.root()), 2);
}

TEST(Store, aChildForkedDuringReadsCanRead) {
  TestFolder folder;
  auto store = openStore(folder.root());
  publish(*store, 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!stop)
        (void)store->load(keyOf(2));
    });
  int failed = 0;
  for (int turn = 0; turn < 100 && !failed; ++turn) {
    pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10); // kills a child that waits for a lock nobody holds
      ::_exit(store->load(keyOf(1)).entry ? 0 : 1);
    }
    ASSERT_EQ(::waitpid(child, &failed, 0), child);
  }
  stop = true;
  for (std::thread &reader : readers)
    reader.join();
  EXPECT_EQ(failed, 0);
}

TEST(Store, theNearestIsTheOneWithMostFieldsInCommon) {
  TestFolder folder;
  auto store = openStore(folder.root());
  auto make = [](const std::string &a, const std::string &b, const std::string &c) {
    Manifest manifest;
    manifest.kind = "index";
    manifest.subject = "kernel";
    manifest.fields = {artifact::makeField("a", a), artifact::makeField("b", b), artifact::makeField("c", c)};
    return manifest;
  };
  for (const Manifest &manifest : {make("1", "2", "3"), make("1", "2", "4"), make("9", "9", "9")})
    ASSERT_TRUE(store->publish(manifest, {}).ok());
  std::optional<Manifest> nearest = store->nearest("index", "kernel", make("1", "8", "4").fields);
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->fields[2].value, "4");
  EXPECT_FALSE(store->nearest("index", "other", make("1", "8", "4").fields));
  // The list of names stays short, and still has the latest ones.
  for (unsigned number = 0; number < 300; ++number)
    ASSERT_TRUE(store->publish(make("1", std::to_string(number), "x"), {}).ok());
  nearest = store->nearest("index", "kernel", make("1", "299", "y").fields);
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->fields[1].value, "299");
  for (auto &file : fs::directory_iterator(fs::path(folder.root()) / "names"))
    EXPECT_LE(fs::file_size(file), 130u * 65);
}

TEST(Manifest, isReadAsItWasPrinted) {
  Manifest manifest = makeManifest(5);
  manifest.subject = "k\"\xc3\xa9";
  manifest.files = {{"object", 3, artifact::digest("abc")}};
  ErrorOr<Manifest> again = Manifest::parse(manifest.print());
  ASSERT_TRUE(again.ok()) << again.getStatus().getMessage();
  EXPECT_EQ(again->print(), manifest.print());
  EXPECT_EQ(again->getKey(), manifest.getKey());
}

TEST(Manifest, everyBitIsChecked) {
  Manifest manifest = makeManifest(5);
  manifest.files = {{"object", 3, artifact::digest("abc")}};
  std::string text = manifest.print();
  for (size_t at = 0; at < text.size(); ++at)
    for (int bit : {0, 5}) {
      std::string other = text;
      other[at] ^= char(1 << bit);
      EXPECT_FALSE(Manifest::parse(other).ok()) << at;
    }
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(Manifest::parse(llvm::StringRef(text).take_front(size)).ok()) << size;
}

TEST(Manifest, aKeyThatDoesNotMatchTheFieldsIsRejected) {
  std::string text = makeManifest(5).print(), other = keyOf(6);
  size_t at = text.find(keyOf(5));
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 64, other);
  // With a correct digest, as if the manifest were written by hand.
  size_t begin = text.find('\n') + 1;
  text = "{\"sha256\":\"" + artifact::digest(text.substr(begin)) + "\",\n" + text.substr(begin);
  ErrorOr<Manifest> manifest = Manifest::parse(text);
  ASSERT_FALSE(manifest.ok());
  EXPECT_NE(manifest.getStatus().getMessage().find("has a key that does not match"), std::string::npos);
}

namespace {
/// Reports files as owned by another user.
struct ForeignFiles : QuickFiles {
  FileFacts::Kind foreign = FileFacts::Kind::Other;
  int describe(int file, FileFacts &facts) override {
    int code = FileSystem::describe(file, facts);
    facts.owner += facts.kind == foreign;
    return code;
  }
};
} // namespace

TEST(Store, filesAndFoldersOfOtherUsersAreNotRead) {
  for (FileFacts::Kind kind : {FileFacts::Kind::File, FileFacts::Kind::Directory}) {
    TestFolder folder;
    ForeignFiles files;
    auto store = openStore(folder.root(), &files);
    publish(*store, 1);
    expectThere(*store, 1);
    files.foreign = kind;
    EXPECT_FALSE(store->load(keyOf(1)).entry);
  }
}

namespace {
/// Reports appended files as longer than they are, as if another process truncated them right afterwards.
struct ShrinkingFiles : QuickFiles {
  std::set<int> appended;
  int openAppending(int at, const char *name) override {
    int file = FileSystem::openAppending(at, name);
    appended.insert(file);
    return file;
  }
  int describe(int file, FileFacts &facts) override {
    int code = FileSystem::describe(file, facts);
    if (appended.count(file))
      facts.bytes += 1 << 20;
    return code;
  }
};
} // namespace

TEST(Store, theListOfNamesMayShrinkWhileItIsRead) {
  TestFolder folder;
  ShrinkingFiles files;
  auto store = openStore(folder.root(), &files);
  for (int i = 0; i < 3; ++i) {
    publish(*store, i);
    expectThere(*store, i);
  }
}

namespace {
/// Records operations by name.
struct Recorder : QuickFiles {
  std::vector<std::string> events;
  std::map<int, std::string> open;
  int openDirectory(int at, const char *path) override {
    int descriptor = FileSystem::openDirectory(at, path);
    open[descriptor] = path;
    return descriptor;
  }
  int create(int at, const char *name) override {
    int descriptor = FileSystem::create(at, name);
    open[descriptor] = name;
    events.push_back("create " + std::string(name));
    return descriptor;
  }
  ssize_t write(int file, const char *from, size_t bytes) override {
    events.push_back("write " + open[file]);
    return FileSystem::write(file, from, bytes);
  }
  int sync(int file) override {
    events.push_back("sync " + open[file]);
    return 0;
  }
  int rename(int from, const char *name, int to, const char *newName) override {
    events.push_back("rename " + std::string(name));
    return FileSystem::rename(from, name, to, newName);
  }
};
} // namespace

TEST(Store, everythingIsOnDiskBeforeTheEntryAppears) {
  TestFolder folder;
  Recorder files;
  auto store = openStore(folder.root(), &files);
  publish(*store, 1);
  auto renamed =
      llvm::find_if(files.events, [](const std::string &e) { return llvm::StringRef(e).starts_with("rename "); });
  ASSERT_NE(renamed, files.events.end());
  std::string staged = renamed->substr(7);
  std::vector<std::string> before(files.events.begin(), renamed), expected;
  for (const char *name : {"object", "metadata.json", "empty", "manifest.json"}) {
    expected.push_back("create " + std::string(name));
    if (name != std::string("empty"))
      expected.push_back("write " + std::string(name));
    expected.push_back("sync " + std::string(name));
  }
  expected.push_back("sync " + staged);
  EXPECT_EQ(before, expected);
  EXPECT_EQ(*(renamed + 1), "sync " + keyOf(1).substr(0, 2));
}
