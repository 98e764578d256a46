// See Interpreter.h.
#include "python/bindings/Interpreter.h"
#include "python/bindings/Bindings.h"
#include "python/bindings/InterpreterTable.h"
#include "runtime/support/ForkGuard.h"
#include "runtime/support/Safepoint.h"
#include "runtime/support/WithoutSignals.h"
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <set>
#include <thread>
#include <unistd.h>

namespace py = pybind11;
using namespace kiln;
using namespace kiln::python;

//===-- The interpreter's end ------------------------------------------------------------------------------------===//

// How long the interpreter waits at exit for threads inside Kiln, and the process for compiles.
static constexpr auto kPatience = std::chrono::seconds(3);
static constexpr auto kPatienceForCompiles = std::chrono::milliseconds(200);

static std::atomic<bool> ending{false};
static std::atomic<int> inside{0}, stopped{0}; // threads in calls from Python; those of them that are stopped
static std::thread::id endingThread;           // written before `ending`
static thread_local unsigned calls = 0;

static bool isOver() { return ending && std::this_thread::get_id() != endingThread; }

[[noreturn]] static void stopForGood() {
  stopped += calls > 0;
  for (;;)
    pause();
}

static void restore(PyThreadState *state) {
  if (isOver())
    stopForGood();
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind &) {
    stopForGood(); // A handler of this must not be left.
  }
}

