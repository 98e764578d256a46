// The Python types: the launcher of a jit function, and the object `launcher.at(grid)` gives, which is called.
#include "python/bindings/launch/Launcher.h"
#include "python/bindings/PythonSide.h"
#include "python/bindings/launch/Call.h"
#include "python/bindings/launch/Prepared.h"
#include "python/bindings/launch/Replay.h"
#include "python/bindings/launch/Subscripts.h"
#include "python/bindings/launch/Tuned.h"
#include <structmember.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

namespace {
struct LauncherObject {
  PyObject_HEAD LauncherState *state;
};

struct BoundObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  LauncherObject *launcher;
  PyObject *grid;
};

PyTypeObject *launcherType = nullptr, *boundType = nullptr;
BoundObject *spareBound = nullptr; ///< a destroyed one, whose memory can be reused

//===-- The bound object: launcher.at(grid) ----------------------------------------------------------------------===//

PyObject *boundVectorcall(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
  auto *self = reinterpret_cast<BoundObject *>(callable);
  return callKernel(*self->launcher->state, self->grid, args, PyVectorcall_NARGS(flags), names);
}

int boundTraverse(PyObject *self, visitproc visit, void *arg) {
  auto *bound = reinterpret_cast<BoundObject *>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject *>(bound->launcher));
  Py_VISIT(bound->grid);
  return 0;
}

int boundClear(PyObject *self) {
  Py_CLEAR(reinterpret_cast<BoundObject *>(self)->grid);
  return 0;
}

void boundDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  auto *bound = reinterpret_cast<BoundObject *>(self);
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<PyObject *>(bound->launcher));
  Py_XDECREF(bound->grid);
  if (BoundObject *other = std::exchange(spareBound, bound))
    PyObject_GC_Del(other);
  Py_DECREF(type);
}

//===-- The launcher ---------------------------------------------------------------------------------------------===//

PyObject *launcherAt(PyObject *self, PyObject *grid) {
  // Reuse the one freed last: nearly every launch makes one.
  BoundObject *bound = std::exchange(spareBound, nullptr);
  if (bound)
    PyObject_Init(reinterpret_cast<PyObject *>(bound), boundType);
  else
    bound = PyObject_GC_New(BoundObject, boundType);
  if (!bound)
    return nullptr;
  Py_INCREF(self);
  Py_INCREF(grid);
  bound->vectorcall = boundVectorcall;
  bound->launcher = reinterpret_cast<LauncherObject *>(self);
  bound->grid = grid;
  PyObject_GC_Track(reinterpret_cast<PyObject *>(bound));
  return reinterpret_cast<PyObject *>(bound);
}

/// adopt(kernel): `kernel[grid]` is `at(grid)` from now on.
PyObject *launcherAdopt(PyObject *self, PyObject *object) {
  adoptSubscripts(object, self, launcherAt, *reinterpret_cast<LauncherObject *>(self)->state);
  Py_RETURN_NONE;
}

/// invalidate(): the next launch asks the owner again.
PyObject *launcherInvalidate(PyObject *self, PyObject *) {
  LauncherState &state = *reinterpret_cast<LauncherObject *>(self)->state;
  state.watches = nullptr;
  ++state.generation;
  Py_RETURN_NONE;
}

/// prepare(grid, args, kwargs): the launch with its arguments bound.
PyObject *launcherPrepare(PyObject *self, PyObject *arguments) {
  PyObject *grid, *args, *kwargs;
  if (!PyArg_ParseTuple(arguments, "OO!O!", &grid, &PyTuple_Type, &args, &PyDict_Type, &kwargs))
    return nullptr;
  return makePrepared(*reinterpret_cast<LauncherObject *>(self)->state, grid, args, kwargs);
}

/// tuned(answer, run, keys): a launcher whose options a tuner chooses; see Tuned.h.
PyObject *launcherTuned(PyObject *self, PyObject *arguments) {
  PyObject *answer, *run, *keys;
  if (!PyArg_ParseTuple(arguments, "OOO!", &answer, &run, &PyList_Type, &keys))
    return nullptr;
  return makeTuned(*reinterpret_cast<LauncherObject *>(self)->state, answer, run, keys);
}

