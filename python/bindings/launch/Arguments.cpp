// Classifying and encoding Python values. A type is looked at once, by its attributes, and remembered; after that a value
// costs a table lookup and the reads that its class needs. No library is imported: its types come with its values.
#include "python/bindings/launch/Arguments.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/FormatVariadic.h"
#include <pybind11/numpy.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using artifact::ElementType;
using launch::CallEncoder;
using launch::ParameterRule;

namespace {
enum class ValueClass : uint8_t {
  None, Bool, Integer, Float, NumpyBool, NumpyFloat, Tuple, // values
  NumpyArray, TorchTensor, Interface, Dlpack, CudaArray,    // arrays
  Descriptor, Constexpr, Constant, Unknown,
};

// DLPack's structures, as its specification lays them out.
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

//===-- Small helpers --------------------------------------------------------------------------------------------===//

py::object kiln::python::getOptionalAttribute(PyObject *object, const char *name) {
  PyObject *value = PyObject_GetAttrString(object, name);
  if (!value)
    PyErr_Clear();
  return py::reinterpret_steal<py::object>(value);
}

static bool hasAttribute(PyObject *object, const char *name) { return bool(getOptionalAttribute(object, name)); }

static std::string getText(PyObject *object) {
  py::object text = py::reinterpret_steal<py::object>(PyObject_Str(object));
  if (!text) {
    PyErr_Clear();
    return "?";
  }
  return text.cast<std::string>();
}

/// A value by its type, with an article: "a numpy.ndarray".
static std::string getTypeName(PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  std::string name = type->tp_name; // "numpy.ndarray" for static types, the bare name for Python classes
  if (!llvm::StringRef(name).contains('.') && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    std::string module = getText(getOptionalAttribute(reinterpret_cast<PyObject *>(type), "__module__").ptr());
    if (module != "builtins" && module != "__main__")
      name = module + "." + name;
  }
  return (llvm::StringRef("aeiou").contains(name.front()) ? "an " : "a ") + name;
}

/// An attribute of a module that is already imported; empty otherwise.
static py::object getLoaded(const char *module, const char *name) {
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *loaded = PyDict_GetItemString(modules, module);
  return loaded ? getOptionalAttribute(loaded, name) : py::object();
}

static bool isInstance(PyObject *value, const char *module, const char *name) {
  py::object type = getLoaded(module, name);
  return type && PyType_Check(type.ptr()) &&
         PyType_IsSubtype(Py_TYPE(value), reinterpret_cast<PyTypeObject *>(type.ptr()));
}

//===-- Classes of values ----------------------------------------------------------------------------------------===//

static ValueClass classifyByAttributes(PyObject *value) {
  if (isInstance(value, "numpy", "ndarray"))
    return ValueClass::NumpyArray;
  if (isInstance(value, "numpy", "bool_") || isInstance(value, "numpy", "bool"))
    return ValueClass::NumpyBool;
  if (isInstance(value, "numpy", "generic"))
    return PyIndex_Check(value) ? ValueClass::Integer
           : PyNumber_Check(value) && !PyComplex_Check(value) ? ValueClass::NumpyFloat
                                                              : ValueClass::Unknown;
  if (isInstance(value, "torch", "Tensor"))
    return ValueClass::TorchTensor;
  if (PyBool_Check(value))
    return ValueClass::Bool;
  if (PyFloat_Check(value))
    return ValueClass::Float;
  if (isInstance(value, "enum", "Enum"))
    return ValueClass::Constant;
  if (PyTuple_Check(value))
    return ValueClass::Tuple;
  if (isInstance(value, "kiln.language.values", "constexpr"))
    return ValueClass::Constexpr;
  if (PyUnicode_Check(value) || isInstance(value, "kiln.language.types", "type_") ||
      isInstance(value, "kiln.frontend.function", "KernelFunction"))
    return ValueClass::Constant;
  if (hasAttribute(value, "block_shape") && hasAttribute(value, "base"))
    return ValueClass::Descriptor;
  if (hasAttribute(value, "data_ptr") && hasAttribute(value, "dtype"))
    return ValueClass::TorchTensor;
  if (hasAttribute(value, "__array_interface__"))
    return ValueClass::Interface;
  if (hasAttribute(value, "__cuda_array_interface__"))
    return ValueClass::CudaArray;
  if (hasAttribute(value, "__dlpack__"))
    return ValueClass::Dlpack;
  if (PyIndex_Check(value))
    return ValueClass::Integer;
  return ValueClass::Unknown;
}

static ValueClass classify(PyObject *value) {
  // Types live as long as their entry: the table owns a reference. Under the interpreter lock, like all of this file.
  static auto &table = *new llvm::DenseMap<PyTypeObject *, ValueClass>{
      {&PyLong_Type, ValueClass::Integer}, {&PyBool_Type, ValueClass::Bool},   {&PyFloat_Type, ValueClass::Float},
      {&PyTuple_Type, ValueClass::Tuple},  {Py_TYPE(Py_None), ValueClass::None}, {&PyUnicode_Type, ValueClass::Constant}};
  PyTypeObject *type = Py_TYPE(value);
  auto entry = table.find(type);
  if (entry != table.end())
    return entry->second;
  ValueClass result = classifyByAttributes(value);
  Py_INCREF(type);
  table[type] = result;
  return result;
}

//===-- Element types of other libraries -------------------------------------------------------------------------===//

/// From the name a library gives its type: numpy's "float32", torch's "torch.bfloat16", Kiln's "fp32".
static std::optional<ElementType> parseForeignType(llvm::StringRef name) {
  name = name.rsplit('.').second.empty() ? name : name.rsplit('.').second;
  static constexpr std::pair<llvm::StringLiteral, ElementType> names[] = {
      {"bool", ElementType::I1},       {"int1", ElementType::I1},       {"int8", ElementType::I8},
      {"int16", ElementType::I16},     {"int32", ElementType::I32},     {"int64", ElementType::I64},
      {"uint8", ElementType::U8},      {"uint16", ElementType::U16},    {"uint32", ElementType::U32},
      {"uint64", ElementType::U64},    {"float16", ElementType::FP16},  {"bfloat16", ElementType::BF16},
      {"float32", ElementType::FP32},  {"float64", ElementType::FP64},  {"float8_e4m3fn", ElementType::FP8E4NV},
      {"float8_e5m2", ElementType::FP8E5}};
  for (auto &[known, type] : names)
    if (known == name)
      return type;
  return artifact::parseElementType(name);
}

/// From a type object (numpy's dtype, torch's dtype). Remembered by identity: these objects are few and immortal, and
/// the table owns a reference to each.
static std::optional<ElementType> getElementType(PyObject *dtype) {
  static auto &table = *new llvm::DenseMap<PyObject *, ElementType>;
  auto entry = table.find(dtype);
  if (entry != table.end())
    return entry->second;
  std::string text = getText(dtype);
  py::object order = getOptionalAttribute(dtype, "byteorder");
  if (order && getText(order.ptr()) == ">")
    return std::nullopt;
  std::optional<ElementType> type = parseForeignType(text);
  if (type && table.size() < 256) {
    Py_INCREF(dtype);
    table[dtype] = *type;
  }
  return type;
}

static const char *const knownElementTypes =
    "bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2 in the "
    "machine's byte order";

//===-- Arrays ---------------------------------------------------------------------------------------------------===//

bool ArgumentReader::fail(std::string message, std::string likelyFix) {
  if (!PyErr_Occurred()) {
    problem = std::move(message);
    hint = std::move(likelyFix);
  }
  return false;
}

/// The bytes that an array with these strides reaches.
static void setBounds(uintptr_t address, int rank, const int64_t *shape, const int64_t *byteStrides, int64_t itemBytes,
                      uintptr_t &begin, uintptr_t &end) {
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

/// The array that owns the memory: views, as_strided's holder objects and subclasses are walked through.
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
  }
  return true;
}

