// The memory of an array, as described by its library: numpy by its object, torch by its methods, others by
// `__array_interface__` or DLPack.
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include "runtime/device/CudaDevice.h"
#include "llvm/Support/FormatVariadic.h"
#include <pybind11/numpy.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using artifact::ElementType;
using launch::ParameterRule;

namespace {
// DLPack's structures, as laid out in its specification.
struct DLTensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byteOffset;
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t dlpackReadOnly = 1;
} // namespace

static const char *const knownElementTypes =
    "bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2 in the "
    "machine's byte order";

void kiln::python::setBounds(uintptr_t address, int rank, const int64_t *shape, const int64_t *byteStrides,
                             int64_t itemBytes, uintptr_t &begin, uintptr_t &end) {
  begin = address;
  end = address + itemBytes;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] == 0) {
      end = begin = address;
      return;
    }
    int64_t span = (shape[i] - 1) * byteStrides[i];
    (span < 0 ? begin : end) += span;
  }
}

/// The array that owns the memory, found through views, as_strided's holder objects and subclasses.
static py::object getOwner(PyObject *array) {
  py::object owner = py::reinterpret_borrow<py::object>(array);
  for (;;) {
    py::object base = getOptionalAttribute(owner.ptr(), "base");
    while (base && !base.is_none() && classify(base.ptr()) != ValueClass::NumpyArray)
      base = getOptionalAttribute(base.ptr(), "base");
    if (!base || base.is_none())
      return owner;
    owner = base;
  }
}

bool ArgumentReader::readNumpy(PyObject *value, Memory &memory) {
  const auto *array = py::detail::array_proxy(value);
  std::optional<ElementType> element = getElementType(array->descr);
  if (!element)
    return fail(llvm::formatv("expected an array of {0}, got one of {1}", knownElementTypes, getText(array->descr)));
  memory.element = *element;
  memory.address = array->data;
  memory.writable = array->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  if (collectExtents) {
    py::object owner = getOwner(value);
    const auto *whole = py::detail::array_proxy(owner.ptr());
    int64_t itemBytes = owner.attr("itemsize").cast<int64_t>();
    setBounds(reinterpret_cast<uintptr_t>(whole->data), whole->nd, reinterpret_cast<const int64_t *>(whole->dimensions),
              reinterpret_cast<const int64_t *>(whole->strides), itemBytes, memory.begin, memory.end);
    setBounds(reinterpret_cast<uintptr_t>(array->data), array->nd, reinterpret_cast<const int64_t *>(array->dimensions),
              reinterpret_cast<const int64_t *>(array->strides), artifact::getBytes(*element), memory.viewBegin,
              memory.viewEnd);
    return true;
  }
  // This runs at every launch, so only cheap checks: views of another element type, or of memory that belongs to no
  // array, stay unknown.
  const auto *whole = array;
  while (whole->base && whole->descr == array->descr && classify(whole->base) == ValueClass::NumpyArray)
    whole = py::detail::array_proxy(whole->base);
  if (!whole->base && whole->descr == array->descr)
    setBounds(reinterpret_cast<uintptr_t>(whole->data), whole->nd, reinterpret_cast<const int64_t *>(whole->dimensions),
              reinterpret_cast<const int64_t *>(whole->strides), artifact::getBytes(*element), memory.begin,
              memory.end);
  return true;
}

/// The number of elements according to torch tensors and similar classes; negative if they do not tell.
static int64_t countElements(PyObject *value) {
  py::object number = hasAttribute(value, "numel") ? py::handle(value).attr("numel")() : py::none();
  if (PyLong_Check(number.ptr()))
    return number.cast<int64_t>();
  llvm::SmallVector<int64_t> shape;
  py::object sides = getOptionalAttribute(value, "shape");
  if (!sides || !PySequence_Check(sides.ptr()) || !readIntegers(sides, shape)) {
    PyErr_Clear();
    return -1;
  }
  int64_t count = 1;
  for (int64_t side : shape)
    count *= side;
  return count;
}

bool ArgumentReader::readTorch(PyObject *value, Memory &memory) {
  TorchTensor tensor;
  memory.tensor = value;
  if (!readTorchTensor(value, tensor))
    return refuseTorch(value) && readTorchSlowly(value, memory);
  if (tensor.hasView) {
    memory.viewBegin = tensor.viewBegin;
    memory.viewEnd = tensor.viewEnd;
    // A storage may have been shrunk, or freed, while it still has tensors.
    memory.missing = tensor.viewBegin != tensor.viewEnd && (tensor.viewEnd > tensor.end || !tensor.address);
  }
  memory.element = tensor.element;
  memory.address = tensor.address;
  memory.device = tensor.device;
  if (tensor.address) {
    memory.begin = tensor.begin;
    memory.end = tensor.end;
  } else {
    memory.end = 0;
    if (memory.device == onHost)
      memory.device = onNothing;
  }
  return true;
}

