// Devices by kind.
#include "runtime/device/Device.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/device/CudaDevice.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kiln;
using namespace kiln::device;

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
