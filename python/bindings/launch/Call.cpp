// The launch path. It calls back into Python only for something new or wrong.
#include "python/bindings/launch/Call.h"
#include "python/bindings/Interpreter.h"
#include "python/bindings/PythonSide.h"
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Pattern.h"
#include "python/bindings/launch/Reports.h"
#include "python/bindings/launch/Torch.h"
#include "python/bindings/launch/Values.h"
#include "runtime/device/CudaLog.h"
#include "runtime/launch/Staging.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;
using launch::CallEncoder;

/// Whether to warn of arrays not stored in the order of their indices (`KILN_WARN_STRIDES`).
static std::atomic<bool> warnStrides = false;

void kiln::python::setWarnStrides(bool on) { warnStrides = on; }

namespace {

/// Called around each launch, under the interpreter lock; null if there is none.
struct LaunchHooks {
  PyObject *enter = nullptr, *exit = nullptr;
} launchHooks;

/// The current value of a watched name, as an owned reference; empty if undefined.
py::object readWatched(const Watched &item) {
  PyObject *holder = item.holder.ptr();
  if (PyDict_CheckExact(holder))
    return py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(holder, item.name.ptr()));
  if (PyCell_Check(holder))
    return py::reinterpret_borrow<py::object>(PyCell_GET(holder));
  PyObject *value = PyObject_GetAttr(holder, item.name.ptr());
  if (!value)
    PyErr_Clear();
  return py::reinterpret_steal<py::object>(value);
}

/// Whether nothing that is watched has been written to. Runs no Python.
bool isUntouched(const LauncherState::Watches &watches) {
  return watches.others.empty() && llvm::all_of(watches.names, [](const LauncherState::WatchedNames &names) {
           uint64_t version = getVersion(names.dictionary.ptr());
           return version && version == names.version;
         });
}

bool isCurrent(LauncherState::Watches &watches) {
  for (LauncherState::WatchedNames &names : watches.names) {
    PyObject *dictionary = names.dictionary.ptr();
    uint64_t version = getVersion(dictionary);
    if (version && version == names.version)
      continue;
    for (auto &[name, value] : names.values) // compared by identity only
      if (PyDict_GetItemWithError(dictionary, name.ptr()) != value.ptr())
        return false;
    names.version = version;
  }
  return llvm::all_of(watches.others, [](const Watched &item) { return readWatched(item).ptr() == item.value.ptr(); });
}

/// Another thread may do the same concurrently, with its own values: a call must use the result it gets here.
std::shared_ptr<LauncherState::Watches> revalidate(LauncherState &state) {
  LaunchTerms terms = state.owner.revalidate();
  auto watches = std::make_shared<LauncherState::Watches>();
  for (py::handle item : terms.watched) {
    py::tuple triple = py::reinterpret_borrow<py::tuple>(item);
    Watched entry{triple[0], triple[1], {}};
    // Read here rather than passed from Python, so that "undefined" needs no placeholder.
    entry.value = readWatched(entry);
    if (!PyDict_CheckExact(entry.holder.ptr())) {
      watches->others.push_back(std::move(entry));
      continue;
    }
    auto names = llvm::find_if(watches->names, [&](auto &names) { return names.dictionary.is(entry.holder); });
    if (names == watches->names.end())
      names = watches->names.insert(names, {entry.holder, 0, {}});
    names->values.push_back({entry.name, entry.value});
  }
  std::unique_ptr<KernelTable> &table = state.tables[terms.prefix];
  if (!table)
    table = std::make_unique<KernelTable>();
  auto current = std::make_shared<LauncherState::Current>();
  current->prefix = terms.prefix;
  current->placement = {terms.cuda, terms.stage};
  current->collectExtents = terms.checksAccesses || terms.stage;
  current->limit = terms.limit;
  current->describesPointers = terms.describesPointers;
  current->table = table.get();
  watches->current = std::move(current);
  return state.watches = watches;
}

/// The watches of this thread. Other threads may ask concurrently, in their own scopes.
std::shared_ptr<LauncherState::Watches> findCurrent(LauncherState &state) {
  std::shared_ptr<LauncherState::Watches> watches = state.watches;
  return watches && isCurrent(*watches) ? watches : revalidate(state);
}