/// Refuses tensors whose memory does not hold their values the way a kernel would read them.
bool ArgumentReader::refuseTorch(PyObject *value) {
  py::object layout = getOptionalAttribute(value, "layout");
  if (layout && !layout.is_none() && getText(layout.ptr()) != "torch.strided")
    return fail(llvm::formatv("expected a dense tensor (because a kernel reads its memory), got one of layout {0}",
                              getText(layout.ptr())),
                "pass x.to_dense()");
  for (auto [method, bit, likelyFix] :
       {std::tuple("is_neg", "negative", "pass x.resolve_neg()"), {"is_conj", "conjugate", "pass x.resolve_conj()"}}) {
    py::object set = hasAttribute(value, method) ? py::handle(value).attr(method)() : py::none();
    if (set.ptr() == Py_True)
      return fail(
          llvm::formatv("expected a tensor whose memory holds its values, got a view with the {0} bit set", bit),
          likelyFix);
  }
  return true;
}

/// Through Python: other classes of tensors, other versions of torch, and wrappers that have an address and a type.
bool ArgumentReader::readTorchSlowly(PyObject *value, Memory &memory) {
  static PyObject *dataPtr = PyUnicode_InternFromString("data_ptr");
  static PyObject *dtypeName = PyUnicode_InternFromString("dtype");
  static PyObject *isCpuName = PyUnicode_InternFromString("is_cpu");
  py::object isCpu = py::reinterpret_steal<py::object>(PyObject_GetAttr(value, isCpuName));
  if (!isCpu)
    PyErr_Clear(); // not one of torch's own; it may have a device all the same
  py::object device = isCpu.ptr() == Py_True ? py::object() : getOptionalAttribute(value, "device");
  py::object kind = device ? getOptionalAttribute(device.ptr(), "type") : py::object();
  std::string where = kind ? getText(kind.ptr()) : "";
  py::object index = where == "cuda" ? getOptionalAttribute(device.ptr(), "index") : py::object();
  bool numbered = index && PyLong_Check(index.ptr());
  if (numbered)
    memory.device = index.cast<int>();
  else if (isCpu.ptr() == Py_False)
    return fail(llvm::formatv("expected a tensor on the CPU or a CUDA device, got one on {0}",
                              device ? getText(device.ptr()) : "?"),
                "move it with .cpu() or .cuda()");
  py::object dtype = py::reinterpret_steal<py::object>(PyObject_GetAttr(value, dtypeName));
  if (!dtype)
    return fail("");
  std::optional<ElementType> element = getElementType(dtype.ptr());
  if (!element)
    return fail(llvm::formatv("expected a tensor of {0}, got one of {1}", knownElementTypes, getText(dtype.ptr())));
  memory.element = *element;
  // A fake tensor must not be asked for its address: torch objects.
  if (llvm::StringRef(Py_TYPE(value)->tp_name) != "FakeTensor") {
    py::object address = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(value, dataPtr));
    if (address)
      memory.address = PyLong_AsVoidPtr(address.ptr());
    else if (PyErr_ExceptionMatches(PyExc_RuntimeError))
      PyErr_Clear(); // torch: there is no storage
  }
  if (PyErr_Occurred())
    return fail("");
  if (!memory.address) {
    memory.missing = countElements(value) != 0;
    memory.end = 0; // it is empty, or only stands for its type
    if (memory.device == onHost)
      memory.device = onNothing;
  }
  // Wrappers may return themselves here, for callers that only want the address.
  py::object storage;
  if (memory.address && hasAttribute(value, "untyped_storage"))
    storage = py::handle(value).attr("untyped_storage")();
  if (storage && hasAttribute(storage.ptr(), "nbytes")) {
    memory.begin = storage.attr("data_ptr")().cast<uintptr_t>();
    memory.end = memory.begin + storage.attr("nbytes")().cast<uintptr_t>();
  } else if (collectExtents) {
    memory.begin = reinterpret_cast<uintptr_t>(memory.address);
    py::object bytes = getOptionalAttribute(value, "nbytes");
    // If a wrapper does not know its size, nothing can be checked: everything from its address on counts as inside.
    memory.end = bytes && PyLong_Check(bytes.ptr()) ? memory.begin + bytes.cast<uintptr_t>() : UINTPTR_MAX;
  }
  if (!isCpu && !numbered && where != "cpu" &&
      memory.address) // ask the driver, if there is one: it knows its own memory
    if (std::optional<int> found = device::findDeviceOf(memory.address))
      memory.device = *found;
  return true;
}

