// Logs of device code: their memory, and when they are read.
#include "runtime/device/CudaLog.h"
#include "runtime/device/CudaDevice.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>

using namespace kiln;
using namespace kiln::device;

// Room for what a person reads, or occasionally for a large tile, at 32 bytes per record.
static constexpr uint64_t leastRecords = 4096, mostRecords = uint64_t(1) << 20;
// The most printing launches in flight: each holds pinned memory.
static constexpr size_t mostOutstanding = 64;
static constexpr uint64_t noFailure = ~uint64_t(0);

static_assert(sizeof(KilnDeviceLog) == 64 && sizeof(KilnDeviceRecord) == 32, "as generated code has them");

//===-- Collected logs -------------------------------------------------------------------------------------------===//

namespace {
struct Collected {
  std::mutex mutex;
  std::vector<CollectedLog> logs;
  std::atomic<bool> any{false};
  std::atomic<void (*)()> listener{nullptr};
};

/// Never destroyed: the driver's threads outlive static destructors.
Collected &getCollected() {
  static auto *collected = new Collected;
  return *collected;
}
} // namespace

bool kiln::device::hasCollectedLogs() {
  static Collected &collected = getCollected();
  return collected.any.load(std::memory_order_relaxed);
}

std::vector<CollectedLog> kiln::device::takeCollectedLogs() {
  Collected &collected = getCollected();
  std::lock_guard<std::mutex> lock(collected.mutex);
  collected.any = false;
  return std::exchange(collected.logs, {});
}

void kiln::device::setLogListener(void (*listener)()) { getCollected().listener = listener; }

static void deliver(CollectedLog log) {
  Collected &collected = getCollected();
  {
    std::lock_guard<std::mutex> lock(collected.mutex);
    collected.logs.push_back(std::move(log));
    collected.any = true;
  }
  if (auto *listener = collected.listener.load())
    listener();
}

//===-- Reading --------------------------------------------------------------------------------------------------===//

/// An atomic load, because the device writes without the compiler's knowledge.
static uint64_t readFailed(KilnDeviceLog *log) { return __atomic_load_n(&log->failed, __ATOMIC_ACQUIRE); }

static void clear(KilnDeviceLog *log) {
  log->cursor = 0;
  log->grid[0] = log->grid[1] = 0;
  __atomic_store_n(&log->failed, noFailure, __ATOMIC_RELEASE);
}

void CudaLogs::collect(Ticket *ticket) {
  KilnDeviceLog *log = ticket->log;
  uint32_t asked = __atomic_load_n(&log->cursor, __ATOMIC_ACQUIRE);
  uint64_t failed = readFailed(log);
  if (asked == 0 && failed == noFailure)
    return;
  CollectedLog collected{ticket->metadata, ticket->grid, failed, {}, 0};
  auto *records = reinterpret_cast<const KilnDeviceRecord *>(log + 1);
  uint32_t there = std::min(asked, log->capacity);
  collected.records.assign(records, records + there);
  collected.dropped = asked - there;
  clear(log);
  deliver(std::move(collected));
}

void CudaLogs::lookAt(const Watched &watched) {
  KilnDeviceLog *log = watched.memory.log;
  uint64_t failed = readFailed(log);
  if (failed == noFailure)
    return;
  Grid grid;
  grid.x = std::max<uint32_t>(log->grid[0], 1);
  grid.y = std::max<uint32_t>(log->grid[1], 1);
  clear(log);
  deliver({watched.metadata, grid, failed, {}, 0});
}

//===-- Memory ---------------------------------------------------------------------------------------------------===//

ErrorOr<CudaLogs::Memory> CudaLogs::acquire(uint32_t capacity) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = llvm::find_if(unused, [&](const Memory &memory) { return memory.log->capacity == capacity; });
    if (found != unused.end()) {
      Memory memory = *found;
      unused.erase(found);
      return memory;
    }
  }
  const CudaDriver &driver = device.getDriver();
  CudaDevice::SetupScope scope(device);
  void *memory = nullptr;
  cuda::Address address = 0;
  size_t bytes = sizeof(KilnDeviceLog) + size_t(capacity) * sizeof(KilnDeviceRecord);
  cuda::Result result = driver.memHostAlloc(&memory, bytes, cuda::hostAllocPortable | cuda::hostAllocMapped);
  if (!result && (result = driver.memHostGetDevicePointer(&address, memory, 0)))
    driver.memFreeHost(memory);
  if (result)
    return device.fail("allocate memory for what a kernel prints", result);
  auto *log = static_cast<KilnDeviceLog *>(memory);
  *log = {};
  log->capacity = capacity;
  clear(log);
  return Memory{log, address};
}

