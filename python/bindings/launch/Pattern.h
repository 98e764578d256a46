// Patterns of recent calls of a kernel, argument by argument. A call that matches a pattern launches its code with the
// new arguments packed, without making a key, looking anything up or calling Python.
//
// Two calls match if their keys would be equal, which is determined from the arguments directly: the class of an array,
// its element type, whether its address is a multiple of 16, and which storages overlap; the type and the divisors of
// an integer; constants by identity or value. Only classes for which all this can be read quickly are in patterns:
// arrays of numpy's and torch's own classes, plain numbers, immutable constants. Calls with anything else, and calls
// that match no pattern, are read in full: a pattern never refuses a call.
#pragma once
#include "python/bindings/launch/Call.h"

namespace kiln::python {

/// A call that was read in full.
struct CallRead {
  PyObject *const *args;
  size_t positional;
  PyObject *names;
  llvm::ArrayRef<PyObject *> values, options; ///< by parameter; by option, null where not given
  int device;
  bool describes;                ///< pointers may have become descriptors
  llvm::ArrayRef<bool> disjoint; ///< by array
  const void *block;
  size_t blockBytes;
};

/// Keeps the pattern of a call, whose code is `compiled`, an entry of the current table.
void notePattern(LauncherState &state, const std::shared_ptr<const LauncherState::Current> &current,
                 const CallRead &call, Compiled &compiled);

/// Launches a call that matches a pattern. Null, with no Python error set, if it matches none. Throws
/// error_already_set.
PyObject *launchLike(LauncherState &state, const LauncherState::Current &current, device::Grid grid,
                     PyObject *const *args, size_t positional, PyObject *names);

/// Reads a grid that is a number or a tuple of numbers; false for any other, and for invalid ones.
bool readPlainGrid(PyObject *grid, device::Grid &result);

} // namespace kiln::python