// Both are called with the lock held; only the exit code reads the number without it.
CallFromPython::CallFromPython() : depth(calls) {
  if (!depth++)
    inside.store(inside.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
CallFromPython::~CallFromPython() {
  if (!--depth)
    inside.store(inside.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

//===-- The lock -------------------------------------------------------------------------------------------------===//

static bool attendWith(PyThreadState *&state) {
  if (isOver())
    return false;
  restore(state);
  bool quiet = PyErr_CheckSignals() == 0;
  state = PyEval_SaveThread();
  return quiet;
}

WithoutLock::WithoutLock() : state(PyEval_SaveThread()) {}
WithoutLock::~WithoutLock() { restore(state); }
bool WithoutLock::attend() { return attendWith(state); }

bool kiln::python::isEnding() { return isOver(); }

void kiln::python::stopAtEnd() {
  if (isOver())
    WithoutLock released; // never reacquired
}

//===-- Work on separate threads ---------------------------------------------------------------------------------===//

namespace {
struct Work {
  std::function<void()> run;
  std::shared_ptr<std::atomic<bool>> cancelled;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr thrown;
};

/// The compiles that run, to be cancelled at the end.
struct Running {
  std::mutex mutex;
  std::set<std::shared_ptr<std::atomic<bool>>> flags;
};
Running *running = new Running; // never destroyed: threads may outlive static destructors

/// Marks the end of a compiling thread. A thread-local object created before the compiler's, and so destroyed after
/// them: only then may the waiting thread go on, and the process end.
struct EndOfWork {
  std::shared_ptr<Work> work;
  std::unique_ptr<ForkGuard> guard;
  ~EndOfWork() {
    if (!work)
      return;
    {
      std::lock_guard<std::mutex> lock(running->mutex);
      running->flags.erase(work->cancelled);
    }
    {
      std::lock_guard<std::mutex> lock(work->mutex);
      work->done = true;
      work->changed.notify_all();
    }
    work.reset();
    guard.reset();
  }
};
} // namespace

static void *runWork(void *given) {
  static thread_local EndOfWork end;
  {
    std::unique_ptr<std::shared_ptr<Work>> work(static_cast<std::shared_ptr<Work> *>(given));
    end.work = *work;
  }
  // Held until the work is known to be done: a forked child has only the thread that waits for it.
  end.guard = std::make_unique<ForkGuard>();
  try {
    end.work->run();
  } catch (...) {
    end.work->thrown = std::current_exception();
  }
  // For a cancelled compile, this holds the last reference to its context, whose destruction needs LLVM's tables: so it
  // is destroyed before the compile counts as ended.
  end.work->run = nullptr;
  return nullptr;
}

/// Starts the thread; false if the system cannot create one.
static bool start(const std::shared_ptr<Work> &work) {
  // The compiler recurses over nested code. A stack takes memory only where it is touched.
  for (size_t stack : {size_t(512) << 20, size_t(64) << 20, size_t(8) << 20}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    auto given = std::make_unique<std::shared_ptr<Work>>(work);
    pthread_t thread;
    WithoutSignals masked;
    int code = pthread_create(&thread, &attributes, runWork, given.get());
    pthread_attr_destroy(&attributes);
    if (code == 0) {
      given.release();
      return true;
    }
  }
  return false;
}

void kiln::python::runApart(std::function<void()> work, std::shared_ptr<std::atomic<bool>> cancelled) {
  auto shared = std::make_shared<Work>();
  shared->run = std::move(work);
  shared->cancelled = cancelled;
  {
    std::lock_guard<std::mutex> lock(running->mutex);
    running->flags.insert(cancelled);
  }
  if (isOver())
    *cancelled = true;
  bool raised = false;
  {
    WithoutLock released;
    if (!start(shared)) {
      EndOfWork end{shared, std::make_unique<ForkGuard>()};
      shared->run();
      return;
    }
    std::unique_lock<std::mutex> lock(shared->mutex);
    while (!raised && !shared->changed.wait_for(lock, Safepoint::kPeriod, [&] { return shared->done; })) {
      lock.unlock();
      raised = !released.attend();
      lock.lock();
    }
    if (raised)
      *cancelled = true;
  }
  if (raised)
    throw py::error_already_set();
  if (shared->thrown)
    std::rethrow_exception(shared->thrown);
}

//===-- At the end -----------------------------------------------------------------------------------------------===//

static bool isCompiling() {
  std::lock_guard<std::mutex> lock(running->mutex);
  return !running->flags.empty();
}

/// Waits until `isOver`, or no longer than `patience`.
template <typename Condition> static void waitUntil(Condition isOver, std::chrono::milliseconds patience) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!isOver() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Runs before static destructors: a compile that is still running would find LLVM's tables destroyed.
static void endProcess(int code, void *) {
  waitUntil([] { return !isCompiling(); }, kPatienceForCompiles);
  if (!isCompiling())
    return;
  std::fflush(nullptr);
  _exit(code);
}

/// Runs before Python is torn down: threads inside Kiln leave, or stop where they are, since kernels write to arrays
/// that are about to be freed.
static void endThreads() {
  endingThread = std::this_thread::get_id();
  ending = true;
  {
    std::lock_guard<std::mutex> lock(running->mutex);
    for (const auto &flag : running->flags)
      *flag = true;
  }
  // This thread itself may be inside, as in a callback that calls sys.exit.
  int own = calls > 0;
  PyThreadState *state = PyEval_SaveThread();
  waitUntil([own] { return inside - stopped <= own; }, kPatience);
  // Exit handlers run in reverse order. A compile creates statics as it runs, which would be destroyed before an
  // earlier handler runs: so either it has ended by now, or this handler is registered after all its statics so far.
  waitUntil([] { return !isCompiling(); }, kPatienceForCompiles);
  if (isCompiling())
    on_exit(endProcess, nullptr);
  PyEval_RestoreThread(state);
}

//===-- For kiln._compiler ---------------------------------------------------------------------------------------===//

/// The file is next to this one and has a similar name.
static std::string compilerFile() {
  Dl_info own;
  if (!dladdr(reinterpret_cast<void *>(&compilerFile), &own) || !own.dli_fname)
    return "";
  std::string path = own.dli_fname;
  size_t name = path.rfind("_kiln.");
  return name == std::string::npos ? "" : path.replace(name, std::strlen("_kiln"), "_compiler");
}

const Toolchain &kiln::python::compilerTools() {
  static const Toolchain tools = toolchainOf(compilerFile());
  return tools;
}

static const InterpreterTable table = {PyEval_SaveThread,
                                       restore,
                                       attendWith,
                                       isOver,
                                       kiln::python::stopAtEnd,
                                       kiln::python::runApart,
                                       [] { on_exit(endProcess, nullptr); },
                                       compilerTools};

void kiln::python::bindInterpreter(py::module_ &m) {
  m.attr("_interpreter") = py::capsule(&table, InterpreterTable::kName);
  m.def("is_ending", isEnding, "Whether the interpreter is ending, on another thread.");
  m.def("stop_at_end", stopAtEnd, "Long work calls it: where the interpreter is ending, the thread goes no further.");
  py::module_::import("atexit").attr("register")(py::cpp_function(endThreads));
  on_exit(endProcess, nullptr);
  // A forked child has one thread, and no compiles.
  pthread_atfork(nullptr, nullptr, [] {
    running = new Running;
    inside = calls > 0;
    stopped = 0;
  });
}
