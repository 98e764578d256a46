// Devices, their contexts, and the messages when one is lost.
#include "runtime/device/CudaDevice.h"
#include "runtime/device/CudaLog.h"
#include "runtime/support/ForkGuard.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::device;
using cuda::DeviceAttribute;

//===-- The table of devices -------------------------------------------------------------------------------------===//

namespace {
struct Table {
  std::mutex mutex; ///< held while a device is created
  static constexpr int size = 64;
  std::atomic<CudaDevice *> devices[size] = {}; ///< by ordinal; null: not used yet
};

/// Never destroyed, nor are devices: kernels may outlive static destructors, and the driver cleans up after itself.
Table &getTable() {
  static auto *table = new Table;
  return *table;
}
} // namespace

ErrorOr<int> CudaDevice::count() {
  ErrorOr<const CudaDriver *> driver = CudaDriver::get();
  if (!driver.ok())
    return driver.getStatus();
  int number = 0;
  if (cuda::Result result = (*driver)->deviceGetCount(&number))
    return (*driver)->failure("count the CUDA devices", result);
  return number;
}

ErrorOr<CudaDevice *> CudaDevice::get(int ordinal) {
  static Table &table = getTable();
  if (unsigned(ordinal) < unsigned(Table::size) && !CudaDriver::isForked())
    if (CudaDevice *device = table.devices[ordinal].load(std::memory_order_acquire))
      return device;
  ErrorOr<const CudaDriver *> driver = CudaDriver::get();
  if (!driver.ok())
    return driver.getStatus();
  ForkGuard guard;
  std::lock_guard<std::mutex> lock(table.mutex);
  ErrorOr<int> number = count();
  if (!number.ok())
    return number.getStatus();
  if (ordinal < 0 || ordinal >= *number || ordinal >= Table::size)
    return invalidArgument(llvm::formatv("expected a CUDA device from 0 to {0}, got {1}", *number - 1, ordinal));
  if (CudaDevice *device = table.devices[ordinal])
    return device;
  std::unique_ptr<CudaDevice> device(new CudaDevice(**driver, ordinal));
  if (Status status = device->open(); !status.ok())
    return status;
  CudaDevice *kept = device.release();
  table.devices[ordinal].store(kept, std::memory_order_release);
  return kept;
}

std::vector<CudaDevice *> CudaDevice::getUsed() {
  std::vector<CudaDevice *> used;
  for (const std::atomic<CudaDevice *> &device : getTable().devices)
    if (device)
      used.push_back(device);
  return used;
}

int CudaDevice::getCurrent() {
  ErrorOr<const CudaDriver *> driver = CudaDriver::get();
  cuda::Context context = nullptr;
  cuda::DeviceHandle handle;
  if (!driver.ok() || (*driver)->ctxGetCurrent(&context) || !context || (*driver)->ctxGetDevice(&handle))
    return -1;
  return handle; // the driver numbers its handles as it counts its devices
}

/// The kind of memory at `address`; 0: not the driver's.
static unsigned getMemoryType(const CudaDriver &driver, const void *address) {
  unsigned type = 0;
  // The driver answers only on a thread with a context.
  std::optional<CudaDevice::Scope> scope;
  if (CudaDevice::getCurrent() < 0)
    if (ErrorOr<CudaDevice *> device = CudaDevice::get(0); device.ok())
      scope.emplace(**device);
  if (driver.pointerGetAttribute(&type, cuda::PointerAttribute::MemoryType, reinterpret_cast<cuda::Address>(address)))
    return 0;
  return type;
}

std::optional<int> kiln::device::findDeviceOf(const void *address, bool start) {
  if (!start && !CudaDriver::isLoaded())
    return std::nullopt;
  ErrorOr<const CudaDriver *> driver = CudaDriver::get();
  int ordinal = -1;
  if (!driver.ok() || getMemoryType(**driver, address) != unsigned(cuda::MemoryType::Device) ||
      (*driver)->pointerGetAttribute(&ordinal, cuda::PointerAttribute::DeviceOrdinal,
                                     reinterpret_cast<cuda::Address>(address)))
    return std::nullopt;
  return ordinal;
}

bool kiln::device::isPinned(const void *address) {
  ErrorOr<const CudaDriver *> driver = CudaDriver::get();
  return driver.ok() && getMemoryType(**driver, address) == unsigned(cuda::MemoryType::Host);
}

