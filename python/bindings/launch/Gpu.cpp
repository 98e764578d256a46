// GPUs for Python: properties, synchronisation, events, modules and functions.
#include "python/bindings/launch/Gpu.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/PythonSide.h"
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Reports.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include "runtime/device/CudaKernel.h"
#include "llvm/Support/FormatVariadic.h"
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using device::CudaDevice;
using device::CudaShape;

/// Raises errors.ResourceError(...).
template <typename... Args> [[noreturn]] static void raiseResource(Args &&...args) {
  const py::object &type = PythonSide::get().resourceError;
  py::object error = type(std::forward<Args>(args)...);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

void kiln::python::raiseStatus(const Status &status) {
  if (status.getCode() == StatusCode::Resource) {
    const ResourceNeed *need = status.getNeed();
    if (need && need->required >= 0)
      raiseResource(need->resource, need->required, need->available, need->option);
    raiseResource(need ? need->resource : "resources", py::arg("detail") = status.getMessage());
  }
  const PythonSide &python = PythonSide::get();
  const py::object &type = status.getCode() == StatusCode::InvalidArgument ? python.launchError
                           : status.getCode() == StatusCode::DeviceLost    ? python.deviceLostError
                                                                           : python.internalError;
  PyErr_SetObject(type.ptr(), py::str(status.getMessage()).ptr());
  throw py::error_already_set();
}

static void check(const Status &status) {
  if (!status.ok())
    raiseStatus(status);
}

template <typename T> static T take(ErrorOr<T> value) {
  check(value.getStatus());
  return std::move(*value);
}

//===-- Devices --------------------------------------------------------------------------------------------------===//

static py::dict describeDevice(int ordinal) {
  CudaDevice &device = *take(CudaDevice::get(ordinal));
  const device::CudaProperties &p = device.getProperties();
  device::CudaFacts facts = device.readFacts();
  py::dict result;
  result["name"] = p.name;
  result["capability"] = py::make_tuple(p.major, p.minor);
  result["multiprocessors"] = p.multiprocessors;
  result["max_threads"] = p.maxThreads;
  result["max_threads_per_multiprocessor"] = p.maxThreadsPerProcessor;
  result["shared_bytes"] = p.sharedBytes;
  result["shared_bytes_per_multiprocessor"] = p.sharedBytesPerProcessor;
  result["registers"] = p.registers;
  result["l2_bytes"] = p.l2Bytes;
  result["clock_khz"] = facts.clockKHz;
  result["memory_clock_khz"] = facts.memoryClockKHz;
  result["memory_bus_bits"] = facts.memoryBusBits;
  result["memory_bytes"] = facts.memoryBytes;
  result["clusters"] = p.clusters;
  return result;
}

static void synchronize(std::optional<int> ordinal) {
  std::vector<CudaDevice *> devices = CudaDevice::getUsed();
  if (ordinal)
    devices = {take(CudaDevice::get(*ordinal))};
  Status status;
  {
    WithoutLock released;
    for (CudaDevice *device : devices)
      if (Status one = device->synchronize(); !one.ok() && status.ok())
        status = one;
  }
  showReports();
  check(status);
  raiseReports();
}

static device::cuda::Stream streamFrom(std::optional<uintptr_t> stream, int ordinal) {
  return static_cast<device::cuda::Stream>(stream ? reinterpret_cast<void *>(*stream) : getTorchStream(ordinal));
}

namespace {
/// An event in a stream, for measuring time.
class PyCudaEvent {
public:
  explicit PyCudaEvent(int ordinal) : device(*take(CudaDevice::get(ordinal))) {
    CudaDevice::Scope scope(device);
    call("create an event", device.getDriver().eventCreate(&event, 0));
  }
  ~PyCudaEvent() {
    if (device.check().ok()) {
      CudaDevice::Scope scope(device);
      device.getDriver().eventDestroy(event);
    }
  }
  PyCudaEvent(const PyCudaEvent &) = delete;

  void record(std::optional<uintptr_t> stream) {
    CudaDevice::Scope scope(device);
    call("record an event", device.getDriver().eventRecord(event, streamFrom(stream, device.getOrdinal())));
  }
  void synchronize() {
    CudaDevice::Scope scope(device);
    device::cuda::Result result;
    {
      WithoutLock released;
      result = device.getDriver().eventSynchronize(event);
    }
    call("wait for an event", result);
  }
  float elapsed(const PyCudaEvent &end) {
    CudaDevice::Scope scope(device);
    float milliseconds = 0;
    call("read a timer", device.getDriver().eventElapsedTime(&milliseconds, event, end.event));
    return milliseconds;
  }

private:
  void call(const char *what, device::cuda::Result result) {
    if (result)
      raiseStatus(device.fail(what, result));
  }
  CudaDevice &device;
  device::cuda::Event event = nullptr;
};

//===-- Foreign code ---------------------------------------------------------------------------------------------===//

/// A function of a module, launched with arbitrary arguments: for CUDA C, whose parameters only the driver knows.
class PyCudaFunction {
public:
  PyCudaFunction(device::CudaFunction function)
      : function(std::move(function)), parameters(this->function.getParameters()) {}

  void launch(const py::tuple &grid, const py::tuple &block, unsigned shared, const py::tuple &cluster, bool pdl,
              std::optional<uintptr_t> stream, const py::tuple &arguments) {
    CudaShape shape = makeShape(grid, block, shared, cluster, pdl);
    if (llvm::is_contained(shape.grid, 0u))
      return;
    check(function.getDevice().check());
    prepare(shape);
    std::vector<char> packed;
    size_t count = arguments.size();
    if (!parameters.empty() && count != parameters.size())
      refuse(llvm::formatv("expected {0} arguments, got {1}", parameters.size(), count));
    ArgumentReader reader(false, {/*cuda=*/true, /*stage=*/false});
    for (size_t i = 0; i < count; ++i) {
      reader.parameter = unsigned(i);
      append(packed, reader, i, arguments[i].ptr());
    }
    int where;
    if (!reader.resolveDevice(where))
      refuse(llvm::formatv("argument {0}: {1}", reader.culprit, reader.problem));
    int ordinal = function.getDevice().getOrdinal();
    if (where >= 0 && where != ordinal)
      refuse(llvm::formatv("expected arrays on CUDA device {0} (because the code was loaded there), got them on {1}",
                           ordinal, where));
    device::cuda::Stream queue = streamFrom(stream, ordinal);
    Status status;
    {
      WithoutLock released;
      device::Grid shown;
      shown.x = int32_t(shape.grid[0]);
      shown.y = int32_t(shape.grid[1]);
      shown.z = int32_t(shape.grid[2]);
      status = function.launch(shape, packed.data(), packed.size(), queue, shown);
    }
    check(status);
  }

  py::dict figures(const py::tuple &block, unsigned shared, const py::tuple &cluster);

private:
  [[noreturn]] void refuse(const std::string &message) const {
    raiseStatus(invalidArgument("launch of " + function.getLabel() + ": " + message));
  }

  /// Resource errors are worded for CUDA C, which has no tiles and no num_warps.
  void prepare(const CudaShape &shape) {
    Status status = function.prepare(shape);
    const ResourceNeed *need = status.getNeed();
    if (!need || need->required < 0)
      return check(status);
    llvm::StringRef resource = need->resource;
    std::string option = resource.starts_with("shared")      ? "shared"
                         : resource.starts_with("threads")   ? "the block"
                         : resource.starts_with("registers") ? "the block, or compile with --maxrregcount"
                                                             : need->option;
    raiseResource(need->resource, need->required, need->available, option, function.getLabel());
  }

  CudaShape makeShape(const py::tuple &grid, const py::tuple &block, unsigned shared, const py::tuple &cluster,
                      bool pdl) const {
    CudaShape shape;
    const device::CudaProperties &has = function.getDevice().getProperties();
    for (auto [name, sides, to] : {std::tuple("grid", &grid, shape.grid),
                                   {"block", &block, shape.block},
                                   {"cluster", &cluster, shape.cluster}}) {
      if (sides->empty() || sides->size() > 3)
        refuse(llvm::formatv("expected 1 to 3 sides of the {0}, got {1}", name, sides->size()));
      for (size_t axis = 0; axis < sides->size(); ++axis) {
        auto side = (*sides)[axis].cast<int64_t>();
        int64_t most = to == shape.grid ? has.maxGrid[axis] : has.maxThreads;
        int64_t least = to == shape.grid ? 0 : 1;
        if (side < least || side > most)
          refuse(
              llvm::formatv("expected a {0} of {1} to {2} in dimension {3}, got {4}", name, least, most, axis, side));
        to[axis] = unsigned(side);
      }
    }
    for (int axis = 0; axis < 3; ++axis)
      if (shape.grid[axis] % shape.cluster[axis])
        refuse(llvm::formatv("expected a grid that is a multiple of the cluster's {0} in dimension {1}, got {2}",
                             shape.cluster[axis], axis, shape.grid[axis]));
    shape.sharedBytes = shared;
    shape.programmatic = pdl;
    return shape;
  }

  /// Puts one argument where the function expects it.
  void append(std::vector<char> &packed, ArgumentReader &reader, size_t index, PyObject *value) {
    char bytes[8];
    const char *source = bytes;
    size_t size = 0;
    Py_buffer buffer = {};
    size_t expected = parameters.empty() ? 0 : parameters[index].second;
    auto store = [&](auto number) {
      std::memcpy(bytes, &number, sizeof number);
      size = sizeof number;
    };
    switch (classify(value)) {
    case ValueClass::None:
      store(uintptr_t(0));
      break;
    case ValueClass::NumpyArray:
    case ValueClass::TorchTensor:
    case ValueClass::Interface:
    case ValueClass::Dlpack:
    case ValueClass::CudaArray: {
      const void *address;
      if (!reader.addAddress(value, address)) {
        if (PyErr_Occurred())
          throw py::error_already_set();
        refuse(llvm::formatv("argument {0}: {1}", index, reader.problem));
      }
      store(address);
      break;
    }
    case ValueClass::Bool:
      store(char(value == Py_True));
      break;
    case ValueClass::Tuple:
      size = encodeTyped(index, value, bytes);
      break;
    default:
      if (PyLong_CheckExact(value) || PyFloat_CheckExact(value)) {
        size = encodeNumber(index, value, expected, bytes);
        break;
      }
      // Scalars and structures of numpy and ctypes, and bytes: copied from memory.
      if (PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)) {
        PyErr_Clear();
        refuse(llvm::formatv("argument {0}: expected an array, a number, None or a scalar with a type (numpy, ctypes, "
                             "or a pair such as (kl.float32, 0.5)), got {1}",
                             index, getTypeName(value)));
      }
      source = static_cast<const char *>(buffer.buf);
      size = size_t(buffer.len);
    }
    if (expected && size != expected) {
      PyBuffer_Release(&buffer);
      refuse(llvm::formatv("argument {0}: expected {1} bytes (because the function's parameter has them), got {2}",
                           index, expected, size));
    }
    size_t offset = packed.size();
    if (!parameters.empty())
      offset = parameters[index].first;
    else if (size)
      offset = (offset + std::min<size_t>(size, 8) - 1) / std::min<size_t>(size, 8) * std::min<size_t>(size, 8);
    packed.resize(std::max(packed.size(), offset + size));
    std::memcpy(packed.data() + offset, source, size);
    PyBuffer_Release(&buffer);
  }

  /// A plain number, with the width of the parameter.
  size_t encodeNumber(size_t index, PyObject *value, size_t expected, char *bytes) const {
    if (PyFloat_CheckExact(value)) {
      double number = PyFloat_AS_DOUBLE(value);
      float single = float(number);
      if (expected != 4 && expected != 8)
        refuse(
            llvm::formatv("argument {0}: expected a scalar with a type (because a float fits float and double only), "
                          "got a float",
                          index));
      std::memcpy(bytes, expected == 4 ? static_cast<const void *>(&single) : &number, expected);
      return expected;
    }
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    unsigned bits = unsigned(8 * expected);
    bool fits = !overflow && expected >= 1 && expected <= 8 &&
                (bits == 64 || (number >= -(int64_t(1) << (bits - 1)) && number < (int64_t(1) << bits)));
    if (!fits)
      refuse(llvm::formatv("argument {0}: expected {1}, got {2}", index,
                           expected
                               ? "an integer of " + std::to_string(expected) + " bytes"
                               : std::string("a scalar with a type (because this driver cannot tell the width of the "
                                             "parameter)"),
                           getText(value)));
    std::memcpy(bytes, &number, expected);
    return expected;
  }

  /// (type, value), with the type of kl, numpy or torch.
  size_t encodeTyped(size_t index, PyObject *pair, char *bytes) const {
    std::optional<artifact::ElementType> type;
    if (PyTuple_GET_SIZE(pair) == 2)
      type = getElementType(PyTuple_GET_ITEM(pair, 0));
    if (!type)
      refuse(llvm::formatv("argument {0}: expected a pair of a type and a number, got {1}", index, getText(pair)));
    PyObject *value = PyTuple_GET_ITEM(pair, 1);
    if (artifact::isFloat(*type)) {
      double number = PyFloat_AsDouble(value);
      if (number == -1.0 && PyErr_Occurred())
        throw py::error_already_set();
      artifact::encodeFloat(*type, number, bytes);
      return artifact::getBytes(*type);
    }
    if (!PyLong_Check(value))
      refuse(llvm::formatv("argument {0}: expected an integer for {1}, got {2}", index,
                           artifact::getLanguageName(*type), getText(value)));
    return encodeNumber(index, value, artifact::getBytes(*type), bytes);
  }

  device::CudaFunction function;
  std::vector<std::pair<size_t, size_t>> parameters;
};

struct PyCudaModule {
  std::shared_ptr<device::CudaModule> module;
};
} // namespace

