// Records and repeats calls of library functions.
#include "python/bindings/launch/Replay.h"
#include "python/bindings/launch/Call.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include "llvm/ADT/DenseMap.h"
#include <pybind11/numpy.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

namespace {
/// The number of keys remembered. A call is recorded when its key is seen for the second time.
constexpr unsigned kMostKeys = 1024;
/// Code and plans may depend on an address only through its divisibility by this, or by a divisor of this.
constexpr uintptr_t kAlignment = 16;

//===-- Arguments ------------------------------------------------------------------------------------------------===//

/// An array that launches may use: an argument, or an output allocated during the call.
struct Source {
  PyObject *object = nullptr;
  uintptr_t address = 0;
  uintptr_t begin = 0, end = 0; ///< of the storage
  bool ofTorch = false;
};

/// The key of a call, and its arrays.
class Arguments {
public:
  /// False if the key would not contain everything that matters.
  bool read(PyObject *args, PyObject *kwargs, PyObject *scope) {
    add(scope);
    add(PyTuple_GET_SIZE(args));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
      if (!readValue(PyTuple_GET_ITEM(args, i)))
        return false;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &name, &value);)
      if (!PyUnicode_CheckExact(name) || !readValue(name) || !readValue(value))
        return false;
    // For arrays that share memory: which ones, their distance, and whether they are the same object.
    for (size_t i = 1; i < sources.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (sources[i].begin < sources[j].end && sources[j].begin < sources[i].end) {
          add(uint32_t(i));
          add(uint32_t(j));
          add(sources[i].address - sources[j].address);
          add(sources[i].object == sources[j].object);
        }
    return true;
  }

  llvm::StringRef getKey() const { return {key.data(), key.size()}; }

  llvm::SmallVector<Source, 12> sources;
  llvm::SmallVector<PyObject *, 4> objects; ///< identified in the key by their addresses

private:
  template <typename T> void add(T value) {
    key.append(reinterpret_cast<const char *>(&value), reinterpret_cast<const char *>(&value + 1));
  }
  bool readValue(PyObject *value);
  bool readTorch(PyObject *value);
  bool readNumpy(PyObject *value);
  bool isWatchedByTorch(PyObject *tensor);

  llvm::SmallVector<char, 512> key;
  int records = -1; ///< whether gradients are recorded; -1: not asked yet
};

bool isExactNumpyArray(PyObject *value) {
  return classify(value) == ValueClass::NumpyArray && !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) &&
         strcmp(Py_TYPE(value)->tp_name, "numpy.ndarray") == 0;
}

/// Whether objects of this class are immutable, so that the key can identify them by address.
bool isFixed(PyObject *value) {
  if (PyType_Check(value))
    return true;
  static auto &table = *new llvm::DenseMap<PyTypeObject *, bool>;
  PyTypeObject *type = Py_TYPE(value);
  auto entry = table.find(type);
  if (entry != table.end())
    return entry->second;
  llvm::StringRef name = type->tp_name;
  bool fixed = name == "torch.dtype" || name.starts_with("numpy.dtype");
  py::object parameters = getOptionalAttribute(reinterpret_cast<PyObject *>(type), "__dataclass_params__");
  if (py::object frozen = parameters ? getOptionalAttribute(parameters.ptr(), "frozen") : py::object())
    fixed |= frozen.ptr() == Py_True;
  Py_INCREF(type); // the table's
  return table[type] = fixed;
}

/// The memory of an array of numpy's own class, if its owner is known.
bool readNumpySource(PyObject *value, Source &source) {
  const auto *array = py::detail::array_proxy(value);
  const auto *whole = array;
  while (whole->base) {
    if (classify(whole->base) != ValueClass::NumpyArray)
      return false;
    whole = py::detail::array_proxy(whole->base);
    if (whole->descr != array->descr)
      return false;
  }
  std::optional<artifact::ElementType> element = getElementType(whole->descr);
  if (!element)
    return false;
  source.object = value;
  source.address = reinterpret_cast<uintptr_t>(array->data);
  source.begin = reinterpret_cast<uintptr_t>(whole->data);
  source.end = source.begin + artifact::getBytes(*element);
  for (int i = 0; i < whole->nd; ++i) {
    if (whole->dimensions[i] == 0)
      return false;
    intptr_t span = (whole->dimensions[i] - 1) * whole->strides[i];
    (span < 0 ? source.begin : source.end) += span;
  }
  return true;
}

