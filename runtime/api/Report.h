// What exported kernels say while they run: prints to standard output, failed assertions as a status.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::api {

/// Shows what kernels on GPUs have printed since the last call; the first assertion that failed since. Cheap if there
/// is nothing.
Status takeReports();

/// A launch on the CPU that is observed: as LoadedKernel::launch, what it prints shown, and what failed as a status.
Status launchObserved(device::LoadedKernel &kernel, device::LaunchRequest request);

} // namespace kiln::api
