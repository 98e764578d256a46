// kiln._kiln: loading artifacts, the launcher, keys and signatures.
#include "python/bindings/Bindings.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Call.h"
#include "python/bindings/launch/Gpu.h"
#include "python/bindings/launch/Launcher.h"
#include "python/bindings/launch/Owner.h"
#include "python/bindings/launch/Reports.h"
#include "runtime/artifact/Key.h"
#include "runtime/support/ThreadPool.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

static PyLoadedKernel load(py::bytes binary, const std::string &metadataText, int ordinal, const std::string &label) {
  artifact::Artifact artifact;
  artifact.binary = binary;
  ErrorOr<artifact::Metadata> metadata = artifact::Metadata::parse(metadataText);
  if (!metadata.ok())
    raiseStatus(metadata.getStatus());
  artifact.metadata = std::move(*metadata);
  std::string kind = artifact.metadata.target.getString("kind").value_or("cpu").str();
  ErrorOr<device::Device *> device = device::getDevice(kind, ordinal);
  if (!device.ok())
    raiseStatus(device.getStatus());
  ErrorOr<std::shared_ptr<device::LoadedKernel>> kernel = [&] {
    WithoutLock released;
    return (*device)->load(std::move(artifact), label);
  }();
  if (!kernel.ok())
    raiseStatus(kernel.getStatus());
  if (kind == "cuda" && launch::Monitor::isNeeded((*kernel)->getMetadata()))
    watchReports();
  return {*kernel};
}

static py::object parseParameter(const std::string &name, const std::string &text) {
  ErrorOr<launch::Specialization> parsed = launch::parseSpecialization(text);
  if (!parsed.ok())
    raiseStatus(parsed.getStatus());
  return toPython(*parsed, name);
}

void kiln::python::bindLaunch(py::module_ &m) {
  py::class_<PyLoadedKernel>(m, "LoadedKernel", "Code of one artifact, ready to run.")
      .def_property_readonly("metadata", [](PyLoadedKernel &self) { return self.kernel->getMetadata().print(); })
      .def_property_readonly(
          "figures", [](PyLoadedKernel &self) { return describeFigures(*self.kernel); },
          "Registers, memory and occupancy on a GPU; None on the CPU.");
  m.def("load", load, py::arg("binary"), py::arg("metadata"), py::arg("device") = 0, py::arg("label") = "",
        "Loads an artifact's code (bytes) with its metadata (JSON text) on the device of its target's kind; `device` "
        "says "
        "which GPU, `label` stands for the kernel in messages.");
  m.def("parse_parameter", parseParameter, py::arg("name"), py::arg("text"),
        "The specialisation that text such as '*fp32:16', 'i32' or '1024' describes, as a launch has it.");
  m.def("set_num_threads", &ThreadPool::setSize, py::arg("count"), "Worker threads of the CPU device; 0: one per CPU.");
  m.def("set_warn_strides", &python::setWarnStrides, py::arg("on"),
        "Whether launches warn of arrays whose elements are not in the order of their indices.");
  m.def("num_threads", [] { return ThreadPool::get()->getSize(); });
  m.def("digest", [](py::bytes bytes) { return artifact::digest(std::string(bytes)); }, py::arg("bytes"), "SHA-256.");
  m.def("set_launch_hooks", setLaunchHooks, py::arg("enter"), py::arg("exit"),
        "What is called before and after each launch, with the compiled kernel, the grid and the arguments by name.");
  bindOwner(m);
  bindLauncher(m);
  bindGpu(m);
}