bool readTorchSource(PyObject *value, TorchTensor &tensor, Source &source) {
  // A storage may be smaller than the range of its tensors, and a tensor without elements has no address.
  if (!readTorchTensor(value, tensor) || !tensor.address || tensor.viewBegin == tensor.viewEnd ||
      tensor.viewEnd > tensor.end)
    return false;
  source = {value, reinterpret_cast<uintptr_t>(tensor.address), tensor.begin, tensor.end, true};
  return true;
}

bool readSource(PyObject *value, Source &source) {
  TorchTensor tensor;
  return classify(value) == ValueClass::TorchTensor ? readTorchSource(value, tensor, source)
                                                    : isExactNumpyArray(value) && readNumpySource(value, source);
}

PyObject *findFunctionOfTorch(const char *name) {
  PyObject *torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._C");
  PyObject *function = torch ? PyObject_GetAttrString(torch, name) : nullptr;
  PyErr_Clear();
  return function;
}

/// Whether torch must see a call with this tensor: a gradient is recorded, or a mode is active.
bool Arguments::isWatchedByTorch(PyObject *tensor) {
  TorchState state;
  if (records < 0 && readTorchState(state)) {
    if (state.modes)
      return true;
    records = state.records;
  } else if (records < 0) {
    static PyObject *countModes = findFunctionOfTorch("_len_torch_dispatch_stack");
    static PyObject *isEnabled = findFunctionOfTorch("is_grad_enabled");
    if (!countModes || !isEnabled)
      return true;
    py::object modes = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(countModes));
    py::object enabled = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(isEnabled));
    if (!modes || !enabled || !PyLong_Check(modes.ptr()) || PyLong_AsLong(modes.ptr()) != 0) {
      PyErr_Clear();
      return true;
    }
    records = enabled.ptr() == Py_True;
  }
  if (!records)
    return false;
  if (std::optional<bool> required = requiresGradient(tensor))
    return *required;
  static PyObject *name = PyUnicode_InternFromString("requires_grad");
  py::object required = py::reinterpret_steal<py::object>(PyObject_GetAttr(tensor, name));
  if (!required)
    PyErr_Clear();
  return required.ptr() != Py_False;
}

bool Arguments::readTorch(PyObject *value) {
  TorchTensor tensor;
  Source source;
  if (isWatchedByTorch(value) || !readTorchSource(value, tensor, source))
    return false;
  add('T');
  add(Py_TYPE(value));
  add(tensor.element);
  add(tensor.device);
  add(uint8_t(source.address % kAlignment));
  add(tensor.rank);
  key.append(reinterpret_cast<const char *>(tensor.sizes), reinterpret_cast<const char *>(tensor.sizes + tensor.rank));
  key.append(reinterpret_cast<const char *>(tensor.strides),
             reinterpret_cast<const char *>(tensor.strides + tensor.rank));
  sources.push_back(source);
  return true;
}

bool Arguments::readNumpy(PyObject *value) {
  Source source;
  if (!isExactNumpyArray(value) || !readNumpySource(value, source))
    return false;
  const auto *array = py::detail::array_proxy(value);
  add('N');
  add(*getElementType(array->descr));
  add(bool(array->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_));
  add(uint8_t(source.address % kAlignment));
  add(array->nd);
  auto append = [&](const Py_ssize_t *numbers) {
    key.append(reinterpret_cast<const char *>(numbers), reinterpret_cast<const char *>(numbers + array->nd));
  };
  append(array->dimensions);
  append(array->strides);
  sources.push_back(source);
  return true;
}

bool Arguments::readValue(PyObject *value) {
  switch (classify(value)) {
  case ValueClass::TorchTensor:
    return readTorch(value);
  case ValueClass::NumpyArray:
    return readNumpy(value);
  case ValueClass::None:
    add('n');
    return true;
  case ValueClass::Bool:
    add(value == Py_True ? 't' : 'f');
    return true;
  case ValueClass::Integer: {
    int overflow = 0;
    int64_t number = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
    add('i');
    add(number);
    return PyLong_CheckExact(value) && !overflow;
  }
  case ValueClass::Float:
    add('d');
    add(PyFloat_AS_DOUBLE(value)); // by bits
    return PyFloat_CheckExact(value);
  case ValueClass::Tuple:
    if (!PyTuple_CheckExact(value))
      return false;
    add('(');
    add(PyTuple_GET_SIZE(value));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      if (!readValue(PyTuple_GET_ITEM(value, i)))
        return false;
    return true;
  default:
    break;
  }
  if (PyUnicode_CheckExact(value)) {
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text)
      return PyErr_Clear(), false;
    add('s');
    add(size);
    key.append(text, text + size);
    return true;
  }
  if (!isFixed(value))
    return false;
  add('o');
  add(value);
  objects.push_back(value);
  return true;
}