static std::optional<ElementType> parseTypeString(llvm::StringRef text) {
  if (text.size() < 3 || text[0] == '>')
    return std::nullopt;
  unsigned bytes;
  if (text.drop_front(2).getAsInteger(10, bytes))
    return std::nullopt;
  switch (text[1]) {
  case 'b':
    return bytes == 1 ? std::optional(ElementType::I1) : std::nullopt;
  case 'f':
    return artifact::parseElementType("fp" + std::to_string(8 * bytes));
  case 'i':
  case 'u':
    return artifact::parseElementType(text[1] + std::to_string(8 * bytes));
  default:
    return std::nullopt;
  }
}

/// Reads element type, address and bounds, which both kinds of array interface describe in the same way.
bool ArgumentReader::readInterfaceShape(const py::dict &interface, Memory &memory) {
  py::object data = interface.contains("data") ? py::object(interface["data"]) : py::none();
  if (!py::isinstance<py::tuple>(data))
    return fail("expected an array interface that gives the address of its data, got one that does not");
  memory.address = PyLong_AsVoidPtr(data[py::int_(0)].ptr());
  memory.writable = !data[py::int_(1)].cast<bool>();
  if (!collectExtents && memory.device == onHost)
    return true;
  llvm::SmallVector<int64_t> shape, strides;
  int64_t bytes = artifact::getBytes(memory.element);
  if (!readIntegers(interface["shape"], shape))
    return fail("");
  py::object given = interface.contains("strides") ? py::object(interface["strides"]) : py::none();
  if (!given.is_none() && !readIntegers(given, strides))
    return fail("");
  if (given.is_none()) {
    strides.resize(shape.size());
    int64_t stride = bytes;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
      strides[i] = stride;
  }
  // The bounds of the view suffice for the checks; its storage may be larger.
  if (collectExtents)
    setBounds(reinterpret_cast<uintptr_t>(memory.address), shape.size(), shape.data(), strides.data(), bytes,
              memory.begin, memory.end);
  return true;
}

/// The element type of `typestr`; that of the object's dtype if numpy has no letter for it.
static std::optional<ElementType> readInterfaceType(PyObject *value, const py::dict &interface) {
  std::optional<ElementType> element = parseTypeString(interface["typestr"].cast<std::string>());
  if (!element)
    if (py::object dtype = getOptionalAttribute(value, "dtype"))
      element = getElementType(dtype.ptr());
  return element;
}

bool ArgumentReader::readInterface(PyObject *value, Memory &memory) {
  py::dict interface = py::handle(value).attr("__array_interface__");
  std::optional<ElementType> element = readInterfaceType(value, interface);
  if (!element)
    return fail(llvm::formatv("expected an array of {0}, got one of {1}", knownElementTypes,
                              interface["typestr"].cast<std::string>()));
  memory.element = *element;
  return readInterfaceShape(interface, memory);
}

/// Why GPU addresses cannot be checked here: ": no CUDA driver …"; empty with a driver.
static std::string explainNoDriver() {
  ErrorOr<const device::CudaDriver *> driver = device::CudaDriver::get();
  return driver.ok() ? "" : ": " + driver.getStatus().getMessage();
}

bool ArgumentReader::readCudaInterface(PyObject *value, Memory &memory) {
  py::dict interface = py::handle(value).attr("__cuda_array_interface__");
  std::optional<ElementType> element = readInterfaceType(value, interface);
  if (!element)
    return fail(llvm::formatv("expected an array of {0}, got one of {1}", knownElementTypes,
                              interface["typestr"].cast<std::string>()));
  memory.element = *element;
  if (!readInterfaceShape(interface, memory))
    return false;
  if (!memory.address) {
    memory.end = 0;
    memory.device = onNothing;
    return true;
  }
  std::optional<int> device = device::findDeviceOf(memory.address, /*start=*/true);
  if (!device)
    return fail(llvm::formatv("expected an array in memory that this machine's driver knows, got {0} in GPU memory at "
                              "address {1:x}{2}",
                              getTypeName(value), reinterpret_cast<uintptr_t>(memory.address), explainNoDriver()));
  memory.device = *device;
  // The producer's queued work must end before the kernel starts; 1 is the legacy stream, as in the driver.
  py::object stream = interface.contains("stream") ? py::object(interface["stream"]) : py::none();
  if (PyLong_Check(stream.ptr()))
    producers.push_back({*device, PyLong_AsVoidPtr(stream.ptr())});
  return true;
}