bool ArgumentReader::readTorch(PyObject *value, Memory &memory) {
  static PyObject *dataPtr = PyUnicode_InternFromString("data_ptr");
  static PyObject *dtypeName = PyUnicode_InternFromString("dtype");
  static PyObject *isCpuName = PyUnicode_InternFromString("is_cpu");
  PyObject *isCpu = PyObject_GetAttr(value, isCpuName);
  if (!isCpu)
    PyErr_Clear(); // not torch's own: a wrapper that has an address and a type
  bool elsewhere = isCpu == Py_False;
  Py_XDECREF(isCpu);
  if (elsewhere)
    return fail(llvm::formatv("expected a tensor on the CPU (because the kernel is compiled for the CPU), got one on {0}",
                              getText(getOptionalAttribute(value, "device").ptr())),
                "move it with .cpu()");
  PyObject *dtype = PyObject_GetAttr(value, dtypeName);
  if (!dtype)
    return fail("");
  std::optional<ElementType> element = getElementType(dtype);
  std::string typeText = element ? "" : getText(dtype);
  Py_DECREF(dtype);
  if (!element)
    return fail(llvm::formatv("expected a tensor of {0}, got one of {1}", knownElementTypes, typeText));
  PyObject *address = PyObject_CallMethodNoArgs(value, dataPtr);
  if (!address)
    return fail("");
  memory.element = *element;
  memory.address = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  if (PyErr_Occurred())
    return fail("");
  if (collectExtents) {
    memory.begin = reinterpret_cast<uintptr_t>(memory.address);
    if (hasAttribute(value, "untyped_storage")) {
      py::object storage = py::handle(value).attr("untyped_storage")();
      memory.begin = storage.attr("data_ptr")().cast<uintptr_t>();
      memory.end = memory.begin + storage.attr("nbytes")().cast<uintptr_t>();
    } else {
      py::object bytes = getOptionalAttribute(value, "nbytes");
      // A wrapper that does not know its size checks nothing: everything from its address on is inside.
      memory.end = bytes && PyLong_Check(bytes.ptr()) ? memory.begin + bytes.cast<uintptr_t>() : UINTPTR_MAX;
    }
  }
  return true;
}

