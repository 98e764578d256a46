// One launch: binding, specialisation, the look-up of compiled code, the grid, packing, running.
//
// The kernel object (kiln.runtime.jit.JITFunction) provides:
//   _revalidate() -> (prefix: str, watched: list[(holder, name, value)], collect_extents: bool, cuda: bool, stage:
//   bool, limit: int, describes: bool)
//       the code depends on `prefix` besides its arguments; it holds while every watched value is the same object;
//       `cuda`: the target is a GPU whatever the arrays; `stage`: arrays of the host are copied there; `describes`:
//       what the option `describe_pointers` is where nobody says so
//   _forget(compiled)                                       the launcher has dropped it
//   _compile(parameters, options: dict, key: bytes, disjoint: list[bool], device: int, prefix: str) -> compiled, with
//   `.loaded`;
//       parameters as `toPython` makes them; `disjoint`, by array: no other array overlaps its storage; `device`: the
//       GPU it is for, -1 for the CPU, -2 for code that is only compiled (then `.loaded` is None)
//   _explain_binding(args: tuple, kwargs: dict)             raises
//   _explain_argument(name, value, message, hint)           raises
//   _explain_grid(grid, message)                            raises
//   _explain_failure(compiled, failure: dict)               raises
//   _explain_status(compiled, code: str, message)           raises
//   _show(text)                                             what the kernel printed
#pragma once
#include "python/bindings/launch/Arguments.h"
#include "python/bindings/launch/Launcher.h"
#include "runtime/launch/Specialize.h"
#include "llvm/ADT/StringMap.h"
#include <unordered_map>

namespace kiln::python {

struct Parameter {
  launch::ParameterRule rule;
  pybind11::object name;
  pybind11::object defaultValue; ///< empty if there is none
  bool variadic = false, keywordOnly = false;
  std::vector<std::string> strideFields; ///< what `rule` points at
};

struct Compiled {
  std::shared_ptr<device::LoadedKernel> kernel;
  pybind11::object object;
  uint64_t used = 0; ///< the state's clock at the last launch
};

/// Compiled code by key: the encoded arguments and options.
using KernelTable = llvm::StringMap<Compiled>;

struct Watched {
  pybind11::object holder, name, value; ///< value is empty for a name that must stay undefined
};

struct LauncherState {
  pybind11::object kernel; ///< borrowed in spirit: the jit function owns the launcher, see clear()
  std::vector<Parameter> parameters;
  std::vector<std::string> names;
  size_t positionalCount = 0; ///< parameters that positions reach, *args excluded
  int variadicIndex = -1;
  std::vector<pybind11::object> optionNames; ///< interned, "warmup" first; the index orders options in the key
  pybind11::dict optionIndex;
  int describePointers = -1; ///< index of the option of this name

  std::vector<Watched> watched;
  /// What holds while the watched values do: of the thread that launched last.
  struct Current {
    bool collectExtents = false;
    PlacementRule placement;
    std::string prefix;
    bool describesPointers = false; ///< where the launch does not say
    size_t limit = 0;               ///< how many entries the tables may have together; 0: any number
    KernelTable *table = nullptr;   ///< of the prefix
  };
  std::shared_ptr<const Current> current;
  std::unordered_map<std::string, std::unique_ptr<KernelTable>> tables;
  uint64_t clock = 0; ///< counts launches
};

/// What is called before and after each launch of any kernel, with the compiled kernel, the grid and the arguments by
/// name; None for nothing.
void setLaunchHooks(pybind11::object enter, pybind11::object exit);

/// Launches the state's kernel on `grid`. Null with a Python error set if anything is wrong.
PyObject *callKernel(LauncherState &state, PyObject *grid, PyObject *const *args, size_t positional, PyObject *names);

} // namespace kiln::python
