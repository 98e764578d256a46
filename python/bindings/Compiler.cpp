#include "python/bindings/Bindings.h"
void kiln::python::bindCompiler(pybind11::module_ &m) {}