static std::optional<ElementType> parseTypeString(llvm::StringRef text) {
  if (text.size() < 3 || text[0] == '>')
    return std::nullopt;
  unsigned bytes;
  if (text.drop_front(2).getAsInteger(10, bytes))
    return std::nullopt;
  switch (text[1]) {
  case 'b': return bytes == 1 ? std::optional(ElementType::I1) : std::nullopt;
  case 'f': return artifact::parseElementType("fp" + std::to_string(8 * bytes));
  case 'i':
  case 'u': return artifact::parseElementType(text[1] + std::to_string(8 * bytes));
  default: return std::nullopt;
  }
}

static bool readIntegers(py::handle sequence, llvm::SmallVectorImpl<int64_t> &numbers) {
  for (py::handle item : py::reinterpret_borrow<py::object>(sequence)) {
    py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
    if (!index)
      return false;
    int64_t number = PyLong_AsLongLong(index.ptr());
    if (number == -1 && PyErr_Occurred())
      return false;
    numbers.push_back(number);
  }
  return true;
}

bool ArgumentReader::readInterface(PyObject *value, Memory &memory) {
  py::dict interface = py::handle(value).attr("__array_interface__");
  std::string typestr = interface["typestr"].cast<std::string>();
  std::optional<ElementType> element = parseTypeString(typestr);
  if (!element) // types numpy has no letter for show up as raw bytes; the object may know better
    if (py::object dtype = getOptionalAttribute(value, "dtype"))
      element = getElementType(dtype.ptr());
  if (!element)
    return fail(llvm::formatv("expected an array of {0}, got one of {1}", knownElementTypes, typestr));
  py::object data = interface.contains("data") ? py::object(interface["data"]) : py::none();
  if (!py::isinstance<py::tuple>(data))
    return fail("expected an __array_interface__ that gives the address of its data, got one that does not");
  memory.element = *element;
  memory.address = PyLong_AsVoidPtr(data[py::int_(0)].ptr());
  memory.writable = !data[py::int_(1)].cast<bool>();
  if (collectExtents) {
    llvm::SmallVector<int64_t> shape, strides;
    int64_t bytes = artifact::getBytes(*element);
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
    setBounds(reinterpret_cast<uintptr_t>(memory.address), shape.size(), shape.data(), strides.data(), bytes,
              memory.begin, memory.end);
  }
  return true;
}

