// kiln._kiln.Launcher: everything one launch needs, in one call from Python. Binding of arguments, specialisation, the
// look-up of compiled code, the grid, packing and running happen here; Python is called back only when something is new
// (a key seen for the first time, a captured global or a switch that changed) or wrong (errors are worded in Python).
#pragma once
#include "runtime/device/Device.h"
#include <pybind11/pybind11.h>

namespace kiln::python {

/// What kiln._kiln.load gives back: code ready to run.
struct PyLoadedKernel {
  std::shared_ptr<device::LoadedKernel> kernel;
};

void bindLauncher(pybind11::module_ &m);

/// Whether launches warn of arrays that are not in the order of their indices; `kiln.runtime.refusals.strides` does.
void setWarnStrides(bool on);

} // namespace kiln::python
