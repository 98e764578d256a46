#include "python/bindings/Bindings.h"
void kiln::python::bindBuilder(pybind11::module_ &m) {}
