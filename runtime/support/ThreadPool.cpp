// The pool: a list of jobs under one mutex, an atomic counter inside each job. A short spin before blocking keeps the
// cost of back-to-back small launches at a few microseconds without keeping a core busy between them.
#include "runtime/support/ThreadPool.h"
#include "runtime/support/ForkGuard.h"
#include "runtime/support/Safepoint.h"
#include "runtime/support/WithoutSignals.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace kiln;

static constexpr int64_t chunksPerWorker = 16;
static constexpr auto spinTime = std::chrono::microseconds(20);

static void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

template <typename Condition> static bool spinUntil(Condition condition) {
  auto deadline = std::chrono::steady_clock::now() + spinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (condition())
        return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

void ThreadPool::Job::runChunks(unsigned worker) {
  for (;;) {
    int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= count)
      return;
    if (!function(context, worker, begin, std::min(begin + chunk, count)))
      next.store(count, std::memory_order_relaxed);
  }
}

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable wake;     ///< workers wait for a job or for stop
  std::condition_variable finished; ///< callers wait for a job's last worker to leave
  Job *jobs = nullptr;              ///< oldest first
  std::atomic<int> pending{0};      ///< length of `jobs`, readable without the mutex
  int sleeping = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  void push(Job *job) {
    Job **link = &jobs;
    while (*link)
      link = &(*link)->following;
    *link = job;
    pending.fetch_add(1, std::memory_order_release);
  }

  void remove(Job *job) {
    for (Job **link = &jobs; *link; link = &(*link)->following)
      if (*link == job) {
        *link = job->following;
        pending.fetch_sub(1, std::memory_order_release);
        return;
      }
  }

  void work(unsigned worker) {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      while (jobs && jobs->isExhausted())
        remove(jobs);
      if (stopping)
        return;
      if (!jobs) {
        lock.unlock();
        bool found = spinUntil([&] { return pending.load(std::memory_order_acquire) > 0; });
        lock.lock();
        if (!found && !jobs && !stopping) {
          ++sleeping;
          wake.wait(lock, [&] { return jobs || stopping; });
          --sleeping;
        }
        continue;
      }
      Job *job = jobs;
      job->active.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      job->runChunks(worker);
      lock.lock();
      if (job->active.fetch_sub(1, std::memory_order_release) == 1)
        finished.notify_all();
    }
  }
};

ThreadPool::ThreadPool(unsigned size) : size(std::max(1u, size)), state(std::make_unique<State>()) {
  WithoutSignals masked;
  for (unsigned worker = 1; worker < this->size; ++worker)
    state->threads.emplace_back([this, worker] { state->work(worker); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->stopping = true;
  }
  state->wake.notify_all();
  for (std::thread &thread : state->threads)
    thread.join();
}

unsigned ThreadPool::Job::addThreads(unsigned number) {
  State &state = *pool->state;
  unsigned before = unsigned(added.size());
  WithoutSignals masked;
  try {
    while (number--) {
      unsigned worker = pool->size + unsigned(added.size());
      std::lock_guard<std::mutex> lock(state.mutex);
      added.emplace_back([this, worker, &state] {
        runChunks(worker);
        std::lock_guard<std::mutex> lock(state.mutex);
        active.fetch_sub(1, std::memory_order_release);
        state.finished.notify_all();
      });
      active.fetch_add(1, std::memory_order_relaxed);
    }
  } catch (const std::exception &) {
    // No memory or threads left: the job continues with those it has.
  }
  return unsigned(added.size()) - before;
}

void ThreadPool::run(Job &job) {
  int64_t count = job.count;
  if (count <= 0)
    return;
  job.pool = this;
  bool alone = !job.parallel || size == 1 || count == 1;
  job.chunk = job.oneByOne ? 1 : job.parallel ? std::max<int64_t>(1, count / (chunksPerWorker * size)) : count;
  if (alone) {
    job.runChunks(0);
    if (job.added.empty())
      return;
  } else {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->push(&job);
    int64_t others = std::min<int64_t>(state->sleeping, (count - 1) / job.chunk);
    for (int64_t i = 0; i < others; ++i)
      state->wake.notify_one();
  }
  if (!alone)
    job.runChunks(0);
  auto haveLeft = [&] { return job.active.load(std::memory_order_acquire) == 0; };
  spinUntil(haveLeft);
  std::unique_lock<std::mutex> lock(state->mutex);
  state->remove(&job); // from now on no further worker enters
  if (!job.tick)
    state->finished.wait(lock, haveLeft);
  while (!state->finished.wait_for(lock, Safepoint::kPeriod, haveLeft)) {
    lock.unlock();
    job.tick(job.context);
    lock.lock();
  }
  lock.unlock();
  for (std::thread &thread : job.added)
    thread.join();
}

//===-- The process's pool ---------------------------------------------------------------------------------------===//

namespace {
struct Global {
  std::mutex mutex;
  std::shared_ptr<ThreadPool> pool;
  unsigned requested = 0;
};
} // namespace

// Never destroyed: workers must not be joined from a static destructor of an unloading process.
static Global &global() {
  static Global *instance = [] {
    auto *created = new Global;
    // The parent's threads do not exist in a child; its pool is abandoned there, unjoined.
    pthread_atfork(nullptr, nullptr, [] { new std::shared_ptr<ThreadPool>(std::move(global().pool)); });
    return created;
  }();
  return *instance;
}

std::shared_ptr<ThreadPool> ThreadPool::get() {
  ForkGuard guard;
  std::lock_guard<std::mutex> lock(global().mutex);
  if (!global().pool)
    global().pool = std::make_shared<ThreadPool>(global().requested ? global().requested : getAvailableCpus());
  return global().pool;
}

void ThreadPool::setSize(unsigned size) {
  std::shared_ptr<ThreadPool> old; // destroyed, and so joined, after the lock is released
  ForkGuard guard;
  std::lock_guard<std::mutex> lock(global().mutex);
  global().requested = size;
  old = std::move(global().pool);
}

unsigned kiln::getAvailableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

namespace {
struct ThreadFrame {
  void *memory = nullptr;
  size_t capacity = 0;
  ~ThreadFrame() { std::free(memory); }
};
} // namespace

void *kiln::getThreadFrame(size_t bytes) {
  static thread_local ThreadFrame frame;
  if (bytes > frame.capacity) {
    std::free(frame.memory);
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    frame.memory = std::aligned_alloc(4096, rounded);
    frame.capacity = frame.memory ? rounded : 0;
  }
  return frame.memory;
}
