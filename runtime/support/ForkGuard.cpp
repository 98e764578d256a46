#include "runtime/support/ForkGuard.h"
#include <condition_variable>
#include <mutex>
#include <new>
#include <pthread.h>

using namespace kiln;

namespace {
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned inside = 0;
  bool forking = false;
};

// Static storage, never destroyed, and initialised while the library is loaded: initialisation on first use inside a
// thread could itself be interrupted by a fork.
alignas(Gate) unsigned char storage[sizeof(Gate)];
Gate &gate() { return *reinterpret_cast<Gate *>(storage); }

thread_local unsigned depth = 0;

void beforeFork() {
  std::unique_lock<std::mutex> lock(gate().mutex);
  // Concurrent forks take turns.
  gate().changed.wait(lock, [] { return !gate().forking; });
  gate().forking = true;
  // A thread may fork from inside a guard; it waits only for the others.
  unsigned own = depth ? 1 : 0;
  gate().changed.wait(lock, [&] { return gate().inside == own; });
  lock.release(); // held across the fork: the child finds it in a known state
}

void inParent() {
  gate().forking = false;
  gate().mutex.unlock();
  gate().changed.notify_all();
}

void inChild() {
  // The threads that waited do not exist in the child: no thread is inside, unless this one is.
  new (&gate().changed) std::condition_variable;
  gate().inside = depth ? 1 : 0;
  gate().forking = false;
  gate().mutex.unlock();
}

[[maybe_unused]] const bool ready = [] {
  new (storage) Gate;
  pthread_atfork(beforeFork, inParent, inChild);
  return true;
}();
} // namespace

ForkGuard::ForkGuard() {
  if (depth++)
    return;
  std::unique_lock<std::mutex> lock(gate().mutex);
  gate().changed.wait(lock, [] { return !gate().forking; });
  ++gate().inside;
}

ForkGuard::~ForkGuard() {
  if (--depth)
    return;
  {
    std::lock_guard<std::mutex> lock(gate().mutex);
    --gate().inside;
  }
  gate().changed.notify_all();
}
