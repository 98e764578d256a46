// See Attention.h. The clock is one thread; what it shares with others is a list under a mutex that busy threads take
// only when they come or when they find the clock asleep.
#include "runtime/support/Attention.h"
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
class AttentionClock {
public:
  /// Asks threads that are busy with what they were busy with at the last tick. Returns whether any is busy at all.
  bool tick() {
    bool busy = false;
    for (auto &attention : all) {
      uint64_t serial = attention->serial.load();
      busy |= serial & 1;
      if ((serial & 1) && serial == attention->seen)
        attention->word.store(1, std::memory_order_relaxed);
      attention->seen = serial;
    }
    return busy;
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (int idle = 0;;) {
      lock.unlock();
      std::this_thread::sleep_for(Attention::kPeriod);
      lock.lock();
      idle = tick() ? 0 : idle + 1;
      if (idle < kIdleTicks)
        continue;
      // Who begins now either sees `asleep` or is seen here.
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
  std::vector<std::shared_ptr<Attention>> all;
  std::atomic<bool> asleep{true};
  bool started = false;

private:
  static constexpr int kIdleTicks = 20;
};
} // namespace kiln

namespace {
/// What makes the thread's word go when the thread does.
struct Own {
  std::shared_ptr<Attention> attention;
  ~Own();
};
thread_local Own own;

// Static storage, never destroyed: threads end after static destructors.
alignas(AttentionClock) unsigned char storage[sizeof(AttentionClock)];
AttentionClock &getClock() { return *reinterpret_cast<AttentionClock *>(storage); }

[[maybe_unused]] const bool ready = [] {
  new (storage) AttentionClock;
  // The child has neither the clock's thread nor any other that was busy.
  pthread_atfork(nullptr, nullptr, [] {
    new (storage) AttentionClock;
    if (own.attention)
      getClock().all.push_back(own.attention);
  });
  return true;
}();

Own::~Own() {
  if (!attention)
    return;
  AttentionClock &clock = getClock();
  std::lock_guard<std::mutex> lock(clock.mutex);
  clock.all.erase(std::remove(clock.all.begin(), clock.all.end(), attention), clock.all.end());
}
} // namespace

Attention &Attention::get() {
  if (!own.attention) {
    own.attention = std::make_shared<Attention>();
    AttentionClock &clock = getClock();
    std::lock_guard<std::mutex> lock(clock.mutex);
    clock.all.push_back(own.attention);
  }
  return *own.attention;
}

void Attention::begin() {
  // Sequentially consistent, as the clock's side: of this and the look at `asleep` the other sees at least one.
  serial.fetch_add(depth++ ? 2 : 1);
  word.store(0, std::memory_order_relaxed);
  if (getClock().asleep.load())
    getClock().wakeUp();
}

void Attention::end() {
  if (--depth) {
    // What was asked of the outer one may have been taken by this one.
    word.store(1, std::memory_order_relaxed);
    return;
  }
  serial.fetch_add(1);
}
