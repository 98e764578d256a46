// Launches whose arguments are bound.
#include "python/bindings/launch/Prepared.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/launch/Reports.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include "runtime/device/CudaKernel.h"
#include "runtime/launch/Dispatch.h"
#include "llvm/Support/FormatVariadic.h"
#include <structmember.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using launch::CallEncoder;

namespace {
struct Prepared {
  LaunchRecord record;
  std::vector<py::object> values; ///< by parameter
  std::vector<ParameterMark> marks;
  py::dict named;     ///< them and the launch options, by name
  bool empty = false; ///< the grid has no instances
};

struct PreparedObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Prepared *prepared;
};

PyTypeObject *preparedType = nullptr;

/// A stream of torch, one of another library (`__cuda_stream__`), or the driver's handle as a number.
void *readStream(PyObject *stream) {
  for (const char *name : {"cuda_stream", "__cuda_stream__"}) {
    py::object handle = getOptionalAttribute(stream, name);
    if (!handle)
      continue;
    if (PyCallable_Check(handle.ptr()))
      handle = handle();
    if (PyTuple_Check(handle.ptr()) && PyTuple_GET_SIZE(handle.ptr()) == 2)
      handle = py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(handle.ptr(), 1)); // (version, handle)
    if (PyLong_Check(handle.ptr()))
      return PyLong_AsVoidPtr(handle.ptr());
  }
  if (PyLong_Check(stream) && !PyBool_Check(stream)) {
    void *handle = PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred())
      throw py::error_already_set();
    return handle;
  }
  PyErr_SetString(
      PyExc_TypeError,
      ("stream: expected a stream of torch or the driver's number of one, got " + getTypeName(stream)).c_str());
  throw py::error_already_set();
}

[[noreturn]] void refuse(const Prepared &prepared, size_t parameter, PyObject *value, const std::string &message) {
  LauncherState &state = *prepared.record.state;
  state.owner.refuseArgument(state.parameters[parameter].name, value, message, "prepare another launch for it");
}

std::string describe(llvm::StringRef key) {
  std::string text = launch::spell(launch::decodeKey(key).front());
  return text == "?" ? "its type" : text;
}

/// The block and the arrays of one launch: the bound ones, with some values replaced.
class Replaced {
public:
  explicit Replaced(const Prepared &prepared)
      : prepared(prepared), block(prepared.record.block), arrays(prepared.record.arrays) {}

  void set(size_t parameter, PyObject *value) {
    const LaunchRecord &record = prepared.record;
    const ParameterMark &mark = prepared.marks[parameter], &next = prepared.marks[parameter + 1];
    ArgumentReader reader(false, record.current->placement);
    encoder.startAt(mark.block);
    encodeParameter(*record.state, unsigned(parameter), value, record.describes, encoder, reader);
    if (encoder.getKey() != mark.key)
      refuse(prepared, parameter, value,
             llvm::formatv("expected a value like the one that the launch was prepared with ({0}), got {1}",
                           describe(mark.key), describe(encoder.getKey())));
    if (!reader.haveData())
      refuse(prepared, parameter, value, reader.problem);
    const auto *packed = static_cast<const char *>(encoder.getBlock());
    std::memcpy(reinterpret_cast<char *>(block.data()) + mark.block, packed + mark.block, next.block - mark.block);
    for (unsigned i = mark.array; i < next.array; ++i) {
      ArgumentReader::Array read = reader.getArray(i - mark.array);
      if (read.device != record.device && !(read.device == onHost && device::isPinned(read.address)))
        refuse(prepared, parameter, value,
               llvm::formatv("expected an array {0} (because the launch was prepared for it), got one {1}",
                             place(record.device), place(read.device)));
      PackedArray &array = arrays[i];
      if (array.written && reader.isReadOnly(i - mark.array))
        refuse(prepared, parameter, value,
               "expected an array that may be written (because the kernel stores through it), got a read-only one");
      array.address = reinterpret_cast<uintptr_t>(read.address);
      array.begin = read.begin;
      array.end = read.end;
      array.tensor = read.tensor;
      array.handle = array.written && read.tensor ? findTorchHandle(read.tensor) : nullptr;
    }
    alive.append(reader.alive.begin(), reader.alive.end());
    last = parameter;
  }

