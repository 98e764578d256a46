// Launches of tuned kernels.
#include "python/bindings/launch/Tuned.h"
#include "python/bindings/launch/Subscripts.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include <structmember.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

namespace {
using Key = llvm::SmallVector<char, 256>;

struct KeyArgument {
  size_t parameter;
  std::vector<py::object> fields;
};

/// What Python says of a new key.
struct TunedAnswer {
  py::object config;
  py::object launch;  ///< its `_launch` then: another object once the configuration is written to
  py::dict kwargs;    ///< its meta-parameters, which may be changed without writing to it
  py::dict copied;    ///< what they were then
  py::dict arguments; ///< all that a launch with it is given by name
};

/// The configuration to launch for one key.
struct Answer : TunedAnswer {
  py::tuple names;                ///< of arguments given by name: the call's, then the configuration's
  std::vector<py::object> values; ///< those of the configuration
};

struct Tuned {
  PyObject *launcher = nullptr; ///< owned
  LauncherState *state = nullptr;
  py::function answer, run; ///< the tuner's
  py::object last;          ///< the configuration of the last launch
  std::vector<KeyArgument> keys;
  llvm::StringMap<std::shared_ptr<const Answer>> answers;
  uint64_t forgotten = 0; ///< how often the answers have been forgotten
};

struct TunedObject {
  PyObject_HEAD Tuned *tuned;
};

struct BoundTunedObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  TunedObject *tuned;
  PyObject *grid;
};

PyTypeObject *tunedType = nullptr, *boundType = nullptr;

// Beyond this number, all keys are forgotten at once.
constexpr unsigned kMostAnswers = 4096;

//===-- Keys -----------------------------------------------------------------------------------------------------===//

void append(Key &key, const void *data, size_t size) {
  key.append(static_cast<const char *>(data), static_cast<const char *>(data) + size);
}
template <typename T> void append(Key &key, T value) { append(key, &value, sizeof value); }

/// False for a value that Python must compare.
bool addValue(Key &key, PyObject *value) {
  if (value == Py_None) {
    key.push_back('n');
  } else if (PyBool_Check(value)) {
    key.push_back(value == Py_True ? 't' : 'f');
  } else if (PyLong_CheckExact(value)) {
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
      return false;
    key.push_back('i');
    append(key, number);
  } else if (PyFloat_CheckExact(value)) {
    key.push_back('d');
    append(key, PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_CheckExact(value)) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text)
      return PyErr_Clear(), false;
    key.push_back('s');
    append(key, size);
    append(key, text, size_t(size));
  } else {
    return false;
  }
  return true;
}

