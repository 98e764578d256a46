// What code on a GPU says: the logs of launch/Abi.h in host memory that the device reaches, who owns them, and when the
// host looks.
//
// A kernel that prints gets a log of its own for each launch; a host function queued behind the launch collects it. A
// kernel that only asserts keeps one log for all its launches, which the next launch or synchronisation looks at: no
// node in a graph, no host function. Collected logs wait in one list for whoever can show them.
#pragma once
#include "runtime/device/CudaApi.h"
#include "runtime/device/Device.h"
#include "runtime/launch/Abi.h"
#include <atomic>
#include <mutex>
#include <vector>

namespace kiln::device {

class CudaDevice;

/// What one launch said.
struct CollectedLog {
  std::shared_ptr<const artifact::Metadata> metadata;
  Grid grid;
  uint64_t failed = ~uint64_t(0); ///< as in KilnDeviceLog
  std::vector<KilnDeviceRecord> records;
  uint64_t dropped = 0; ///< records there was no room for
};

/// True if there is something to take: cheap enough for every launch.
bool hasCollectedLogs();
/// What has been collected since the last call, launches in the order in which they ended.
std::vector<CollectedLog> takeCollectedLogs();
/// Called on a thread of the driver's whenever something has been collected; must return at once and call neither the
/// driver nor anything that waits for another thread.
void setLogListener(void (*listener)());

class CudaLogs {
public:
  explicit CudaLogs(CudaDevice &device) : device(device) {}

  /// A log that is looked at by `poll`, for a kernel that asserts but does not print: its address on the device.
  ErrorOr<cuda::Address> watch(std::shared_ptr<const artifact::Metadata> metadata);
  /// Looks at it for the last time; its memory is used again.
  void unwatch(cuda::Address address);
  /// Collects what watched logs show.
  void poll() {
    if (watchedCount.load(std::memory_order_relaxed))
      pollWatched();
  }

  /// One launch of a kernel that prints.
  struct Ticket {
    CudaLogs *owner;
    KilnDeviceLog *log;
    cuda::Address address;
    std::shared_ptr<const artifact::Metadata> metadata;
    Grid grid;
    bool repeats; ///< part of a graph: collected each time the graph runs, and never given back
  };
  /// Where too many launches that print are under way, waits for those in `stream`.
  ErrorOr<Ticket *> begin(std::shared_ptr<const artifact::Metadata> metadata, Grid grid, bool repeats,
                          cuda::Stream stream);
  /// Collects behind everything in `stream`.
  Status collectBehind(Ticket *ticket, cuda::Stream stream);
  /// For a launch that did not happen.
  void cancel(Ticket *ticket);

  /// Collects whatever is outstanding, when nothing will run any more.
  void collectAll();

private:
  struct Memory {
    KilnDeviceLog *log;
    cuda::Address address;
  };
  struct Watched {
    Memory memory;
    std::shared_ptr<const artifact::Metadata> metadata;
  };
  ErrorOr<Memory> acquire(uint32_t capacity);
  void finish(Ticket *ticket);
  void pollWatched();
  static void lookAt(const Watched &watched);
  static void collect(Ticket *ticket);

  CudaDevice &device;
  std::mutex mutex;
  std::vector<Memory> unused;
  std::vector<Watched> watched;
  std::atomic<unsigned> watchedCount{0};
  std::vector<Ticket *> outstanding;
  size_t repeating = 0; ///< of the outstanding ones
};

} // namespace kiln::device
