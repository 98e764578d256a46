// The extension module kiln._compiler: everything that needs MLIR and LLVM. Loaded on first use (see Module.cpp).
#include "compiler/pipeline/Toolchain.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/InterpreterTable.h"

PYBIND11_MODULE(_compiler, m) {
  m.doc() = "Kiln's compiler";
  kiln::python::useInterpreter();
  if (kiln::toolchain() != kiln::python::compilerTools())
    throw pybind11::import_error("expected the compiler that this process began with (because keys of the cache name "
                                 "it), got another: the files of Kiln have changed");
  kiln::python::bindBuilder(m);
  kiln::python::bindCompiler(m);
  kiln::python::bindExplain(m);
}
