// What each binding file adds to kiln._kiln or, where it says so, to kiln._compiler.
#pragma once
#include <pybind11/pybind11.h>

namespace kiln::python {
void bindBuilder(pybind11::module_ &m);     ///< kiln._compiler: Builder, Module: emitting and holding tile IR.
void bindCache(pybind11::module_ &m);       ///< The artifact cache.
void bindCompiler(pybind11::module_ &m);    ///< kiln._compiler: stages, compile, artifacts.
void bindExplain(pybind11::module_ &m);     ///< kiln._compiler: the resources a kernel needs.
void bindInterpreter(pybind11::module_ &m); ///< What happens to threads when the interpreter ends.
void bindLaunch(pybind11::module_ &m);      ///< Specialisation, launching, devices.
void bindTools(pybind11::module_ &m);       ///< Targets and tools.
} // namespace kiln::python
