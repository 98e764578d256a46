// kiln._kiln.Prepared: a launch whose arguments are bound, whose code is found and whose block is packed.
//
//   launch = kernel.prepare(x, y, n, grid=(64,), BLOCK=128)
//   launch()                    once more, on the stream that is current
//   launch(stream=s)            on this stream
//   launch(x=other)             with another value in the place of one, for this launch alone
//
// A value that takes another's place has to be one that the code was compiled for: what it is specialised for is
// compared, and where arrays overlap. The code itself is that of `prepare`; nothing it depends on is looked at again.
#pragma once
#include "python/bindings/launch/Call.h"

namespace kiln::python {

/// Null with a Python error set. `args` a tuple, `kwargs` a dictionary.
PyObject *makePrepared(LauncherState &state, PyObject *grid, PyObject *args, PyObject *kwargs);

void bindPrepared(pybind11::module_ &m);

} // namespace kiln::python