  /// Checks that arrays which the code assumes to be disjoint still are.
  void checkOverlap(PyObject *value) const {
    llvm::SmallVector<std::pair<uintptr_t, uintptr_t>, 16> storages;
    for (const PackedArray &array : arrays)
      storages.push_back({array.begin, array.end});
    llvm::SmallVector<bool, 16> disjoint = findDisjoint(storages);
    for (size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i].disjoint && !disjoint[i])
        refuse(prepared, last, value,
               "expected an array that overlaps no other of the launch (because those it was prepared with do not), "
               "got one that does");
  }

  const Prepared &prepared;
  llvm::SmallVector<uint64_t, 32> block;
  std::vector<PackedArray> arrays;

private:
  static std::string place(int device) {
    return device == onHost ? "in host memory" : "on CUDA device " + std::to_string(device);
  }
  CallEncoder encoder;
  llvm::SmallVector<py::object, 2> alive; ///< until the launch has ended
  size_t last = 0;
};

size_t findParameter(const Prepared &prepared, PyObject *name) {
  const std::vector<Parameter> &parameters = prepared.record.state->parameters;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name.ptr() == name)
      return i;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (PyUnicode_Compare(parameters[i].name.ptr(), name) == 0)
      return i;
  return parameters.size();
}

/// `values`, by parameter: replacements of the bound values, or null.
void launchBlock(const Prepared &prepared, const void *block, llvm::ArrayRef<PackedArray> arrays, PyObject *stream,
                 llvm::ArrayRef<PyObject *> values = {}) {
  const LaunchRecord &record = prepared.record;
  if (prepared.empty)
    return;
  for (const PackedArray &array : arrays)
    if (array.tensor && array.written && !(array.handle && countTorchWrite(array.handle)))
      countWrite(array.tensor);
  void *where = nullptr;
  if (stream && stream != Py_None)
    where = readStream(stream);
  else if (record.device != onHost)
    where = getTorchStream(record.device);
  if (!hasLaunchHooks())
    return launchPacked(*record.state, record.compiled, record.grid, block, record.device, where,
                        /*boundsKnown=*/false);
  py::dict named = prepared.named.attr("copy")();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i])
      named[record.state->parameters[i].name] = py::handle(values[i]);
  callLaunchHook(/*enter=*/true, record.compiled, record.grid, named);
  launchPacked(*record.state, record.compiled, record.grid, block, record.device, where, /*boundsKnown=*/false);
  callLaunchHook(/*enter=*/false, record.compiled, record.grid, named);
}

PyObject *preparedVectorcall(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
  const Prepared &prepared = *reinterpret_cast<PreparedObject *>(callable)->prepared;
  return callGuarded([&]() -> PyObject * {
    size_t positional = PyVectorcall_NARGS(flags);
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    const LaunchRecord &record = prepared.record;
    if (!positional && !named) {
      launchBlock(prepared, record.block.data(), record.arrays, nullptr);
      Py_RETURN_NONE;
    }
    llvm::SmallVector<PyObject *, 16> values(prepared.values.size(), nullptr);
    PyObject *stream = nullptr, *last = nullptr;
    if (positional > values.size()) {
      PyErr_Format(PyExc_TypeError,
                   "expected at most %zu arguments (because the kernel has no more parameters), got %zu", values.size(),
                   positional);
      return nullptr;
    }
    std::copy(args, args + positional, values.begin());
    for (Py_ssize_t i = 0; i < named; ++i) {
      PyObject *name = PyTuple_GET_ITEM(names, i), *value = args[positional + i];
      size_t parameter = findParameter(prepared, name);
      if (parameter < values.size()) {
        if (values[parameter]) {
          PyErr_Format(PyExc_TypeError, "expected one value for %R, got two", name);
          return nullptr;
        }
        values[parameter] = value;
      } else if (PyUnicode_CompareWithASCIIString(name, "stream") == 0) {
        stream = value;
      } else {
        PyErr_Format(PyExc_TypeError,
                     "expected a parameter of the kernel, or stream (because launch options are bound), got %R", name);
        return nullptr;
      }
    }
    Replaced replaced(prepared);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] && values[i] != prepared.values[i].ptr()) {
        replaced.set(i, values[i]);
        last = values[i];
      }
    if (last)
      replaced.checkOverlap(last);
    launchBlock(prepared, replaced.block.data(), replaced.arrays, stream, values);
    Py_RETURN_NONE;
  });
}

PyObject *getGrid(PyObject *self, void *) {
  const device::Grid &grid = reinterpret_cast<PreparedObject *>(self)->prepared->record.grid;
  return Py_BuildValue("(iii)", grid.x, grid.y, grid.z);
}