//===-- One call -------------------------------------------------------------------------------------------------===//

/// A call in progress. Throws error_already_set when Python has raised.
class Call {
public:
  Call(LauncherState &state, std::shared_ptr<const LauncherState::Current> current, PyObject *grid)
      : state(state), current(std::move(current)), grid(grid),
        reader(this->current->collectExtents, this->current->placement) {}

  PyObject *run(PyObject *const *args, size_t positional, PyObject *names);
  LaunchRecord prepare(PyObject *const *args, size_t positional, PyObject *names, std::vector<py::object> &kept,
                       std::vector<ParameterMark> &marks, py::dict &named);

private:
  /// Everything before the launch itself: finds the code to run with the bound arguments on this grid.
  Compiled resolve(device::Grid where, std::vector<ParameterMark> *marks = nullptr);
  void checkWritable(const Compiled &compiled);
  LaunchRecord makeRecord(const Compiled &compiled, device::Grid where);
  void bind(PyObject *const *args, size_t positional, PyObject *names);
  [[noreturn]] void explainBinding(PyObject *const *args, size_t positional, PyObject *names);
  void encodeArguments(std::vector<ParameterMark> *marks = nullptr);
  bool asksForDescriptors() const;
  /// Removes from the key what was added for descriptors.
  void dropDescribed(std::vector<ParameterMark> *marks);
  void encodeOptions();
  py::dict collectNamed();
  device::Grid evaluateGrid();
  Compiled findOrCompile();
  /// Enters compiled code in the table; if there are too many entries, drops the least recently used.
  void keep(KernelTable *table, const Compiled &compiled);
  [[noreturn]] void refuseReadOnly(llvm::StringRef name);
  [[noreturn]] void refuseCulprit();
  void resolveDevice();
  void launch(const Compiled &compiled, device::Grid grid);
  Status launchStaged(const Compiled &compiled, const device::LaunchRequest &request, device::CudaDevice &device);

  LauncherState &state;
  std::shared_ptr<const LauncherState::Current> current;
  PyObject *grid;
  llvm::SmallVector<PyObject *, 32> values;  ///< by parameter; null: not given
  llvm::SmallVector<PyObject *, 24> options; ///< by option index; null: not given
  py::object variadic;
  bool warmup = false;
  bool described = false;     ///< pointers may have become descriptors
  bool changesOption = false; ///< launched as if with other options
  Compiled *known = nullptr;  ///< the table's entry, where there was one
  CallEncoder encoder;
  size_t argumentKeySize = 0;
  int device = onHost;                  ///< a GPU's number, `onHost`, or `onNothing`: only compiled
  llvm::SmallVector<bool, 16> disjoint; ///< by array: no other array overlaps its storage
  ArgumentReader reader;
};

[[noreturn]] void raise() { throw py::error_already_set(); }

void Call::explainBinding(PyObject *const *args, size_t positional, PyObject *names) {
  py::tuple tuple(positional);
  for (size_t i = 0; i < positional; ++i)
    tuple[i] = py::handle(args[i]);
  py::dict keywords;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    keywords[py::handle(PyTuple_GET_ITEM(names, i))] = py::handle(args[positional + i]);
  state.owner.refuseBinding(tuple, keywords);
}

