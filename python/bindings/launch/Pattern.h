// What calls of a kernel have looked like lately, argument by argument: a call that is like one of them launches its
// code with the arguments packed anew, and makes no key, looks nothing up and calls no Python.
//
// What makes two calls alike is what makes their keys equal, read off the arguments themselves: the class of an array,
// its element type, whether its address is a multiple of 16 and which storages overlap; the type and the divisors of an
// integer; constants by identity or value. Only arguments of classes that say all this at once are in a pattern: arrays
// of numpy's and torch's own classes, plain numbers, constants that cannot change. Everything else is read in full, and
// so is every call that is like none of the patterns: no pattern refuses anything.
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

/// Launches a call that is like one of the patterns. Null, with no Python error set, where it is like none. Throws
/// error_already_set.
PyObject *launchLike(LauncherState &state, const LauncherState::Current &current, device::Grid grid,
                     PyObject *const *args, size_t positional, PyObject *names);

/// Reads a grid that is a number or a tuple of numbers; false for any other, and for one that is to be refused.
bool readPlainGrid(PyObject *grid, device::Grid &result);

} // namespace kiln::python