static py::dict toDict(const device::CodeFigures &figures) {
  py::dict result;
  result["registers"] = figures.registers;
  result["local_bytes"] = figures.localBytes;
  result["shared_bytes"] = figures.sharedBytes;
  result["max_threads"] = figures.maxThreads;
  result["threads"] = figures.threads;
  result["blocks_per_multiprocessor"] = figures.blocksPerProcessor;
  result["clusters"] = figures.clusters;
  result["binary_version"] = figures.binaryVersion;
  return result;
}

py::dict PyCudaFunction::figures(const py::tuple &block, unsigned shared, const py::tuple &cluster) {
  CudaShape shape = makeShape(cluster, block, shared, cluster, false);
  prepare(shape);
  return toDict(function.measure(shape));
}

py::object kiln::python::describeFigures(const device::LoadedKernel &kernel) {
  const device::CodeFigures *figures = kernel.getFigures();
  return figures ? py::object(toDict(*figures)) : py::none();
}

void kiln::python::bindGpu(py::module_ &m) {
  m.def(
      "cuda_set_library", [](const std::string &path) { device::CudaDriver::setLibrary(path); }, py::arg("path"),
      "The driver to load in place of libcuda.so.1; only before its first use.");
  m.def(
      "cuda_driver",
      [] {
        ErrorOr<const device::CudaDriver *> driver = device::CudaDriver::get();
        py::dict result;
        result["problem"] = driver.ok() ? "" : driver.getStatus().getMessage();
        result["path"] = driver.ok() ? (*driver)->getPath() : "";
        result["version"] = driver.ok() ? (*driver)->getVersion() : 0;
        return result;
      },
      "The CUDA driver: problem (why there is none, or empty), path, version (13000 for CUDA 13.0).");
  m.def(
      "cuda_device_count",
      [] {
        ErrorOr<int> count = CudaDevice::count();
        return count.ok() ? *count : 0;
      },
      "The number of GPUs; 0 without a driver.");
  m.def(
      "cuda_launches",
      [] {
        uint64_t launches = 0;
        for (CudaDevice *device : CudaDevice::getUsed())
          launches += device->countLaunches();
        return launches;
      },
      "How many launches have been queued on GPUs in this process.");
  m.def(
      "cuda_current_device", [] { return std::max(CudaDevice::getCurrent(), 0); },
      "The GPU in use on this thread, else the first.");
  m.def(
      "cuda_capability",
      [](int ordinal) {
        const device::CudaProperties &properties = take(CudaDevice::get(ordinal))->getProperties();
        return std::make_pair(properties.major, properties.minor);
      },
      py::arg("device"), "The compute capability, (9, 0).");
  m.def("cuda_properties", describeDevice, py::arg("device"), "What a GPU is, as a dictionary.");
  m.def("cuda_synchronize", synchronize, py::arg("device") = py::none(),
        "Waits for a GPU, or for all that Kiln has used; shows what kernels printed, raises what failed.");
  m.def(
      "cuda_current_stream", [](int ordinal) { return reinterpret_cast<uintptr_t>(getTorchStream(ordinal)); },
      py::arg("device"), "The stream launches go to: torch's current one, else the legacy stream (0).");
  py::class_<PyCudaEvent>(m, "CudaEvent", "A mark in a stream, for measuring.")
      .def(py::init<int>(), py::arg("device") = 0)
      .def("record", &PyCudaEvent::record, py::arg("stream") = py::none())
      .def("synchronize", &PyCudaEvent::synchronize)
      .def("elapsed", &PyCudaEvent::elapsed, py::arg("end"), "Milliseconds from this mark to `end`.");
  py::class_<PyCudaFunction>(m, "CudaFunction", "A function of a CudaModule.")
      .def("launch", &PyCudaFunction::launch, py::arg("grid"), py::arg("block"), py::arg("shared"), py::arg("cluster"),
           py::arg("pdl"), py::arg("stream"), py::arg("arguments"))
      .def("figures", &PyCudaFunction::figures, py::arg("block"), py::arg("shared"), py::arg("cluster"));
  py::class_<PyCudaModule>(m, "CudaModule", "A cubin or PTX in a GPU's memory.")
      .def(py::init([](py::bytes image, int ordinal, const std::string &what) {
             CudaDevice &device = *take(CudaDevice::get(ordinal));
             std::string bytes = image;
             auto load = [&] {
               WithoutLock released;
               return device::CudaModule::load(device, bytes, what);
             };
             return PyCudaModule{take(load())};
           }),
           py::arg("image"), py::arg("device"), py::arg("what"))
      .def(
          "function",
          [](PyCudaModule &self, const std::string &name, const std::string &label) {
            return PyCudaFunction(take(device::CudaFunction::find(self.module, name, label)));
          },
          py::arg("name"), py::arg("label"));
}