void Call::bind(PyObject *const *args, size_t positional, PyObject *names) {
  values.assign(state.parameters.size(), nullptr);
  options.assign(state.optionNames.size(), nullptr);
  size_t direct = std::min(positional, state.positionalCount);
  std::copy(args, args + direct, values.begin());
  if (state.variadicIndex >= 0) {
    py::tuple rest(positional - direct);
    for (size_t i = direct; i < positional; ++i)
      rest[i - direct] = py::handle(args[i]);
    variadic = rest;
    values[state.variadicIndex] = variadic.ptr();
  } else if (positional > direct) {
    explainBinding(args, positional, names);
  }
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    PyObject *name = PyTuple_GET_ITEM(names, i), *value = args[positional + i];
    // Names in source code are interned: comparing identity nearly always suffices.
    auto found = llvm::find_if(state.parameters, [&](Parameter &p) { return p.name.ptr() == name; });
    if (found == state.parameters.end()) {
      // A parameter with this name would have been found before.
      auto option = llvm::find_if(state.optionNames, [&](py::object &option) { return option.ptr() == name; });
      if (option != state.optionNames.end()) {
        options[option - state.optionNames.begin()] = value;
        continue;
      }
    }
    if (found == state.parameters.end())
      found = llvm::find_if(state.parameters, [&](Parameter &p) { return PyUnicode_Compare(p.name.ptr(), name) == 0; });
    if (found != state.parameters.end()) {
      size_t index = found - state.parameters.begin();
      if (values[index] || found->variadic)
        explainBinding(args, positional, names);
      values[index] = value;
      continue;
    }
    PyObject *index = PyDict_GetItemWithError(state.optionIndex.ptr(), name);
    if (!index)
      explainBinding(args, positional, names);
    options[PyLong_AsSsize_t(index)] = value;
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i]) {
      values[i] = state.parameters[i].defaultValue.ptr();
      if (!values[i])
        explainBinding(args, positional, names);
    }
}

void Call::encodeArguments(std::vector<ParameterMark> *marks) {
  const bool describes = asksForDescriptors();
  for (size_t i = 0; i < values.size(); ++i) {
    size_t before = encoder.getKey().size();
    ParameterMark mark{{}, encoder.getUsed(), reader.countArrays()};
    encodeParameter(state, unsigned(i), values[i], describes, encoder, reader);
    if (marks) {
      mark.key = encoder.getKey().drop_front(before).str();
      marks->push_back(std::move(mark));
    }
  }
  if (marks)
    marks->push_back({{}, encoder.getUsed(), reader.countArrays()});
  argumentKeySize = encoder.getKey().size();
  disjoint = reader.findDisjoint();
  for (bool alone : disjoint)
    encoder.addConstantBool(alone);
}

/// Whether pointers may become descriptors. An invalid value (refused later) counts as true.
bool Call::asksForDescriptors() const {
  PyObject *given = state.describePointers >= 0 ? options[state.describePointers] : nullptr;
  return given && given != Py_None ? given == Py_True : current->describesPointers;
}

void Call::encodeOptions() {
  for (size_t i = 0; i < options.size(); ++i) {
    if (!options[i] || options[i] == Py_None)
      continue;
    encoder.addConstantInteger(i);
    // A dictionary (`extern_libs`) is encoded by its entries.
    py::object entries = PyDict_Check(options[i]) ? py::reinterpret_steal<py::object>(PyDict_Items(options[i]))
                                                  : py::reinterpret_borrow<py::object>(options[i]);
    if (reader.addConstant(encoder, entries.ptr()))
      continue;
    if (PyErr_Occurred())
      raise();
    state.owner.refuseArgument(state.optionNames[i], options[i], reader.problem, reader.hint);
  }
}

/// Raises the error about the argument that the reader refused.
void Call::refuseCulprit() {
  state.owner.refuseArgument(state.parameters[reader.culprit].name, values[reader.culprit], reader.problem,
                             reader.hint);
}

void Call::resolveDevice() {
  if (!reader.resolveDevice(device))
    refuseCulprit();
  if (device != onNothing)
    return;
  // Any GPU will do: the current one of this thread, else the first; without a driver, only compile.
  ErrorOr<int> count = device::CudaDevice::count();
  if (count.ok() && *count > 0)
    device = std::max(device::CudaDevice::getCurrent(), 0);
  else if (!warmup)
    state.owner.refuseDevice(count.ok() ? "no CUDA device" : count.getStatus().getMessage());
}

/// The arguments and the launch options that were given, by name.
py::dict Call::collectNamed() {
  py::dict named;
  for (size_t i = 0; i < values.size(); ++i)
    named[state.parameters[i].name] = py::handle(values[i]);
  for (size_t i = 0; i < options.size(); ++i)
    if (options[i])
      named[state.optionNames[i]] = py::handle(options[i]);
  return named;
}