//===-- Recipes --------------------------------------------------------------------------------------------------===//

/// One launch, with the addresses to write into its block.
struct Step {
  LaunchRecord record;
  struct Place {
    uint32_t offset;
    uint32_t source;
    int64_t distance; ///< from the beginning of the source
    bool written;
  };
  llvm::SmallVector<Place, 8> places;
  py::object hooks; ///< the kernel's list of functions to be called before it is launched
};

/// An output to allocate: by a call, or by `torch.empty_like` of a source.
struct Maker {
  py::object function;
  py::tuple arguments;
  py::object named;              ///< a dictionary, or empty
  int like = -1;                 ///< the source that is the only argument
  uint8_t residue = 0;           ///< of the address, which code relies on
  std::optional<TorchSpec> spec; ///< of what torch's own functions make
};

struct Recipe {
  std::vector<Step> steps;
  std::vector<Maker> makers;
  // What is returned, by source; -1 for None.
  bool isTuple = false;
  llvm::SmallVector<int, 4> result;
};

/// Gathers a recipe while the function runs.
class CallRecorder final : public Recorder {
public:
  explicit CallRecorder(const Arguments &arguments) : sources(arguments.sources), previous(Recorder::current()) {
    Recorder::current() = active() = this;
  }
  ~CallRecorder() override {
    active() = nullptr;
    Recorder::current() = previous;
  }

  static CallRecorder *&active() {
    static thread_local CallRecorder *recorder = nullptr;
    return recorder;
  }

  void note(LaunchRecord record) override {
    Step step;
    for (const PackedArray &array : record.arrays) {
      auto source = llvm::find_if(
          sources, [&](const Source &source) { return source.begin <= array.address && array.address < source.end; });
      if (!array.address || source == sources.end()) {
        hopeless = true;
        return;
      }
      step.places.push_back(
          {array.offset, uint32_t(source - sources.begin()), int64_t(array.address - source->address), array.written});
    }
    step.hooks = getOptionalAttribute(record.state->owner.get(), "pre_run_hooks");
    if (!step.hooks || !PyList_Check(step.hooks.ptr()) || PyList_GET_SIZE(step.hooks.ptr()))
      return giveUp();
    record.arrays.clear();
    record.alive.clear();
    step.record = std::move(record);
    recipe.steps.push_back(std::move(step));
  }

  void giveUp() override { lost = true; }

  void made(py::object array, py::object like, Maker maker) {
    Source source;
    if (!readSource(array.ptr(), source)) {
      hopeless = true;
      return;
    }
    maker.residue = uint8_t(source.address % kAlignment);
    // The key determines its sizes and its device.
    py::object torch = py::reinterpret_borrow<py::object>(PyDict_GetItemString(PyImport_GetModuleDict(), "torch"));
    for (const char *name : {"empty", "empty_like"})
      if (source.ofTorch && torch && maker.function.is(getOptionalAttribute(torch.ptr(), name)))
        maker.spec = readTorchSpec(array.ptr());
    if (!like.is_none()) {
      auto found = llvm::find_if(sources, [&](const Source &source) { return source.object == like.ptr(); });
      if (found == sources.end()) {
        hopeless = true;
        return;
      }
      maker.like = int(found - sources.begin());
    }
    recipe.makers.push_back(std::move(maker));
    sources.push_back(source);
    kept.push_back(std::move(array));
  }

  /// Whether no call of this kind can be repeated.
  bool isHopeless() const { return hopeless; }

  /// Null if the call cannot be repeated.
  std::shared_ptr<Recipe> finish(PyObject *result) {
    recipe.isTuple = PyTuple_CheckExact(result);
    if (recipe.isTuple)
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
        addResult(PyTuple_GET_ITEM(result, i));
    else
      addResult(result);
    return lost || hopeless ? nullptr : std::make_shared<Recipe>(std::move(recipe));
  }

private:
  void addResult(PyObject *item) {
    auto source = llvm::find_if(sources, [&](const Source &source) { return source.object == item; });
    if (item == Py_None)
      recipe.result.push_back(-1);
    else if (source == sources.end())
      hopeless = true;
    else
      recipe.result.push_back(int(source - sources.begin()));
  }