PyObject *getCompiled(PyObject *self, void *) {
  return py::object(reinterpret_cast<PreparedObject *>(self)->prepared->record.compiled.object).release().ptr();
}

int preparedTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (Prepared *prepared = reinterpret_cast<PreparedObject *>(self)->prepared) {
    Py_VISIT(prepared->record.launcher.ptr());
    Py_VISIT(prepared->record.compiled.object.ptr());
    for (py::object &value : prepared->values)
      Py_VISIT(value.ptr());
    Py_VISIT(prepared->named.ptr());
    for (py::object &object : prepared->record.alive)
      Py_VISIT(object.ptr());
  }
  return 0;
}

int preparedClear(PyObject *self) {
  delete std::exchange(reinterpret_cast<PreparedObject *>(self)->prepared, nullptr);
  return 0;
}

void preparedDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject *type = Py_TYPE(self);
  preparedClear(self);
  type->tp_free(self);
  Py_DECREF(type);
}
} // namespace

PyObject *kiln::python::makePrepared(LauncherState &state, PyObject *grid, PyObject *args, PyObject *kwargs) {
  return callGuarded([&]() -> PyObject * {
    llvm::SmallVector<PyObject *, 32> given;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
      given.push_back(PyTuple_GET_ITEM(args, i));
    py::tuple names(PyDict_GET_SIZE(kwargs));
    size_t count = 0;
    for (auto [name, value] : py::reinterpret_borrow<py::dict>(kwargs)) {
      names[count++] = name;
      given.push_back(value.ptr());
    }
    auto prepared = std::make_unique<Prepared>();
    prepared->record = prepareLaunch(state, grid, given.data(), size_t(PyTuple_GET_SIZE(args)), names.ptr(),
                                     prepared->values, prepared->marks, prepared->named);
    prepared->empty = prepared->record.grid.count() == 0;
    if (!canRepeat(*prepared->record.current))
      state.owner.refusePreparing();
    auto *made = PyObject_GC_New(PreparedObject, preparedType);
    if (!made)
      return nullptr;
    made->vectorcall = preparedVectorcall;
    made->prepared = prepared.release();
    PyObject_GC_Track(reinterpret_cast<PyObject *>(made));
    return reinterpret_cast<PyObject *>(made);
  });
}

/// time_driver(count, gap=0): nanoseconds of each of `count` launches by the driver alone: the lower bound of a
/// launch's cost.
static PyObject *timeDriver(PyObject *self, PyObject *arguments) {
  const Prepared &prepared = *reinterpret_cast<PreparedObject *>(self)->prepared;
  return callGuarded([&]() -> PyObject * {
    Py_ssize_t count;
    long long gap = 0;
    if (!PyArg_ParseTuple(arguments, "n|L", &count, &gap))
      return nullptr;
    const LaunchRecord &record = prepared.record;
    device::LaunchRequest request;
    request.grid = record.grid;
    request.arguments = record.block.data();
    request.stream = record.device == onHost ? nullptr : getTorchStream(record.device);
    std::vector<int64_t> times(std::max<Py_ssize_t>(count, 0));
    Status status;
    {
      WithoutLock released;
      status = record.compiled.kernel->timeLaunches(request, gap, times);
    }
    if (!status.ok()) {
      PyErr_SetString(PyExc_RuntimeError, status.getMessage().c_str());
      return nullptr;
    }
    py::list list(times.size());
    for (size_t i = 0; i < times.size(); ++i)
      list[i] = py::int_(times[i]);
    return list.release().ptr();
  });
}

void kiln::python::bindPrepared(py::module_ &m) {
  static PyMethodDef methods[] = {
      {"time_driver", timeDriver, METH_VARARGS,
       "time_driver(count, gap=0): nanoseconds of launches by the driver alone, one by one, gap ns apart"},
      {}};
  static PyGetSetDef properties[] = {{"grid", getGrid, nullptr, "the program instances in three dimensions", nullptr},
                                     {"compiled", getCompiled, nullptr, "the CompiledKernel that runs", nullptr},
                                     {}};
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(PreparedObject, vectorcall), READONLY, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(preparedDealloc)},
                                {Py_tp_traverse, reinterpret_cast<void *>(preparedTraverse)},
                                {Py_tp_clear, reinterpret_cast<void *>(preparedClear)},
                                {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "kiln._kiln.Prepared", sizeof(PreparedObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  preparedType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  if (!preparedType)
    throw py::error_already_set();
  m.add_object("Prepared", reinterpret_cast<PyObject *>(preparedType));
}
