// `kernel[grid]` without Python: the slot of the kernel's class does what its `__getitem__` would. `__getitem__` itself
// stays in place (torch's compiler traces it) and is called if more than `launcher.at` may be needed: for kernels whose
// launcher is unknown here, or that have pre-run hooks or a `run` of their own, and while launches are only recorded.
#pragma once
#include "python/bindings/launch/Call.h"

namespace kiln::python {

/// From now on `object[grid]` is `at(launcher, grid)`. `object`: the kernel of `state`, or its tuner; kept by
/// `launcher`. Before the launcher or the state goes, `dropSubscripts` is called with its address.
void adoptSubscripts(PyObject *object, PyObject *launcher, binaryfunc at, LauncherState &state);
void dropSubscripts(const void *gone);

} // namespace kiln::python
