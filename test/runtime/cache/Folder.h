// A temporary folder for a test, entries to publish there, and checks that must hold for a store after anything.
#pragma once
#include "runtime/cache/Store.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

namespace kiln::cache::test {

class TestFolder {
public:
  TestFolder() {
    // In memory if possible: on a busy disk, seconds turn into minutes.
    std::filesystem::path place = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string pattern = (place / "kiln-cache-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
  std::string root() const { return (path / "cache").string(); }
};

/// Without waiting for the disk, as no test cuts the power.
struct QuickFiles : FileSystem {
  int sync(int) override { return 0; }
};

inline std::unique_ptr<Store> openStore(const std::string &root, FileSystem *files = nullptr, uint64_t bound = 0) {
  StoreOptions options;
  static QuickFiles quick;
  options.files = files ? files : &quick;
  options.bound = bound;
  ErrorOr<std::unique_ptr<Store>> store = Store::open(root, options);
  EXPECT_TRUE(store.ok()) << store.getStatus().getMessage();
  return store.ok() ? std::move(*store) : nullptr;
}

/// The files of entry `number`: bytes derived from the number, so that a wrong entry is noticed.
inline Manifest makeManifest(unsigned number) {
  Manifest manifest;
  manifest.kind = "artifact";
  manifest.subject = "kernel" + std::to_string(number % 7);
  manifest.fields = {artifact::makeField("number", std::to_string(number)),
                     artifact::makeField("ir", std::string(2000 + number, 'i'))};
  manifest.facts["note"] = "of " + std::to_string(number);
  return manifest;
}
inline std::string keyOf(unsigned number) { return makeManifest(number).getKey(); }

inline std::vector<File> makeFiles(unsigned number) {
  std::mt19937 random(number);
  auto bytes = [&](size_t count) {
    std::string text(count, '\0');
    for (char &c : text)
      c = char(random());
    return text;
  };
  return {{"object", bytes(1000 + number % 5000)}, {"metadata.json", bytes(200)}, {"empty", ""}};
}

/// Whether an entry is exactly what was published under its number.
inline bool isRight(const Entry &entry, unsigned number) {
  std::vector<File> files = makeFiles(number);
  if (entry.key != keyOf(number) || entry.files.size() != files.size() ||
      entry.manifest.facts != makeManifest(number).facts)
    return false;
  for (const File &file : files) {
    const std::string *bytes = entry.find(file.name);
    if (!bytes || *bytes != file.bytes)
      return false;
  }
  return true;
}

inline void publish(Store &store, unsigned number) {
  ErrorOr<std::string> key = store.publish(makeManifest(number), makeFiles(number));
  ASSERT_TRUE(key.ok()) << key.getStatus().getMessage();
  EXPECT_EQ(*key, keyOf(number));
}

inline void expectThere(Store &store, unsigned number) {
  Found found = store.load(keyOf(number));
  ASSERT_TRUE(found.entry) << number << ": " << found.doubt;
  EXPECT_TRUE(isRight(*found.entry, number)) << number;
}

inline std::filesystem::path folderOf(const std::string &root, const std::string &key) {
  return std::filesystem::path(root) / key.substr(0, 2) / key;
}

inline size_t countIn(const std::filesystem::path &folder) {
  std::error_code none;
  size_t count = 0;
  for (auto &entry : std::filesystem::directory_iterator(folder, none)) {
    (void)entry;
    ++count;
  }
  return count;
}

} // namespace kiln::cache::test
