// kiln._kiln.Launcher: everything one launch needs, in one call from Python. Binding of arguments, specialisation, the
// lookup of compiled code, the grid, packing and running happen here; it calls back into Python only if something is
// new (a new key, a changed global or switch) or wrong (errors are worded in Python).
#pragma once
#include "runtime/device/Device.h"
#include <pybind11/pybind11.h>

namespace kiln::python {

/// The result of kiln._kiln.load: code ready to run.
struct PyLoadedKernel {
  std::shared_ptr<device::LoadedKernel> kernel;
};

void bindLauncher(pybind11::module_ &m);

/// Sets whether launches warn, by the `strides` of an owner's refusals, of arrays not stored in the order of their
/// indices.
void setWarnStrides(bool on);

} // namespace kiln::python
