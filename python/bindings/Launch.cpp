// kiln._kiln: loading artifacts, the launcher, keys and signatures.
#include "python/bindings/Bindings.h"
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Launcher.h"
#include "runtime/artifact/Key.h"
#include "runtime/support/ThreadPool.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

[[noreturn]] static void raise(const Status &status) {
  py::module_ errors = py::module_::import("kiln.errors");
  const char *name = status.getCode() == StatusCode::InvalidArgument ? "LaunchError" : "InternalError";
  PyErr_SetObject(errors.attr(name).ptr(), py::str(status.getMessage()).ptr());
  throw py::error_already_set();
}

static PyLoadedKernel load(py::bytes binary, const std::string &metadataText) {
  artifact::Artifact artifact;
  artifact.binary = binary;
  ErrorOr<artifact::Metadata> metadata = artifact::Metadata::parse(metadataText);
  if (!metadata.ok())
    raise(metadata.getStatus());
  artifact.metadata = std::move(*metadata);
  llvm::StringRef kind = artifact.metadata.target.getString("kind").value_or("cpu");
  ErrorOr<device::Device *> device = device::getDevice(kind);
  if (!device.ok())
    raise(device.getStatus());
  ErrorOr<std::shared_ptr<device::LoadedKernel>> kernel = [&] {
    py::gil_scoped_release release;
    return (*device)->load(std::move(artifact));
  }();
  if (!kernel.ok())
    raise(kernel.getStatus());
  return {*kernel};
}

static py::list parseSignature(const std::vector<std::string> &items) {
  py::list result;
  for (const std::string &item : items) {
    ErrorOr<launch::Specialization> parsed = launch::parseSpecialization(item);
    if (!parsed.ok())
      raise(parsed.getStatus());
    result.append(toPython(*parsed));
  }
  return result;
}

void kiln::python::bindLaunch(py::module_ &m) {
  py::class_<PyLoadedKernel>(m, "LoadedKernel", "Code of one artifact, ready to run.")
      .def_property_readonly("metadata", [](PyLoadedKernel &self) { return self.kernel->getMetadata().print(); });
  m.def("load", load, py::arg("binary"), py::arg("metadata"),
        "Loads an artifact's code (bytes) with its metadata (JSON text) on the device of its target's kind.");
  m.def("parse_signature", parseSignature, py::arg("items"),
        "Specialisations from text such as '*fp32:16', 'i32', '1024': tuples as the launcher hands them to Python.");
  m.def("set_num_threads", &ThreadPool::setSize, py::arg("count"), "Worker threads of the CPU device; 0: one per CPU.");
  m.def("num_threads", [] { return ThreadPool::get()->getSize(); });
  m.def("digest", [](py::bytes bytes) { return artifact::digest(std::string(bytes)); }, py::arg("bytes"), "SHA-256.");
  m.def(
      "artifact_key",
      [](const std::string &ir, const std::string &target, const std::string &options,
         const std::vector<std::string> &toolchain) { return artifact::makeKey({ir, target, options, toolchain}); },
      py::arg("ir"), py::arg("target"), py::arg("options"), py::arg("toolchain"));
  bindLauncher(m);
}
