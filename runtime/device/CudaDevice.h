// One GPU: its primary context, its limits, its recent launches. CudaKernel.cpp loads code, CudaLog.cpp handles what
// running code reports.
#pragma once
#include "runtime/device/CudaDriver.h"
#include "runtime/device/Device.h"
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

namespace kiln::device {

/// The properties of a GPU, read once.
struct CudaProperties {
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int multiprocessors = 0;
  int maxThreads = 0; ///< per block
  int maxThreadsPerProcessor = 0;
  int sharedBytes = 0; ///< per block, the most that it may ask for
  int sharedBytesPerProcessor = 0;
  int reservedSharedBytes = 0; ///< per block, taken by the driver
  int registers = 0;           ///< per block
  int l2Bytes = 0;
  int maxGrid[3] = {0, 0, 0};
  bool clusters = false;
};

/// Properties that are slow to query and that no launch needs.
struct CudaFacts {
  int clockKHz = 0, memoryClockKHz = 0, memoryBusBits = 0;
  uint64_t memoryBytes = 0;
};

class CudaLogs;

/// The GPU that owns this address; std::nullopt for memory that the driver does not know. Without `start`, does not
/// load a driver that the process has not loaded yet.
std::optional<int> findDeviceOf(const void *address, bool start = false);
/// True for host memory that the driver has pinned, or that any GPU can access.
bool isPinned(const void *address);

class CudaDevice final : public Device {
public:
  /// The number of GPUs that the driver sees; an error says why there is no driver.
  static ErrorOr<int> count();
  /// The GPU with this number. Its primary context is created on first use and kept for the life of the process.
  static ErrorOr<CudaDevice *> get(int ordinal);
  /// Every device that get() has returned so far.
  static std::vector<CudaDevice *> getUsed();
  /// The GPU whose context is current on this thread, or -1.
  static int getCurrent();

  llvm::StringRef getKind() const override { return "cuda"; }
  ErrorOr<std::shared_ptr<LoadedKernel>> load(artifact::Artifact artifact, std::string label = "") override;

  int getOrdinal() const { return ordinal; }
  const CudaDriver &getDriver() const { return driver; }
  cuda::Context getContext() const { return context; }
  const CudaProperties &getProperties() const { return properties; }
  CudaFacts readFacts() const;
  CudaLogs &getLogs() { return *logs; }

  /// Makes this device's context current on the calling thread for a scope, if it is not already.
  class Scope {
  public:
    explicit Scope(const CudaDevice &device) : driver(device.driver) {
      cuda::Context current = nullptr;
      pushed = (driver.ctxGetCurrent(&current) || current != device.context) && !driver.ctxPushCurrent(device.context);
    }
    ~Scope() {
      cuda::Context context;
      if (pushed)
        driver.ctxPopCurrent(&context);
    }
    Scope(const Scope &) = delete;

  private:
    const CudaDriver &driver;
    bool pushed;
  };

  /// Like Scope, for calls that allocate or load. While any thread captures a graph the driver refuses them, unless
  /// this thread declares that they are not part of the graph.
  class SetupScope : Scope {
  public:
    explicit SetupScope(const CudaDevice &device) : Scope(device), driver(device.driver) {
      driver.threadExchangeCaptureMode(&mode);
    }
    ~SetupScope() { driver.threadExchangeCaptureMode(&mode); }

  private:
    const CudaDriver &driver;
    cuda::CaptureMode mode = cuda::CaptureMode::Relaxed;
  };

  /// Waits for everything queued on the device. Failures of that work surface here at the latest.
  Status synchronize();

  /// Not ok if this process can no longer use the device: after a fork, or when its context is lost.
  Status check() const {
    return CudaDriver::isForked() || lost.load(std::memory_order_relaxed) ? whyUnusable() : Status();
  }
  /// Turns a failed call into a status; a sticky error marks the context as lost and names the suspected launches.
  Status fail(const std::string &what, cuda::Result result);

  /// Records a launch for `fail`. `label` must never be freed.
  void noteLaunch(const std::string *label, const Grid &grid) {
    uint64_t slot = launches.fetch_add(1, std::memory_order_relaxed);
    Noted &noted = recent[slot % recent.size()];
    noted.label.store(label, std::memory_order_relaxed);
    noted.grid.store(uint64_t(uint32_t(grid.x)) | uint64_t(uint16_t(grid.y)) << 32 | uint64_t(uint16_t(grid.z)) << 48,
                     std::memory_order_relaxed);
  }

  uint64_t countLaunches() const { return launches.load(std::memory_order_relaxed); }

  /// Device memory for staged arrays and the like, 256-byte aligned. Freed blocks are kept for later calls.
  ErrorOr<cuda::Address> allocate(size_t bytes);
  void release(cuda::Address address);

  /// A stand-in for arrays without elements where the driver wants an address. At these offsets it has 16 bytes of
  /// zeros, of bits that are nan in every type, and a place that anything may write to.
  static constexpr unsigned emptyZeros = 0, emptyNan = 16, emptySink = 32;
  ErrorOr<cuda::Address> getEmptyArray();

  /// Unloads a module once everything queued so far has completed: at the next `synchronize`.
  void retire(cuda::Module module);

  /// Makes `stream` wait for everything queued on `other` so far, without blocking the host.
  Status order(cuda::Stream stream, cuda::Stream other);

private:
  CudaDevice(const CudaDriver &driver, int ordinal);
  Status open();
  Status whyUnusable() const;
  std::string describeLaunches() const;

  const CudaDriver &driver;
  int ordinal;
  cuda::DeviceHandle handle = 0;
  cuda::Context context = nullptr;
  CudaProperties properties;
  CudaLogs *logs; ///< never freed, like the device

  struct Noted {
    std::atomic<const std::string *> label{nullptr};
    std::atomic<uint64_t> grid{0};
  };
  std::array<Noted, 16> recent;
  std::atomic<uint64_t> launches{0}, finished{0}; ///< launches before `finished` are known to have succeeded

  std::atomic<bool> lost{false};
  mutable std::mutex mutex; ///< guards the following members
  std::string lostMessage;
  struct Block {
    cuda::Address address;
    size_t bytes;
    bool used;
  };
  std::vector<Block> blocks;
  cuda::Address emptyArray = 0;
  std::vector<cuda::Event> events; ///< free ones
  std::vector<cuda::Module> retired;
};

} // namespace kiln::device
