// What launches of cached code need to know about targets and tools, for Python, without the compiler.
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/Toolchain.h"
#include "compiler/target/TargetText.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/InterpreterTable.h"
#include "llvm/Support/FormatVariadic.h"
#include <pybind11/stl.h>

namespace py = pybind11;
namespace json = llvm::json;
using namespace kiln;

static py::object toPython(const json::Value &value) {
  switch (value.kind()) {
  case json::Value::Null:
    return py::none();
  case json::Value::Boolean:
    return py::bool_(*value.getAsBoolean());
  case json::Value::Number:
    if (std::optional<int64_t> integer = value.getAsInteger())
      return py::int_(*integer);
    return py::float_(*value.getAsNumber());
  case json::Value::String:
    return py::str(value.getAsString()->str());
  case json::Value::Array: {
    py::list list;
    for (const json::Value &entry : *value.getAsArray())
      list.append(toPython(entry));
    return list;
  }
  case json::Value::Object: {
    py::dict dictionary;
    for (const auto &[key, entry] : *value.getAsObject())
      dictionary[py::str(key.str())] = toPython(entry);
    return dictionary;
  }
  }
  return py::none();
}

void kiln::python::bindTools(py::module_ &m) {
  m.def(
      "target_text",
      [](const std::string &name) -> py::object {
        std::optional<Target> row = lookupTarget(name);
        return row ? py::object(py::str(llvm::formatv("{0}", json::Value(targetJSON(*row))).str())) : py::none();
      },
      py::arg("name"), "One row of the target table as JSON text, None if there is none.");
  m.def(
      "target_kind",
      [](const std::string &name) {
        std::optional<Target> row = lookupTarget(name);
        return row ? kindName(row->kind).str() : "";
      },
      py::arg("name"), "What a row is, cpu or cuda; empty if there is none.");
  m.def("target_names", targetNames, "The names of all rows of the target table; the first is this machine.");
  m.def(
      "targets",
      [] {
        py::list list;
        for (const std::string &name : targetNames())
          list.append(toPython(targetJSON(*lookupTarget(name))));
        return list;
      },
      "Every row of the target table; the first is this machine.");
  m.def(
      "target",
      [](const std::string &name) {
        std::optional<Target> row = lookupTarget(name);
        if (!row)
          throw py::value_error(unknownTargetMessage(name));
        return toPython(targetJSON(*row));
      },
      py::arg("name"), "One row of the target table.");
  m.def("host_target", [] { return toPython(targetJSON(hostTarget())); }, "This machine's row.");
  m.def(
      "toolchain",
      [] {
        py::dict ids;
        for (auto &[tool, id] : compilerTools())
          ids[py::str(tool)] = id;
        return ids;
      },
      "Ids of everything that may change the bytes of an artifact.");
  m.def(
      "schedules",
      [] {
        py::list names;
        for (const char *name : kSchedules)
          names.append(name);
        return names;
      },
      "What the launch option `schedule` may be.");
}