  llvm::SmallVector<Source, 12> sources; ///< arguments, then what was made
  std::vector<py::object> kept;          ///< so that no other array reuses the memory
  Recipe recipe;
  Recorder *previous;
  bool lost = false, hopeless = false;
};

/// The number of reasons to run functions regardless of recordings; protected by the interpreter lock.
int paused = 0;

//===-- The cache ------------------------------------------------------------------------------------------------===//

struct Entry {
  std::shared_ptr<Recipe> recipe;
  bool hopeless = false;
};

struct CallCache {
  llvm::StringMap<Entry> entries;
  std::vector<py::object> objects; ///< that keys name by their addresses
  int64_t replayed = 0, recorded = 0;
  py::object never; ///< the scope in which nothing is recorded
};

struct CallCacheObject {
  PyObject_HEAD CallCache *cache;
};

bool isCurrent(Recipe &recipe) {
  for (Step &step : recipe.steps)
    if (PyList_GET_SIZE(step.hooks.ptr()) || !step.record.isCurrent())
      return false;
  return true;
}

/// Repeats the call; empty if an output differs from the recorded ones in a relevant property. Throws
/// error_already_set.
py::object replay(const Recipe &recipe, llvm::SmallVectorImpl<Source> &sources) {
  llvm::SmallVector<py::object, 2> made;
  for (const Maker &maker : recipe.makers) {
    PyObject *array = maker.spec ? makeTorch(*maker.spec) : nullptr;
    if (!array)
      array = maker.like >= 0 ? PyObject_CallOneArg(maker.function.ptr(), sources[maker.like].object)
                              : PyObject_Call(maker.function.ptr(), maker.arguments.ptr(), maker.named.ptr());
    if (!array)
      throw py::error_already_set();
    made.push_back(py::reinterpret_steal<py::object>(array));
    Source source;
    if (!readSource(array, source) || source.address % kAlignment != maker.residue)
      return {};
    sources.push_back(source);
  }
  llvm::SmallVector<uint64_t, 64> block;
  for (const Step &step : recipe.steps) {
    block.assign(step.record.block.begin(), step.record.block.end());
    for (const Step::Place &place : step.places) {
      const Source &source = sources[place.source];
      uintptr_t address = source.address + place.distance;
      std::memcpy(reinterpret_cast<char *>(block.data()) + place.offset, &address, sizeof address);
      if (place.written && source.ofTorch)
        countWrite(source.object);
    }
    const LaunchRecord &record = step.record;
    void *stream = record.device == onHost ? nullptr : getTorchStream(record.device);
    launchPacked(*record.state, record.compiled, record.grid, block.data(), record.device, stream,
                 /*boundsKnown=*/false);
  }
  auto get = [&](int source) {
    return py::reinterpret_borrow<py::object>(source < 0 ? Py_None : sources[source].object);
  };
  if (!recipe.isTuple)
    return get(recipe.result.front());
  py::tuple result(recipe.result.size());
  for (size_t i = 0; i < recipe.result.size(); ++i)
    result[i] = get(recipe.result[i]);
  return result;
}

