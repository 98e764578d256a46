// The extension module kiln._kiln.
#include "python/bindings/Bindings.h"

PYBIND11_MODULE(_kiln, m) {
  m.doc() = "Kiln's compiler and runtime";
  kiln::python::bindInterpreter(m);
  kiln::python::bindBuilder(m);
  kiln::python::bindCache(m);
  kiln::python::bindCompiler(m);
  kiln::python::bindLaunch(m);
  kiln::python::bindExplain(m);
}
