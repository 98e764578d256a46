// Whatever happens while an entry is written or read: no reader gets a wrong entry, no existing entry is lost, and the
// next writer succeeds. KILN_CACHE_FAULTS sets the number of faults (2,000 if unset).
#include "Faults.h"
#include "Folder.h"
#include <csignal>
#include <fcntl.h>
#include <set>
#include <sys/mount.h>
#include <sys/wait.h>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::test;
namespace fs = std::filesystem;

/// This kind's share of the requested faults.
static unsigned faults(double share) {
  const char *text = std::getenv("KILN_CACHE_FAULTS");
  unsigned all = text ? std::strtoul(text, nullptr, 10) : 2000;
  return std::max(1u, unsigned(all * share));
}

/// Runs `work` in a child process; returns whether it ended by itself.
template <typename Work> static bool runsToItsEnd(Work work) {
  pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The number of file system operations of `work` in a store that already has an entry.
static int64_t stepsOf(const std::function<void(Store &)> &work, uint64_t bound) {
  TestFolder folder;
  FaultyFiles files;
  auto store = openStore(folder.root(), &files, bound);
  publish(*store, 0);
  int64_t before = files.steps;
  work(*store);
  return files.steps - before;
}

TEST(Faults, aWriterIsKilledAtEveryStep) {
  TestFolder folder;
  unsigned wanted = faults(0.3), done = 0, number = 1;
  constexpr uint64_t bound = 64 << 10; // reached every few entries, so that eviction is interrupted too
  int64_t steps = stepsOf([](Store &store) { publish(store, 1); }, 0) * 2;
  for (int64_t at = 0; done < wanted; at = (at + 1) % steps, ++done, ++number) {
    FaultyFiles files;
    auto store = openStore(folder.root(), &files, number % 4 ? 0 : bound);
    bool ended = runsToItsEnd([&] {
      files.fault = done % 2 ? FaultyFiles::Fault::Kill : FaultyFiles::Fault::KillHalf;
      files.at = files.steps + at;
      (void)store->publish(makeManifest(number), makeFiles(number));
    });
    Found found = store->load(keyOf(number));
    ASSERT_EQ(found.doubt, "") << "step " << at << ": what is there is whole";
    ASSERT_TRUE(!found.entry || isRight(*found.entry, number)) << "step " << at;
    ASSERT_TRUE(found.entry || !ended);
    publish(*store, number); // nobody waits for the dead process
    expectThere(*store, number);
    if (number > 1 && number % 4 != 1)
      expectThere(*store, number - 1);
    if (HasFatalFailure())
      return;
  }
  FaultyFiles later;
  later.clock = int64_t(3600) * 1000000000;
  openStore(folder.root(), &later)->collect(UINT64_MAX);
  EXPECT_EQ(countIn(fs::path(folder.root()) / "tmp"), 0u) << "what the dead left goes in the end";
}

TEST(Faults, everyErrorAtEveryStepOfAWrite) {
  unsigned wanted = faults(0.2), done = 0, number = 1;
  static constexpr int codes[] = {ENOSPC, EIO, EACCES, EROFS, EDQUOT, EMFILE, ESTALE, ENOENT, EBUSY, EINTR};
  TestFolder folder;
  int64_t steps = stepsOf([](Store &store) { publish(store, 1); }, 0);
  for (int64_t at = 0; done < wanted; at = (at + 1) % steps, ++done, ++number) {
    FaultyFiles files;
    auto store = openStore(folder.root(), &files);
    files.fault = done / steps % 2 ? FaultyFiles::Fault::Error : FaultyFiles::Fault::ErrorOnce;
    files.code = codes[done % std::size(codes)];
    files.at = files.steps + at;
    ErrorOr<std::string> key = store->publish(makeManifest(number), makeFiles(number));
    files.fault = FaultyFiles::Fault::None;
    Found found = store->load(keyOf(number));
    ASSERT_EQ(found.doubt, "") << "step " << at;
    ASSERT_TRUE(!found.entry || isRight(*found.entry, number)) << "step " << at;
    ASSERT_TRUE(found.entry || !key.ok()) << "step " << at << ": said to be there";
    if (!key.ok()) {
      EXPECT_NE(key.getStatus().getMessage().find("cannot write to " + folder.root()), std::string::npos);
    }
    publish(*store, number);
    expectThere(*store, number);
    if (HasFatalFailure())
      return;
  }
}

TEST(Faults, everyErrorAtEveryStepOfARead) {
  unsigned wanted = faults(0.1), done = 0;
  static constexpr int codes[] = {EIO, EACCES, EMFILE, ESTALE, ENOENT, ELOOP};
  TestFolder folder;
  int64_t steps = stepsOf([](Store &store) { expectThere(store, 0); }, 0);
  for (int64_t at = 0; done < wanted; at = (at + 1) % steps, ++done) {
    FaultyFiles files;
    auto store = openStore(folder.root(), &files);
    publish(*store, 1);
    files.fault = FaultyFiles::Fault::ErrorOnce;
    files.code = codes[done % std::size(codes)];
    files.at = files.steps + at;
    Found found = store->load(keyOf(1));
    files.fault = FaultyFiles::Fault::None;
    ASSERT_TRUE(!found.entry || isRight(*found.entry, 1)) << "step " << at;
    bool passing = files.code == EMFILE || files.code == ESTALE;
    if (!found.entry && passing)
      expectThere(*store, 1); // the entry was not at fault: it stays
    publish(*store, 1);
    expectThere(*store, 1);
    if (HasFatalFailure())
      return;
  }
}

/// Damages one file of an entry as `random` decides; returns a description of the damage.
static std::string damage(const fs::path &entry, std::mt19937 &random) {
  std::vector<fs::path> paths;
  for (auto &file : fs::directory_iterator(entry))
    paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  fs::path victim = paths[random() % paths.size()];
  uint64_t size = fs::file_size(victim);
  std::string name = victim.filename().string();
  switch (random() % 5) {
  case 0:
    fs::remove(victim);
    return name + " removed";
  case 1: {
    uint64_t at = size ? random() % size : 0;
    fs::resize_file(victim, at);
    return size ? name + " cut at " + std::to_string(at) : "";
  }
  case 2:
    std::ofstream(victim, std::ios::app | std::ios::binary) << 'x';
    return name + " grew";
  case 3: {
    fs::remove(victim);
    fs::create_directory(victim);
    return name + " is a folder";
  }
  default: {
    if (!size)
      return "";
    std::fstream file(victim, std::ios::in | std::ios::out | std::ios::binary);
    uint64_t at = random() % size;
    file.seekg(at);
    char byte = char(file.get());
    file.seekp(at);
    file.put(char(byte ^ (1 << random() % 8)));
    return name + " has a flipped bit at " + std::to_string(at);
  }
  }
}

TEST(Faults, damagedEntriesAreDetectedAndRewritten) {
  TestFolder folder;
  auto store = openStore(folder.root());
  std::mt19937 random(7);
  publish(*store, 1000);
  for (unsigned done = 0, wanted = faults(0.35); done < wanted; ++done) {
    unsigned number = done % 5;
    publish(*store, number);
    std::string what = damage(folderOf(folder.root(), keyOf(number)), random);
    Found found = store->load(keyOf(number));
    if (what.empty()) {
      ASSERT_TRUE(found.entry && isRight(*found.entry, number));
      continue;
    }
    ASSERT_FALSE(found.entry) << what;
    ASSERT_NE(found.doubt, "") << what;
    ASSERT_EQ(store->load(keyOf(number)).doubt, "") << "set aside: " << what;
    publish(*store, number);
    expectThere(*store, number);
    if (HasFatalFailure())
      return;
  }
  expectThere(*store, 1000);
}

TEST(Faults, shortWritesAreContinued) {
  TestFolder folder;
  FaultyFiles files;
  files.fault = FaultyFiles::Fault::ShortWrites;
  auto store = openStore(folder.root(), &files);
  publish(*store, 1);
  expectThere(*store, 1);
}

TEST(Faults, aFolderThatVanishesAtEveryStep) {
  unsigned wanted = faults(0.05), done = 0;
  int64_t steps =
      stepsOf([](Store &store) { publish(store, 1); }, 0) + stepsOf([](Store &store) { expectThere(store, 0); }, 0);
  for (int64_t at = 0; done < wanted; at = (at + 1) % steps, ++done) {
    TestFolder folder;
    FaultyFiles files;
    auto store = openStore(folder.root(), &files);
    publish(*store, 0);
    files.meddle = [&] { fs::remove_all(folder.root()); };
    files.at = files.steps + at;
    (void)store->publish(makeManifest(1), makeFiles(1));
    Found found = store->load(keyOf(1));
    files.meddle = nullptr;
    ASSERT_TRUE(!found.entry || isRight(*found.entry, 1)) << "step " << at;
    publish(*store, 2);
    expectThere(*openStore(folder.root()), 2);
    if (HasFatalFailure())
      return;
  }
}

/// Runs `work` in `processes` processes at once, each with its number.
static void together(unsigned processes, const std::function<bool(unsigned)> &work) {
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  std::vector<pid_t> children;
  for (unsigned i = 0; i < processes; ++i) {
    pid_t child = ::fork();
    if (child == 0) {
      ::close(gate[1]);
      char c;
      (void)!::read(gate[0], &c, 1); // until all have started
      ::_exit(work(i) ? 0 : 1);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST(Faults, sixteenProcessesOnOneKey) {
  for (unsigned round = 0, rounds = std::max(1u, faults(0.005)); round < rounds; ++round) {
    TestFolder folder;
    together(16, [&](unsigned i) {
      auto store = openStore(folder.root());
      if (!store)
        return false;
      for (unsigned number = 0; number < 3; ++number) {
        Found before = store->load(keyOf(number));
        if (!before.doubt.empty() || (before.entry && !isRight(*before.entry, number)))
          return false;
        if (!store->publish(makeManifest(number), makeFiles(number)).ok())
          return false;
        Found after = store->load(keyOf(number));
        if (!after.entry || !isRight(*after.entry, number))
          return false;
      }
      return true;
    });
    EXPECT_EQ(countIn(fs::path(folder.root()) / "tmp"), 0u);
  }
}

TEST(Faults, readersWritersAndCollectorsAtOnce) {
  TestFolder folder;
  together(6, [&](unsigned i) {
    auto store = openStore(folder.root(), nullptr, i == 0 ? 40 << 10 : 0);
    std::mt19937 random(i);
    for (unsigned turn = 0; turn < faults(0.03); ++turn) {
      unsigned number = random() % 12;
      Found found = store->load(keyOf(number));
      if (!found.doubt.empty() || (found.entry && !isRight(*found.entry, number)))
        return false;
      if (!found.entry && !store->publish(makeManifest(number), makeFiles(number)).ok())
        return false;
      if (i == 0 && turn % 4 == 0)
        store->collect(30 << 10);
    }
    return true;
  });
}

TEST(Faults, aFullDisk) {
  TestFolder folder;
  std::string place = (folder.path / "small").string();
  fs::create_directory(place);
  // A file system of 64 KiB. Where mounting is not allowed, everyErrorAtEveryStepOfAWrite simulates a full one.
  if (::mount("none", place.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
    GTEST_SKIP() << "cannot mount a tmpfs here: " << std::strerror(errno);
  {
    auto store = openStore(place + "/cache");
    std::vector<unsigned> there;
    unsigned refused = 0;
    for (unsigned number = 0; number < 40; ++number) {
      ErrorOr<std::string> key = store->publish(makeManifest(number), makeFiles(number));
      if (key.ok()) {
        there.push_back(number);
      } else {
        ++refused;
        EXPECT_NE(key.getStatus().getMessage().find("No space left"), std::string::npos);
      }
    }
    EXPECT_GT(refused, 0u);
    EXPECT_FALSE(there.empty());
    for (unsigned number : there)
      expectThere(*store, number);
    EXPECT_EQ(countIn(place + "/cache/tmp"), 0u) << "what did not fit takes nothing";
    store->collect(0);
    publish(*store, 99);
    expectThere(*store, 99);
  }
  EXPECT_EQ(::umount2(place.c_str(), MNT_DETACH), 0);
}

TEST(Faults, anEntryIsReplacedAtEveryStepOfARead) {
  TestFolder folder;
  auto other = openStore(folder.root());
  int64_t steps = stepsOf([](Store &store) { expectThere(store, 0); }, 0);
  for (int64_t at = 0; at < steps; ++at) {
    FaultyFiles files;
    auto store = openStore(folder.root(), &files);
    publish(*store, 1);
    files.meddle = [&] {
      other->collect(0);
      publish(*other, 1);
    };
    files.at = files.steps + at;
    Found found = store->load(keyOf(1));
    EXPECT_EQ(found.doubt, "") << "step " << at;
    EXPECT_TRUE(!found.entry || isRight(*found.entry, 1)) << "step " << at;
    expectThere(*other, 1); // the new entry is not quarantined for the old one's fault
    EXPECT_EQ(countIn(fs::path(folder.root()) / "quarantine"), 0u) << "step " << at;
  }
}

TEST(Faults, entriesBeingWrittenAreNotCleanedUpWhateverTheClockSays) {
  TestFolder folder;
  FaultyFiles later;
  later.clock = int64_t(48) * 3600 * 1000000000;
  auto other = openStore(folder.root(), &later);
  int64_t steps = stepsOf([](Store &store) { publish(store, 1); }, 0);
  unsigned seen = 0;
  for (int64_t at = 0; at < steps; ++at) {
    FaultyFiles files;
    auto store = openStore(folder.root(), &files);
    files.meddle = [&] {
      fs::path tmp = fs::path(folder.root()) / "tmp";
      bool begun = false;
      std::error_code none;
      for (auto &staged : fs::directory_iterator(tmp, none))
        begun |= fs::exists(staged.path() / "object");
      size_t before = countIn(tmp);
      other->collect(UINT64_MAX);
      if (begun) {
        EXPECT_EQ(countIn(tmp), before) << "step " << at;
        ++seen;
      }
    };
    files.at = files.steps + at;
    publish(*store, unsigned(at) + 1);
    expectThere(*other, unsigned(at) + 1);
  }
  EXPECT_GT(seen, 8u);
}
