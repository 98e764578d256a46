// How kiln._compiler comes by the state of threads that Interpreter.cpp keeps in kiln._kiln: there is one interpreter,
// and who waits for its end must know of the threads in both.
#pragma once
#include "compiler/pipeline/Toolchain.h"
#include "python/bindings/Interpreter.h"

namespace kiln::python {

/// What kiln._kiln has for kiln._compiler, in its attribute `_interpreter`.
struct InterpreterTable {
  static constexpr const char *kName = "kiln._kiln._interpreter";

  PyThreadState *(*release)();
  void (*restore)(PyThreadState *);
  bool (*attend)(PyThreadState *&);
  bool (*isEnding)();
  void (*stopAtEnd)();
  void (*runApart)(std::function<void()>, std::shared_ptr<std::atomic<bool>>);
  /// The process's end waits for compiles before it destroys what the compiler's library has made so far.
  void (*guardStatics)();
  const Toolchain &(*compilerTools)();
};

/// In kiln._compiler: takes the table of kiln._kiln.
void useInterpreter();

/// The tools of kiln._compiler, loaded or not: what keys of the cache name.
const Toolchain &compilerTools();

} // namespace kiln::python
