// The file system calls of the store, one per step. Tests replace them to kill a process, fill a disk or turn back a
// clock. Paths are names within an open directory; links are never followed.
#pragma once
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace kiln::cache {

/// The properties of a file. Times are nanoseconds since 1970.
struct FileFacts {
  enum class Kind { File, Directory, Other } kind = Kind::Other;
  uid_t owner = 0;
  mode_t mode = 0; ///< permission bits
  uint64_t bytes = 0;
  int64_t modified = 0;
  std::pair<uint64_t, uint64_t> identity; ///< unique among all files that exist at the same time
};

/// The file system itself. Calls return 0 or a descriptor, or a negative errno.
class FileSystem {
public:
  virtual ~FileSystem() = default;

  /// This process's file system.
  static FileSystem &real();

  /// Opens a directory. With `at` = -1, `path` is the path of a store's root; otherwise it is a name.
  virtual int openDirectory(int at, const char *path);
  virtual int makeDirectory(int at, const char *path, mode_t mode);
  virtual int listDirectory(int directory, std::vector<std::string> &names);
  /// Creates a file for writing.
  virtual int create(int at, const char *name);
  /// Opens an existing file for reading.
  virtual int openFile(int at, const char *name);
  /// Opens a file for appending, and creates it if it does not exist.
  virtual int openAppending(int at, const char *name);
  virtual ssize_t read(int file, char *into, size_t bytes);
  virtual ssize_t write(int file, const char *from, size_t bytes);
  virtual int truncate(int file, uint64_t bytes);
  virtual int sync(int file);
  virtual int close(int file);
  virtual int describe(int file, FileFacts &facts);
  virtual int describeAt(int at, const char *name, FileFacts &facts);
  /// Fails if `to` is a directory that is not empty.
  virtual int rename(int from, const char *name, int to, const char *newName);
  virtual int removeFile(int at, const char *name);
  virtual int removeDirectory(int at, const char *name);
  virtual int changeMode(int file, mode_t mode);
  /// Sets the modification time of a file.
  virtual int stamp(int at, const char *name, int64_t time);
  /// Tries, without waiting, to take a lock that ends with its holder: 0, or -EWOULDBLOCK if another holds it.
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
  /// The errno of a failed open.
  int error() const { return -descriptor; }
  int get() const { return descriptor; }
  /// Releases the descriptor; the caller must close it.
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
