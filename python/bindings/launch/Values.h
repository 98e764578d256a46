// Classifies Python values for a launch: once for each type, by its attributes, then remembered. No library is
// imported: its types come with its values. Called under the interpreter lock.
#pragma once
#include "runtime/artifact/ElementType.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <pybind11/pybind11.h>
#include <string>

namespace kiln::python {

enum class ValueClass : uint8_t {
  None,
  Bool,
  Integer,
  Float,
  NumpyBool,
  NumpyFloat,
  Tuple, // values
  NumpyArray,
  TorchTensor,
  Interface,
  Dlpack,
  CudaArray, // arrays
  Descriptor,
  Constexpr,
  Constant,
  Unknown,
};

ValueClass classify(PyObject *value);

/// The element type that a library's type object (numpy's dtype, torch's dtype) stands for, in the machine's byte
/// order.
std::optional<artifact::ElementType> getElementType(PyObject *dtype);

/// That of numpy's array.
std::optional<artifact::ElementType> getNumpyElement(PyObject *array);

/// The attribute, or an empty object; never an error.
pybind11::object getOptionalAttribute(PyObject *object, const char *name);
bool hasAttribute(PyObject *object, const char *name);

/// A version number that changes with each write to the dictionary; 0 if this Python has none.
inline uint64_t getVersion(PyObject *dictionary) {
#if PY_VERSION_HEX < 0x030D0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject *>(dictionary)->ma_version_tag;
#pragma GCC diagnostic pop
#else
  (void)dictionary;
  return 0;
#endif
}

/// `str(object)`.
std::string getText(PyObject *object);

/// The name of a value's type, with an article: "a numpy.ndarray".
std::string getTypeName(PyObject *value);

/// Reads a sequence of integers; false with a Python error set.
bool readIntegers(pybind11::handle sequence, llvm::SmallVectorImpl<int64_t> &numbers);

} // namespace kiln::python
