// The interpreter lock around work that needs no Python, signals while a thread waits for such work, and what becomes
// of the threads that are at it when the interpreter ends.
//
// A thread that asks a finalising interpreter for its lock is ended by a forced unwinding (before Python 3.14), which
// no C++ frame between survives. So nobody here asks then: such a thread stops for good where it is, and the process
// ends around it, as Python itself does since 3.14.
#pragma once
#include <atomic>
#include <functional>
#include <pybind11/pybind11.h>

namespace kiln::python {

/// Gives the lock away for the scope.
class WithoutLock {
public:
  WithoutLock();
  ~WithoutLock();
  WithoutLock(const WithoutLock &) = delete;

  /// Has Python look at its signals, with the lock; a handler may run any code. Returns false, with a Python error set,
  /// where one raises (KeyboardInterrupt), or where the interpreter is ending and the caller is not the thread that
  /// ends it.
  bool attend();

private:
  PyThreadState *state;
};

/// A call from Python into code that calls Python back. The interpreter's end waits until the thread is out of it, or
/// stopped.
class CallFromPython {
public:
  CallFromPython();
  ~CallFromPython();
  CallFromPython(const CallFromPython &) = delete;

private:
  unsigned &depth; ///< the thread's, looked up once
};

/// Whether the interpreter is ending, on another thread.
bool isEnding();

/// To be called in long work that holds the lock: where the interpreter is ending, the thread stops here for good.
void stopAtEnd();

/// Runs `work`, which must own all it uses, on a thread with a large stack, and waits for it without the lock. Where a
/// signal's handler raises or the interpreter ends this throws error_already_set at once; `cancelled` is set then, and
/// the work goes on alone until it looks at it.
void runApart(std::function<void()> work, std::shared_ptr<std::atomic<bool>> cancelled);

} // namespace kiln::python
