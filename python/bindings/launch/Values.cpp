// Classes of values and element types of other libraries.
#include "python/bindings/launch/Values.h"
#include "llvm/ADT/DenseMap.h"
#include <pybind11/numpy.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using artifact::ElementType;

//===-- Small helpers --------------------------------------------------------------------------------------------===//

py::object kiln::python::getOptionalAttribute(PyObject *object, const char *name) {
  PyObject *value = PyObject_GetAttrString(object, name);
  if (!value)
    PyErr_Clear();
  return py::reinterpret_steal<py::object>(value);
}

bool kiln::python::hasAttribute(PyObject *object, const char *name) { return bool(getOptionalAttribute(object, name)); }

std::string kiln::python::getText(PyObject *object) {
  py::object text = py::reinterpret_steal<py::object>(PyObject_Str(object));
  if (!text) {
    PyErr_Clear();
    return "?";
  }
  return text.cast<std::string>();
}

std::string kiln::python::getTypeName(PyObject *value) {
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

bool kiln::python::readIntegers(py::handle sequence, llvm::SmallVectorImpl<int64_t> &numbers) {
  if (PyList_CheckExact(sequence.ptr()) || PyTuple_CheckExact(sequence.ptr())) {
    // The common case: only numbers, whose conversion runs no code.
    PyObject **items = PySequence_Fast_ITEMS(sequence.ptr());
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence.ptr()), at = 0;
    for (; at < count && PyLong_CheckExact(items[at]); ++at) {
      int overflow;
      numbers.push_back(PyLong_AsLongLongAndOverflow(items[at], &overflow));
      if (overflow)
        break;
    }
    if (at == count)
      return true;
    numbers.clear();
  }
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

//===-- Classes of values ----------------------------------------------------------------------------------------===//

static ValueClass classifyByAttributes(PyObject *value) {
  if (isInstance(value, "numpy", "ndarray"))
    return ValueClass::NumpyArray;
  if (isInstance(value, "numpy", "bool_") || isInstance(value, "numpy", "bool"))
    return ValueClass::NumpyBool;
  if (isInstance(value, "numpy", "generic"))
    return PyIndex_Check(value)                               ? ValueClass::Integer
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

ValueClass kiln::python::classify(PyObject *value) {
  // Types live as long as their entry: the table owns a reference. Under the interpreter lock, like all of this file.
  static auto &table = *new llvm::DenseMap<PyTypeObject *, ValueClass>{
      {&PyLong_Type, ValueClass::Integer},  {&PyBool_Type, ValueClass::Bool},
      {&PyFloat_Type, ValueClass::Float},   {&PyTuple_Type, ValueClass::Tuple},
      {Py_TYPE(Py_None), ValueClass::None}, {&PyUnicode_Type, ValueClass::Constant}};
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
      {"bool", ElementType::I1},          {"int1", ElementType::I1},      {"int8", ElementType::I8},
      {"int16", ElementType::I16},        {"int32", ElementType::I32},    {"int64", ElementType::I64},
      {"uint8", ElementType::U8},         {"uint16", ElementType::U16},   {"uint32", ElementType::U32},
      {"uint64", ElementType::U64},       {"float16", ElementType::FP16}, {"bfloat16", ElementType::BF16},
      {"float32", ElementType::FP32},     {"float64", ElementType::FP64}, {"float8_e4m3fn", ElementType::FP8E4NV},
      {"float8_e5m2", ElementType::FP8E5}};
  for (auto &[known, type] : names)
    if (known == name)
      return type;
  return artifact::parseElementType(name);
}

/// From a type object (numpy's dtype, torch's dtype). Remembered by identity: these objects are few and immortal, and
/// the table owns a reference to each.
std::optional<ElementType> kiln::python::getElementType(PyObject *dtype) {
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

std::optional<ElementType> kiln::python::getNumpyElement(PyObject *array) {
  return getElementType(py::detail::array_proxy(array)->descr);
}