//===-- Opening --------------------------------------------------------------------------------------------------===//

CudaDevice::CudaDevice(const CudaDriver &driver, int ordinal)
    : driver(driver), ordinal(ordinal), logs(new CudaLogs(*this)) {}

Status CudaDevice::open() {
  std::string what = llvm::formatv("open CUDA device {0}", ordinal);
  if (cuda::Result result = driver.deviceGet(&handle, ordinal))
    return driver.failure(what, result);
  if (cuda::Result result = driver.primaryCtxRetain(&context, handle))
    return driver.failure(what, result);
  char name[256] = "";
  driver.deviceGetName(name, sizeof name - 1, handle);
  properties.name = name;
  int clusters = 0;
  for (auto [attribute, place] : {std::pair(DeviceAttribute::CapabilityMajor, &properties.major),
                                  {DeviceAttribute::CapabilityMinor, &properties.minor},
                                  {DeviceAttribute::MultiprocessorCount, &properties.multiprocessors},
                                  {DeviceAttribute::MaxThreadsPerBlock, &properties.maxThreads},
                                  {DeviceAttribute::MaxThreadsPerMultiprocessor, &properties.maxThreadsPerProcessor},
                                  {DeviceAttribute::MaxSharedPerBlockOptIn, &properties.sharedBytes},
                                  {DeviceAttribute::MaxSharedPerMultiprocessor, &properties.sharedBytesPerProcessor},
                                  {DeviceAttribute::ReservedSharedPerBlock, &properties.reservedSharedBytes},
                                  {DeviceAttribute::MaxRegistersPerBlock, &properties.registers},
                                  {DeviceAttribute::L2Bytes, &properties.l2Bytes},
                                  {DeviceAttribute::MaxGridX, &properties.maxGrid[0]},
                                  {DeviceAttribute::MaxGridY, &properties.maxGrid[1]},
                                  {DeviceAttribute::MaxGridZ, &properties.maxGrid[2]},
                                  {DeviceAttribute::ClusterLaunch, &clusters}})
    if (driver.deviceGetAttribute(place, attribute, handle))
      *place = 0; // unknown to an older driver
  properties.clusters = clusters;
  return {};
}

CudaFacts CudaDevice::readFacts() const {
  CudaFacts facts;
  size_t bytes = 0;
  driver.deviceTotalMem(&bytes, handle);
  facts.memoryBytes = bytes;
  for (auto [attribute, place] : {std::pair(DeviceAttribute::ClockRate, &facts.clockKHz),
                                  {DeviceAttribute::MemoryClockRate, &facts.memoryClockKHz},
                                  {DeviceAttribute::MemoryBusWidth, &facts.memoryBusBits}})
    if (driver.deviceGetAttribute(place, attribute, handle))
      *place = 0;
  return facts;
}

//===-- Waiting, and errors --------------------------------------------------------------------------------------===//

Status CudaDevice::synchronize() {
  if (Status status = check(); !status.ok())
    return status;
  Scope scope(*this);
  uint64_t before = launches.load(std::memory_order_relaxed);
  std::vector<cuda::Module> unloadable;
  {
    std::lock_guard<std::mutex> lock(mutex);
    unloadable.swap(retired);
  }
  if (cuda::Result result = driver.ctxSynchronize()) {
    for (cuda::Module module : unloadable)
      retire(module);
    return fail(llvm::formatv("wait for CUDA device {0}", ordinal), result);
  }
  finished.store(before, std::memory_order_relaxed);
  for (cuda::Module module : unloadable)
    driver.moduleUnload(module);
  logs->poll();
  return {};
}

void CudaDevice::retire(cuda::Module module) {
  std::lock_guard<std::mutex> lock(mutex);
  retired.push_back(module);
}

std::string CudaDevice::describeLaunches() const {
  uint64_t end = launches.load(), first = std::max(finished.load(), end - std::min<uint64_t>(end, recent.size()));
  std::string text;
  unsigned count = 0;
  for (uint64_t i = end; i-- > first; ++count) {
    const Noted &noted = recent[i % recent.size()];
    const std::string *label = noted.label.load();
    uint64_t grid = noted.grid.load();
    if (label)
      text += llvm::formatv("\n  {0}, grid ({1}, {2}, {3})", *label, uint32_t(grid), uint16_t(grid >> 32), grid >> 48);
  }
  if (!count)
    return "no launch of Kiln's was under way: other code on this device did it";
  if (count == 1)
    return "the launch that did it:" + text;
  return "one of these launches did it, the last one first (CUDA_LAUNCH_BLOCKING=1 tells which):" + text;
}

