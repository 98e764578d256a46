// What each binding file adds to the module kiln._kiln.
#pragma once
#include <pybind11/pybind11.h>

namespace kiln::python {
void bindBuilder(pybind11::module_ &m);     ///< Builder, Module: emitting and holding tile IR.
void bindCache(pybind11::module_ &m);       ///< The artifact cache.
void bindCompiler(pybind11::module_ &m);    ///< Targets, stages, compile, artifacts.
void bindExplain(pybind11::module_ &m);     ///< What a kernel asks of the machine.
void bindInterpreter(pybind11::module_ &m); ///< What becomes of threads when the interpreter ends.
void bindLaunch(pybind11::module_ &m);      ///< Specialisation, launching, devices.
} // namespace kiln::python
