// `kernel[grid]` without Python: the slot of the kernel's class does what its `__getitem__` would, which stays what it
// is for whoever looks at it (torch's compiler traces it). It is called where there may be more to do than
// `launcher.at`: for kernels whose launcher is not known here, that have functions to be called before launches or a
// `run` of their own, and while launches are looked at instead of made.
#pragma once
#include "python/bindings/launch/Call.h"

namespace kiln::python {

/// From now on `object[grid]` is `at(launcher, grid)`. `object`: the kernel of `state`, or its tuner; kept by
/// `launcher`. Before the launcher or the state goes, `dropSubscripts` is called with its address.
void adoptSubscripts(PyObject *object, PyObject *launcher, binaryfunc at, LauncherState &state);
void dropSubscripts(const void *gone);

} // namespace kiln::python