/// kernels(): every compiled kernel, in no order.
PyObject *launcherKernels(PyObject *self, PyObject *) {
  py::list list;
  for (auto &[prefix, table] : reinterpret_cast<LauncherObject *>(self)->state->tables)
    for (auto &entry : *table)
      list.append(entry.second.object);
  return list.release().ptr();
}

/// recognised: the number of launches that matched a pattern, see Pattern.h.
PyObject *launcherGetRecognised(PyObject *self, void *) {
  return PyLong_FromUnsignedLongLong(reinterpret_cast<LauncherObject *>(self)->state->recognised);
}

/// clear(): drops every compiled kernel.
PyObject *launcherClearKernels(PyObject *self, PyObject *) {
  LauncherState &state = *reinterpret_cast<LauncherObject *>(self)->state;
  ++state.generation;
  // Calls in progress hold pointers to tables: keep the tables, and destroy the contents of the entries afterwards.
  std::vector<Compiled> dropped;
  for (auto &[prefix, table] : state.tables) {
    for (auto &entry : *table)
      dropped.push_back(std::move(entry.second));
    table->clear();
  }
  Py_RETURN_NONE;
}

void readParameters(LauncherState &state, py::list parameters, py::list strides, py::list fields) {
  std::vector<std::string> strideFields;
  for (py::handle field : fields)
    strideFields.push_back(field.cast<std::string>());
  for (py::handle item : parameters) {
    Parameter parameter;
    parameter.rule.name = item.attr("name").cast<std::string>();
    parameter.name = py::reinterpret_steal<py::object>(PyUnicode_InternFromString(parameter.rule.name.c_str()));
    parameter.rule.isConstexpr = item.attr("is_constexpr").cast<bool>();
    parameter.rule.specialize = !item.attr("do_not_specialize").cast<bool>();
    parameter.rule.specializeAlignment = !item.attr("do_not_specialize_on_alignment").cast<bool>();
    parameter.rule.isStride = strides.contains(parameter.name);
    parameter.strideFields = strideFields;
    parameter.rule.annotation = artifact::parseElementType(item.attr("annotation_type").cast<std::string>());
    if (item.attr("has_default").cast<bool>())
      parameter.defaultValue = item.attr("default");
    std::string kind = item.attr("kind").cast<std::string>();
    parameter.variadic = kind == "variadic";
    parameter.keywordOnly = kind == "keyword";
    if (parameter.variadic)
      state.variadicIndex = state.parameters.size();
    else if (!parameter.keywordOnly)
      ++state.positionalCount;
    state.names.push_back(parameter.rule.name);
    state.parameters.push_back(std::move(parameter));
  }
  for (Parameter &parameter : state.parameters)
    parameter.rule.strideFields = parameter.strideFields;
}

PyObject *launcherNew(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *owner, *parameters, *options, *strides, *fields;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!", &owner, &PyList_Type, &parameters, &PyList_Type, &options, &PyList_Type,
                        &strides, &PyList_Type, &fields))
    return nullptr;
  auto *self = reinterpret_cast<LauncherObject *>(type->tp_alloc(type, 0));
  if (!self)
    return nullptr;
  try {
    self->state = new LauncherState;
    PythonSide::get();
    self->state->owner = py::handle(owner).cast<Owner>();
    self->state->launcher = reinterpret_cast<PyObject *>(self);
    readParameters(*self->state, py::reinterpret_borrow<py::list>(parameters),
                   py::reinterpret_borrow<py::list>(strides), py::reinterpret_borrow<py::list>(fields));
    for (py::handle option : py::reinterpret_borrow<py::list>(options)) {
      py::object name =
          py::reinterpret_steal<py::object>(PyUnicode_InternFromString(option.cast<std::string>().c_str()));
      if (option.cast<std::string>() == "describe_pointers")
        self->state->describePointers = int(self->state->optionNames.size());
      self->state->optionIndex[name] = py::int_(self->state->optionNames.size());
      self->state->optionNames.push_back(name);
    }
    return reinterpret_cast<PyObject *>(self);
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  Py_DECREF(self);
  return nullptr;
}

int launcherTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  LauncherState *state = reinterpret_cast<LauncherObject *>(self)->state;
  if (!state)
    return 0;
  if (int stopped = state->owner.traverse(visit, arg))
    return stopped;
  Py_VISIT(state->attributes.ptr());
  for (Parameter &parameter : state->parameters)
    Py_VISIT(parameter.defaultValue.ptr());
  if (LauncherState::Watches *watches = state->watches.get()) {
    for (LauncherState::WatchedNames &names : watches->names) {
      Py_VISIT(names.dictionary.ptr());
      for (auto &[name, value] : names.values)
        Py_VISIT(value.ptr());
    }
    for (Watched &item : watches->others) {
      Py_VISIT(item.holder.ptr());
      Py_VISIT(item.value.ptr());
    }
  }
  for (auto &[prefix, table] : state->tables)
    for (auto &entry : *table)
      Py_VISIT(entry.second.object.ptr());
  return 0;
}

/// Breaks the cycle jit function → launcher → jit function.
int launcherClear(PyObject *self) {
  LauncherState *state = reinterpret_cast<LauncherObject *>(self)->state;
  reinterpret_cast<LauncherObject *>(self)->state = nullptr;
  dropSubscripts(state);
  delete state;
  return 0;
}

void launcherDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject *type = Py_TYPE(self);
  launcherClear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

} // namespace

void kiln::python::bindLauncher(py::module_ &m) {
  static PyMethodDef launcherMethods[] = {
      {"at", launcherAt, METH_O, "at(grid): what is called with the kernel's arguments"},
      {"adopt", launcherAdopt, METH_O, "adopt(kernel): `kernel[grid]` is `at(grid)` from now on"},
      {"invalidate", launcherInvalidate, METH_NOARGS, "the next launch asks the kernel object anew"},
      {"prepare", launcherPrepare, METH_VARARGS, "prepare(grid, args, kwargs): the launch with its arguments bound"},
      {"tuned", launcherTuned, METH_VARARGS, "tuned(answer, run, keys): what launches with the options a tuner chose"},
      {"clear", launcherClearKernels, METH_NOARGS, "drops every compiled kernel"},
      {"kernels", launcherKernels, METH_NOARGS, "every compiled kernel"},
      {}};
  static PyGetSetDef launcherProperties[] = {
      {"recognised", launcherGetRecognised, nullptr, "launches that were like an earlier one", nullptr}, {}};
  static PyType_Slot launcherSlots[] = {{Py_tp_new, reinterpret_cast<void *>(launcherNew)},
                                        {Py_tp_dealloc, reinterpret_cast<void *>(launcherDealloc)},
                                        {Py_tp_traverse, reinterpret_cast<void *>(launcherTraverse)},
                                        {Py_tp_clear, reinterpret_cast<void *>(launcherClear)},
                                        {Py_tp_methods, launcherMethods},
                                        {Py_tp_getset, launcherProperties},
                                        {0, nullptr}};
  static PyType_Spec launcherSpec = {"kiln._kiln.Launcher", sizeof(LauncherObject), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, launcherSlots};
  static PyMemberDef boundMembers[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundObject, vectorcall), READONLY, nullptr},
      {"grid", T_OBJECT, offsetof(BoundObject, grid), READONLY, nullptr},
      {}};
  static PyType_Slot boundSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(boundDealloc)},
                                     {Py_tp_traverse, reinterpret_cast<void *>(boundTraverse)},
                                     {Py_tp_clear, reinterpret_cast<void *>(boundClear)},
                                     {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                                     {Py_tp_members, boundMembers},
                                     {0, nullptr}};
  static PyType_Spec boundSpec = {"kiln._kiln.BoundLauncher", sizeof(BoundObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                      Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  boundSlots};
  launcherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&launcherSpec));
  boundType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&boundSpec));
  if (!launcherType || !boundType)
    throw py::error_already_set();
  m.add_object("Launcher", reinterpret_cast<PyObject *>(launcherType));
  bindPrepared(m);
  bindTuned(m);
  bindReplay(m);
}