device::Grid Call::evaluateGrid() {
  py::object value = py::reinterpret_borrow<py::object>(grid);
  auto refuse = [&](const std::string &message) { state.owner.refuseGrid(value, message); };
  if (!PyTuple_Check(grid) && !PyLong_Check(grid) && PyCallable_Check(grid)) {
    py::dict meta = collectNamed();
    value = py::reinterpret_steal<py::object>(PyObject_CallOneArg(grid, meta.ptr()));
    if (!value) {
      py::error_already_set error;
      if (error.matches(PyExc_KeyError))
        state.owner.explainGridKey(error.value(), meta);
      error.restore();
      raise();
    }
  }
  int64_t sides[3] = {1, 1, 1};
  auto read = [&](PyObject *side, unsigned axis) {
    py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(side));
    if (!index) {
      PyErr_Clear();
      refuse(llvm::formatv("expected integers, got {0} in dimension {1}", py::repr(side).cast<std::string>(), axis));
    }
    int overflow;
    sides[axis] = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow || sides[axis] < 0 || sides[axis] > INT32_MAX)
      refuse(llvm::formatv("expected 0 to {0} program instances in dimension {1}, got {2}", INT32_MAX, axis,
                           py::str(index).cast<std::string>()));
  };
  if (PyTuple_Check(value.ptr()) || PyList_Check(value.ptr())) {
    // A snapshot: converting a side may change the list.
    auto items = py::reinterpret_steal<py::tuple>(PySequence_Tuple(value.ptr()));
    if (items.size() < 1 || items.size() > 3)
      refuse(llvm::formatv("expected 1 to 3 dimensions, got {0}", items.size()));
    for (size_t i = 0; i < items.size(); ++i)
      read(PyTuple_GET_ITEM(items.ptr(), i), i);
  } else if (PyIndex_Check(value.ptr())) {
    read(value.ptr(), 0);
  } else {
    refuse(
        llvm::formatv("expected an integer, a tuple of 1 to 3 integers or a function of the meta-parameters that gives "
                      "one, got {0}",
                      value.is_none() ? "None" : std::string("a ") + Py_TYPE(value.ptr())->tp_name));
  }
  if (double(sides[0]) * double(sides[1]) * double(sides[2]) > kMostInstances)
    refuse("expected at most 2^60 program instances");
  return {int32_t(sides[0]), int32_t(sides[1]), int32_t(sides[2])};
}

void Call::refuseReadOnly(llvm::StringRef name) {
  // `pair.0` belongs to the parameter before the dot, `desc` to itself.
  auto parameter =
      llvm::find_if(state.parameters, [&](const Parameter &p) { return p.rule.name == name.split('.').first; });
  size_t index = parameter - state.parameters.begin();
  state.owner.refuseArgument(py::str(name.str()), values[index],
                             "expected an array that may be written (because the kernel stores through " + name.str() +
                                 "), got a read-only one",
                             "pass a copy");
}

Compiled Call::findOrCompile() {
  // The GPU's number is at the end, so that the key without it identifies the code.
  size_t codeKeySize = encoder.getKey().size();
  encoder.addConstantInteger(device);
  KernelTable *table = current->table;
  auto entry = table->find(encoder.getKey());
  if (entry != table->end()) {
    entry->second.used = ++state.clock;
    known = &entry->second;
    return entry->second;
  }
  std::vector<launch::Specialization> specializations = launch::decodeKey(encoder.getKey().take_front(argumentKeySize));
  py::list parameters;
  for (const auto &[item, name] : llvm::zip_equal(specializations, state.names))
    parameters.append(toPython(item, name));
  py::dict given;
  for (size_t i = 0; i < options.size(); ++i)
    if (options[i] && options[i] != Py_None)
      given[state.optionNames[i]] = py::handle(options[i]);
  py::list alone;
  for (bool flag : disjoint)
    alone.append(flag);
  py::object object;
  try {
    py::bytes key(encoder.getKey().take_front(codeKeySize).str());
    object = state.owner.compile({parameters, given, key, alone, device, current->prefix});
  } catch (py::error_already_set &error) {
    // Frozen mode says which value has no code.
    if (const PythonSide &python = PythonSide::get(); error.matches(python.frozenError))
      python.tellValues(error.value(), collectNamed());
    throw;
  }
  Compiled compiled{nullptr, object};
  compiled.used = ++state.clock;
  if (device == onNothing) {
    keep(table, compiled);
    return compiled;
  }
  compiled.kernel = object.attr("loaded").cast<PyLoadedKernel &>().kernel;
  // The block was packed before the code existed; both must agree on its layout.
  uint32_t blockBytes;
  std::vector<artifact::ArgumentSpec> packed = launch::flatten(state.names, specializations, blockBytes);
  const artifact::Metadata &metadata = compiled.kernel->getMetadata();
  if (!launch::isPackedFor(metadata, packed, blockBytes))
    state.owner.refuseStatus(object, internalError("the arguments the code expects are not those of the launch: "
                                                   "metadata " +
                                                   metadata.print()));
  keep(table, compiled);
  return compiled;
}

