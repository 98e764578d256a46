// What kernels say while they run, for Python: failures as dictionaries, text of GPUs to sys.stdout.
#pragma once
#include "runtime/launch/Monitor.h"
#include <pybind11/pybind11.h>

namespace kiln::python {

/// A failure as `kiln.runtime.refusals.failure` reads it.
pybind11::dict describeFailure(const launch::Monitor &monitor, const launch::Failure &failure,
                               const artifact::Metadata &metadata, device::Grid grid);

/// Writes what a kernel printed to sys.stdout.
void showText(const std::string &text);

/// Shows what kernels on GPUs have printed since; keeps their failures for `raiseReports`. Cheap if there is nothing.
void showReports();

/// Raises the first assertion that failed on a GPU and has not been raised yet; later ones of the same time are
/// dropped.
void raiseReports();

/// Shows prints soon after they arrive, on the main thread, without waiting for a call into Kiln; and at exit.
void watchReports();
/// Whether there was such a one: before, no launch has to look for reports. Under the interpreter lock.
extern bool reportsWatched;

} // namespace kiln::python
