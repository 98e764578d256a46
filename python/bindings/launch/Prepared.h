// kiln._kiln.Prepared: a launch whose arguments are bound, whose code is found and whose block is packed.
//
//   launch = kernel.prepare(x, y, n, grid=(64,), BLOCK=128)
//   launch()                    once more, on the current stream
//   launch(stream=s)            on this stream
//   launch(x=other)             with one value replaced, for this launch only
//
// The code must have been compiled for values like the replacement: its specialisation and the overlap of arrays are
// checked. The code itself is that of `prepare`; nothing it depends on is examined again.
#pragma once
#include "python/bindings/launch/Call.h"

namespace kiln::python {

/// Null with a Python error set. `args` a tuple, `kwargs` a dictionary.
PyObject *makePrepared(LauncherState &state, PyObject *grid, PyObject *args, PyObject *kwargs);

void bindPrepared(pybind11::module_ &m);

} // namespace kiln::python
