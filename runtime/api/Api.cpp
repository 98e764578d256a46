// The C interface of kiln/runtime.h: exported kernels on any device. An export is checked when its kernel is created;
// after that, a launch encodes the call, finds the variant, packs and launches, as a launch from Python does.
#include "kiln/runtime.h"
#include "runtime/api/Kernel.h"
#include "runtime/api/Report.h"
#include "runtime/device/CudaDevice.h"
#include "runtime/support/ThreadPool.h"
#include <exception>
#include <new>

using namespace kiln;
using namespace kiln::api;

static thread_local std::string message;

/// Converts a status to a code of kiln/runtime.h and keeps its sentence for kiln_message.
static kiln_status report(const Status &status) {
  if (status.ok())
    return KILN_OK;
  message = status.getMessage();
  if (const ResourceNeed *need = status.getNeed(); need && !need->option.empty())
    message += "; reduce " + need->option;
  static_assert(int(StatusCode::DeviceLost) == KILN_DEVICE_LOST && int(StatusCode::Internal) == KILN_INTERNAL &&
                int(StatusCode::Resource) == KILN_OUT_OF_RESOURCES && int(StatusCode::Corrupt) == KILN_CORRUPT &&
                int(StatusCode::InvalidArgument) == KILN_INVALID_ARGUMENT && int(StatusCode::Ok) == KILN_OK &&
                int(StatusCode::NoVariant) == KILN_NO_VARIANT &&
                int(StatusCode::AssertionFailed) == KILN_ASSERTION_FAILED);
  return kiln_status(status.getCode());
}

/// Runs `function` and turns exceptions, including out of memory, into a status: none leaves the library.
template <typename Function> static kiln_status guarded(Function function) {
  try {
    return report(function());
  } catch (const std::bad_alloc &) {
    return report(resourceError("out of memory of the host"));
  } catch (const std::exception &error) {
    return report(internalError(error.what()));
  }
}

const char *kiln_message() { return message.c_str(); }

//===-- Devices --------------------------------------------------------------------------------------------------===//

kiln_status kiln_device_count(int32_t *count) {
  *count = 0;
  return guarded([&] {
    ErrorOr<int> found = device::CudaDevice::count();
    if (found.ok())
      *count = *found;
    return found.getStatus();
  });
}

kiln_status kiln_synchronize(int32_t ordinal) {
  return guarded([&]() -> Status {
    if (ordinal == KILN_CPU)
      return {};
    ErrorOr<device::CudaDevice *> device = device::CudaDevice::get(ordinal);
    if (!device.ok())
      return device.getStatus();
    Status status = (*device)->synchronize();
    Status said = takeReports();
    return status.ok() ? said : status;
  });
}

void kiln_set_cuda_library(const char *path) { device::CudaDriver::setLibrary(path ? path : ""); }

void kiln_set_num_threads(uint32_t count) { ThreadPool::setSize(count); }

//===-- Kernels --------------------------------------------------------------------------------------------------===//

kiln_status kiln_kernel_create(const kiln_export *source, kiln_kernel **kernel) {
  *kernel = nullptr;
  return guarded([&] {
    ErrorOr<kiln_kernel *> made = kiln_kernel::create(*source);
    if (made.ok())
      *kernel = *made;
    return made.getStatus();
  });
}

void kiln_kernel_retain(kiln_kernel *kernel) { kernel->retain(); }

void kiln_kernel_release(kiln_kernel *kernel) {
  if (kernel)
    kernel->release();
}

kiln_status kiln_kernel_prepare(kiln_kernel *kernel, int32_t device) {
  return guarded([&] { return kernel->prepare(device); });
}

kiln_status kiln_kernel_launch(kiln_kernel *kernel, kiln_stream stream, kiln_grid grid, const kiln_argument *arguments,
                               size_t count) {
  return guarded([&] { return kernel->launch(stream, grid, {arguments, count}); });
}
