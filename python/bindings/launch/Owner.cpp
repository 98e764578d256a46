// Calls the Python methods of a launcher's owner by name.
#include "python/bindings/launch/Owner.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

LaunchTerms Owner::revalidate() const { return object.attr("_revalidate")().cast<LaunchTerms>(); }

py::object Owner::compile(const CodeRequest &request) const {
  return object.attr("_compile")(request.parameters, request.options, request.key, request.disjoint, request.device,
                                 request.prefix);
}

void Owner::forget(const py::object &compiled) const { object.attr("_forget")(compiled); }

template <typename... Arguments> void Owner::refuse(const char *how, const Arguments &...arguments) const {
  object.attr("refusals").attr(how)(arguments...);
  PyErr_SetString(PyExc_SystemError, "kiln: an error could not be explained");
  throw py::error_already_set();
}

void Owner::refuseBinding(const py::tuple &args, const py::dict &named) const { refuse("binding", args, named); }

void Owner::refuseArgument(py::handle name, py::handle value, const std::string &message,
                           const std::string &hint) const {
  refuse("argument", name, value, message, hint);
}

void Owner::refuseGrid(py::handle grid, const std::string &message) const { refuse("grid", grid, message); }

void Owner::refuseDevice(const std::string &message) const { refuse("device", message); }

void Owner::refusePreparing() const { refuse("preparing"); }

void Owner::refuseStatus(const py::object &compiled, const Status &status) const {
  static constexpr const char *codes[] = {"ok",       "invalid", "internal", "resource",
                                          "internal", "lost",    "invalid",  "invalid"};
  py::object need = py::none();
  if (const ResourceNeed *amount = status.getNeed())
    need = py::make_tuple(amount->resource, amount->required, amount->available, amount->option);
  refuse("status", compiled, codes[unsigned(status.getCode())], status.getMessage(), need);
}

void Owner::raiseFailure(const py::dict &what) const { refuse("failure", what); }

void Owner::explainGridKey(py::handle error, const py::dict &arguments) const {
  object.attr("refusals").attr("grid_key")(error, arguments);
}

void Owner::warnOfStrides(py::handle name, py::handle value) const {
  object.attr("refusals").attr("strides")(name, value);
}

void kiln::python::bindOwner(py::module_ &m) {
  py::class_<LaunchTerms>(m, "LaunchTerms", "What launches of a kernel go by, until a watched value is another object.")
      .def(py::init([](std::string prefix, py::list watched, bool checksAccesses, bool cuda, bool stage, size_t limit,
                       bool describesPointers) {
             return LaunchTerms{std::move(prefix), std::move(watched), checksAccesses, cuda, stage, limit,
                                describesPointers};
           }),
           py::kw_only(), py::arg("prefix"), py::arg("watched"), py::arg("checks_accesses"), py::arg("cuda"),
           py::arg("stage"), py::arg("limit"), py::arg("describes_pointers"))
      .def_readonly("prefix", &LaunchTerms::prefix)
      .def_readonly("watched", &LaunchTerms::watched);
}
