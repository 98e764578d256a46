// The launcher of a tuned kernel: finds the configuration by a key of the arguments, without running Python, and
// launches with the configuration's options.
//
// The key contains what `kiln.runtime.autotuner` considers: the values of the tuner's key arguments, the element type
// and the device of each array, and which arguments were given by name. Python is asked for the configuration of a new
// key, and again when its answer may be outdated: after a write to a configuration, or a call of `forget`.
//
// The tuner hands over two functions, whose types are in _kiln.pyi:
//   answer(args: tuple, kwargs: dict, grid) -> TunedAnswer, or None for a launch that Python must make, by `run`
//   run(*args, grid=grid, **kwargs)
#pragma once
#include "python/bindings/launch/Call.h"

namespace kiln::python {

/// `keys`: for each key argument the parameter's number and a tuple of the fields that lead to the value. Null with a
/// Python error set.
PyObject *makeTuned(LauncherState &state, PyObject *answer, PyObject *run, PyObject *keys);

void bindTuned(pybind11::module_ &m);

} // namespace kiln::python
