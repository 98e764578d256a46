// Persistent worker threads that run ranges of program instances.
//
// One launch is one job: its instances [0, count) are handed out in ascending chunks from one atomic counter, to the
// calling thread as well as to the workers, so a pool of size n runs n instances at once. Several threads may launch
// at the same time; their jobs queue up and share the workers. After fork() the child gets a fresh pool on first use
// (threads do not survive a fork). A job never allocates.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kiln {

class ThreadPool {
public:
  /// Runs instances [begin, end). `worker` is 0 for the calling thread and below size() for every other.
  /// Returns false to stop the job: chunks not yet handed out are dropped, those that run are finished.
  using ChunkFunction = bool (*)(void *context, unsigned worker, int64_t begin, int64_t end);

  /// The process's pool. The size is what setSize asked for, else the number of CPUs this process may run on.
  static std::shared_ptr<ThreadPool> get();

  /// Sets the size for get(), from the next job on; 0 is the default again. Running jobs keep the old pool alive.
  static void setSize(unsigned size);

  explicit ThreadPool(unsigned size);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;

  unsigned getSize() const { return size; }

  /// Runs `count` instances and returns when all have finished. `parallel` false keeps them on the calling thread, in
  /// ascending order.
  void run(int64_t count, ChunkFunction function, void *context, bool parallel = true);

private:
  struct State;
  unsigned size;
  std::unique_ptr<State> state;
};

/// The number of CPUs in this process's affinity mask.
unsigned getAvailableCpus();

/// At least `bytes` of scratch for the calling thread, 64-byte aligned, kept until the thread ends; contents undefined.
/// Null if the memory is not to be had.
void *getThreadFrame(size_t bytes);

} // namespace kiln