Status CudaDevice::fail(const std::string &what, cuda::Result result) {
  if (!cuda::isSticky(result))
    return driver.failure(what, result);
  bool first = false;
  std::string message;
  {
    std::lock_guard<std::mutex> lock(mutex);
    first = !lost.load();
    if (first) {
      lostMessage =
          llvm::formatv("the context of CUDA device {0} is lost: {1}; nothing more runs on it in this process\n"
                        "{2}",
                        ordinal, driver.describe(result), describeLaunches());
      lost = true;
    }
    message = lostMessage;
  }
  if (first)
    logs->collectAll();
  return {StatusCode::DeviceLost, std::move(message)};
}

Status CudaDevice::whyUnusable() const {
  if (CudaDriver::isForked())
    return CudaDriver::forkedStatus();
  std::lock_guard<std::mutex> lock(mutex);
  return {StatusCode::DeviceLost, lostMessage};
}

//===-- Memory and order -----------------------------------------------------------------------------------------===//

ErrorOr<cuda::Address> CudaDevice::allocate(size_t bytes) {
  bytes = std::max<size_t>(llvm::bit_ceil(bytes), 512);
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Block &block : blocks)
      if (!block.used && block.bytes == bytes) {
        block.used = true;
        return block.address;
      }
  }
  if (Status status = check(); !status.ok())
    return status;
  SetupScope scope(*this);
  cuda::Address address = 0;
  cuda::Result result = driver.memAlloc(&address, bytes);
  if (result == cuda::errorOutOfMemory) {
    // Free blocks left by earlier launches have other sizes: return them to the driver and try once more.
    std::lock_guard<std::mutex> lock(mutex);
    for (Block &block : blocks)
      if (!block.used)
        driver.memFree(block.address);
    blocks.erase(std::remove_if(blocks.begin(), blocks.end(), [](const Block &block) { return !block.used; }),
                 blocks.end());
    result = driver.memAlloc(&address, bytes);
  }
  if (result) {
    Status status = fail(llvm::formatv("allocate {0} bytes on CUDA device {1}", bytes, ordinal), result);
    size_t available, total;
    if (result == cuda::errorOutOfMemory && driver.memGetInfo && !driver.memGetInfo(&available, &total))
      return std::move(status).with(
          {llvm::formatv("memory of CUDA device {0}", ordinal), int64_t(bytes), int64_t(available), ""});
    return status;
  }
  std::lock_guard<std::mutex> lock(mutex);
  blocks.push_back({address, bytes, true});
  return address;
}

ErrorOr<cuda::Address> CudaDevice::getEmptyArray() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (emptyArray)
      return emptyArray;
  }
  ErrorOr<cuda::Address> made = allocate(emptySink + 16);
  if (!made.ok())
    return made;
  unsigned char bytes[emptySink + 16] = {};
  std::fill_n(bytes + emptyNan, 16, 0xff);
  {
    SetupScope scope(*this);
    if (cuda::Result result = driver.memcpyHtoD(*made, bytes, sizeof bytes))
      return fail("fill memory that stands for empty arrays", result);
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (!emptyArray) // otherwise another thread was first, and this block stays unused
    emptyArray = *made;
  return emptyArray;
}

void CudaDevice::release(cuda::Address address) {
  std::lock_guard<std::mutex> lock(mutex);
  for (Block &block : blocks)
    if (block.address == address)
      block.used = false;
}

Status CudaDevice::order(cuda::Stream stream, cuda::Stream other) {
  if (stream == other)
    return {};
  Scope scope(*this);
  cuda::Event event = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!events.empty()) {
      event = events.back();
      events.pop_back();
    }
  }
  cuda::Result result = event ? cuda::success : driver.eventCreate(&event, cuda::eventDisableTiming);
  if (!result)
    result = driver.eventRecord(event, other);
  if (!result)
    result = driver.streamWaitEvent(stream, event, 0);
  if (event) {
    // A wait keeps what the event had recorded, so the event may be reused at once.
    std::lock_guard<std::mutex> lock(mutex);
    events.push_back(event);
  }
  return result ? fail("order two streams", result) : Status();
}
