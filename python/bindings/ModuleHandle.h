// What Python's kiln._kiln.Module holds: a module of IR and the context that owns it.
#pragma once
#include "compiler/pipeline/Program.h"
#include <memory>

namespace kiln::python {
struct PyModule {
  std::shared_ptr<kiln::Program> program;
};
} // namespace kiln::python
