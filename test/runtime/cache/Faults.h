// A file system in which a step can be made to fail: by killing the process, returning an error, writing only half, or
// being slow.
#pragma once
#include "runtime/cache/FileSystem.h"
#include <cerrno>
#include <csignal>
#include <functional>
#include <unistd.h>

namespace kiln::cache::test {

/// Counts steps; at step `at` does what `fault` says, once or from there on.
class FaultyFiles : public FileSystem {
public:
  enum class Fault {
    None,
    Kill,       ///< before the step
    KillHalf,   ///< half of a write, then kill
    Error,      ///< the step and all later writing steps return `code`
    ErrorOnce,  ///< only this step does
    ShortWrites ///< every write writes only one byte of its data, or half
  };
  Fault fault = Fault::None;
  int64_t at = -1;
  int code = ENOSPC;
  int64_t steps = 0;
  int64_t clock = 0; ///< added to the time
  /// Called before the step, for example to remove the folder under it.
  std::function<void()> meddle;

private:
  [[noreturn]] static void end() {
    ::kill(::getpid(), SIGKILL);
    for (;;)
      ::pause();
  }

  template <typename Call> auto guard(Call call, bool writes = false) {
    int64_t step = steps++;
    if (step == at && meddle)
      meddle();
    if (step == at && (fault == Fault::Kill || fault == Fault::KillHalf))
      end();
    bool failing = (fault == Fault::ErrorOnce && step == at) ||
                   (fault == Fault::Error && at >= 0 && step >= at && (writes || step == at));
    return failing ? decltype(call())(-code) : call();
  }

public:
  int openDirectory(int at, const char *path) override {
    return guard([&] { return FileSystem::openDirectory(at, path); });
  }
  int makeDirectory(int at, const char *path, mode_t mode) override {
    return guard([&] { return FileSystem::makeDirectory(at, path, mode); }, true);
  }
  int listDirectory(int directory, std::vector<std::string> &names) override {
    return guard([&] { return FileSystem::listDirectory(directory, names); });
  }
  int create(int at, const char *name) override {
    return guard([&] { return FileSystem::create(at, name); }, true);
  }
  int openFile(int at, const char *name) override {
    return guard([&] { return FileSystem::openFile(at, name); });
  }
  int openAppending(int at, const char *name) override {
    return guard([&] { return FileSystem::openAppending(at, name); }, true);
  }
  ssize_t read(int file, char *into, size_t bytes) override {
    return guard([&] { return FileSystem::read(file, into, bytes); });
  }
  ssize_t write(int file, const char *from, size_t bytes) override {
    if (fault == Fault::KillHalf && steps == at) {
      (void)FileSystem::write(file, from, bytes / 2);
      end();
    }
    if (fault == Fault::ShortWrites)
      bytes = (bytes + 1) / 2;
    return guard([&] { return FileSystem::write(file, from, bytes); }, true);
  }
  int truncate(int file, uint64_t bytes) override {
    return guard([&] { return FileSystem::truncate(file, bytes); }, true);
  }
  int sync(int file) override {
    return guard([] { return 0; }, true); // no test cuts the power
  }
  int close(int file) override {
    int result = guard([&] { return 0; }, true);
    int closed = FileSystem::close(file); // always close: a test must not run out of descriptors
    return result < 0 ? result : closed;
  }
  int describe(int file, FileFacts &facts) override {
    return guard([&] { return FileSystem::describe(file, facts); });
  }
  int describeAt(int at, const char *name, FileFacts &facts) override {
    return guard([&] { return FileSystem::describeAt(at, name, facts); });
  }
  int rename(int from, const char *name, int to, const char *newName) override {
    return guard([&] { return FileSystem::rename(from, name, to, newName); }, true);
  }
  int removeFile(int at, const char *name) override {
    return guard([&] { return FileSystem::removeFile(at, name); });
  }
  int removeDirectory(int at, const char *name) override {
    return guard([&] { return FileSystem::removeDirectory(at, name); });
  }
  int changeMode(int file, mode_t mode) override {
    return guard([&] { return FileSystem::changeMode(file, mode); });
  }
  int stamp(int at, const char *name, int64_t time) override {
    return guard([&] { return FileSystem::stamp(at, name, time); }, true);
  }
  int lock(int file) override {
    return guard([&] { return FileSystem::lock(file); });
  }
  int64_t now() override { return FileSystem::now() + clock; }
};

} // namespace kiln::cache::test
