// Devices by kind.
#include "runtime/device/Device.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/device/CudaDevice.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace kiln;
using namespace kiln::device;

Status LoadedKernel::timeLaunches(const LaunchRequest &request, llvm::MutableArrayRef<int64_t> times) {
  for (int64_t &time : times) {
    auto start = std::chrono::steady_clock::now();
    if (Status status = launch(request); !status.ok())
      return status;
    time = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  }
  return {};
}

ErrorOr<Device *> kiln::device::getDevice(llvm::StringRef kind, int ordinal) {
  if (kind == "cpu")
    return &getCpuDevice();
  if (kind == "cuda") {
    ErrorOr<CudaDevice *> device = CudaDevice::get(ordinal);
    if (!device.ok())
      return device.getStatus();
    return *device;
  }
  return invalidArgument(llvm::formatv(
      "expected an artifact for a kind of device this runtime knows (cpu, cuda), got one for '{0}'", kind));
}