static std::optional<ElementType> parseDlpackType(const DLTensor &tensor) {
  if (tensor.lanes != 1)
    return std::nullopt;
  std::string bits = std::to_string(tensor.bits);
  switch (tensor.code) {
  case 0: return artifact::parseElementType("i" + bits);
  case 1: return artifact::parseElementType("u" + bits);
  case 2: return artifact::parseElementType("fp" + bits);
  case 4: return tensor.bits == 16 ? std::optional(ElementType::BF16) : std::nullopt;
  case 6: return tensor.bits == 8 ? std::optional(ElementType::I1) : std::nullopt;
  case 10: return ElementType::FP8E4NV;
  case 12: return ElementType::FP8E5;
  default: return std::nullopt;
  }
}

bool ArgumentReader::readDlpack(PyObject *value, Memory &memory) {
  constexpr int cpu = 1, pinned = 3;
  if (hasAttribute(value, "__dlpack_device__")) {
    py::tuple device = py::handle(value).attr("__dlpack_device__")();
    int type = py::int_(py::object(device[0])).cast<int>();
    if (type != cpu && type != pinned)
      return fail(llvm::formatv("expected an array on the CPU (because the kernel is compiled for the CPU), got one on "
                                "{0} (DLPack device type {1})",
                                type == 2 ? "a CUDA device" : "another device", type),
                  "copy it to the CPU first");
  }
  // The capsule is not consumed: dropping it after the launch lets its producer clean up.
  py::object capsule = py::handle(value).attr("__dlpack__")();
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
    case ValueClass::NumpyArray: return readNumpy(value, memory);
    case ValueClass::TorchTensor: return readTorch(value, memory);
    case ValueClass::Interface: return readInterface(value, memory);
    case ValueClass::Dlpack: return readDlpack(value, memory);
    case ValueClass::CudaArray:
      return fail(llvm::formatv("expected an array on the CPU (because the kernel is compiled for the CPU), got {0} in "
                                "GPU memory",
                                getTypeName(value)),
                  "copy it to the CPU first");
    default: return fail(llvm::formatv("expected an array, got {0}", getTypeName(value)));
    }
  } catch (py::error_already_set &error) {
    error.restore();
    return false;
  } catch (py::cast_error &error) {
    return fail(llvm::formatv("expected an array that describes its memory, got {0} that does not: {1}",
                              getTypeName(value), error.what()));
  }
}

bool ArgumentReader::finishArray(const ParameterRule &rule, const Memory &memory) {
  uintptr_t address = reinterpret_cast<uintptr_t>(memory.address);
  unsigned bytes = artifact::getBytes(memory.element);
  if (address % bytes)
    return fail(llvm::formatv("expected data aligned to its element type ({0}, {1} bytes), got address {2:x}",
                              artifact::getName(memory.element), bytes, address),
                "pass a copy");
  if (collectExtents)
    extents.push_back({rule.name, memory.begin, memory.end, memory.writable});
  return true;
}

//===-- Values ---------------------------------------------------------------------------------------------------===//

bool ArgumentReader::addInteger(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  py::object index;
  if (!PyLong_Check(value)) {
    index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
    if (!index)
      return false;
    value = index.ptr();
  }
  int overflow;
  int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  Status status;
  if (!overflow) {
    status = encoder.addInteger(rule, number);
  } else {
    uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(value) : 0;
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_Clear();
      return fail(llvm::formatv("expected an integer of at most 64 bits, got {0}", getText(value)));
    }
    status = encoder.addUnsigned(rule, large);
  }
  return status.ok() || fail(status.getMessage());
}

bool ArgumentReader::addTuple(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  Py_ssize_t size = PyTuple_GET_SIZE(value);
  encoder.beginTuple(size);
  ParameterRule item = rule;
  item.annotation.reset();
  for (Py_ssize_t i = 0; i < size; ++i) {
    item.name = rule.name + "." + std::to_string(i);
    if (!addValue(encoder, item, PyTuple_GET_ITEM(value, i))) {
      if (!problem.empty() && problem.compare(0, 5, "item ") != 0)
        problem = "item " + std::to_string(i) + ": " + problem;
      return false;
    }
  }
  return true;
}

