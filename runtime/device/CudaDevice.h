// One GPU: its primary context, what it can hold, launches that went to it lately. Loading code is CudaKernel.cpp,
// what running code says is CudaLog.cpp.
#pragma once
#include "runtime/device/CudaDriver.h"
#include "runtime/device/Device.h"
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

namespace kiln::device {

/// What a GPU is, read once.
struct CudaProperties {
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int multiprocessors = 0;
  int maxThreads = 0; ///< a block
  int maxThreadsPerProcessor = 0;
  int sharedBytes = 0; ///< a block, the most it may ask for
  int sharedBytesPerProcessor = 0;
  int reservedSharedBytes = 0; ///< of a block, taken by the driver
  int registers = 0;           ///< a block
  int l2Bytes = 0;
  int maxGrid[3] = {0, 0, 0};
  bool clusters = false;
};

/// What the driver takes long to say, and no launch asks.
struct CudaFacts {
  int clockKHz = 0, memoryClockKHz = 0, memoryBusBits = 0;
  uint64_t memoryBytes = 0;
};

class CudaLogs;

/// The GPU that owns this address; nullopt for memory the driver does not know. Does not load a driver that nobody has
/// loaded unless `start`.
std::optional<int> findDeviceOf(const void *address, bool start = false);
/// True for memory of the host that the driver has pinned, or that any GPU reaches.
bool isPinned(const void *address);

class CudaDevice final : public Device {
public:
  /// Number of GPUs the driver sees; an error says why there is no driver.
  static ErrorOr<int> count();
  /// The GPU with this number. Its primary context is created on first use and kept for the life of the process.
  static ErrorOr<CudaDevice *> get(int ordinal);
  /// Every device that has been asked for so far.
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

  /// As Scope, for calls that allocate or load: the driver refuses them while any thread captures a graph, unless this
  /// thread says that they are no part of it.
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

  /// Waits for everything queued on the device. What failed on it comes out here at the latest.
  Status synchronize();

  /// Not ok if this process cannot use the device any more: after a fork, or when its context is lost.
  Status check() const {
    return CudaDriver::isForked() || lost.load(std::memory_order_relaxed) ? whyUnusable() : Status();
  }
  /// Turns a failed call into a status; a sticky error marks the context as lost and names the launches in question.
  Status fail(const std::string &what, cuda::Result result);

  /// Remembers a launch for `fail`. `label` lives for ever.
  void noteLaunch(const std::string *label, const Grid &grid) {
    uint64_t slot = launches.fetch_add(1, std::memory_order_relaxed);
    Noted &noted = recent[slot % recent.size()];
    noted.label.store(label, std::memory_order_relaxed);
    noted.grid.store(uint64_t(uint32_t(grid.x)) | uint64_t(uint16_t(grid.y)) << 32 | uint64_t(uint16_t(grid.z)) << 48,
                     std::memory_order_relaxed);
  }

  uint64_t countLaunches() const { return launches.load(std::memory_order_relaxed); }

  /// Device memory for staged arrays and the like, 256-byte aligned. Freed blocks are kept for the next call.
  ErrorOr<cuda::Address> allocate(size_t bytes);
  void release(cuda::Address address);

  /// What stands for arrays without elements where the driver wants an address: at these distances 16 bytes of zeros,
  /// of nans in every type, and that anything may write.
  static constexpr unsigned emptyZeros = 0, emptyNan = 16, emptySink = 32;
  ErrorOr<cuda::Address> getEmptyArray();

  /// Unloads a module once everything queued so far has ended: at the next `synchronize`.
  void retire(cuda::Module module);

  /// Makes `stream` wait for all that is queued on `other` now, without stopping the host.
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
  CudaLogs *logs; ///< never freed, as the device

  struct Noted {
    std::atomic<const std::string *> label{nullptr};
    std::atomic<uint64_t> grid{0};
  };
  std::array<Noted, 16> recent;
  std::atomic<uint64_t> launches{0}, finished{0}; ///< launches before `finished` are known to have ended well

  std::atomic<bool> lost{false};
  mutable std::mutex mutex; ///< of what follows
  std::string lostMessage;
  struct Block {
    cuda::Address address;
    size_t bytes;
    bool used;
  };
  std::vector<Block> blocks;
  cuda::Address emptyArray = 0;
  std::vector<cuda::Event> events; ///< not in use
  std::vector<cuda::Module> retired;
};

} // namespace kiln::device
