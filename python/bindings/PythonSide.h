// The functions and classes of Kiln's Python files that C++ calls. Only PythonSide.cpp names them; whatever belongs to
// one kernel is handed over with its launcher instead, see launch/Owner.h.
#pragma once
#include <pybind11/pybind11.h>

namespace kiln::python {

/// Found together when the first launcher is made, so that a missing one is noticed there.
struct PythonSide {
  pybind11::object parameter;      ///< kiln.frontend.signature.Parameter
  pybind11::object joinParameters; ///< items of a tuple as one Parameter
  pybind11::object launchFlags;    ///< of a struct's class, by field
  pybind11::object dropTraceback;  ///< of an exception that leaves a launch
  pybind11::object resourceError, launchError, deviceLostError, internalError, frozenError; ///< exception classes
  pybind11::object tellValues; ///< names the arguments to a FrozenError

  static const PythonSide &get();
};

/// The same for kiln._compiler, found at the first compile. (Not when the module is loaded: an interrupt that arrives
/// while it looks would look like a module that cannot be loaded.)
struct CompilerSide {
  pybind11::object raiseFailure; ///< raises what a failed compile stands for
  pybind11::object disassemble;  ///< a cubin as SASS

  static const CompilerSide &get();
};

/// Raises what a failed program instance stands for. Loading kernels of GPUs that report needs it, other launches do
/// not.
pybind11::object findRaiseFailure();

} // namespace kiln::python
