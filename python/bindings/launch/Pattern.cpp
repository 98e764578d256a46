// Recognising calls.
#include "python/bindings/launch/Pattern.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include "llvm/ADT/STLExtras.h"
#include <pybind11/numpy.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using artifact::ElementType;

namespace kiln::python {
class CallPattern {
public:
  static std::shared_ptr<CallPattern> make(const LauncherState &state,
                                           std::shared_ptr<const LauncherState::Current> current, const CallRead &call,
                                           Compiled &compiled);

  static constexpr size_t kMostWords = 64, kMostArrays = 16;

  /// A tensor that the code writes.
  struct Written {
    PyObject *tensor;
    void *handle;
  };
  /// The storage of an array.
  struct Storage {
    uintptr_t begin, end;
  };
  /// A call that matches. Uninitialised until `fits` fills it.
  struct Packed {
    alignas(16) uint64_t block[kMostWords];
    Written written[kMostArrays];
    unsigned writtenCount;
  };

  /// Whether the call matches; packs it at the same time.
  bool fits(const device::Grid &grid, PyObject *const *args, size_t positional, PyObject *names, Packed &packed);

  /// Whether a full lookup would still find this code.
  bool holds(const LauncherState &state, const LauncherState::Current &now) const {
    return current.get() == &now && generation == state.generation;
  }

  Compiled *compiled = nullptr; ///< the table's entry: valid as long as the generation is this one
  int device = onHost;
  bool describes = false; ///< the code is valid for certain launches only, such as this one

private:
  enum class Kind : uint8_t { Class, Constant, Integer, Float, Bool, Torch, Numpy };
  /// One given argument, the class of a tuple, or one of its items. The checks of tuple classes come first, then
  /// constants and numbers, which are the fastest to read.
  struct Step {
    Kind kind = Kind::Constant;
    ElementType element = ElementType::I32;
    char told = 0;                        ///< the divisors as encoded in a key
    bool isOne = false, oneIsOne = false; ///< the constant 1; whether any 1 is
    launch::DivisorRule divisors;
    bool isWritten = false, tellsAlignment = false;
    uint16_t source = 0;          ///< index into the caller's arguments
    int16_t item = -1;            ///< index of this item in the tuple
    uint16_t offset = 0;          ///< in the block
    uint16_t place = 0;           ///< the offset of the handle in the tensor object
    PyObject *is = nullptr;       ///< the constant, or the class of an array or a tuple; kept by `kept`
    PyObject *elements = nullptr; ///< of an array of numpy: their type
    // For a tensor: its kind; and the tensor last found to be whole, with its memory.
    TorchLikeness like;
    const void *tensor = nullptr;
    TorchPlace last = {};
  };

  bool addConstant(size_t source, int item, PyObject *value);
  bool addArgument(const launch::ParameterRule &rule, int source, int item, PyObject *value,
                   llvm::ArrayRef<artifact::ArgumentSpec> &left);
  bool addTuple(const launch::ParameterRule &rule, int source, PyObject *value,
                llvm::ArrayRef<artifact::ArgumentSpec> &left);
  LLVM_ATTRIBUTE_ALWAYS_INLINE bool packInteger(const Step &step, PyObject *value, char *place) const;
  LLVM_ATTRIBUTE_ALWAYS_INLINE static bool packFloat(const Step &step, PyObject *value, char *place);
  static bool packBool(PyObject *value, char *place);
  bool readTorch(Step &step, PyObject *value, Packed &packed, Storage &storage);
  static bool readNumpy(const Step &step, PyObject *value, char *place, Storage &storage);
  static bool isSame(PyObject *value, PyObject *constant);
  bool overlapAsBefore(llvm::ArrayRef<Storage> storages) const;

