// Encoding Python values: numbers, tuples, descriptors and constants here, arrays in Arrays.cpp.
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/PythonSide.h"
#include "python/bindings/launch/Values.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using launch::CallEncoder;
using launch::ParameterRule;

bool ArgumentReader::fail(std::string message, std::string likelyFix) {
  if (!PyErr_Occurred()) {
    problem = std::move(message);
    hint = std::move(likelyFix);
  }
  return false;
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
      std::string text = getText(value);
      if (text == "?") // Python refuses to write thousands of digits.
        text = "one of " + getText(py::handle(value).attr("bit_length")().ptr()) + " bits";
      return fail("expected an integer of at most 64 bits, got " + text);
    }
    status = encoder.addUnsigned(rule, large);
  }
  return status.ok() || fail(status.getMessage());
}

static int64_t getConstantId(PyObject *value);

/// Types live as long as their entry: the table owns a reference. Under the interpreter lock, like all of this file.
static llvm::DenseMap<PyTypeObject *, const TupleClass *> &getTupleClasses() {
  static auto &table = *new llvm::DenseMap<PyTypeObject *, const TupleClass *>;
  return table;
}

/// `Rows(x, 128, 100)`: namedtuple's own constructor first makes a tuple of its arguments, then another one with the
/// same items. If all fields are given by position, this makes the final tuple directly.
static PyObject *makeStruct(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
  auto *type = reinterpret_cast<PyTypeObject *>(callable);
  Py_ssize_t count = PyVectorcall_NARGS(flags);
  const TupleClass *known = getTupleClasses().lookup(type);
  if ((names && PyTuple_GET_SIZE(names)) || !known || count != Py_ssize_t(known->names.size())) {
    py::object given = py::reinterpret_steal<py::object>(PyTuple_New(count));
    py::object named = names ? py::reinterpret_steal<py::object>(PyDict_New()) : py::object();
    if (!given || (names && !named))
      return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(given.ptr(), i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(names, i), args[count + i]))
        return nullptr;
    return PyType_Type.tp_call(callable, given.ptr(), named.ptr());
  }
  PyObject *made = type->tp_alloc(type, count);
  for (Py_ssize_t i = 0; made && i < count; ++i)
    PyTuple_SET_ITEM(made, i, Py_NewRef(args[i]));
  return made;
}

const TupleClass *kiln::python::findTupleClass(PyObject *value) {
  static const TupleClass plain;
  if (PyTuple_CheckExact(value))
    return &plain;
  PyTypeObject *type = Py_TYPE(value);
  if (const TupleClass *known = getTupleClasses().lookup(type))
    return known;
  auto found = std::make_unique<TupleClass>();
  py::object fields = getOptionalAttribute(value, "_fields");
  if (fields && PyTuple_Check(fields.ptr()) && PyTuple_GET_SIZE(fields.ptr()) == PyTuple_GET_SIZE(value)) {
    for (py::handle field : py::reinterpret_borrow<py::tuple>(fields))
      found->names.push_back(py::str(field));
    try {
      py::object flags = PythonSide::get().launchFlags(py::handle((PyObject *)type));
      if (flags.is_none()) {
        found->joined = llvm::join(found->names, ",");
      } else {
        for (py::handle flag : flags.attr("constexpr"))
          found->isConstexpr.push_back(flag.cast<bool>());
        for (py::handle flag : flags.attr("strides"))
          found->isStride.push_back(flag.cast<bool>());
        found->id = getConstantId(reinterpret_cast<PyObject *>(type)) + 1;
        // Classes marked by `kiln.struct` have no __new__ or __init__ of the user's.
        if (!type->tp_vectorcall && PyDict_GetItemString(type->tp_dict, "__kiln_plain_struct__"))
          type->tp_vectorcall = makeStruct;
      }
    } catch (py::error_already_set &error) {
      error.restore();
      return nullptr;
    }
  }
  Py_INCREF(type);
  return getTupleClasses()[type] = found.release();
}

