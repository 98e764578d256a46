// What loaded kernels of all devices have: apart from the devices, so that it needs none of them.
#include "runtime/device/Device.h"
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
