// The interpreter lock around work that needs no Python, signals while a thread waits for such work, and what happens
// to the threads doing such work when the interpreter ends.
//
// Before Python 3.14, a thread that requests the lock of a finalising interpreter is terminated by forced unwinding,
// which C++ frames do not survive. So no thread here requests it then: it stops for good where it is, and the process
// ends around it, as Python itself does since 3.14.
#pragma once
#include <atomic>
#include <functional>
#include <pybind11/pybind11.h>

namespace kiln::python {

/// Releases the lock for the scope.
class WithoutLock {
public:
  WithoutLock();
  ~WithoutLock();
  WithoutLock(const WithoutLock &) = delete;

  /// Lets Python handle its signals, with the lock held; a handler may run any code. Returns false, with a Python error
  /// set, if one raises (KeyboardInterrupt), or if the interpreter is ending and the caller is not the thread that ends
  /// it.
  bool attend();

private:
  PyThreadState *state;
};

/// A call from Python into code that calls Python back. At exit, the interpreter waits until the thread has left it or
/// is stopped.
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

/// To be called in long work that holds the lock: if the interpreter is ending, the thread stops here for good.
void stopAtEnd();

/// Runs `work`, which must own all it uses, on a thread with a large stack, and waits for it without the lock. If a
/// signal handler raises or the interpreter ends, this sets `cancelled` and throws error_already_set at once; the work
/// continues on its own until it checks the flag.
void runApart(std::function<void()> work, std::shared_ptr<std::atomic<bool>> cancelled);

} // namespace kiln::python
