// Host arrays on a GPU, for tests and debugging: each launch copies them to the device before and back after it. Arrays
// that share storage share one allocation, so that what overlaps on the host overlaps on the device. Addresses keep
// their remainder modulo 256, so that code compiled for the alignment of the originals fits the copies.
#pragma once
#include "runtime/device/CudaDevice.h"
#include "runtime/launch/Monitor.h"

namespace kiln::launch {

class Staging {
public:
  explicit Staging(device::CudaDevice &device) : device(device) {}
  ~Staging();
  Staging(const Staging &) = delete;

  /// Copies the storage of every array to the device. Refuses arrays whose storage is not known.
  Status upload(llvm::ArrayRef<BufferExtent> arrays);
  /// The device address for a host address; 0 if it is in no array.
  device::cuda::Address translate(uintptr_t address) const;
  /// Copies back everything that may have been written.
  Status download();

private:
  struct Range {
    uintptr_t begin, end;
    bool writable;
    device::cuda::Address block = 0, address = 0;
  };
  device::CudaDevice &device;
  std::vector<Range> ranges; ///< sorted, disjoint
};

} // namespace kiln::launch
