// The resources a kernel needs and the placement of its tiles, as plain data for `kiln.explain`.
#include "compiler/explain/Placement.h"
#include "compiler/explain/Work.h"
#include "compiler/pipeline/Program.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/Interpreter.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace kiln;
using kiln::python::WithoutLock;

/// Runs `describe` on the kernel of the IR `text`; integers that are no argument's name are ignored.
template <typename Describe>
static std::string described(const std::string &text, const std::map<std::string, int64_t> &values,
                             const std::array<int64_t, 3> &grid, Describe describe) {
  WithoutLock unlocked;
  std::string error;
  std::unique_ptr<Program> program = Program::parse(text, error);
  if (!program)
    throw py::value_error(error);
  std::string result;
  program->getModule().walk([&](mlir::func::FuncOp kernel) {
    if (!kernel->hasAttr("tile.kernel"))
      return;
    explain::Launch launch;
    launch.grid = grid;
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
      auto name = kernel.getArgAttrOfType<mlir::StringAttr>(i, "tile.name");
      if (auto it = name ? values.find(name.getValue().str()) : values.end(); it != values.end())
        launch.arguments[i] = it->second;
    }
    llvm::raw_string_ostream(result) << llvm::json::Value(describe(kernel, launch));
  });
  if (result.empty())
    throw py::value_error("expected IR with a kernel, found none");
  return result;
}

void kiln::python::bindExplain(py::module_ &m) {
  m.def(
      "describe_work",
      [](const std::string &text, const std::map<std::string, int64_t> &values, const std::array<int64_t, 3> &grid) {
        return described(text, values, grid, [](mlir::func::FuncOp kernel, const explain::Launch &launch) {
          return explain::describeWork(kernel, launch);
        });
      },
      py::arg("text"), py::arg("values"), py::arg("grid"),
      "Bytes, operations and turns of loops of a launch, as JSON, from the text of stage opt. `values`: integers by "
      "argument.");
  m.def(
      "describe_placement",
      [](const std::string &text, const std::map<std::string, int64_t> &values, const std::array<int64_t, 3> &grid) {
        return described(text, values, grid, [](mlir::func::FuncOp kernel, const explain::Launch &launch) {
          return explain::describePlacement(kernel, launch);
        });
      },
      py::arg("text"), py::arg("values"), py::arg("grid"),
      "Layouts, accesses and exchanges, as JSON, from the text of stage kgpu. `values`: integers by argument.");
}
