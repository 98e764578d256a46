// Subscripts of kernels.
#include "python/bindings/launch/Subscripts.h"
#include "python/bindings/launch/Replay.h"
#include "python/bindings/launch/Values.h"
#include "llvm/ADT/DenseMap.h"

namespace py = pybind11;
using namespace kiln::python;

namespace {
struct Subscripted {
  PyObject *launcher = nullptr;
  binaryfunc at = nullptr;
  LauncherState *state = nullptr;
  uint64_t version = 0;      ///< of the attributes when they had these hooks and no `run`
  PyObject *hooks = nullptr; ///< a list, which is there as long as the attributes are of this version
};

/// By the subscripted object. Nothing here is owned, as the garbage collector must see all references.
llvm::DenseMap<PyObject *, Subscripted> &getTable() {
  static auto &table = *new llvm::DenseMap<PyObject *, Subscripted>;
  return table;
}

/// Whether a subscript is no more than `launcher.at`.
bool isPlain(Subscripted &known) {
  static PyObject *const hooksName = PyUnicode_InternFromString("pre_run_hooks"), *const runName =
                                                                                      PyUnicode_InternFromString("run");
  PyObject *attributes = known.state->attributes.ptr();
  uint64_t version = getVersion(attributes);
  if (!version || version != known.version) {
    PyObject *hooks = PyDict_GetItemWithError(attributes, hooksName);
    if (!hooks || !PyList_CheckExact(hooks) || PyDict_GetItemWithError(attributes, runName))
      return false;
    known.version = version;
    known.hooks = hooks;
  }
  return PyList_GET_SIZE(known.hooks) == 0;
}

PyObject *subscript(PyObject *object, PyObject *grid) {
  static PyObject *const itemName = PyUnicode_InternFromString("__getitem__");
  auto entry = getTable().find(object);
  if (entry == getTable().end() || areCallsPaused() || !isPlain(entry->second))
    return PyObject_CallMethodOneArg(object, itemName, grid);
  return entry->second.at(entry->second.launcher, grid);
}
} // namespace

void kiln::python::adoptSubscripts(PyObject *object, PyObject *launcher, binaryfunc at, LauncherState &state) {
  PyTypeObject *type = Py_TYPE(object);
  if (!state.attributes) {
    auto attributes = py::reinterpret_steal<py::object>(PyObject_GetAttrString(state.owner.get(), "__dict__"));
    if (!attributes || !PyDict_CheckExact(attributes.ptr()))
      return PyErr_Clear();
    state.attributes = std::move(attributes);
  }
  getTable()[object] = {launcher, at, &state};
  // Python uses the slot if `__getitem__` takes any number of arguments, as those of kernels do; simpler ones it calls
  // directly. Assigning another `__getitem__` to the class resets the slot.
  if (type->tp_as_mapping)
    type->tp_as_mapping->mp_subscript = subscript;
}

void kiln::python::dropSubscripts(const void *gone) {
  llvm::DenseMap<PyObject *, Subscripted> &table = getTable();
  for (auto entry = table.begin(); entry != table.end(); ++entry)
    if (entry->second.launcher == gone || entry->second.state == gone)
      table.erase(entry);
}