//===-- Kernels that assert --------------------------------------------------------------------------------------===//

ErrorOr<cuda::Address> CudaLogs::watch(std::shared_ptr<const artifact::Metadata> metadata) {
  ErrorOr<Memory> memory = acquire(0);
  if (!memory.ok())
    return memory.getStatus();
  std::lock_guard<std::mutex> lock(mutex);
  watched.push_back({*memory, std::move(metadata)});
  watchedCount = watched.size();
  return memory->address;
}

void CudaLogs::unwatch(cuda::Address address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = llvm::find_if(watched, [&](const Watched &item) { return item.memory.address == address; });
  if (found == watched.end())
    return;
  lookAt(*found);
  unused.push_back(found->memory);
  watched.erase(found);
  watchedCount = watched.size();
}

void CudaLogs::pollWatched() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Watched &item : watched)
    lookAt(item);
}

//===-- Kernels that print ---------------------------------------------------------------------------------------===//

/// The number of values printed if every instance executes every print once.
static uint64_t countValues(const artifact::Metadata &metadata, Grid grid) {
  uint64_t values = 0;
  for (const artifact::Site &site : metadata.sites) {
    if (site.kind != artifact::SiteKind::Print)
      continue;
    values += site.operands.empty();
    for (const artifact::Site::Operand &operand : site.operands) {
      uint64_t elements = 1;
      for (int64_t side : operand.shape)
        elements *= side;
      values += elements;
    }
  }
  return values > mostRecords || uint64_t(grid.count()) > mostRecords ? mostRecords : values * grid.count();
}

ErrorOr<CudaLogs::Ticket *> CudaLogs::begin(std::shared_ptr<const artifact::Metadata> metadata, Grid grid, bool repeats,
                                            cuda::Stream stream) {
  bool many;
  {
    std::lock_guard<std::mutex> lock(mutex);
    many = !repeats && outstanding.size() - repeating >= mostOutstanding;
  }
  if (many) {
    CudaDevice::Scope scope(device);
    if (cuda::Result result = device.getDriver().streamSynchronize(stream))
      return device.fail("wait for kernels that print", result);
  }
  // Prints in loops execute several times.
  uint64_t wanted = llvm::bit_ceil(std::clamp(4 * countValues(*metadata, grid), leastRecords, mostRecords));
  ErrorOr<Memory> memory = acquire(uint32_t(wanted));
  if (!memory.ok())
    return memory.getStatus();
  auto *ticket = new Ticket{this, memory->log, memory->address, std::move(metadata), grid, repeats};
  std::lock_guard<std::mutex> lock(mutex);
  outstanding.push_back(ticket);
  repeating += repeats;
  return ticket;
}

void CudaLogs::finish(Ticket *ticket) {
  std::lock_guard<std::mutex> lock(mutex);
  unused.push_back({ticket->log, ticket->address});
  llvm::erase(outstanding, ticket);
  repeating -= ticket->repeats;
  delete ticket;
}

void CudaLogs::cancel(Ticket *ticket) { finish(ticket); }

Status CudaLogs::collectBehind(Ticket *ticket, cuda::Stream stream) {
  auto atEnd = [](void *context) {
    auto *ticket = static_cast<Ticket *>(context);
    collect(ticket);
    if (!ticket->repeats)
      ticket->owner->finish(ticket);
  };
  if (cuda::Result result = device.getDriver().launchHostFunc(stream, atEnd, ticket))
    return device.fail("queue the reading of what a kernel prints", result);
  return {};
}

void CudaLogs::collectAll() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Watched &item : watched)
    lookAt(item);
  for (Ticket *ticket : outstanding)
    collect(ticket);
}