  std::shared_ptr<const LauncherState::Current> current;
  uint64_t generation = 0;
  size_t positional = 0;
  py::object names; ///< a tuple, or empty
  bool allDisjoint = true;
  bool arraysKnown = false; ///< the tensors last found to be whole also overlapped as required
  size_t arrayCount = 0;
  llvm::SmallVector<bool, kMostArrays> disjoint;
  llvm::SmallVector<uint64_t, 32> block;
  llvm::SmallVector<Step, 16> steps;
  std::vector<py::object> kept;
};
} // namespace kiln::python

//===-- Making one -----------------------------------------------------------------------------------------------===//

/// Whether the object is immutable, also in keys, and refers to nothing that the garbage collector must see.
static bool isUnchanging(PyObject *value) {
  if (value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
      PyUnicode_CheckExact(value))
    return true;
  if (!PyTuple_CheckExact(value))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
    if (!isUnchanging(PyTuple_GET_ITEM(value, i)))
      return false;
  return true;
}

/// Constants of other classes: looked up by equality, which identical objects always satisfy.
static bool isConstantObject(PyObject *value) { return classify(value) == ValueClass::Constant; }

bool CallPattern::addConstant(size_t source, int item, PyObject *value) {
  if (!isUnchanging(value) && !isConstantObject(value))
    return false;
  Step step;
  step.source = uint16_t(source);
  step.item = int16_t(item);
  step.is = value;
  kept.push_back(py::reinterpret_borrow<py::object>(value));
  steps.push_back(step);
  return true;
}

/// `left`: the code's parameters from this argument on.
bool CallPattern::addTuple(const launch::ParameterRule &rule, int source, PyObject *value,
                           llvm::ArrayRef<artifact::ArgumentSpec> &left) {
  const TupleClass *kind = findTupleClass(value);
  Py_ssize_t size = PyTuple_GET_SIZE(value);
  if (!kind || size > INT16_MAX || (!kind->names.empty() && size != Py_ssize_t(kind->names.size()))) {
    PyErr_Clear();
    return false;
  }
  Step step;
  step.kind = Kind::Class;
  step.source = uint16_t(source);
  step.offset = uint16_t(size);
  step.is = reinterpret_cast<PyObject *>(Py_TYPE(value));
  kept.push_back(py::reinterpret_borrow<py::object>(step.is));
  steps.push_back(step);
  launch::ParameterRule inner;
  inner.specialize = rule.specialize;
  inner.specializeAlignment = rule.specializeAlignment;
  for (Py_ssize_t i = 0; i < size; ++i) {
    inner.isConstexpr = kind->id && kind->isConstexpr[i];
    inner.isStride = rule.isStride || (kind->id && kind->isStride[i]) ||
                     (!kind->names.empty() && llvm::is_contained(rule.strideFields, kind->names[i]));
    if (!addArgument(inner, source, int(i), PyTuple_GET_ITEM(value, i), left))
      return false;
  }
  return true;
}

