#include "python/bindings/Bindings.h"
void kiln::python::bindLaunch(pybind11::module_ &m) {}
