// What the store asks of a file system, one call a step: the seam at which tests end a process, fill a disk or turn a
// clock back. Paths are names within an open directory, never followed through a link.
#pragma once
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace kiln::cache {

/// What a file is. Times are nanoseconds since 1970.
struct FileFacts {
  enum class Kind { File, Directory, Other } kind = Kind::Other;
  uid_t owner = 0;
  mode_t mode = 0; ///< permission bits
  uint64_t bytes = 0;
  int64_t modified = 0;
  std::pair<uint64_t, uint64_t> identity; ///< no two that are there at once have the same
};

/// The file system itself. Calls give 0 or a descriptor, or a negative errno.
class FileSystem {
public:
  virtual ~FileSystem() = default;

  /// The one of this process.
  static FileSystem &real();

  /// Descriptors of directories; `path` may be a path for the root of a store (`at` = -1), else it is a name.
  virtual int openDirectory(int at, const char *path);
  virtual int makeDirectory(int at, const char *path, mode_t mode);
  virtual int listDirectory(int directory, std::vector<std::string> &names);
  /// A new file to write.
  virtual int create(int at, const char *name);
  /// An existing file to read.
  virtual int openFile(int at, const char *name);
  /// A file that is written at its end, made if it is not there.
  virtual int openAppending(int at, const char *name);
  virtual ssize_t read(int file, char *into, size_t bytes);
  virtual ssize_t write(int file, const char *from, size_t bytes);
  virtual int truncate(int file, uint64_t bytes);
  virtual int sync(int file);
  virtual int close(int file);
  virtual int describe(int file, FileFacts &facts);
  virtual int describeAt(int at, const char *name, FileFacts &facts);
  /// Fails where `to` is a directory with something in it.
  virtual int rename(int from, const char *name, int to, const char *newName);
  virtual int removeFile(int at, const char *name);
  virtual int removeDirectory(int at, const char *name);
  virtual int changeMode(int file, mode_t mode);
  /// Sets when a file was modified.
  virtual int stamp(int at, const char *name, int64_t time);
  /// A lock that ends with its holder, asked for without waiting: 0, or -EWOULDBLOCK where somebody holds it.
  virtual int lock(int file);
  virtual int64_t now();
  virtual uid_t user();
};

/// Closes a descriptor at the end of a scope.
class Descriptor {
public:
  Descriptor(FileSystem &files, int descriptor) : files(&files), descriptor(descriptor) {}
  Descriptor(Descriptor &&other) noexcept : files(other.files), descriptor(other.release()) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() { (void)close(); }

  bool ok() const { return descriptor >= 0; }
  /// The errno of what could not be opened.
  int error() const { return -descriptor; }
  int get() const { return descriptor; }
  /// Leaves the closing to whoever calls.
  int release() { return std::exchange(descriptor, -1); }
  int close() {
    int open = release();
    return open >= 0 ? files->close(open) : 0;
  }

private:
  FileSystem *files;
  int descriptor;
};

} // namespace kiln::cache