void Call::keep(KernelTable *table, const Compiled &compiled) {
  (*table)[encoder.getKey()] = compiled;
  // Recounted each time: the owner runs Python, which may drop entries too.
  auto count = [&] {
    size_t sum = 0;
    for (auto &[prefix, entries] : state.tables)
      sum += entries->size();
    return sum;
  };
  while (current->limit && count() > current->limit) {
    KernelTable *holder = nullptr;
    KernelTable::iterator oldest;
    for (auto &[prefix, entries] : state.tables)
      for (auto entry = entries->begin(); entry != entries->end(); ++entry)
        if (!holder || entry->second.used < oldest->second.used) {
          holder = entries.get();
          oldest = entry;
        }
    py::object dropped = oldest->second.object;
    holder->erase(oldest);
    ++state.generation;
    state.owner.forget(dropped);
  }
}

} // namespace

/// Launches on the CPU and waits for the end. A separate function, to keep the setup of GPU launches small.
[[gnu::noinline]] static void launchOnHost(LauncherState &state, const Compiled &compiled, device::Grid grid,
                                           const void *block, std::vector<launch::BufferExtent> extents) {
  const artifact::Metadata &metadata = compiled.kernel->getMetadata();
  device::LaunchRequest request;
  request.grid = grid;
  request.arguments = block;
  std::optional<launch::Monitor> monitor;
  if (launch::Monitor::isNeeded(metadata)) {
    monitor.emplace(metadata, grid, std::move(extents));
    request.hooks = monitor->getHooks();
    request.runtime = &*monitor;
    request.sequential = monitor->isSequential();
  }
  Status status;
  {
    WithoutLock released;
    request.attend = [](void *released) { return !static_cast<WithoutLock *>(released)->attend(); };
    request.attendant = &released;
    status = compiled.kernel->launch(request);
  }
  // If a signal handler raises, what was printed until then is still shown.
  std::optional<py::error_already_set> raised;
  if (PyErr_Occurred())
    raised.emplace();
  if (monitor) {
    std::string output = monitor->takeOutput();
    if (!output.empty())
      showText(output);
    if (raised)
      throw std::move(*raised);
    if (monitor->getFailure())
      state.owner.raiseFailure(describeFailure(*monitor, *monitor->getFailure(), metadata, grid));
  }
  if (raised)
    throw std::move(*raised);
  if (!status.ok())
    state.owner.refuseStatus(compiled.object, status);
}

[[noreturn, gnu::cold, gnu::noinline]] static void refuseStatus(LauncherState &state, const Compiled &compiled,
                                                                const Status &status) {
  showReports();
  state.owner.refuseStatus(compiled.object, status);
}

static device::CudaDevice &findGpu(LauncherState &state, const Compiled &compiled, int device) {
  ErrorOr<device::CudaDevice *> found = device::CudaDevice::get(device);
  if (!found.ok())
    state.owner.refuseStatus(compiled.object, found.getStatus());
  device::CudaDevice &gpu = **found;
  gpu.getLogs().poll();
  showReports();
  raiseReports();
  return gpu;
}

void kiln::python::launchPacked(LauncherState &state, const Compiled &compiled, device::Grid grid, const void *block,
                                int device, void *stream, bool boundsKnown, std::vector<launch::BufferExtent> extents) {
  if (device == onHost)
    return launchOnHost(state, compiled, grid, block, std::move(extents));
  if (reportsWatched)
    findGpu(state, compiled, device);
  device::LaunchRequest request;
  request.grid = grid;
  request.arguments = block;
  request.stream = stream;
  request.boundsKnown = boundsKnown;
  Status status;
  {
    WithoutLock released;
    status = compiled.kernel->launch(request);
  }
  if (!status.ok())
    refuseStatus(state, compiled, status);
}

