// Interpreter.h in kiln._compiler: each function is that of kiln._kiln.
#include "python/bindings/InterpreterTable.h"

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

static const InterpreterTable *table;

void kiln::python::useInterpreter() {
  py::capsule capsule = py::module_::import("kiln._kiln").attr("_interpreter");
  table = capsule.get_pointer<InterpreterTable>();
  table->guardStatics();
}

const Toolchain &kiln::python::compilerTools() { return table->compilerTools(); }

WithoutLock::WithoutLock() : state(table->release()) {}
WithoutLock::~WithoutLock() { table->restore(state); }
bool WithoutLock::attend() { return table->attend(state); }
bool kiln::python::isEnding() { return table->isEnding(); }
void kiln::python::stopAtEnd() { table->stopAtEnd(); }
void kiln::python::runApart(std::function<void()> work, std::shared_ptr<std::atomic<bool>> cancelled) {
  table->runApart(std::move(work), std::move(cancelled));
}
