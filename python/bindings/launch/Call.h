// One launch: binding, specialisation, lookup of compiled code, grid, packing, running.
#pragma once
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Launcher.h"
#include "python/bindings/launch/Owner.h"
#include "runtime/launch/Specialize.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include <unordered_map>

namespace kiln::python {

struct Parameter {
  launch::ParameterRule rule;
  pybind11::object name;
  pybind11::object defaultValue; ///< empty if there is none
  bool variadic = false, keywordOnly = false;
  std::vector<std::string> strideFields; ///< the storage that `rule` refers to
};

struct Compiled {
  std::shared_ptr<device::LoadedKernel> kernel;
  pybind11::object object;
  uint64_t used = 0;         ///< the state's clock at the last launch
  unsigned unrecognised = 0; ///< calls for which no pattern is possible
};

/// Compiled code by key: the encoded arguments and options.
using KernelTable = llvm::StringMap<Compiled>;

class CallPattern;

struct Watched {
  pybind11::object holder, name, value; ///< value is empty for a name that must stay undefined
};

struct LauncherState {
  Owner owner;
  std::vector<Parameter> parameters;
  std::vector<std::string> names;
  size_t positionalCount = 0; ///< positional parameters, without *args
  int variadicIndex = -1;
  std::vector<pybind11::object> optionNames; ///< interned, "warmup" first; the index orders options in the key
  pybind11::dict optionIndex;
  int describePointers = -1; ///< index of the option of this name

  /// Names in one dictionary, which are checked again only after it has been written to.
  struct WatchedNames {
    pybind11::object dictionary;
    uint64_t version = 0; ///< of the dictionary when all of its values were the same
    std::vector<std::pair<pybind11::object, pybind11::object>> values; ///< by name
  };
  /// What is valid as long as the watched values do not change.
  struct Current {
    bool collectExtents = false;
    PlacementRule placement;
    std::string prefix;
    bool describesPointers = false; ///< the default, if the launch does not say
    size_t limit = 0;               ///< how many entries the tables may have together; 0: any number
    KernelTable *table = nullptr;   ///< of the prefix
  };
  /// The values to check for `current` to be valid. The check may run Python, which may launch; so its caller must hold
  /// a reference.
  struct Watches {
    std::vector<WatchedNames> names;
    std::vector<Watched> others; ///< in no dictionary
    std::shared_ptr<const Current> current;
  };
  std::shared_ptr<Watches> watches; ///< of the thread that launched last
  std::unordered_map<std::string, std::unique_ptr<KernelTable>> tables;
  uint64_t clock = 0; ///< counts launches
  /// Changes when code was dropped or must be requested again; holders of compiled code outside the tables compare it.
  uint64_t generation = 0;
  llvm::SmallVector<std::shared_ptr<CallPattern>, 8> patterns; ///< of calls, the most frequent first
  unsigned unlike = 0;                                         ///< calls that matched no pattern
  uint64_t recognised = 0;                                     ///< calls that matched a pattern
  PyObject *launcher = nullptr;                                ///< the Python object that owns this state
  pybind11::object attributes; ///< the kernel's attribute dictionary, if its subscripts are handled here
};

/// An array of a launch, as it was packed.
struct PackedArray {
  uint32_t offset = 0; ///< of its address in the block
  uintptr_t address = 0;
  uintptr_t begin = 0, end = 0; ///< of the storage, as ArgumentReader knows it
  bool disjoint = false;        ///< the code relies on it: no other array overlaps the storage
  bool written = false;         ///< the code stores through it
  PyObject *tensor = nullptr;   ///< of torch, or null; borrowed
  void *handle = nullptr;       ///< the tensor's, where it is written and has one
};

/// Everything about a launch, so that it can be repeated without any lookup.
struct LaunchRecord {
  LauncherState *state = nullptr; ///< kept alive by `launcher`
  pybind11::object launcher;
  std::shared_ptr<const LauncherState::Current> current;
  uint64_t generation = 0; ///< the state's
  Compiled compiled;
  device::Grid grid;
  int device = onHost;
  bool describes = false; ///< pointers may have become descriptors
  llvm::SmallVector<uint64_t, 32> block;
  std::vector<PackedArray> arrays;
  llvm::SmallVector<pybind11::object, 2> alive; ///< owners of arrays' memory, besides the arguments

  /// Whether a call with the same arguments would run this code: no switch and no captured global has changed, and the
  /// code has not been dropped.
  bool isCurrent();
};

/// Is notified of the launches made on a thread.
class Recorder {
public:
  virtual ~Recorder() = default;
  virtual void note(LaunchRecord record) = 0;
  /// A launch was made that its record does not describe completely.
  virtual void giveUp() = 0;

  /// Of this thread; null for none.
  static Recorder *&current();
};

/// Sets the functions called before and after each launch of any kernel, with the compiled kernel, the grid and the
/// arguments by name; None for no function.
void setLaunchHooks(pybind11::object enter, pybind11::object exit);

/// Whether there are launch hooks.
bool hasLaunchHooks();

/// Calls the hook before or after a launch, if there is one.
void callLaunchHook(bool enter, const Compiled &compiled, device::Grid grid, const pybind11::dict &named);

/// Runs compiled code with a packed block: on the CPU until it has ended, on a GPU (by its number) into `stream`.
/// Throws error_already_set if anything is wrong. `boundsKnown`: as in device::LaunchRequest. `extents`: of the arrays,
/// for checks.
void launchPacked(LauncherState &state, const Compiled &compiled, device::Grid grid, const void *block, int device,
                  void *stream, bool boundsKnown, std::vector<launch::BufferExtent> extents = {});

/// Program ids are counted in 64 bits with room to spare.
constexpr double kMostInstances = 0x1p60;

/// Whether a packed block can be launched again: only if launches involve no checks and no copies.
bool canRepeat(const LauncherState::Current &current);

/// The state's kernel with all its arguments bound, and its code; nothing is launched. Throws error_already_set.
/// `named`: arguments and
/// launch options by name. `marks`, by parameter: what it is in the key, and where it begins in the block and among the
/// arrays; one more for the end.
struct ParameterMark {
  std::string key;
  size_t block = 0;
  unsigned array = 0;
};
LaunchRecord prepareLaunch(LauncherState &state, PyObject *grid, PyObject *const *args, size_t positional,
                           PyObject *names, std::vector<pybind11::object> &values, std::vector<ParameterMark> &marks,
                           pybind11::dict &named);

/// Encodes the value of a parameter as a launch does. Throws error_already_set.
void encodeParameter(LauncherState &state, unsigned parameter, PyObject *value, bool describes,
                     launch::CallEncoder &encoder, ArgumentReader &reader);

/// Calls `body` for Python: an exception becomes a Python error, whose traceback kiln.errors trims, and a null result.
PyObject *callGuarded(llvm::function_ref<PyObject *()> body);

/// Launches the state's kernel on `grid`. Null with a Python error set if anything is wrong.
PyObject *callKernel(LauncherState &state, PyObject *grid, PyObject *const *args, size_t positional, PyObject *names);

} // namespace kiln::python