/// call(args, kwargs, scope, function): function(args, kwargs), or what it would do.
PyObject *cacheCall(PyObject *self, PyObject *const *given, Py_ssize_t count) {
  if (count != 4 || !PyTuple_CheckExact(given[0]) || !PyDict_CheckExact(given[1])) {
    PyErr_SetString(PyExc_TypeError, "expected (tuple, dict, scope, function)");
    return nullptr;
  }
  PyObject *args = given[0], *kwargs = given[1], *function = given[3];
  auto slowly = [&] {
    PyObject *const both[] = {args, kwargs};
    return PyObject_Vectorcall(function, both, 2, nullptr);
  };
  CallCache &cache = *reinterpret_cast<CallCacheObject *>(self)->cache;
  Arguments arguments;
  if (paused || given[2] == cache.never.ptr() || Recorder::current() || hasLaunchHooks() ||
      !arguments.read(args, kwargs, given[2]))
    return slowly();
  llvm::StringRef key = arguments.getKey();
  auto entry = cache.entries.find(key);
  if (entry == cache.entries.end()) {
    // Seen once: calls that never recur, such as those with a counter among their arguments, are not worth recording.
    if (cache.entries.size() >= kMostKeys) {
      cache.entries.clear();
      cache.objects.clear();
    }
    cache.entries.try_emplace(key);
    for (PyObject *object : arguments.objects)
      cache.objects.push_back(py::reinterpret_borrow<py::object>(object));
    return slowly();
  }
  if (entry->second.hopeless)
    return slowly();
  if (std::shared_ptr<Recipe> recipe = entry->second.recipe) {
    bool current = false;
    PyObject *answer = callGuarded([&]() -> PyObject * {
      current = isCurrent(*recipe); // may run Python, which may change the cache
      if (!current)
        return nullptr;
      py::object made = replay(*recipe, arguments.sources);
      cache.replayed += bool(made);
      return made.release().ptr();
    });
    if (answer || PyErr_Occurred())
      return answer;
    if (current)
      return slowly();
  }
  std::shared_ptr<Recipe> recipe;
  bool hopeless;
  PyObject *answer;
  {
    CallRecorder recorder(arguments);
    answer = slowly();
    if (!answer)
      return nullptr;
    recipe = recorder.finish(answer);
    hopeless = recorder.isHopeless();
  }
  Entry &now = cache.entries[key];
  now.hopeless = hopeless;
  now.recipe = std::move(recipe);
  ++cache.recorded;
  return answer;
}

PyObject *cacheForget(PyObject *self, PyObject *) {
  CallCache &cache = *reinterpret_cast<CallCacheObject *>(self)->cache;
  cache.entries.clear();
  cache.objects.clear();
  Py_RETURN_NONE;
}

PyObject *cacheCounts(PyObject *self, void *) {
  const CallCache &cache = *reinterpret_cast<CallCacheObject *>(self)->cache;
  return Py_BuildValue("(nLL)", Py_ssize_t(cache.entries.size()), static_cast<long long>(cache.recorded),
                       static_cast<long long>(cache.replayed));
}

PyObject *cacheNew(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *never;
  if (!PyArg_ParseTuple(args, "O", &never))
    return nullptr;
  auto *made = reinterpret_cast<CallCacheObject *>(type->tp_alloc(type, 0));
  if (made) {
    made->cache = new CallCache;
    made->cache->never = py::reinterpret_borrow<py::object>(never);
  }
  return reinterpret_cast<PyObject *>(made);
}

void cacheDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  delete reinterpret_cast<CallCacheObject *>(self)->cache;
  type->tp_free(self);
  Py_DECREF(type);
}
} // namespace

bool kiln::python::areCallsPaused() { return paused != 0; }

void kiln::python::bindReplay(py::module_ &m) {
  static PyMethodDef methods[] = {{"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(cacheCall)),
                                   METH_FASTCALL,
                                   "call(args, kwargs, scope, function): function(args, kwargs), or what it would do"},
                                  {"forget", cacheForget, METH_NOARGS, "every call runs the function again"},
                                  {}};
  static PyGetSetDef properties[] = {
      {"counts", cacheCounts, nullptr, "keys, calls recorded, calls made again", nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(cacheNew)},
                                {Py_tp_dealloc, reinterpret_cast<void *>(cacheDealloc)},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {0, nullptr}};
  static PyType_Spec spec = {"kiln._kiln.CallCache", sizeof(CallCacheObject), 0, Py_TPFLAGS_DEFAULT, slots};
  auto *type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  if (!type)
    throw py::error_already_set();
  m.add_object("CallCache", reinterpret_cast<PyObject *>(type));
  m.def(
      "pause_calls", [](bool on) { paused += on ? 1 : -1; }, py::arg("on"),
      "Has every function run, and nothing recorded, until it is called with False as often.");
  m.def(
      "note_made",
      [](py::object array, py::object like, py::object function, py::tuple arguments, py::object named) {
        if (CallRecorder *recorder = CallRecorder::active())
          recorder->made(std::move(array), std::move(like),
                         {std::move(function), std::move(arguments), named.is_none() ? py::object() : named,
                          /*like=*/-1, /*residue=*/0, /*spec=*/std::nullopt});
      },
      py::arg("array"), py::arg("like"), py::arg("function"), py::arg("arguments"), py::arg("named"),
      "Tells a call that is being recorded of an output: function(*arguments, **named), or function(like).");
}
