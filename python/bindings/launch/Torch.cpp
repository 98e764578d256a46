// libtorch's C interface, found at run time.
#include "python/bindings/launch/Torch.h"
#include "python/bindings/Interpreter.h"
#include "llvm/ADT/DenseMap.h"
#include <dlfcn.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using artifact::ElementType;

namespace {
/// A handle is the address of an at::Tensor, which is one pointer.
using Handle = void *;

struct Library {
  int32_t (*getData)(Handle, void **) = nullptr;
  int32_t (*getType)(Handle, int32_t *) = nullptr;
  int32_t (*getDeviceType)(Handle, int32_t *) = nullptr;
  int32_t (*getDeviceIndex)(Handle, int32_t *) = nullptr;
  int32_t (*getStorageOffset)(Handle, int64_t *) = nullptr;
  int32_t (*getStorageBytes)(Handle, int64_t *) = nullptr;
  int32_t (*getLayout)(Handle, int32_t *) = nullptr;
  int32_t (*getRank)(Handle, int64_t *) = nullptr;
  int32_t (*getSizes)(Handle, int64_t **) = nullptr;
  int32_t (*getStrides)(Handle, int64_t **) = nullptr;
  // Of the C++ interface, which promises nothing: null where it is another. A reference is an address like a handle.
  bool (*isNegated)(Handle) = nullptr;
  bool (*isInference)(Handle) = nullptr;
  void (*bumpVersion)(Handle) = nullptr;
  int64_t (*countModes)() = nullptr;
  bool (*recordsGradients)() = nullptr;
  bool (*requiresGradient)(const void *implementation) = nullptr;
  int32_t (*makeEmpty)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, Handle *) = nullptr;
  int32_t (*drop)(Handle) = nullptr;
  int64_t (*countFunctionModes)() = nullptr;
  PyObject *(*wrap)(Handle) = nullptr; ///< takes a reference, or a value, which is passed by reference too
  int32_t strided = -1;
  int32_t cpu = -1, cuda = -1;
  static constexpr int maxTypes = 64;
  int8_t elements[maxTypes]; ///< by torch's number of the type; -1: none of ours
  bool complete = false;

  Library() {
    std::fill(std::begin(elements), std::end(elements), -1);
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
      return;
    auto find = [&](const char *name, auto &function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    bool found = find("aoti_torch_get_data_ptr", getData) && find("aoti_torch_get_dtype", getType) &&
                 find("aoti_torch_get_device_type", getDeviceType) &&
                 find("aoti_torch_get_device_index", getDeviceIndex) &&
                 find("aoti_torch_get_storage_offset", getStorageOffset) &&
                 find("aoti_torch_get_storage_size", getStorageBytes) && find("aoti_torch_get_layout", getLayout);
    int32_t (*number)() = nullptr;
    found = found && find("aoti_torch_layout_strided", number);
    if (!found)
      return;
    strided = number();
    if (!find("aoti_torch_device_type_cpu", number))
      return;
    cpu = number();
    if (find("aoti_torch_device_type_cuda", number))
      cuda = number();
    static constexpr std::pair<const char *, ElementType> types[] = {
        {"bool", ElementType::I1},          {"int8", ElementType::I8},
        {"int16", ElementType::I16},        {"int32", ElementType::I32},
        {"int64", ElementType::I64},        {"uint8", ElementType::U8},
        {"uint16", ElementType::U16},       {"uint32", ElementType::U32},
        {"uint64", ElementType::U64},       {"float16", ElementType::FP16},
        {"bfloat16", ElementType::BF16},    {"float32", ElementType::FP32},
        {"float64", ElementType::FP64},     {"float8_e4m3fn", ElementType::FP8E4NV},
        {"float8_e5m2", ElementType::FP8E5}};
    for (auto [name, element] : types)
      if (find((std::string("aoti_torch_dtype_") + name).c_str(), number) && number() >= 0 && number() < maxTypes)
        elements[number()] = int8_t(element);
    bool view = find("aoti_torch_get_dim", getRank) && find("aoti_torch_get_sizes", getSizes) &&
                find("aoti_torch_get_strides", getStrides);
    complete = find("_ZN2at6native6is_negERKNS_6TensorE", isNegated) && view;
    find("_ZN2at6native12is_inferenceERKNS_6TensorE", isInference);
    find("_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", bumpVersion);
    find("aoti_torch_empty_strided", makeEmpty);
    find("aoti_torch_delete_tensor_object", drop);
    find("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", countFunctionModes);
    if (void *python = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD))
      for (const char *name : {"_Z16THPVariable_WrapRKN2at10TensorBaseE", "_Z16THPVariable_WrapN2at10TensorBaseE"})
        if (!wrap)
          wrap = reinterpret_cast<PyObject *(*)(Handle)>(dlsym(python, name));
    if ((library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD))) {
      find("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", countModes);
      find("_ZN3c108GradMode10is_enabledEv", recordsGradients);
      find("_ZNK3c1010TensorImpl13requires_gradEv", requiresGradient);
    }
  }
};

