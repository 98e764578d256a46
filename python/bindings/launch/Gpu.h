// kiln._kiln: the GPUs of the machine, waiting for them, and launching code that is not Kiln's (CUDA C through NVRTC).
#pragma once
#include "runtime/device/Device.h"
#include <pybind11/pybind11.h>

namespace kiln::python {

/// Raises the exception of kiln.errors that corresponds to the status.
[[noreturn]] void raiseStatus(const Status &status);

/// Registers, memory and occupancy of code on a GPU, as a dictionary; None for the CPU.
pybind11::object describeFigures(const device::LoadedKernel &kernel);

void bindGpu(pybind11::module_ &m);

} // namespace kiln::python