namespace {

/// One launch with copies of host arrays, which has ended when this returns.
Status Call::launchStaged(const Compiled &compiled, const device::LaunchRequest &request, device::CudaDevice &device) {
  launch::Staging staging(device);
  std::vector<launch::BufferExtent> extents;
  for (size_t i = 0; i < reader.extents.size(); ++i)
    if (reader.isStaged(i))
      extents.push_back(reader.extents[i]);
  if (Status status = staging.upload(extents); !status.ok())
    return status;
  llvm::SmallVector<char, 512> block(static_cast<const char *>(request.arguments),
                                     static_cast<const char *>(request.arguments) + encoder.getBlockBytes() + 8);
  unsigned array = 0;
  for (const artifact::ArgumentSpec &argument : compiled.kernel->getMetadata().arguments) {
    if (argument.kind != artifact::ArgumentKind::Pointer || !reader.isStaged(array++))
      continue;
    uintptr_t address;
    std::memcpy(&address, block.data() + argument.offset, sizeof address);
    device::cuda::Address there = staging.translate(address);
    std::memcpy(block.data() + argument.offset, &there, sizeof there);
  }
  device::LaunchRequest moved = request;
  moved.arguments = block.data();
  Status status = compiled.kernel->launch(moved);
  if (status.ok())
    status = device.synchronize();
  return status.ok() ? staging.download() : status;
}

void Call::launch(const Compiled &compiled, device::Grid grid) {
  void *stream = device == onHost ? nullptr : getTorchStream(device);
  bool staged = device != onHost && reader.isStaged();
  if (!staged && reader.producers.empty())
    return launchPacked(state, compiled, grid, encoder.getBlock(), device, stream, described,
                        std::move(reader.extents));
  device::CudaDevice &gpu = findGpu(state, compiled, device);
  for (auto [where, producer] : reader.producers) {
    Status status = gpu.order(static_cast<device::cuda::Stream>(stream), static_cast<device::cuda::Stream>(producer));
    if (!status.ok())
      state.owner.refuseStatus(compiled.object, status);
  }
  if (!staged)
    return launchPacked(state, compiled, grid, encoder.getBlock(), device, stream, described);
  device::LaunchRequest request;
  request.grid = grid;
  request.arguments = encoder.getBlock();
  request.stream = stream;
  Status status;
  {
    WithoutLock released;
    status = launchStaged(compiled, request, gpu);
  }
  showReports();
  if (!status.ok())
    state.owner.refuseStatus(compiled.object, status);
  raiseReports();
}

void Call::dropDescribed(std::vector<ParameterMark> *marks) {
  encoder.dropDescribed();
  size_t place = 0;
  for (size_t i = 0; marks && i < marks->size(); ++i) {
    ParameterMark &mark = (*marks)[i];
    mark.key = encoder.getKey().substr(place, mark.key.size()).str();
    place += mark.key.size();
  }
}

Compiled Call::resolve(device::Grid where, std::vector<ParameterMark> *marks) {
  encodeArguments(marks);
  // `warmup`, always the first option, does not affect the code.
  if (options[0]) {
    warmup = PyObject_IsTrue(options[0]) == 1;
    options[0] = nullptr;
  }
  if (!warmup && where.count() > 0 && !reader.haveData())
    refuseCulprit();
  resolveDevice();
  auto askForPointers = [&] {
    changesOption = true;
    if (state.describePointers >= 0)
      options[state.describePointers] = Py_False;
  };
  if (asksForDescriptors()) {
    // Code with descriptors instead of pointers is valid only for counts that do not wrap; others get code without.
    bool bounded = encoder.isBounded() && std::max({where.x, where.y, where.z}) <= artifact::kMostPrograms;
    described = bounded && device != onHost;
    if (!described)
      dropDescribed(marks);
    if (!bounded && device != onHost)
      askForPointers();
  }
  size_t withoutOptions = encoder.getKey().size();
  encodeOptions();
  Compiled compiled = findOrCompile();
  if (!described || !compiled.kernel || where.count() == 0 ||
      !compiled.kernel->getMetadata().findNotPositive(encoder.getBlock(), {where.x, where.y, where.z}))
    return compiled;
  // The code was not compiled for such a grid.
  described = false;
  encoder.truncateKey(withoutOptions);
  dropDescribed(marks);
  askForPointers();
  encodeOptions();
  return findOrCompile();
}

void Call::checkWritable(const Compiled &compiled) {
  llvm::StringRef name = reader.findReadOnly(compiled.kernel->getMetadata());
  if (!name.empty())
    refuseReadOnly(name);
}

PyObject *Call::run(PyObject *const *args, size_t positional, PyObject *names) {
  bind(args, positional, names);
  device::Grid where = evaluateGrid();
  device::Grid plain;
  if (!readPlainGrid(grid, plain)) // a plain grid has been handled already
    if (PyObject *done = launchLike(state, *current, where, args, positional, names))
      return done;
  Compiled compiled = resolve(where);
  if (!warmup && where.count() > 0) {
    checkWritable(compiled);
    // Do this before Python can run, and launch something that drops the entry.
    if (known && !changesOption && reader.producers.empty() && canRepeat(*current))
      notePattern(state, current,
                  {args, positional, names, values, options, device, described, disjoint, encoder.getBlock(),
                   encoder.getBlockBytes()},
                  *known);
    reader.countWrites(compiled.kernel->getMetadata());
    Recorder *recorder = Recorder::current();
    std::optional<LaunchRecord> record;
    if (recorder && (launchHooks.enter || launchHooks.exit || !reader.producers.empty() || !canRepeat(*current)))
      recorder->giveUp();
    else if (recorder)
      record = makeRecord(compiled, where);
    if (launchHooks.enter)
      callLaunchHook(/*enter=*/true, compiled, where, collectNamed());
    launch(compiled, where);
    if (launchHooks.exit)
      callLaunchHook(/*enter=*/false, compiled, where, collectNamed());
    if (record)
      recorder->note(std::move(*record));
  }
  return py::object(compiled.object).release().ptr();
}

LaunchRecord Call::makeRecord(const Compiled &compiled, device::Grid where) {
  LaunchRecord record;
  record.state = &state;
  record.launcher = py::reinterpret_borrow<py::object>(state.launcher);
  record.current = current;
  record.generation = state.generation;
  record.compiled = compiled;
  record.grid = where;
  record.device = device;
  record.describes = described;
  const auto *words = static_cast<const uint64_t *>(encoder.getBlock());
  record.block.assign(words, words + encoder.getBlockBytes() / 8 + 1);
  unsigned array = 0;
  for (const artifact::ArgumentSpec &argument : compiled.kernel->getMetadata().arguments) {
    if (argument.kind != artifact::ArgumentKind::Pointer)
      continue;
    ArgumentReader::Array read = reader.getArray(array);
    record.arrays.push_back({argument.offset, reinterpret_cast<uintptr_t>(read.address), read.begin, read.end,
                             bool(disjoint[array]), argument.written, read.tensor,
                             argument.written && read.tensor ? findTorchHandle(read.tensor) : nullptr});
    ++array;
  }
  record.alive = reader.alive;
  return record;
}

LaunchRecord Call::prepare(PyObject *const *args, size_t positional, PyObject *names, std::vector<py::object> &kept,
                           std::vector<ParameterMark> &marks, py::dict &named) {
  bind(args, positional, names);
  device::Grid where = evaluateGrid();
  Compiled compiled = resolve(where, &marks);
  if (compiled.kernel)
    checkWritable(compiled);
  for (PyObject *value : values)
    kept.push_back(py::reinterpret_borrow<py::object>(value));
  named = collectNamed();
  return makeRecord(compiled, where);
}

} // namespace