static std::optional<ElementType> parseDlpackType(const DLTensor &tensor) {
  if (tensor.lanes != 1)
    return std::nullopt;
  std::string bits = std::to_string(tensor.bits);
  switch (tensor.code) {
  case 0:
    return artifact::parseElementType("i" + bits);
  case 1:
    return artifact::parseElementType("u" + bits);
  case 2:
    return artifact::parseElementType("fp" + bits);
  case 4:
    return tensor.bits == 16 ? std::optional(ElementType::BF16) : std::nullopt;
  case 6:
    return tensor.bits == 8 ? std::optional(ElementType::I1) : std::nullopt;
  case 10:
    return ElementType::FP8E4NV;
  case 12:
    return ElementType::FP8E5;
  default:
    return std::nullopt;
  }
}

bool ArgumentReader::readDlpack(PyObject *value, Memory &memory) {
  constexpr int cpu = 1, cuda = 2, pinned = 3, managed = 13;
  py::object capsule;
  if (hasAttribute(value, "__dlpack_device__")) {
    py::tuple device = py::handle(value).attr("__dlpack_device__")();
    int type = py::int_(py::object(device[0])).cast<int>();
    if (type != cpu && type != pinned && type != cuda && type != managed)
      return fail(
          llvm::formatv("expected an array on the CPU or a CUDA device, got one on another device (DLPack device "
                        "type {0})",
                        type),
          "copy it to the CPU first");
    if (type == cuda || type == managed) {
      memory.device = py::int_(py::object(device[1])).cast<int>();
      // The producer makes this stream wait for its queued work; 1 stands for the legacy stream.
      auto stream = reinterpret_cast<intptr_t>(getTorchStream(memory.device));
      capsule = py::handle(value).attr("__dlpack__")(py::arg("stream") = stream ? stream : 1);
    }
  }
  // The capsule is not consumed: dropping it after the launch lets its producer clean up.
  if (!capsule)
    capsule = py::handle(value).attr("__dlpack__")();
  const DLTensor *tensor = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    tensor = static_cast<const DLTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto *managed =
        static_cast<const DLManagedTensorVersioned *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->major != 1)
      return fail(llvm::formatv("expected a DLPack capsule of version 1, got version {0}", managed->major));
    memory.writable = !(managed->flags & dlpackReadOnly);
    tensor = &managed->tensor;
  } else {
    return fail("expected __dlpack__ to give a DLPack capsule, got something else");
  }
  alive.push_back(capsule);
  std::optional<ElementType> element = parseDlpackType(*tensor);
  if (!element)
    return fail(llvm::formatv("expected an array of {0}, got DLPack type code {1} of {2} bits", knownElementTypes,
                              int(tensor->code), int(tensor->bits)));
  memory.element = *element;
  memory.address = static_cast<char *>(tensor->data) + tensor->byteOffset;
  if (collectExtents) {
    llvm::SmallVector<int64_t> strides(tensor->rank);
    int64_t bytes = artifact::getBytes(*element), stride = bytes;
    for (int i = tensor->rank; i-- > 0;) {
      strides[i] = tensor->strides ? tensor->strides[i] * bytes : stride;
      stride *= tensor->shape[i];
    }
    setBounds(reinterpret_cast<uintptr_t>(memory.address), tensor->rank, tensor->shape, strides.data(), bytes,
              memory.begin, memory.end);
  }
  return true;
}

bool ArgumentReader::readArray(PyObject *value, Memory &memory) {
  try {
    switch (classify(value)) {
    case ValueClass::NumpyArray:
      return readNumpy(value, memory);
    case ValueClass::TorchTensor:
      return readTorch(value, memory);
    case ValueClass::Interface:
      return readInterface(value, memory);
    case ValueClass::Dlpack:
      return readDlpack(value, memory);
    case ValueClass::CudaArray:
      return readCudaInterface(value, memory);
    default:
      return fail(llvm::formatv("expected an array, got {0}", getTypeName(value)));
    }
  } catch (py::error_already_set &error) {
    error.restore();
    return false;
  } catch (py::cast_error &error) {
    return fail(llvm::formatv("expected an array that describes its memory, got {0} that does not: {1}",
                              getTypeName(value), error.what()));
  }
}

bool ArgumentReader::addAddress(PyObject *value, const void *&address) {
  Memory memory;
  if (!readArray(value, memory) || !finishArray(ParameterRule(), memory))
    return false;
  address = memory.address;
  return true;
}

