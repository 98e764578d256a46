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

/// Shows what kernels on GPUs have printed since the last call; keeps failures for `raiseReports`. Cheap if none.
void showReports();

/// Raises the first assertion that failed on a GPU and has not been raised yet; further ones pending are dropped.
void raiseReports();

/// Shows prints soon after they arrive, on the main thread, without waiting for a call into Kiln; and at exit.
void watchReports();
/// Whether reports are watched; until then, launches need not look for any. Protected by the interpreter lock.
extern bool reportsWatched;

} // namespace kiln::python