void kiln::python::encodeParameter(LauncherState &state, unsigned index, PyObject *value, bool describes,
                                   CallEncoder &encoder, ArgumentReader &reader) {
  const Parameter &parameter = state.parameters[index];
  reader.parameter = index;
  encoder.setDescribes(describes);
  bool ok = false;
  if (warnStrides && !parameter.rule.isConstexpr)
    state.owner.warnOfStrides(parameter.name, value);
  if (parameter.rule.isConstexpr) {
    ok = reader.addConstant(encoder, value);
  } else if (PyUnicode_Check(value) && value != parameter.defaultValue.ptr()) {
    reader.problem = "expected an array or a number (because the parameter is not a constexpr), got a string";
    reader.hint = "annotate the parameter with kl.constexpr, if the string chooses between variants of the kernel";
  } else {
    ok = reader.addValue(encoder, parameter.rule, value);
  }
  if (ok)
    return;
  if (PyErr_Occurred())
    raise();
  state.owner.refuseArgument(parameter.name, value, reader.problem, reader.hint);
}

bool LaunchRecord::isCurrent() {
  if (generation != state->generation)
    return false;
  std::shared_ptr<const LauncherState::Current> found = findCurrent(*state)->current;
  if (found == current)
    return true;
  // Revalidation may have found the same state as before.
  const LauncherState::Current &now = *found;
  if (generation != state->generation || now.prefix != current->prefix || now.table != current->table ||
      now.collectExtents != current->collectExtents || now.placement.cuda != current->placement.cuda ||
      now.placement.stage != current->placement.stage)
    return false;
  current = std::move(found);
  return true;
}

