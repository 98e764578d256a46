// See Safepoint.h. The clock is one thread; it shares a list with others, under a mutex that busy threads take only
// when they are new or find the clock asleep.
#include "runtime/support/Safepoint.h"
#include "runtime/support/WithoutSignals.h"
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace kiln;

namespace kiln {
class SafepointClock {
public:
  /// Sets the words of threads that are busy with the same work as at the last tick. Returns whether any thread is
  /// busy.
  bool tick() {
    bool busy = false;
    for (auto &safepoint : all) {
      uint64_t serial = safepoint->serial.load();
      busy |= serial & 1;
      if ((serial & 1) && serial == safepoint->seen)
        safepoint->word.store(1, std::memory_order_relaxed);
      safepoint->seen = serial;
    }
    return busy;
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (int idle = 0;;) {
      lock.unlock();
      std::this_thread::sleep_for(Safepoint::kPeriod);
      lock.lock();
      idle = tick() ? 0 : idle + 1;
      if (idle < kIdleTicks)
        continue;
      // A thread that begins now either sees `asleep` or is seen here.
      asleep.store(true);
      if (tick())
        asleep.store(false);
      wake.wait(lock, [&] { return !asleep.load(); });
      idle = 0;
    }
  }

  void wakeUp() {
    std::lock_guard<std::mutex> lock(mutex);
    asleep.store(false);
    wake.notify_one();
    if (started)
      return;
    WithoutSignals masked;
    try {
      std::thread([this] { run(); }).detach();
      started = true;
    } catch (const std::system_error &) {
      asleep.store(true); // The next launch tries again.
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Safepoint>> all;
  std::atomic<bool> asleep{true};
  bool started = false;

private:
  static constexpr int kIdleTicks = 20;
};
} // namespace kiln

namespace {
/// Removes the thread's word when the thread ends.
struct Own {
  std::shared_ptr<Safepoint> safepoint;
  ~Own();
};
thread_local Own own;

// Static storage, never destroyed: threads end after static destructors.
alignas(SafepointClock) unsigned char storage[sizeof(SafepointClock)];
SafepointClock &getClock() { return *reinterpret_cast<SafepointClock *>(storage); }

[[maybe_unused]] const bool ready = [] {
  new (storage) SafepointClock;
  // The child has neither the clock's thread nor any other thread that was busy.
  pthread_atfork(nullptr, nullptr, [] {
    new (storage) SafepointClock;
    if (own.safepoint)
      getClock().all.push_back(own.safepoint);
  });
  return true;
}();

Own::~Own() {
  if (!safepoint)
    return;
  SafepointClock &clock = getClock();
  std::lock_guard<std::mutex> lock(clock.mutex);
  clock.all.erase(std::remove(clock.all.begin(), clock.all.end(), safepoint), clock.all.end());
}
} // namespace

Safepoint &Safepoint::get() {
  if (!own.safepoint) {
    own.safepoint = std::make_shared<Safepoint>();
    SafepointClock &clock = getClock();
    std::lock_guard<std::mutex> lock(clock.mutex);
    clock.all.push_back(own.safepoint);
  }
  return *own.safepoint;
}

void Safepoint::begin() {
  // Sequentially consistent, as on the clock's side: either the clock sees this, or this thread sees `asleep`.
  serial.fetch_add(depth++ ? 2 : 1);
  word.store(0, std::memory_order_relaxed);
  if (getClock().asleep.load())
    getClock().wakeUp();
}

void Safepoint::end() {
  if (--depth) {
    // A request to the outer work may have been taken by the inner one, so repeat it.
    word.store(1, std::memory_order_relaxed);
    return;
  }
  serial.fetch_add(1);
}