bool CallPattern::addArgument(const launch::ParameterRule &rule, int source, int item, PyObject *value,
                              llvm::ArrayRef<artifact::ArgumentSpec> &left) {
  int64_t number = 0;
  int overflow = 0;
  if (PyLong_CheckExact(value) && !rule.isConstexpr)
    number = PyLong_AsLongLongAndOverflow(value, &overflow);
  bool isOne = !rule.isConstexpr && !rule.annotation && number == 1 && !overflow && rule.specialize;
  bool isConstant = rule.isConstexpr || value == Py_None || isOne;
  if (!rule.isConstexpr && PyTuple_Check(value))
    return source >= 0 && item < 0 && addTuple(rule, source, value, left);
  const artifact::ArgumentSpec *argument = isConstant || left.empty() ? nullptr : &left.front();
  if (argument)
    left = left.drop_front();
  // A default is already in the block or in the key.
  if (source < 0)
    return isUnchanging(value) && (isConstant || argument);
  if (rule.isConstexpr || value == Py_None)
    return addConstant(size_t(source), item, value);
  if (!isConstant && (!argument || argument->offset > UINT16_MAX))
    return false;
  Step step;
  step.kind = Kind::Integer;
  step.element = argument ? argument->element : ElementType::I32;
  step.source = uint16_t(source);
  step.item = int16_t(item);
  step.isOne = isOne;
  step.oneIsOne = rule.specialize;
  step.offset = isConstant ? uint16_t(0) : uint16_t(argument->offset);
  switch (classify(value)) {
  case ValueClass::Integer:
    if (!PyLong_CheckExact(value) || rule.annotation || overflow)
      return false;
    step.divisors = launch::DivisorRule(rule, describes);
    step.told = step.divisors.tell(uint64_t(number));
    break;
  case ValueClass::Float:
    step.kind = Kind::Float;
    if (!PyFloat_CheckExact(value) || !artifact::isFloat(step.element))
      return false;
    break;
  case ValueClass::Bool:
    step.kind = Kind::Bool;
    if (rule.annotation)
      return false;
    break;
  case ValueClass::TorchTensor: {
    TorchMemory memory;
    void *handle = findTorchHandle(value);
    std::optional<TorchLikeness> like = handle ? findTorchLikeness(handle) : std::nullopt;
    if (!like || !readTorchMemory(handle, memory) || !memory.address || memory.device != device)
      return false;
    step.kind = Kind::Torch;
    step.element = memory.element;
    step.like = *like;
    step.place = uint16_t(static_cast<char *>(handle) - reinterpret_cast<char *>(value));
    step.told = reinterpret_cast<uintptr_t>(memory.address) % 16 == 0;
    break;
  }
  case ValueClass::NumpyArray: {
    const auto *array = py::detail::array_proxy(value);
    std::optional<ElementType> element = getNumpyElement(value);
    if (!element || device != onHost)
      return false;
    step.kind = Kind::Numpy;
    step.element = *element;
    step.elements = array->descr;
    step.told = reinterpret_cast<uintptr_t>(array->data) % 16 == 0;
    break;
  }
  default:
    return false;
  }
  if (step.kind == Kind::Torch || step.kind == Kind::Numpy) {
    if (argument->kind != artifact::ArgumentKind::Pointer)
      return false;
    step.isWritten = argument->written;
    step.tellsAlignment = rule.specialize && rule.specializeAlignment;
    step.is = reinterpret_cast<PyObject *>(Py_TYPE(value));
    kept.push_back(py::reinterpret_borrow<py::object>(step.is));
    kept.push_back(py::reinterpret_borrow<py::object>(step.elements));
    ++arrayCount;
  }
  steps.push_back(step);
  return true;
}

