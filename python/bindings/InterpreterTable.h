// Gives kiln._compiler access to the thread state that Interpreter.cpp keeps in kiln._kiln: there is one interpreter,
// and its exit must wait for the threads of both modules.
#pragma once
#include "compiler/pipeline/Toolchain.h"
#include "python/bindings/Interpreter.h"

namespace kiln::python {

/// The functions that kiln._kiln provides to kiln._compiler, in its attribute `_interpreter`.
struct InterpreterTable {
  static constexpr const char *kName = "kiln._kiln._interpreter";

  PyThreadState *(*release)();
  void (*restore)(PyThreadState *);
  bool (*attend)(PyThreadState *&);
  bool (*isEnding)();
  void (*stopAtEnd)();
  void (*runApart)(std::function<void()>, std::shared_ptr<std::atomic<bool>>);
  /// Makes the process wait at exit for compiles before it destroys the statics created so far by the compiler library.
  void (*guardStatics)();
  const Toolchain &(*compilerTools)();
};

/// In kiln._compiler: takes the table of kiln._kiln.
void useInterpreter();

/// The tools of kiln._compiler, loaded or not, as cache keys name them.
const Toolchain &compilerTools();

} // namespace kiln::python
