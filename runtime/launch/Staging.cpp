// Copies of host arrays in device memory.
#include "runtime/launch/Staging.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::launch;
using device::cuda::Address;

// The driver aligns its own allocations to 256; no code depends on more.
static constexpr uintptr_t alignment = 256;

Staging::~Staging() {
  for (const Range &range : ranges)
    if (range.block)
      device.release(range.block);
}

Status Staging::upload(llvm::ArrayRef<BufferExtent> arrays) {
  std::vector<Range> found;
  for (const BufferExtent &array : arrays) {
    if (array.end == UINTPTR_MAX)
      return invalidArgument(
          llvm::formatv("expected an array that says how large its memory is (because it is copied to "
                        "the GPU for each launch), got argument '{0}'",
                        array.argument));
    if (array.begin < array.end)
      found.push_back({array.begin, array.end, array.writable});
  }
  llvm::sort(found, [](const Range &a, const Range &b) { return a.begin < b.begin; });
  for (const Range &range : found) {
    if (ranges.empty() || range.begin >= ranges.back().end) {
      ranges.push_back(range);
      continue;
    }
    ranges.back().end = std::max(ranges.back().end, range.end);
    ranges.back().writable |= range.writable;
  }
  device::CudaDevice::Scope scope(device);
  for (Range &range : ranges) {
    size_t bytes = range.end - range.begin;
    ErrorOr<Address> block = device.allocate(bytes + alignment);
    if (!block.ok())
      return block.getStatus();
    range.block = *block;
    range.address = *block + range.begin % alignment;
    if (auto result = device.getDriver().memcpyHtoD(range.address, reinterpret_cast<void *>(range.begin), bytes))
      return device.fail(llvm::formatv("copy {0} bytes to the GPU", bytes), result);
  }
  return {};
}

Address Staging::translate(uintptr_t address) const {
  for (const Range &range : ranges)
    if (address >= range.begin && address < range.end)
      return range.address + (address - range.begin);
  return 0;
}

Status Staging::download() {
  device::CudaDevice::Scope scope(device);
  for (const Range &range : ranges)
    if (range.writable) {
      size_t bytes = range.end - range.begin;
      if (auto result = device.getDriver().memcpyDtoH(reinterpret_cast<void *>(range.begin), range.address, bytes))
        return device.fail(llvm::formatv("copy {0} bytes from the GPU", bytes), result);
    }
  return {};
}