bool ArgumentReader::addTuple(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  const TupleClass *kind = findTupleClass(value);
  if (!kind)
    return false;
  Py_ssize_t size = PyTuple_GET_SIZE(value);
  encoder.beginTuple(size, kind->joined, kind->id);
  ParameterRule item;
  item.specialize = rule.specialize;
  item.specializeAlignment = rule.specializeAlignment;
  item.strideFields = rule.strideFields;
  bool isNamed = Py_ssize_t(kind->names.size()) == size;
  if (kind->id && !isNamed)
    return fail(llvm::formatv("expected {0} fields, got {1}", kind->names.size(), size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    item.isStride = rule.isStride || (kind->id && kind->isStride[i]) ||
                    (isNamed && llvm::is_contained(rule.strideFields, kind->names[i]));
    if (collectExtents) // the array's name in checks
      item.name = rule.name + "." + (isNamed ? kind->names[i] : std::to_string(i));
    PyObject *part = PyTuple_GET_ITEM(value, i);
    if (kind->id && kind->isConstexpr[i] ? addConstant(encoder, part) : addValue(encoder, item, part))
      continue;
    llvm::StringRef inner = problem;
    if (inner.consume_front("field "))
      problem = "field " + (isNamed ? kind->names[i] : std::to_string(i)) + "." + inner.str();
    else if (!problem.empty() && !inner.starts_with("item "))
      problem = (isNamed ? "field " + kind->names[i] : "item " + std::to_string(i)) + ": " + problem;
    return false;
  }
  return true;
}

/// The attribute, or an empty object; never an error. `name` is interned.
static py::object getAttribute(PyObject *object, PyObject *name) {
  PyObject *value = PyObject_GetAttr(object, name);
  if (!value)
    PyErr_Clear();
  return py::reinterpret_steal<py::object>(value);
}

bool ArgumentReader::addDescriptor(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  static PyObject *const baseName = PyUnicode_InternFromString("base"),
                         *const paddingName = PyUnicode_InternFromString("padding"),
                         *const names[] = {PyUnicode_InternFromString("shape"), PyUnicode_InternFromString("strides"),
                                           PyUnicode_InternFromString("block_shape")};
  llvm::SmallVector<int64_t> shape, strides, block;
  py::object base = getAttribute(value, baseName);
  for (auto [name, list] : {std::pair(names[0], &shape), std::pair(names[1], &strides), std::pair(names[2], &block)}) {
    py::object sequence = getAttribute(value, name);
    if (!sequence || !PySequence_Check(sequence.ptr()) || !readIntegers(sequence, *list)) {
      PyErr_Clear();
      return fail(llvm::formatv("expected a tensor descriptor with integers in {0}, got {1}", getText(name),
                                sequence ? getText(sequence.ptr()) : "none"));
    }
  }
  py::object padding = getAttribute(value, paddingName);
  Memory memory;
  if (!readArray(base.ptr(), memory) || !finishArray(rule, memory))
    return false;
  alive.push_back(base); // the descriptor's base may be replaced, or may be a temporary
  if (Status status = launch::checkDescriptor(memory.element, memory.address, block, shape, strides); !status.ok())
    return fail(status.getMessage());
  bool nan =
      padding && (PyUnicode_CheckExact(padding.ptr()) ? PyUnicode_CompareWithASCIIString(padding.ptr(), "nan") == 0
                                                      : getText(padding.ptr()) == "nan");
  encoder.addDescriptor(rule, memory.element, memory.address, block, nan, shape, strides);
  return true;
}

bool ArgumentReader::addValue(CallEncoder &encoder, const ParameterRule &rule, PyObject *value) {
  if (PyLong_CheckExact(value) && !rule.annotation) {
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow) {
      encoder.addPlainInteger(rule, number);
      return true;
    }
  }
  Status status;
  switch (classify(value)) {
  case ValueClass::None:
    encoder.addNone();
    return true;
  case ValueClass::Bool:
    status = encoder.addBool(rule, PyObject_IsTrue(value));
    break;
  case ValueClass::NumpyBool:
    status = encoder.addBool(rule, PyObject_IsTrue(value) == 1);
    break;
  case ValueClass::Integer:
    return addInteger(encoder, rule, value);
  case ValueClass::Float:
  case ValueClass::NumpyFloat: {
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred())
      return false;
    status = encoder.addFloat(rule, number);
    break;
  }
  case ValueClass::Tuple:
    return addTuple(encoder, rule, value);
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
                                artifact::getLanguageName(*rule.annotation),
                                artifact::getLanguageName(memory.element)));
    encoder.addPointer(rule, memory.element, memory.address);
    return true;
  }
  case ValueClass::Descriptor:
    return addDescriptor(encoder, rule, value);
  case ValueClass::Constexpr:
  case ValueClass::Constant:
    return addConstant(encoder, value);
  case ValueClass::Unknown:
    return fail(llvm::formatv("expected an array, a number, a bool, None, a tuple or a tensor descriptor, got {0}",
                              getTypeName(value)),
                PyList_Check(value) ? "pass a tuple, or an array" : "");
  }
  return status.ok() || fail(status.getMessage());
}

