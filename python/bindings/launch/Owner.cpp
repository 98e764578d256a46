// Calls what a launcher's owner has handed over.
#include "python/bindings/launch/Owner.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

int Owner::traverse(visitproc visit, void *arg) const {
  for (PyObject *held : {kernel.ptr(), revalidateTerms.ptr(), compileCode.ptr(), forgetCode.ptr(), makeRefusals.ptr()})
    Py_VISIT(held);
  return 0;
}

LaunchTerms Owner::revalidate() const { return revalidateTerms().cast<LaunchTerms>(); }

py::object Owner::compile(const CodeRequest &request) const {
  return compileCode(request.parameters, request.options, request.key, request.disjoint, request.device,
                     request.prefix);
}

void Owner::forget(const py::object &compiled) const { forgetCode(compiled); }

template <typename... Arguments> void Owner::refuse(py::function Refusals::*how, const Arguments &...arguments) const {
  (findRefusals().*how)(arguments...);
  PyErr_SetString(PyExc_SystemError, "kiln: an error could not be explained");
  throw py::error_already_set();
}

void Owner::refuseBinding(const py::tuple &args, const py::dict &named) const {
  refuse(&Refusals::binding, args, named);
}

void Owner::refuseArgument(py::handle name, py::handle value, const std::string &message,
                           const std::string &hint) const {
  refuse(&Refusals::argument, name, value, message, hint);
}

void Owner::refuseGrid(py::handle grid, const std::string &message) const { refuse(&Refusals::grid, grid, message); }

void Owner::refuseDevice(const std::string &message) const { refuse(&Refusals::device, message); }

void Owner::refusePreparing() const { refuse(&Refusals::preparing); }

void Owner::refuseStatus(const py::object &compiled, const Status &status) const {
  static constexpr const char *codes[] = {"ok",       "invalid", "internal", "resource",
                                          "internal", "lost",    "invalid",  "invalid"};
  const ResourceNeed *need = status.getNeed();
  py::object needed = need ? py::cast(*need) : py::none();
  refuse(&Refusals::status, compiled, codes[unsigned(status.getCode())], status.getMessage(), needed);
}

void Owner::raiseFailure(const py::dict &what) const { refuse(&Refusals::failure, what); }

void Owner::explainGridKey(py::handle error, const py::dict &arguments) const {
  findRefusals().gridKey(error, arguments);
}

void Owner::warnOfStrides(py::handle name, py::handle value) const { findRefusals().strides(name, value); }

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
  py::class_<ResourceNeed>(m, "ResourceNeed", "What a launch needs of a machine, and what there is.")
      .def_readonly("resource", &ResourceNeed::resource)
      .def_readonly("required", &ResourceNeed::required)
      .def_readonly("available", &ResourceNeed::available)
      .def_readonly("option", &ResourceNeed::option);
  using Function = py::function;
  py::class_<Refusals>(m, "Refusals", "What words the errors of refused launches.")
      .def(py::init([](Function binding, Function argument, Function grid, Function gridKey, Function device,
                       Function preparing, Function status, Function failure, Function strides) {
             return Refusals{binding, argument, grid, gridKey, device, preparing, status, failure, strides};
           }),
           py::kw_only(), py::arg("binding"), py::arg("argument"), py::arg("grid"), py::arg("grid_key"),
           py::arg("device"), py::arg("preparing"), py::arg("status"), py::arg("failure"), py::arg("strides"))
      .def_readwrite("binding", &Refusals::binding);
  py::class_<Owner>(m, "LaunchOwner", "What a launcher asks of the object whose launches it makes.")
      .def(py::init<py::object, Function, Function, Function, Function>(), py::arg("kernel"), py::kw_only(),
           py::arg("revalidate"), py::arg("compile"), py::arg("forget"), py::arg("refusals"));
}