std::shared_ptr<CallPattern> CallPattern::make(const LauncherState &state,
                                               std::shared_ptr<const LauncherState::Current> current,
                                               const CallRead &call, Compiled &compiled) {
  size_t words = call.blockBytes / 8 + 1;
  size_t named = call.names ? size_t(PyTuple_GET_SIZE(call.names)) : 0;
  if (words > kMostWords || call.disjoint.size() > kMostArrays || state.variadicIndex >= 0 ||
      call.positional + named > UINT16_MAX)
    return nullptr;
  auto made = std::make_shared<CallPattern>();
  made->current = std::move(current);
  made->generation = state.generation;
  made->compiled = &compiled;
  made->device = call.device;
  made->positional = call.positional;
  made->names = py::reinterpret_borrow<py::object>(call.names);
  made->describes = call.describes;
  made->disjoint.assign(call.disjoint.begin(), call.disjoint.end());
  made->allDisjoint = llvm::all_of(call.disjoint, [](bool alone) { return alone; });
  const auto *packed = static_cast<const uint64_t *>(call.block);
  made->block.assign(packed, packed + words);
  // How the caller passed the value: by position or by name.
  auto find = [&](PyObject *name) {
    for (size_t i = 0; i < named; ++i) {
      PyObject *other = PyTuple_GET_ITEM(call.names, i);
      if (other == name || PyUnicode_Compare(other, name) == 0)
        return int(call.positional + i);
    }
    return -1;
  };
  llvm::ArrayRef<artifact::ArgumentSpec> left = compiled.kernel->getMetadata().arguments;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Parameter &parameter = state.parameters[i];
    int source = !parameter.keywordOnly && i < call.positional ? int(i) : find(parameter.name.ptr());
    if (!made->addArgument(parameter.rule, source, /*item=*/-1, call.values[i], left))
      return nullptr;
  }
  if (!left.empty())
    return nullptr;
  for (size_t i = 0; i < call.options.size(); ++i)
    if (call.options[i] && !made->addConstant(size_t(find(state.optionNames[i].ptr())), /*item=*/-1, call.options[i]))
      return nullptr;
  // Options that do not affect the code (`warmup`) have no step. Arrays of two libraries would be reordered. Without
  // arrays, the GPU cannot be determined from them.
  auto isNumpy = [](const Step &step) { return step.kind == Kind::Numpy; };
  auto isTorch = [](const Step &step) { return step.kind == Kind::Torch; };
  auto isGiven = [](const Step &step) { return step.item < 0; };
  if (size_t(llvm::count_if(made->steps, isGiven)) != call.positional + named ||
      made->arrayCount != call.disjoint.size() || (call.device != onHost && !made->arrayCount) ||
      (llvm::any_of(made->steps, isNumpy) && llvm::any_of(made->steps, isTorch)))
    return nullptr;
  llvm::sort(made->steps, [](const Step &a, const Step &b) {
    return std::tuple(a.kind, a.offset) < std::tuple(b.kind, b.offset); // arrays stay in the block's order
  });
  return made;
}

//===-- Recognising a call ---------------------------------------------------------------------------------------===//

bool CallPattern::isSame(PyObject *value, PyObject *constant) {
  if (value == constant)
    return true;
  if (Py_TYPE(value) != Py_TYPE(constant))
    return false;
  if (PyLong_CheckExact(value)) {
    int overflow, other;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return number == PyLong_AsLongLongAndOverflow(constant, &other) && !overflow && !other;
  }
  if (PyFloat_CheckExact(value)) {
    double a = PyFloat_AS_DOUBLE(value), b = PyFloat_AS_DOUBLE(constant);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  return PyUnicode_CheckExact(value) && PyUnicode_Compare(value, constant) == 0;
}

bool CallPattern::packInteger(const Step &step, PyObject *value, char *place) const {
  if (!PyLong_CheckExact(value))
    return false;
  int overflow;
  int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow || (number == 1 && step.oneIsOne) != step.isOne)
    return false;
  if (step.isOne)
    return true;
  bool narrow = number == int32_t(number);
  if (narrow != (step.element == ElementType::I32) || step.divisors.tell(uint64_t(number)) != step.told ||
      (describes && (number < 0 || number > artifact::kMostCount)))
    return false;
  if (narrow)
    std::memcpy(place, &number, 4);
  else
    std::memcpy(place, &number, 8);
  return true;
}

bool CallPattern::packFloat(const Step &step, PyObject *value, char *place) {
  if (!PyFloat_CheckExact(value))
    return false;
  double number = PyFloat_AS_DOUBLE(value);
  if (step.element != ElementType::FP32) {
    artifact::encodeFloat(step.element, number, place);
    return true;
  }
  auto single = float(number);
  std::memcpy(place, &single, sizeof single);
  return true;
}

bool CallPattern::packBool(PyObject *value, char *place) {
  if (value != Py_True && value != Py_False)
    return false;
  *place = value == Py_True;
  return true;
}