/// Element types and devices of the arrays in a value; false where Python must ask.
bool addKinds(Key &key, PyObject *value) {
  switch (classify(value)) {
  case ValueClass::TorchTensor: {
    TorchKind kind;
    if (!readTorchKind(value, kind))
      return false;
    key.push_back('T');
    append(key, kind.element);
    append(key, kind.device);
    return true;
  }
  case ValueClass::NumpyArray: {
    std::optional<artifact::ElementType> element = getNumpyElement(value);
    if (!element)
      return false;
    key.push_back('N');
    append(key, *element);
    return true;
  }
  case ValueClass::Tuple:
    key.push_back('(');
    append(key, PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (!addKinds(key, PyTuple_GET_ITEM(value, i)))
        return false;
    return true;
  case ValueClass::None:
  case ValueClass::Bool:
  case ValueClass::Integer:
  case ValueClass::Float:
    // Numbers count by value only if they are key arguments.
    key.push_back('-');
    return Py_TYPE(value) == &PyLong_Type || Py_TYPE(value) == &PyFloat_Type || value == Py_None || PyBool_Check(value);
  case ValueClass::Constant:
    key.push_back('-');
    return PyUnicode_CheckExact(value);
  default:
    return false;
  }
}

bool makeKey(const Tuned &tuned, PyObject *const *args, size_t positional, PyObject *names, Key &key) {
  size_t named = names ? size_t(PyTuple_GET_SIZE(names)) : 0;
  append(key, positional);
  for (size_t i = 0; i < named; ++i)
    if (!addValue(key, PyTuple_GET_ITEM(names, i)))
      return false;
  for (const KeyArgument &argument : tuned.keys) {
    PyObject *value = argument.parameter < positional ? args[argument.parameter] : nullptr;
    PyObject *name = tuned.state->parameters[argument.parameter].name.ptr();
    for (size_t i = 0; !value && i < named; ++i)
      if (PyTuple_GET_ITEM(names, i) == name || PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0)
        value = args[positional + i];
    if (!value) {
      key.push_back('?');
      continue;
    }
    py::object held = py::reinterpret_borrow<py::object>(value);
    for (const py::object &field : argument.fields) {
      held = py::reinterpret_steal<py::object>(PyObject_GetAttr(held.ptr(), field.ptr()));
      if (!held)
        return PyErr_Clear(), false;
    }
    if (!addValue(key, held.ptr()))
      return false;
  }
  for (size_t i = 0; i < positional + named; ++i)
    if (!addKinds(key, args[i]))
      return false;
  return true;
}

//===-- Answers --------------------------------------------------------------------------------------------------===//

/// Whether the configuration is unchanged since it was asked.
bool isAsBefore(const Answer &answer) {
  static PyObject *name = PyUnicode_InternFromString("_launch");
  py::object launch = py::reinterpret_steal<py::object>(PyObject_GetAttr(answer.config.ptr(), name));
  if (!launch)
    return PyErr_Clear(), false;
  if (launch.ptr() != answer.launch.ptr())
    return false;
  PyObject *then = answer.copied.ptr(), *now = answer.kwargs.ptr();
  if (PyDict_GET_SIZE(then) != PyDict_GET_SIZE(now))
    return false;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(then, &at, &key, &value);)
    if (PyDict_GetItemWithError(now, key) != value)
      return PyErr_Clear(), false;
  return true;
}

/// What Python says; null where it is to launch itself. Throws error_already_set.
std::shared_ptr<const Answer> ask(Tuned &tuned, PyObject *const *args, size_t positional, PyObject *names,
                                  PyObject *grid) {
  py::tuple given(positional);
  for (size_t i = 0; i < positional; ++i)
    given[i] = py::handle(args[i]);
  py::dict keywords;
  size_t named = names ? size_t(PyTuple_GET_SIZE(names)) : 0;
  for (size_t i = 0; i < named; ++i)
    keywords[py::handle(PyTuple_GET_ITEM(names, i))] = py::handle(args[positional + i]);
  py::object found = tuned.answer(given, keywords, py::handle(grid));
  if (found.is_none())
    return nullptr;
  auto answer = std::make_shared<Answer>(Answer{found.cast<TunedAnswer &>(), py::tuple(), {}});
  std::vector<py::object> all;
  for (size_t i = 0; i < named; ++i)
    all.push_back(py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(names, i)));
  for (auto [name, value] : answer->arguments) {
    if (keywords.contains(name)) // a launch option given by the caller takes precedence
      continue;
    all.push_back(py::reinterpret_borrow<py::object>(name));
    answer->values.push_back(py::reinterpret_borrow<py::object>(value));
  }
  answer->names = py::tuple(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    answer->names[i] = all[i];
  return answer;
}

PyObject *launchSlowly(Tuned &tuned, PyObject *const *args, size_t positional, PyObject *names, PyObject *grid) {
  llvm::SmallVector<PyObject *, 32> all(args, args + positional + (names ? PyTuple_GET_SIZE(names) : 0));
  all.push_back(grid);
  size_t named = names ? size_t(PyTuple_GET_SIZE(names)) : 0;
  py::tuple with(named + 1);
  for (size_t i = 0; i < named; ++i)
    with[i] = py::handle(PyTuple_GET_ITEM(names, i));
  with[named] = py::str("grid");
  return PyObject_Vectorcall(tuned.run.ptr(), all.data(), positional, with.ptr());
}

