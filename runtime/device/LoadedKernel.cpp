// Shared by the loaded kernels of all devices; a separate file, so that it depends on no device.
#include "runtime/device/Device.h"
#include <chrono>

using namespace kiln;
using namespace kiln::device;

static int64_t readClock() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t LoadedKernel::waitForGap(int64_t &last, int64_t gap) {
  int64_t now = readClock();
  while (now < last + gap)
    now = readClock();
  return last = now;
}

Status LoadedKernel::timeLaunches(const LaunchRequest &request, int64_t gap, llvm::MutableArrayRef<int64_t> times) {
  int64_t last = 0;
  for (int64_t &time : times) {
    int64_t start = waitForGap(last, gap);
    if (Status status = launch(request); !status.ok())
      return status;
    time = readClock() - start;
  }
  return {};
}