bool CallPattern::readTorch(Step &step, PyObject *value, Packed &packed, Storage &storage) {
  if (reinterpret_cast<PyObject *>(Py_TYPE(value)) != step.is)
    return false;
  TorchPlace place;
  void *handle = reinterpret_cast<char *>(value) + step.place;
  if (!readTorchLike(handle, step.like, place) || !place.address ||
      (step.tellsAlignment && (place.address % 16 == 0) != bool(step.told)))
    return false;
  // Shrinking a storage changes its end.
  if (value != step.tensor || place.address != step.last.address || place.begin != step.last.begin ||
      place.end != step.last.end) {
    arraysKnown = false;
    if (!isWhole(handle, place, step.element))
      return false;
    step.tensor = value;
    step.last = place;
  }
  storage = {place.begin, place.end};
  std::memcpy(reinterpret_cast<char *>(packed.block) + step.offset, &place.address, sizeof place.address);
  if (step.isWritten)
    packed.written[packed.writtenCount++] = {value, handle};
  return true;
}

bool CallPattern::readNumpy(const Step &step, PyObject *value, char *place, Storage &storage) {
  if (reinterpret_cast<PyObject *>(Py_TYPE(value)) != step.is)
    return false;
  const auto *array = py::detail::array_proxy(value);
  auto address = reinterpret_cast<uintptr_t>(array->data);
  if (array->descr != step.elements || !(array->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_) ||
      (step.tellsAlignment && (address % 16 == 0) != bool(step.told)))
    return false;
  const auto *whole = array;
  while (whole->base) {
    if (reinterpret_cast<PyObject *>(Py_TYPE(whole->base)) != step.is)
      return false;
    whole = py::detail::array_proxy(whole->base);
    if (whole->descr != array->descr)
      return false;
  }
  setBounds(reinterpret_cast<uintptr_t>(whole->data), whole->nd, reinterpret_cast<const int64_t *>(whole->dimensions),
            reinterpret_cast<const int64_t *>(whole->strides), artifact::getBytes(step.element), storage.begin,
            storage.end);
  std::memcpy(place, &address, sizeof address);
  return true;
}

bool CallPattern::overlapAsBefore(llvm::ArrayRef<Storage> storages) const {
  if (!allDisjoint) {
    llvm::SmallVector<std::pair<uintptr_t, uintptr_t>, kMostArrays> pairs;
    for (Storage storage : storages)
      pairs.push_back({storage.begin, storage.end});
    return llvm::equal(findDisjoint(pairs), disjoint);
  }
  for (size_t i = 1; i < storages.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (storages[i].begin < storages[j].end && storages[j].begin < storages[i].end &&
          storages[i].begin < storages[i].end && storages[j].begin < storages[j].end)
        return false;
  return true;
}

bool CallPattern::fits(const device::Grid &grid, PyObject *const *args, size_t given, PyObject *by, Packed &packed) {
  if (given != positional)
    return false;
  if (by != names.ptr()) { // a call site always passes the same object
    if (!by || !names || PyTuple_GET_SIZE(by) != PyTuple_GET_SIZE(names.ptr()))
      return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(by); ++i)
      if (PyTuple_GET_ITEM(by, i) != PyTuple_GET_ITEM(names.ptr(), i))
        return false;
  }
  if (describes && std::max({grid.x, grid.y, grid.z}) > artifact::kMostPrograms)
    return false;
  std::memcpy(packed.block, block.data(), block.size() * sizeof(uint64_t));
  packed.writtenCount = 0;
  Storage storages[kMostArrays];
  unsigned arrays = 0;
  // Steps are grouped by kind.
  Step *step = steps.begin(), *end = steps.end();
  auto comes = [&](Kind kind) { return step != end && step->kind == kind; };
  auto value = [&] {
    PyObject *given = args[step->source];
    return step->item < 0 ? given : PyTuple_GET_ITEM(given, step->item);
  };
  auto place = [&] { return reinterpret_cast<char *>(packed.block) + step->offset; };
  for (; comes(Kind::Class); ++step)
    if (PyObject *tuple = value();
        reinterpret_cast<PyObject *>(Py_TYPE(tuple)) != step->is || PyTuple_GET_SIZE(tuple) != step->offset)
      return false;
  for (; comes(Kind::Constant); ++step)
    if (!isSame(value(), step->is))
      return false;
  for (; comes(Kind::Integer); ++step)
    if (!packInteger(*step, value(), place()))
      return false;
  for (; comes(Kind::Float); ++step)
    if (!packFloat(*step, value(), place()))
      return false;
  for (; comes(Kind::Bool); ++step)
    if (!packBool(value(), place()))
      return false;
  for (; comes(Kind::Torch); ++step)
    if (!readTorch(*step, value(), packed, storages[arrays++]))
      return false;
  for (; comes(Kind::Numpy); ++step) {
    arraysKnown = false;
    if (!readNumpy(*step, value(), place(), storages[arrays++]))
      return false;
  }
  // The code is valid for certain launches only.
  if (describes && compiled->kernel->getMetadata().findNotPositive(packed.block, {grid.x, grid.y, grid.z}))
    return false;
  if (!arraysKnown)
    arraysKnown = overlapAsBefore({storages, arrays});
  return arraysKnown;
}