Recorder *&Recorder::current() {
  static thread_local Recorder *recorder = nullptr;
  return recorder;
}

void kiln::python::callLaunchHook(bool enter, const Compiled &compiled, device::Grid grid, const py::dict &named) {
  // The hook may remove itself.
  py::object hook = py::reinterpret_borrow<py::object>(enter ? launchHooks.enter : launchHooks.exit);
  if (hook)
    hook(compiled.object, py::make_tuple(grid.x, grid.y, grid.z), named);
}

bool kiln::python::hasLaunchHooks() { return launchHooks.enter || launchHooks.exit; }

bool kiln::python::canRepeat(const LauncherState::Current &current) {
  return !current.collectExtents && !current.placement.stage && !warnStrides;
}

/// Raises `error` again, with the traceback trimmed by kiln.errors.
static void raiseWithoutOurFrames(py::error_already_set &error) {
  try {
    py::object trace = error.trace() ? error.trace() : py::none();
    PythonSide::get().dropTraceback(error.value(), trace);
  } catch (py::error_already_set &) {
    // For example KeyboardInterrupt: the original error matters more.
    return error.restore();
  }
  PyErr_SetObject(error.type().ptr(), error.value().ptr());
}

void kiln::python::setLaunchHooks(py::object enter, py::object exit) {
  auto set = [](PyObject *&hook, py::object to) {
    PyObject *before = std::exchange(hook, to.is_none() ? nullptr : to.release().ptr());
    Py_XDECREF(before);
  };
  set(launchHooks.enter, std::move(enter));
  set(launchHooks.exit, std::move(exit));
}

LaunchRecord kiln::python::prepareLaunch(LauncherState &state, PyObject *grid, PyObject *const *args, size_t positional,
                                         PyObject *names, std::vector<py::object> &values,
                                         std::vector<ParameterMark> &marks, py::dict &named) {
  return Call(state, findCurrent(state)->current, grid).prepare(args, positional, names, values, marks, named);
}

PyObject *kiln::python::callKernel(LauncherState &state, PyObject *grid, PyObject *const *args, size_t positional,
                                   PyObject *names) {
  return callGuarded([&] {
    std::shared_ptr<LauncherState::Watches> held;
    if (!state.watches || !isUntouched(*state.watches))
      held = findCurrent(state);
    const std::shared_ptr<const LauncherState::Current> &current = (held ? held : state.watches)->current;
    device::Grid where;
    if (readPlainGrid(grid, where)) // which runs no Python, nor does what follows before it launches
      if (PyObject *done = launchLike(state, *current, where, args, positional, names))
        return done;
    return Call(state, current, grid).run(args, positional, names);
  });
}

PyObject *kiln::python::callGuarded(llvm::function_ref<PyObject *()> body) {
  CallFromPython call;
  try {
    return body();
  } catch (py::error_already_set &error) {
    raiseWithoutOurFrames(error);
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}
