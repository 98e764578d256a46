// Reports of code on a GPU: the logs of launch/Abi.h in host memory that the device can access, their owners, and when
// the host reads them.
//
// A kernel that prints gets a log of its own for each launch; a host function queued after the launch collects it. A
// kernel that only asserts has one log for all its launches, which the next launch or synchronisation checks: no graph
// node, no host function. Collected logs wait in one list until the program shows them.
#pragma once
#include "runtime/device/CudaApi.h"
#include "runtime/device/Device.h"
#include "runtime/launch/Abi.h"
#include <atomic>
#include <mutex>
#include <vector>

namespace kiln::device {

class CudaDevice;

/// The report of one launch.
struct CollectedLog {
  std::shared_ptr<const artifact::Metadata> metadata;
  Grid grid;
  uint64_t failed = ~uint64_t(0); ///< as in KilnDeviceLog
  std::vector<KilnDeviceRecord> records;
  uint64_t dropped = 0; ///< records for which there was no room
};

/// True if there is something to take. Cheap enough to ask at every launch.
bool hasCollectedLogs();
/// What has been collected since the last call, in the order in which the launches completed.
std::vector<CollectedLog> takeCollectedLogs();
/// `listener` is called on a driver thread whenever something has been collected. It must return at once and call
/// neither the driver nor anything that waits for another thread.
void setLogListener(void (*listener)());

class CudaLogs {
public:
  explicit CudaLogs(CudaDevice &device) : device(device) {}

  /// A log that `poll` checks, for a kernel that asserts but does not print; returns its address on the device.
  ErrorOr<cuda::Address> watch(std::shared_ptr<const artifact::Metadata> metadata);
  /// Checks the log for the last time; its memory is reused.
  void unwatch(cuda::Address address);
  /// Collects the reports in watched logs.
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
    bool repeats; ///< part of a graph: collected each time the graph runs, and never freed
  };
  /// If too many printing launches are in flight, waits for those in `stream`.
  ErrorOr<Ticket *> begin(std::shared_ptr<const artifact::Metadata> metadata, Grid grid, bool repeats,
                          cuda::Stream stream);
  /// Collects the log after everything queued in `stream`.
  Status collectBehind(Ticket *ticket, cuda::Stream stream);
  /// Frees the ticket of a launch that did not happen.
  void cancel(Ticket *ticket);

  /// Collects everything outstanding, when nothing will run any more.
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
  size_t repeating = 0; ///< outstanding tickets that repeat
};

} // namespace kiln::device
