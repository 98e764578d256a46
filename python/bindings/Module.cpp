// The extension module kiln._kiln: the runtime. Everything that needs the compiler is in kiln._compiler, which is fifty
// times as large, and is loaded when one of its names is first used here. A launch of cached code never does that.
#include "python/bindings/Bindings.h"

namespace py = pybind11;

// Names in both modules: here they resolve to those of kiln._compiler.
static constexpr const char *kOfCompiler[] = {
    "Artifact",           "Builder",       "Module",  "artifact_fields", "compile", "compile_text",
    "describe_placement", "describe_work", "restore", "stage_of_file",   "stages"};

static py::module_ importCompiler() {
  try {
    return py::module_::import("kiln._compiler");
  } catch (py::error_already_set &problem) {
    if (!problem.matches(PyExc_ImportError))
      throw;
    py::str why("expected the compiler beside the runtime (because a kernel is to be compiled, or its stages are asked "
                "for, and code from the cache alone needs no compiler), got: {}; install Kiln anew");
    PyErr_SetImportError(why.format(problem.value()).ptr(), py::str("kiln._compiler").ptr(), nullptr);
    throw py::error_already_set();
  }
}

static py::object findInCompiler(const py::str &name) {
  for (const char *known : kOfCompiler)
    if (name.equal(py::str(known)))
      return importCompiler().attr(name);
  throw py::attribute_error("module 'kiln._kiln' has no attribute '" + std::string(name) + "'");
}

PYBIND11_MODULE(_kiln, m) {
  m.doc() = "Kiln's runtime, and by name its compiler";
  kiln::python::bindInterpreter(m);
  kiln::python::bindCache(m);
  kiln::python::bindTools(m);
  kiln::python::bindLaunch(m);
  m.def("__getattr__", findInCompiler);
  m.def("__dir__", [m] {
    py::list names(py::module_(m).attr("__dict__"));
    for (const char *name : kOfCompiler)
      names.append(name);
    return names;
  });
}