bool ArgumentReader::finishArray(const ParameterRule &rule, const Memory &memory) {
  uintptr_t address = reinterpret_cast<uintptr_t>(memory.address);
  unsigned bytes = artifact::getBytes(memory.element);
  if (address % bytes)
    return fail(llvm::formatv("expected data aligned to its element type ({0}, {1} bytes), got address {2:x}",
                              artifact::getName(memory.element), bytes, address),
                "pass a copy");
  bool view = memory.viewBegin <= memory.viewEnd && !placement.stage;
  if (collectExtents)
    extents.push_back(
        {rule.name, view ? memory.viewBegin : memory.begin, view ? memory.viewEnd : memory.end, memory.writable});
  if (memory.missing && !dataless)
    dataless = parameter;
  tensors.push_back(memory.tensor);
  if (!memory.writable)
    readOnly.push_back(storages.size());
  devices.push_back(memory.device);
  addresses.push_back(memory.address);
  parameters.push_back(parameter);
  storages.push_back({memory.begin, memory.end});
  return true;
}

static std::string describePlace(int device) {
  return device == onHost ? "host memory" : "CUDA device " + std::to_string(device);
}

bool ArgumentReader::resolveDevice(int &device) {
  device = placement.cuda ? onNothing : onHost;
  int first = -1; // the first array on a GPU, which decides
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] >= 0) {
      if (first < 0) {
        first = int(i);
        device = devices[i];
      } else if (devices[i] != device) {
        culprit = parameters[i];
        return fail(
            llvm::formatv("expected arrays on one device (because an array before it is on {0}), got one on {1}",
                          describePlace(device), describePlace(devices[i])));
      }
    }
  // Only launches whose arrays are all on the host are staged: mixing them with arrays on a GPU is an error as always.
  if (device == onHost || (placement.stage && first < 0))
    return true;
  for (size_t i = 0; i < devices.size(); ++i) {
    // Pinned memory belongs to the driver: a GPU can access it at the same address.
    if (devices[i] != onHost || device::isPinned(addresses[i]))
      continue;
    culprit = parameters[i];
    if (first >= 0)
      return fail(llvm::formatv("expected an array on {0} (because other arrays of this launch are there), got one in "
                                "host memory",
                                describePlace(device)),
                  "copy it to that device: x.cuda() for a tensor of torch");
    return fail("expected an array on a CUDA device (because KILN_TARGET is a GPU), got one in host memory",
                "copy it to a device (x.cuda() for a tensor of torch), or set KILN_STAGE_ARRAYS=1 to have it copied "
                "there and back");
  }
  return true;
}

bool ArgumentReader::haveData() {
  if (!dataless)
    return true;
  culprit = *dataless;
  return fail("expected an array with data, got one without (a fake tensor, one that only stands for its type, or one "
              "whose storage was made smaller)");
}

void ArgumentReader::countWrites(const artifact::Metadata &metadata) const {
  unsigned array = 0;
  for (const artifact::ArgumentSpec &argument : metadata.arguments) {
    if (argument.kind != artifact::ArgumentKind::Pointer)
      continue;
    PyObject *tensor = tensors[array++];
    if (tensor && argument.written)
      countWrite(tensor);
  }
}

llvm::StringRef ArgumentReader::findReadOnly(const artifact::Metadata &metadata) const {
  unsigned array = 0;
  for (const artifact::ArgumentSpec &argument : metadata.arguments)
    if (argument.kind == artifact::ArgumentKind::Pointer && llvm::is_contained(readOnly, array++) && argument.written)
      return argument.name;
  return {};
}

llvm::SmallVector<bool, 16> kiln::python::findDisjoint(llvm::ArrayRef<std::pair<uintptr_t, uintptr_t>> storages) {
  llvm::SmallVector<unsigned, 16> order;
  for (unsigned i = 0; i < storages.size(); ++i)
    if (storages[i].first < storages[i].second) // not empty
      order.push_back(i);
  llvm::sort(order, [&](unsigned a, unsigned b) { return storages[a] < storages[b]; });
  llvm::SmallVector<bool, 16> disjoint(storages.size(), true);
  uintptr_t end = 0;
  unsigned furthest = 0; // the array that reaches `end`
  for (unsigned i : order) {
    auto [from, to] = storages[i];
    if (from < end)
      disjoint[i] = disjoint[furthest] = false;
    if (to > end) {
      end = to;
      furthest = i;
    }
  }
  return disjoint;
}
