// What one launch observes through the hooks: printed text, a failed assertion, an access outside every buffer, a race
// between two instances. Created only for kernels that have sites; others run without a monitor.
//
// The first failure is determined by program id, not by time, so the same launch reports the same failure on any number
// of threads. For the same reason printed lines come out in program order. To look for races, the instances run one
// after the other.
#pragma once
#include "runtime/device/Device.h"
#include "runtime/launch/RaceDetector.h"
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace kiln::launch {

/// Memory that an argument of the launch may reach: the storage behind an array, not just the view.
struct BufferExtent {
  std::string argument;
  uintptr_t begin = 0, end = 0;
  bool writable = true;
};

struct Failure {
  enum class Kind { Assert, OutOfBounds, ReadOnly, Race, Index, Lanes };
  Kind kind = Kind::Assert;
  int32_t site = 0;
  int64_t program = 0;
  int64_t element = 0;   ///< linear coordinate in the site's tile
  uintptr_t address = 0; ///< not for assertions
  int32_t bytes = 0;
  KilnAccess access = KILN_ACCESS_LOAD;
  std::optional<NotedAccess> other; ///< for races: the earlier access
  int64_t otherElement = 0;         ///< for two elements of one store: the earlier one
};

class Monitor {
public:
  Monitor(const artifact::Metadata &metadata, device::Grid grid, std::vector<BufferExtent> buffers);

  const KilnHooks *getHooks() const;
  bool isSequential() const { return races.has_value(); }

  /// True if a kernel with this metadata needs a monitor.
  static bool isNeeded(const artifact::Metadata &metadata) {
    return !metadata.sites.empty() || llvm::StringRef(metadata.check) != "none";
  }

  const std::optional<Failure> &getFailure() const { return failure; }

  /// What happened, without the place: the assertion's text, or the access and its address.
  std::string getMessage(const Failure &failure) const;
  /// The buffer concerned, and by how much the access misses it; empty for assertions.
  std::string getDetail(const Failure &failure) const;
  /// Everything in one line: source position, message, program, coordinate, buffer, the other access of a race.
  std::string describe(const Failure &failure) const;

  /// The text that the instances printed, in program order.
  std::string takeOutput();

private:
  static void print(const KilnLaunch *, int32_t site, int64_t program, const void *const *operands);
  static void fail(const KilnLaunch *, int32_t site, int64_t program, int64_t element);
  static void access(const KilnLaunch *, int32_t site, int64_t program, int64_t element, const void *address,
                     int32_t bytes, int32_t kind);

  /// Keeps the failure if its program id is the lowest so far. Leaves nothing to destroy when it returns, so that the
  /// hook may jump away.
  void record(const Failure &candidate);
  std::string describeProgram(int64_t program) const;
  std::string describeElement(int32_t site, int64_t element) const;
  std::string describeBuffers(uintptr_t address, int32_t bytes) const;
  std::string describeSource(int32_t site) const;

  const artifact::Metadata &metadata;
  device::Grid grid;
  std::vector<BufferExtent> buffers;
  std::optional<RaceDetector> races;
  std::unordered_map<int32_t, std::unordered_map<uintptr_t, int64_t>> stored; ///< by site of the store in progress
  std::mutex mutex;
  std::optional<Failure> failure;
  std::map<int64_t, std::string> output; ///< by program
  size_t outputBytes = 0;
};

} // namespace kiln::launch
