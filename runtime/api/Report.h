// What exported kernels say while they run: prints to standard output, failed assertions as a status.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::api {

/// Prints what kernels on GPUs have said since the last call and returns the first assertion that failed since. Cheap
/// where there is nothing.
Status takeReports();

/// LoadedKernel::launch on the CPU, with prints shown and a failed assertion returned as a status.
Status launchObserved(device::LoadedKernel &kernel, device::LaunchRequest request);

} // namespace kiln::api
