// Runs native objects in this process: linked by LLVM's JITLink, then run as CpuKernel.h says.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::device {

/// The process's CPU device.
Device &getCpuDevice();

} // namespace kiln::device