//===-- Constants ------------------------------------------------------------------------------------------------===//

/// Objects used as constants, by equality; the index is the id. They live until the process ends, like the code
/// compiled for them.
static py::dict &getObjectIds() {
  static py::dict &ids = *new py::dict;
  return ids;
}
static std::vector<py::object> &getObjects() {
  static auto &objects = *new std::vector<py::object>;
  return objects;
}

py::object kiln::python::getConstantObject(int64_t id) { return getObjects().at(id); }

/// The id of a constant in keys; negative, with a Python error set, if it cannot be hashed.
static int64_t getConstantId(PyObject *value) {
  PyObject *known = PyDict_GetItemWithError(getObjectIds().ptr(), value);
  if (known || PyErr_Occurred())
    return known ? PyLong_AsLongLong(known) : -1;
  // Take the id before inserting: insertion hashes and compares, which may run Python and insert constants of other
  // launches. An equal one may have been inserted first.
  py::int_ number(getObjects().size());
  getObjects().push_back(py::reinterpret_borrow<py::object>(value));
  PyObject *entered = PyDict_SetDefault(getObjectIds().ptr(), value, number.ptr());
  return entered ? PyLong_AsLongLong(entered) : -1;
}

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
      // In hexadecimal: Python refuses to write thousands of decimal digits.
      encoder.addConstantBigInteger(getText(py::reinterpret_steal<py::object>(PyNumber_ToBase(index.ptr(), 16)).ptr()));
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
  } else if (PyTuple_Check(value)) {
    const TupleClass *kind = findTupleClass(value);
    if (!kind)
      return false;
    encoder.beginTuple(PyTuple_GET_SIZE(value), kind->joined, kind->id);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (!addConstant(encoder, PyTuple_GET_ITEM(value, i)))
        return false;
  } else if (PyList_Check(value)) {
    // A snapshot: hashing an item may change the list.
    py::object items = py::reinterpret_steal<py::object>(PySequence_Tuple(value));
    return addConstant(encoder, items.ptr());
  } else if (kind == ValueClass::NumpyArray || kind == ValueClass::TorchTensor || kind == ValueClass::Interface ||
             kind == ValueClass::Dlpack || kind == ValueClass::CudaArray) {
    return fail(llvm::formatv("expected a value known while compiling (because the parameter is constexpr), got {0}",
                              getTypeName(value)),
                "drop the constexpr annotation");
  } else {
    int64_t id = getConstantId(value);
    if (id < 0) {
      PyErr_Clear();
      return fail(
          llvm::formatv("expected a constant that can be hashed (because compiled code is looked up by it), got "
                        "{0}",
                        getTypeName(value)));
    }
    encoder.addConstantObject(id);
  }
  return true;
}

py::object kiln::python::toPython(const launch::Specialization &item, const std::string &name) {
  using Kind = launch::Specialization::Kind;
  const PythonSide &python = PythonSide::get();
  auto constant = [&](py::object value) { return python.parameter(name, "constexpr", py::arg("value") = value); };
  switch (item.kind) {
  case Kind::None:
    return constant(py::none());
  case Kind::Bool:
    return constant(py::bool_(item.integer != 0));
  case Kind::Integer:
    return constant(py::int_(item.integer));
  case Kind::BigInteger:
    return constant(py::reinterpret_steal<py::object>(PyLong_FromString(item.text.c_str(), nullptr, 0)));
  case Kind::Float:
    return constant(py::float_(item.number));
  case Kind::String:
    return constant(py::str(item.text));
  case Kind::Object:
    return constant(getConstantObject(item.integer));
  case Kind::Scalar:
  case Kind::Pointer:
  case Kind::Descriptor:
    return python.parameter(name, "runtime", py::arg("type") = item.getType(), py::arg("divisible") = item.divisible,
                            py::arg("padding") = item.nanPadding ? "nan" : "zero", py::arg("divisor") = item.divisor,
                            py::arg("whole_rows") = item.wholeRows);
  case Kind::Tuple: {
    py::object type = item.integer ? getConstantObject(item.integer - 1) : py::none();
    py::tuple fields = !type.is_none()     ? py::tuple(type.attr("_fields"))
                       : item.text.empty() ? py::tuple()
                                           : py::tuple(py::str(item.text).attr("split")(","));
    py::tuple items(item.items.size());
    for (size_t i = 0; i < item.items.size(); ++i)
      items[i] =
          toPython(item.items[i], name + "." + (fields.empty() ? std::to_string(i) : fields[i].cast<std::string>()));
    return python.joinParameters(name, items, fields, type);
  }
  }
  return py::none();
}