const Library &getLibrary() {
  static auto *library = new Library;
  return *library;
}

/// Where an object of this class holds its at::Tensor, in bytes from its start; 0 if that is not to be found or the
/// class has a say in what its tensors are (torch.Tensor and nn.Parameter have none).
unsigned findTensorOffset(PyObject *tensor) {
  PyTypeObject *type = Py_TYPE(tensor);
  if (strcmp(type->tp_name, "Tensor") != 0 && strcmp(type->tp_name, "Parameter") != 0)
    return 0;
  py::object module =
      py::reinterpret_steal<py::object>(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  py::object address = py::reinterpret_steal<py::object>(PyObject_GetAttrString(tensor, "_cdata"));
  PyErr_Clear();
  if (!module || !PyUnicode_Check(module.ptr()) || !address || !PyLong_Check(address.ptr()))
    return 0;
  const char *name = PyUnicode_AsUTF8(module.ptr());
  void *implementation = PyLong_AsVoidPtr(address.ptr());
  PyErr_Clear();
  if (!name || strncmp(name, "torch", 5) != 0 || !implementation)
    return 0;
  for (Py_ssize_t offset = sizeof(PyObject); offset + Py_ssize_t(sizeof(void *)) <= type->tp_basicsize; offset += 8)
    if (*reinterpret_cast<void **>(reinterpret_cast<char *>(tensor) + offset) == implementation)
      return unsigned(offset);
  return 0;
}

/// An attribute of torch._C, if torch is imported; borrowed for ever.
PyObject *findTorchFunction(const char *name) {
  PyObject *torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._C");
  PyObject *function = torch ? PyObject_GetAttrString(torch, name) : nullptr;
  PyErr_Clear();
  return function;
}
} // namespace

/// The tensor's handle; null where it must be asked through Python.
static Handle findHandle(PyObject *tensor) {
  static auto &offsets = *new llvm::DenseMap<PyTypeObject *, unsigned>;
  PyTypeObject *type = Py_TYPE(tensor);
  auto entry = offsets.find(type);
  if (entry == offsets.end()) {
    Py_INCREF(type); // the table's
    entry = offsets.try_emplace(type, findTensorOffset(tensor)).first;
  }
  return entry->second ? reinterpret_cast<char *>(tensor) + entry->second : nullptr;
}

static bool readKind(const Library &library, Handle handle, artifact::ElementType &element, int &device) {
  int32_t number, kind, index;
  if (library.getType(handle, &number) || number < 0 || number >= Library::maxTypes || library.elements[number] < 0 ||
      library.getDeviceType(handle, &kind) || (kind != library.cpu && kind != library.cuda))
    return false;
  element = ElementType(library.elements[number]);
  device = -1;
  if (kind != library.cpu) {
    if (library.getDeviceIndex(handle, &index))
      return false;
    device = index;
  }
  return true;
}

