// Which code runs on which machine: compares rows of the target table with the CPUs and GPUs present.
#pragma once
#include "runtime/artifact/Artifact.h"
#include "runtime/device/CudaDevice.h"

namespace kiln::api {

/// How well code for the target suits the machine: the higher, the more of the machine the code uses. std::nullopt
/// if it does not run there; then `why` says what the machine lacks.
std::optional<int> rankOnCpu(const artifact::Metadata &metadata, std::string &why);
std::optional<int> rankOnGpu(const artifact::Metadata &metadata, const device::CudaProperties &has, std::string &why);

} // namespace kiln::api
