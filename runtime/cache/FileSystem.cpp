// The file system of the process.
#include "runtime/cache/FileSystem.h"
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

using namespace kiln::cache;

static int result(int code) { return code < 0 ? -errno : code; }

/// Repeats a call that a signal has interrupted.
template <typename Call> static auto retry(Call call) {
  auto code = call();
  while (code < 0 && errno == EINTR)
    code = call();
  return code < 0 ? decltype(code)(-errno) : code;
}

static FileFacts factsOf(const struct stat &status) {
  FileFacts facts;
  facts.kind = S_ISREG(status.st_mode)   ? FileFacts::Kind::File
               : S_ISDIR(status.st_mode) ? FileFacts::Kind::Directory
                                         : FileFacts::Kind::Other;
  facts.owner = status.st_uid;
  facts.mode = status.st_mode & 07777;
  facts.bytes = status.st_size;
  facts.modified = int64_t(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
  facts.identity = {status.st_dev, status.st_ino};
  return facts;
}

static int openAt(int at, const char *path, int flags) {
  return retry([&] { return ::openat(at < 0 ? AT_FDCWD : at, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600); });
}

FileSystem &FileSystem::real() {
  static FileSystem files;
  return files;
}

int FileSystem::openDirectory(int at, const char *path) { return openAt(at, path, O_RDONLY | O_DIRECTORY); }
int FileSystem::makeDirectory(int at, const char *path, mode_t mode) {
  return result(::mkdirat(at < 0 ? AT_FDCWD : at, path, mode));
}

int FileSystem::listDirectory(int directory, std::vector<std::string> &names) {
  // A descriptor of its own, because the stream takes ownership of it and has its own position.
  int own = openAt(directory, ".", O_RDONLY | O_DIRECTORY);
  if (own < 0)
    return own;
  DIR *stream = ::fdopendir(own);
  if (!stream) {
    int code = -errno;
    ::close(own);
    return code;
  }
  errno = 0;
  while (dirent *entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..")
      names.push_back(std::move(name));
    errno = 0;
  }
  int code = -errno;
  ::closedir(stream);
  return code;
}

int FileSystem::create(int at, const char *name) { return openAt(at, name, O_WRONLY | O_CREAT | O_EXCL); }
// Non-blocking, because a pipe may have been put in a file's place.
int FileSystem::openFile(int at, const char *name) { return openAt(at, name, O_RDONLY | O_NONBLOCK); }
int FileSystem::openAppending(int at, const char *name) {
  return openAt(at, name, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK);
}

ssize_t FileSystem::read(int file, char *into, size_t bytes) {
  return retry([&] { return ::read(file, into, bytes); });
}
ssize_t FileSystem::write(int file, const char *from, size_t bytes) {
  return retry([&] { return ::write(file, from, bytes); });
}
int FileSystem::truncate(int file, uint64_t bytes) {
  return retry([&] { return ::ftruncate(file, bytes); });
}
int FileSystem::sync(int file) {
  return retry([&] { return ::fsync(file); });
}
int FileSystem::close(int file) { return result(::close(file)); }

int FileSystem::describe(int file, FileFacts &facts) {
  struct stat status;
  if (::fstat(file, &status) < 0)
    return -errno;
  facts = factsOf(status);
  return 0;
}
int FileSystem::describeAt(int at, const char *name, FileFacts &facts) {
  struct stat status;
  if (::fstatat(at < 0 ? AT_FDCWD : at, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
    return -errno;
  facts = factsOf(status);
  return 0;
}

int FileSystem::rename(int from, const char *name, int to, const char *newName) {
  return result(::renameat(from, name, to, newName));
}
int FileSystem::removeFile(int at, const char *name) { return result(::unlinkat(at, name, 0)); }
int FileSystem::removeDirectory(int at, const char *name) { return result(::unlinkat(at, name, AT_REMOVEDIR)); }
int FileSystem::changeMode(int file, mode_t mode) { return result(::fchmod(file, mode)); }

int FileSystem::stamp(int at, const char *name, int64_t time) {
  timespec when{time / 1000000000, time % 1000000000};
  timespec times[2] = {when, when};
  return result(::utimensat(at, name, times, AT_SYMLINK_NOFOLLOW));
}
int FileSystem::lock(int file) {
  return retry([&] { return ::flock(file, LOCK_EX | LOCK_NB); });
}

int64_t FileSystem::now() {
  timespec time;
  ::clock_gettime(CLOCK_REALTIME, &time);
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}
uid_t FileSystem::user() { return ::geteuid(); }
