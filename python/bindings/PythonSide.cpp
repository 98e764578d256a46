// The names of Kiln's Python files that C++ knows. test_invariants.py checks that each exists.
#include "python/bindings/PythonSide.h"

namespace py = pybind11;
using namespace kiln::python;

// What is found is never destroyed, and made under the interpreter lock.

static py::module_ load(const char *name) { return py::module_::import(name); }

const PythonSide &PythonSide::get() {
  static const PythonSide *found = nullptr;
  if (!found) {
    PythonSide side;
    side.parameter = load("kiln.frontend.signature").attr("Parameter");
    side.joinParameters = load("kiln.frontend.signature").attr("join_parameters");
    side.launchFlags = load("kiln.frontend.struct").attr("launch_flags");
    side.dropTraceback = load("kiln.errors").attr("drop_traceback");
    side.resourceError = load("kiln.errors").attr("ResourceError");
    side.launchError = load("kiln.errors").attr("LaunchError");
    side.deviceLostError = load("kiln.errors").attr("DeviceLostError");
    side.internalError = load("kiln.errors").attr("InternalError");
    side.frozenError = load("kiln.errors").attr("FrozenError");
    side.tellValues = side.frozenError.attr("tell_values");
    found = new PythonSide(std::move(side));
  }
  return *found;
}

const CompilerSide &CompilerSide::get() {
  static const CompilerSide *found = nullptr;
  if (!found) {
    CompilerSide side;
    side.raiseFailure = load("kiln.compiler").attr("raise_failure");
    side.disassemble = load("kiln.toolchain").attr("disassemble");
    found = new CompilerSide(std::move(side));
  }
  return *found;
}

py::object kiln::python::findRaiseFailure() { return load("kiln.runtime.refusals").attr("failure"); }
