// Persistent worker threads that run ranges of program instances.
//
// One launch is one job: its instances [0, count) are handed out in ascending chunks from one atomic counter, to the
// calling thread as well as to the workers, so a pool of size n runs n instances at once. Several threads may launch at
// the same time; their jobs queue up and share the workers. After fork() the child gets a new pool on first use
// (threads do not survive a fork). A job allocates nothing except for the threads that it adds.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace kiln {

class ThreadPool {
public:
  /// Runs instances [begin, end). `worker` is 0 for the calling thread and below size() for every other, except for
  /// threads that the job adds. Returns false to stop the job: chunks not yet handed out are dropped, running ones are
  /// finished.
  using ChunkFunction = bool (*)(void *context, unsigned worker, int64_t begin, int64_t end);

  /// One launch.
  class Job {
  public:
    Job(int64_t count, ChunkFunction function, void *context) : function(function), context(context), count(count) {}
    Job(const Job &) = delete;

    bool parallel = true;           ///< false: on the calling thread, in ascending order
    bool oneByOne = false;          ///< every chunk is one instance
    void (*tick)(void *) = nullptr; ///< called with the context on the calling thread, now and then while it waits
    int64_t getCount() const { return count; }
    int64_t getBegun() const { return std::min(next.load(std::memory_order_relaxed), count); }
    /// Adds threads for instances that have not started. Must be called on the calling thread, from a chunk; returns
    /// how many were added.
    unsigned addThreads(unsigned number);

  private:
    friend class ThreadPool;
    bool isExhausted() const { return next.load(std::memory_order_relaxed) >= count; }
    void runChunks(unsigned worker);

    ChunkFunction function;
    void *context;
    int64_t count;
    int64_t chunk = 1;
    ThreadPool *pool = nullptr;
    std::atomic<int64_t> next{0};
    std::atomic<int> active{0}; ///< workers running chunks of the job; changed under the pool's mutex
    Job *following = nullptr;
    std::vector<std::thread> added;
  };

  /// The process's pool. The size is what setSize asked for, else the number of CPUs this process may run on.
  static std::shared_ptr<ThreadPool> get();

  /// Sets the size for get(), from the next job on; 0 restores the default. Running jobs keep the old pool alive.
  static void setSize(unsigned size);

  explicit ThreadPool(unsigned size);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;

  unsigned getSize() const { return size; }

  /// Runs `count` instances and returns when all have finished. `parallel` false keeps them on the calling thread, in
  /// ascending order.
  void run(int64_t count, ChunkFunction function, void *context, bool parallel = true) {
    Job job(count, function, context);
    job.parallel = parallel;
    run(job);
  }
  void run(Job &job);

private:
  struct State;
  unsigned size;
  std::unique_ptr<State> state;
};

/// The number of CPUs in this process's affinity mask.
unsigned getAvailableCpus();

/// At least `bytes` of scratch memory for the calling thread, 64-byte aligned, kept until the thread ends; contents
/// undefined. Null if there is not enough memory.
void *getThreadFrame(size_t bytes);

} // namespace kiln