//===-- Launching ------------------------------------------------------------------------------------------------===//

void kiln::python::notePattern(LauncherState &state, const std::shared_ptr<const LauncherState::Current> &current,
                               const CallRead &call, Compiled &compiled) {
  // Bound the cost of calls that cannot be recognised, and of many kinds of calls that alternate.
  constexpr size_t kMost = 8, kPatience = 8;
  constexpr unsigned kTries = 4;
  if (compiled.unrecognised >= kTries)
    return;
  if (state.patterns.size() == kMost && ++state.unlike % kPatience)
    return;
  std::shared_ptr<CallPattern> made = CallPattern::make(state, current, call, compiled);
  if (!made) {
    ++compiled.unrecognised;
    return;
  }
  if (state.patterns.size() == kMost)
    state.patterns.back() = std::move(made);
  else
    state.patterns.push_back(std::move(made));
}

PyObject *kiln::python::launchLike(LauncherState &state, const LauncherState::Current &current, device::Grid grid,
                                   PyObject *const *args, size_t positional, PyObject *names) {
  if (state.patterns.empty() || grid.count() <= 0 || !canRepeat(current) || hasLaunchHooks() || Recorder::current())
    return nullptr;
  CallPattern::Packed packed;
  auto &patterns = state.patterns;
  for (size_t i = 0; i < patterns.size();) {
    CallPattern &pattern = *patterns[i];
    if (!pattern.holds(state, current)) {
      patterns.erase(patterns.begin() + i);
      continue;
    }
    if (!pattern.fits(grid, args, positional, names, packed)) {
      ++i;
      continue;
    }
    // From here on, other threads may run and drop the pattern.
    pattern.compiled->used = ++state.clock;
    Compiled compiled = *pattern.compiled;
    int device = pattern.device;
    bool describes = pattern.describes;
    ++state.recognised;
    if (i)
      std::swap(patterns[i], patterns[i - 1]);
    for (auto [tensor, handle] : llvm::ArrayRef(packed.written, packed.writtenCount))
      if (!countTorchWrite(handle))
        countWrite(tensor);
    void *stream = device == onHost ? nullptr : getTorchStream(device);
    launchPacked(state, compiled, grid, packed.block, device, stream, /*boundsKnown=*/describes);
    return compiled.object.release().ptr();
  }
  return nullptr;
}

bool kiln::python::readPlainGrid(PyObject *grid, device::Grid &result) {
  int32_t *const sides[] = {&result.x, &result.y, &result.z};
  PyObject *const *items = &grid;
  Py_ssize_t rank = 1;
  if (PyTuple_CheckExact(grid)) {
    items = PySequence_Fast_ITEMS(grid);
    rank = PyTuple_GET_SIZE(grid);
    if (rank < 1 || rank > 3)
      return false;
  }
  double count = 1;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    if (!PyLong_CheckExact(items[i]))
      return false;
    int overflow;
    int64_t side = PyLong_AsLongLongAndOverflow(items[i], &overflow);
    if (overflow || side < 0 || side > INT32_MAX)
      return false;
    *sides[i] = int32_t(side);
    count *= double(side);
  }
  return count <= kMostInstances;
}
