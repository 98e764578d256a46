// Reports of running exported kernels: prints go to standard output, failed assertions become a status.
#pragma once
#include "runtime/device/Device.h"

namespace kiln::api {

/// Prints what kernels on GPUs have printed since the last call, and returns the first assertion that failed since
/// then. Cheap if there is nothing to report.
Status takeReports();

/// LoadedKernel::launch on the CPU, with prints shown and a failed assertion returned as a status.
Status launchObserved(device::LoadedKernel &kernel, device::LaunchRequest request);

} // namespace kiln::api