bool ArgumentReader::addDescriptor(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  llvm::SmallVector<int64_t> shape, strides, block;
  py::object base = getOptionalAttribute(value, "base");
  for (auto [name, list] : {std::pair("shape", &shape), std::pair("strides", &strides), std::pair("block_shape", &block)}) {
    py::object sequence = getOptionalAttribute(value, name);
    if (!sequence || !PySequence_Check(sequence.ptr()) || !readIntegers(sequence, *list)) {
      PyErr_Clear();
      return fail(llvm::formatv("expected a tensor descriptor with integers in {0}, got {1}", name,
                                sequence ? getText(sequence.ptr()) : "none"));
    }
  }
  if (shape.size() != block.size() || strides.size() != block.size() || block.empty() || block.size() > 5)
    return fail(llvm::formatv("expected shape, strides and block shape of one rank from 1 to 5, got ranks {0}, {1} and "
                              "{2}",
                              shape.size(), strides.size(), block.size()));
  if (strides.back() != 1)
    return fail(llvm::formatv("expected a descriptor whose last stride is 1, got {0}", strides.back()));
  py::object padding = getOptionalAttribute(value, "padding");
  Memory memory;
  if (!readArray(base.ptr(), memory) || !finishArray(rule, memory))
    return false;
  // What the copy engines of GPUs ask for holds on every target, so that a program that runs here runs there.
  int64_t bytes = artifact::getBytes(memory.element);
  if (reinterpret_cast<uintptr_t>(memory.address) % 16)
    return fail(llvm::formatv("expected a descriptor whose base is aligned to 16 bytes, got address {0:x}",
                              reinterpret_cast<uintptr_t>(memory.address)));
  for (size_t i = 0; i + 1 < strides.size(); ++i)
    if (strides[i] * bytes % 16)
      return fail(llvm::formatv("expected strides that are multiples of 16 bytes, got {0} bytes in dimension {1}",
                                strides[i] * bytes, i));
  encoder.addDescriptor(rule, memory.element, memory.address, block, padding && getText(padding.ptr()) == "nan", shape,
                        strides);
  return true;
}

bool ArgumentReader::addValue(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  Status status;
  switch (classify(value)) {
  case ValueClass::None: encoder.addNone(); return true;
  case ValueClass::Bool: status = encoder.addBool(rule, PyObject_IsTrue(value)); break;
  case ValueClass::NumpyBool: status = encoder.addBool(rule, PyObject_IsTrue(value) == 1); break;
  case ValueClass::Integer: return addInteger(encoder, rule, value);
  case ValueClass::Float:
  case ValueClass::NumpyFloat: {
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred())
      return false;
    status = encoder.addFloat(rule, number);
    break;
  }
  case ValueClass::Tuple: return addTuple(encoder, rule, value);
  case ValueClass::NumpyArray:
  case ValueClass::TorchTensor:
  case ValueClass::Interface:
  case ValueClass::Dlpack:
  case ValueClass::CudaArray: {
    Memory memory;
    if (!readArray(value, memory) || !finishArray(rule, memory))
      return false;
    if (rule.annotation)
      return fail(llvm::formatv("expected a value of {0} (because the parameter is annotated so), got an array of {1}",
                                artifact::getLanguageName(*rule.annotation), artifact::getLanguageName(memory.element)));
    encoder.addPointer(rule, memory.element, memory.address);
    return true;
  }
  case ValueClass::Descriptor: return addDescriptor(encoder, rule, value);
  case ValueClass::Constexpr:
  case ValueClass::Constant: return addConstant(encoder, value);
  case ValueClass::Unknown:
    return fail(llvm::formatv("expected an array, a number, a bool, None, a tuple or a tensor descriptor, got {0}",
                              getTypeName(value)),
                PyList_Check(value) ? "pass a tuple, or an array" : "");
  }
  return status.ok() || fail(status.getMessage());
}

//===-- Constants ------------------------------------------------------------------------------------------------===//