PyObject *boundVectorcall(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names) {
  auto *self = reinterpret_cast<BoundTunedObject *>(callable);
  Tuned &tuned = *self->tuned->tuned;
  size_t positional = PyVectorcall_NARGS(flags);
  std::shared_ptr<const Answer> answer;
  try {
    Key key;
    bool known = makeKey(tuned, args, positional, names, key);
    if (known) {
      auto entry = tuned.answers.find(llvm::StringRef(key.data(), key.size()));
      // The check may run Python, which may forget the answers.
      std::shared_ptr<const Answer> found = entry != tuned.answers.end() ? entry->second : nullptr;
      if (found && isAsBefore(*found))
        answer = std::move(found);
    }
    if (!answer && known) {
      uint64_t forgotten = tuned.forgotten;
      answer = ask(tuned, args, positional, names, self->grid);
      if (answer && forgotten == tuned.forgotten) { // not by another thread meanwhile
        if (tuned.answers.size() >= kMostAnswers)
          tuned.answers.clear();
        tuned.answers[llvm::StringRef(key.data(), key.size())] = answer;
      }
    }
    if (!answer)
      return launchSlowly(tuned, args, positional, names, self->grid);
    tuned.last = answer->config;
  } catch (py::error_already_set &error) {
    error.restore();
    return nullptr;
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  size_t named = names ? size_t(PyTuple_GET_SIZE(names)) : 0;
  llvm::SmallVector<PyObject *, 32> all(args, args + positional + named);
  for (const py::object &value : answer->values)
    all.push_back(value.ptr());
  return callKernel(*tuned.state, self->grid, all.data(), positional, answer->names.ptr());
}

//===-- The Python types -----------------------------------------------------------------------------------------===//

int boundTraverse(PyObject *self, visitproc visit, void *arg) {
  auto *bound = reinterpret_cast<BoundTunedObject *>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject *>(bound->tuned));
  Py_VISIT(bound->grid);
  return 0;
}

void boundDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  auto *bound = reinterpret_cast<BoundTunedObject *>(self);
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<PyObject *>(bound->tuned));
  Py_XDECREF(bound->grid);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyObject *tunedAt(PyObject *self, PyObject *grid) {
  auto *bound = PyObject_GC_New(BoundTunedObject, boundType);
  if (!bound)
    return nullptr;
  Py_INCREF(self);
  Py_INCREF(grid);
  bound->vectorcall = boundVectorcall;
  bound->tuned = reinterpret_cast<TunedObject *>(self);
  bound->grid = grid;
  PyObject_GC_Track(reinterpret_cast<PyObject *>(bound));
  return reinterpret_cast<PyObject *>(bound);
}

PyObject *tunedAdopt(PyObject *self, PyObject *object) {
  adoptSubscripts(object, self, tunedAt, *reinterpret_cast<TunedObject *>(self)->tuned->state);
  Py_RETURN_NONE;
}

PyObject *tunedForget(PyObject *self, PyObject *) {
  Tuned &tuned = *reinterpret_cast<TunedObject *>(self)->tuned;
  tuned.answers.clear();
  ++tuned.forgotten;
  Py_RETURN_NONE;
}

PyObject *tunedGetLast(PyObject *self, void *) {
  py::object last = reinterpret_cast<TunedObject *>(self)->tuned->last;
  return (last ? last : py::none()).release().ptr();
}

int tunedSetLast(PyObject *self, PyObject *value, void *) {
  reinterpret_cast<TunedObject *>(self)->tuned->last = py::reinterpret_borrow<py::object>(value ? value : Py_None);
  return 0;
}

int tunedTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (Tuned *tuned = reinterpret_cast<TunedObject *>(self)->tuned) {
    Py_VISIT(tuned->launcher);
    Py_VISIT(tuned->answer.ptr());
    Py_VISIT(tuned->run.ptr());
    Py_VISIT(tuned->last.ptr());
  }
  return 0;
}

int tunedClear(PyObject *self) {
  if (Tuned *tuned = std::exchange(reinterpret_cast<TunedObject *>(self)->tuned, nullptr)) {
    dropSubscripts(self);
    Py_XDECREF(tuned->launcher);
    delete tuned;
  }
  return 0;
}

void tunedDealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject *type = Py_TYPE(self);
  tunedClear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}
} // namespace

PyObject *kiln::python::makeTuned(LauncherState &state, PyObject *answer, PyObject *run, PyObject *keys) {
  return callGuarded([&]() -> PyObject * {
    auto tuned = std::make_unique<Tuned>();
    tuned->state = &state;
    tuned->answer = py::handle(answer).cast<py::function>();
    tuned->run = py::handle(run).cast<py::function>();
    for (py::handle item : py::reinterpret_borrow<py::list>(keys)) {
      KeyArgument argument;
      argument.parameter = item[py::int_(0)].cast<size_t>();
      for (py::handle field : py::tuple(item[py::int_(1)]))
        argument.fields.push_back(py::reinterpret_borrow<py::object>(field));
      tuned->keys.push_back(std::move(argument));
    }
    auto *made = PyObject_GC_New(TunedObject, tunedType);
    if (!made)
      return nullptr;
    Py_INCREF(state.launcher);
    tuned->launcher = state.launcher;
    made->tuned = tuned.release();
    PyObject_GC_Track(reinterpret_cast<PyObject *>(made));
    return reinterpret_cast<PyObject *>(made);
  });
}

void kiln::python::bindTuned(py::module_ &m) {
  py::class_<TunedAnswer>(m, "TunedAnswer", "The configuration that a tuner launches, and what it passes.")
      .def(py::init([](py::object config, py::object launch, py::dict kwargs, py::dict copied, py::dict arguments) {
             return TunedAnswer{config, launch, kwargs, copied, arguments};
           }),
           py::kw_only(), py::arg("config"), py::arg("launch"), py::arg("kwargs"), py::arg("copied"),
           py::arg("arguments"));
  static PyMethodDef methods[] = {
      {"at", tunedAt, METH_O, "at(grid): what is called with the kernel's arguments"},
      {"adopt", tunedAdopt, METH_O, "adopt(tuner): `tuner[grid]` is `at(grid)` from now on"},
      {"forget", tunedForget, METH_NOARGS, "the tuner is asked anew for every key"},
      {}};
  static PyGetSetDef properties[] = {
      {"last", tunedGetLast, tunedSetLast, "the configuration of the last launch", nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(tunedDealloc)},
                                {Py_tp_traverse, reinterpret_cast<void *>(tunedTraverse)},
                                {Py_tp_clear, reinterpret_cast<void *>(tunedClear)},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {0, nullptr}};
  static PyType_Spec spec = {"kiln._kiln.TunedLauncher", sizeof(TunedObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyMemberDef boundMembers[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundTunedObject, vectorcall), READONLY, nullptr},
      {"grid", T_OBJECT, offsetof(BoundTunedObject, grid), READONLY, nullptr},
      {}};
  static PyType_Slot boundSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(boundDealloc)},
                                     {Py_tp_traverse, reinterpret_cast<void *>(boundTraverse)},
                                     {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                                     {Py_tp_members, boundMembers},
                                     {0, nullptr}};
  static PyType_Spec boundSpec = {"kiln._kiln.BoundTunedLauncher", sizeof(BoundTunedObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                      Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  boundSlots};
  tunedType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  boundType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&boundSpec));
  if (!tunedType || !boundType)
    throw py::error_already_set();
  m.add_object("TunedLauncher", reinterpret_cast<PyObject *>(tunedType));
}