bool kiln::python::readTorchKind(PyObject *tensor, TorchKind &result) {
  static const Library &library = getLibrary();
  Handle handle = library.complete ? findHandle(tensor) : nullptr;
  return handle && readKind(library, handle, result.element, result.device);
}

void *kiln::python::findTorchHandle(PyObject *tensor) { return getLibrary().complete ? findHandle(tensor) : nullptr; }

bool kiln::python::readTorchMemory(void *handle, TorchMemory &result) {
  static const Library &library = getLibrary();
  int32_t layout;
  int64_t offset, bytes;
  if (library.getLayout(handle, &layout) || layout != library.strided || library.isNegated(handle) ||
      !readKind(library, handle, result.element, result.device))
    return false;
  if (library.getData(handle, &result.address) || library.getStorageOffset(handle, &offset) ||
      library.getStorageBytes(handle, &bytes))
    return false;
  result.begin = reinterpret_cast<uintptr_t>(result.address) - uintptr_t(offset) * artifact::getBytes(result.element);
  result.end = result.begin + uintptr_t(bytes);
  return true;
}

std::optional<TorchLikeness> kiln::python::findTorchLikeness(void *handle) {
  const Library &library = getLibrary();
  TorchMemory memory;
  TorchLikeness like;
  if (!library.complete || !readTorchMemory(handle, memory) || library.getType(handle, &like.type) ||
      library.getDeviceType(handle, &like.kind) || library.getDeviceIndex(handle, &like.index))
    return std::nullopt;
  like.bytes = artifact::getBytes(memory.element);
  return like;
}

bool kiln::python::readTorchLike(void *handle, const TorchLikeness &like, TorchPlace &place) {
  static const Library &library = getLibrary();
  int32_t number;
  int64_t offset, bytes;
  void *address;
  if (library.getType(handle, &number) || number != like.type || library.getDeviceType(handle, &number) ||
      number != like.kind)
    return false;
  // There is one CPU, by whatever index.
  if (number != library.cpu && (library.getDeviceIndex(handle, &number) || number != like.index))
    return false;
  if (library.getLayout(handle, &number) || number != library.strided || library.isNegated(handle) ||
      library.getData(handle, &address) || library.getStorageOffset(handle, &offset) ||
      library.getStorageBytes(handle, &bytes))
    return false;
  place.address = reinterpret_cast<uintptr_t>(address);
  place.begin = place.address - uintptr_t(offset) * like.bytes;
  place.end = place.begin + uintptr_t(bytes);
  return true;
}

/// What the sizes and strides reach.
static bool readView(const Library &library, Handle handle, TorchTensor &result) {
  int64_t *sizes, *strides;
  if (library.getRank(handle, &result.rank) || library.getSizes(handle, &sizes) || library.getStrides(handle, &strides))
    return false;
  result.sizes = sizes;
  result.strides = strides;
  result.hasView = true;
  uintptr_t bytes = artifact::getBytes(result.element);
  result.viewBegin = reinterpret_cast<uintptr_t>(result.address);
  result.viewEnd = result.viewBegin + bytes;
  for (int64_t i = 0; i < result.rank; ++i) {
    if (sizes[i] == 0) {
      result.viewEnd = result.viewBegin;
      break;
    }
    result.viewEnd += uintptr_t((sizes[i] - 1) * strides[i]) * bytes;
  }
  return true;
}

bool kiln::python::isWhole(void *handle, const TorchMemory &memory) {
  TorchTensor tensor;
  static_cast<TorchMemory &>(tensor) = memory;
  return readView(getLibrary(), handle, tensor) && tensor.viewEnd <= tensor.end;
}

bool kiln::python::isWhole(void *handle, const TorchPlace &place, ElementType element) {
  TorchMemory memory;
  memory.address = reinterpret_cast<void *>(place.address);
  memory.element = element;
  memory.begin = place.begin;
  memory.end = place.end;
  return isWhole(handle, memory);
}

bool kiln::python::readTorchTensor(PyObject *tensor, TorchTensor &result) {
  void *handle = findTorchHandle(tensor);
  return handle && readTorchMemory(handle, result) && readView(getLibrary(), handle, result);
}

