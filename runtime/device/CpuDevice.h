// Runs native objects in this process: LLVM's JITLink links them, CpuKernel.h runs them.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::device {

/// The process's CPU device.
Device &getCpuDevice();

} // namespace kiln::device