/// Objects that stand for constants, by equality; the index is the id. They live as long as the process, as the code
/// compiled for them does.
static py::dict &getObjectIds() {
  static py::dict &ids = *new py::dict;
  return ids;
}
static std::vector<py::object> &getObjects() {
  static auto &objects = *new std::vector<py::object>;
  return objects;
}

py::object kiln::python::getConstantObject(int64_t id) { return getObjects().at(id); }

bool ArgumentReader::addConstant(CallEncoder &encoder, PyObject *value) {
  ValueClass kind = classify(value);
  if (kind == ValueClass::Constexpr) {
    py::object inner = getOptionalAttribute(value, "value");
    return inner ? addConstant(encoder, inner.ptr()) : fail("expected a constexpr that holds a value");
  }
  if (value == Py_None) {
    encoder.addNone();
  } else if (kind == ValueClass::Bool || kind == ValueClass::NumpyBool) {
    encoder.addConstantBool(PyObject_IsTrue(value) == 1);
  } else if (kind == ValueClass::Integer) {
    py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
    if (!index)
      return false;
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow)
      encoder.addConstantBigInteger(getText(index.ptr()));
    else
      encoder.addConstantInteger(number);
  } else if (kind == ValueClass::Float || kind == ValueClass::NumpyFloat) {
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred())
      return false;
    encoder.addConstantFloat(number);
  } else if (PyUnicode_CheckExact(value)) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text)
      return false;
    encoder.addConstantString({text, size_t(size)});
  } else if (PyTuple_Check(value) || PyList_Check(value)) {
    py::object items = py::reinterpret_steal<py::object>(PySequence_Tuple(value));
    encoder.beginTuple(PyTuple_GET_SIZE(items.ptr()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.ptr()); ++i)
      if (!addConstant(encoder, PyTuple_GET_ITEM(items.ptr(), i)))
        return false;
  } else if (kind == ValueClass::NumpyArray || kind == ValueClass::TorchTensor || kind == ValueClass::Interface ||
             kind == ValueClass::Dlpack || kind == ValueClass::CudaArray) {
    return fail(llvm::formatv("expected a value known while compiling (because the parameter is constexpr), got {0}",
                              getTypeName(value)),
                "drop the constexpr annotation");
  } else {
    PyObject *known = PyDict_GetItemWithError(getObjectIds().ptr(), value);
    if (!known && PyErr_Occurred()) {
      PyErr_Clear();
      return fail(llvm::formatv("expected a constant that can be hashed (because compiled code is looked up by it), got "
                                "{0}",
                                getTypeName(value)));
    }
    int64_t id = known ? PyLong_AsLongLong(known) : int64_t(getObjects().size());
    if (!known) {
      getObjectIds()[py::handle(value)] = py::int_(id);
      getObjects().push_back(py::reinterpret_borrow<py::object>(value));
    }
    encoder.addConstantObject(id);
  }
  return true;
}

py::object kiln::python::toPython(const launch::Specialization &item) {
  using Kind = launch::Specialization::Kind;
  auto constant = [](py::object value) -> py::object { return py::make_tuple("constexpr", std::move(value)); };
  switch (item.kind) {
  case Kind::None: return constant(py::none());
  case Kind::Bool: return constant(py::bool_(item.integer != 0));
  case Kind::Integer: return constant(py::int_(item.integer));
  case Kind::BigInteger:
    return constant(py::reinterpret_steal<py::object>(PyLong_FromString(item.text.c_str(), nullptr, 10)));
  case Kind::Float: return constant(py::float_(item.number));
  case Kind::String: return constant(py::str(item.text));
  case Kind::Object: return constant(getConstantObject(item.integer));
  case Kind::Scalar:
  case Kind::Pointer:
  case Kind::Descriptor:
    return py::make_tuple("runtime", item.getType(), item.divisible, item.nanPadding ? "nan" : "zero");
  case Kind::Tuple: {
    py::tuple items(item.items.size());
    for (size_t i = 0; i < item.items.size(); ++i)
      items[i] = toPython(item.items[i]);
    return py::make_tuple("tuple", items);
  }
  }
  return py::none();
}