std::optional<TorchSpec> kiln::python::readTorchSpec(PyObject *tensor) {
  const Library &library = getLibrary();
  void *handle = findTorchHandle(tensor);
  TorchSpec spec;
  int64_t rank, *sizes, *strides;
  if (!handle || library.getType(handle, &spec.type) || library.getDeviceType(handle, &spec.kind) ||
      library.getDeviceIndex(handle, &spec.index) || library.getRank(handle, &rank) ||
      library.getSizes(handle, &sizes) || library.getStrides(handle, &strides))
    return std::nullopt;
  spec.sizes.assign(sizes, sizes + rank);
  spec.strides.assign(strides, strides + rank);
  return spec;
}

PyObject *kiln::python::makeTorch(const TorchSpec &spec) {
  static const Library &library = getLibrary();
  // Modes that are written in Python are to see the call.
  if (!library.makeEmpty || !library.drop || !library.wrap || !library.countFunctionModes ||
      library.countFunctionModes())
    return nullptr;
  Handle made = nullptr;
  int32_t failed;
  {
    WithoutLock released; // memory may have to be waited for
    failed = library.makeEmpty(int64_t(spec.sizes.size()), spec.sizes.data(), spec.strides.data(), spec.type, spec.kind,
                               spec.index, &made);
  }
  if (failed)
    return nullptr;
  PyObject *wrapped = library.wrap(made);
  library.drop(made);
  if (!wrapped)
    PyErr_Clear();
  return wrapped;
}

bool kiln::python::readTorchState(TorchState &state) {
  static const Library &library = getLibrary();
  if (!library.countModes || !library.recordsGradients)
    return false;
  state = {library.countModes() != 0, library.recordsGradients()};
  return true;
}

std::optional<bool> kiln::python::requiresGradient(PyObject *tensor) {
  static const Library &library = getLibrary();
  Handle handle = library.requiresGradient ? findHandle(tensor) : nullptr;
  if (!handle)
    return std::nullopt;
  return library.requiresGradient(*static_cast<void *const *>(handle));
}

bool kiln::python::countTorchWrite(void *handle) {
  static const Library &library = getLibrary();
  if (!library.bumpVersion || !library.isInference)
    return false;
  // Tensors of inference mode have no count.
  if (!library.isInference(handle))
    library.bumpVersion(handle);
  return true;
}

void kiln::python::countWrite(PyObject *tensor) {
  Handle handle = findHandle(tensor);
  if (handle && countTorchWrite(handle))
    return;
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.autograd.graph");
  if (module)
    Py_XDECREF(PyObject_CallMethod(module, "increment_version", "O", tensor));
  PyErr_Clear(); // no tensor of torch's own, or a torch that does not count so
}

void *kiln::python::getTorchStream(int device) {
  static int32_t (*direct)(int32_t, void **) = nullptr;
  static PyObject *method = nullptr;
  if (!direct && !method) {
    // Until torch has begun to use CUDA it has no stream but the legacy one; it may be imported between two launches.
    static PyObject *name = PyUnicode_InternFromString("torch.cuda");
    PyObject *module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    if (!module)
      return nullptr;
    py::object begun = py::reinterpret_steal<py::object>(PyObject_CallMethod(module, "is_initialized", nullptr));
    PyErr_Clear();
    if (begun.ptr() != Py_True)
      return nullptr;
    if (void *library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD))
      direct = reinterpret_cast<int32_t (*)(int32_t, void **)>(dlsym(library, "aoti_torch_get_current_cuda_stream"));
    if (!direct)
      method = findTorchFunction("_cuda_getCurrentRawStream");
    if (!direct && !method)
      return nullptr;
  }
  void *stream = nullptr;
  if (direct)
    return direct(device, &stream) ? nullptr : stream;
  py::object answer = py::reinterpret_steal<py::object>(PyObject_CallFunction(method, "i", device));
  if (answer)
    stream = PyLong_AsVoidPtr(answer.ptr());
  PyErr_Clear();
  return stream;
}
