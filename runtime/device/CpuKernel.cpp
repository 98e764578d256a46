// Launches of native code: chunks on the thread pool, frames and workspace, safepoints, instances that wait.
#include "runtime/device/CpuKernel.h"
#include "runtime/support/Safepoint.h"
#include "runtime/support/ThreadPool.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <chrono>
#include <csetjmp>
#include <cstring>
#include <sched.h>
#include <utility>

using namespace kiln;
using namespace kiln::device;

// The most instances that may run at once because they wait for each other: more than any GPU holds, where they would
// all have to be resident.
static constexpr unsigned kMaxTogether = 4096;

namespace {
struct Job;

/// KilnLaunch as one chunk sees it. `abandonInstance` finds it through its first member.
struct ChunkLaunch {
  KilnLaunch abi;
  Job *job;
  bool waiting; ///< at its last check it was in a loop that only waits
  std::jmp_buf exit;
};

/// The memory of a chunk's frame: the thread's own, unless a chunk is already running on the thread (below a signal
/// handler that launches).
class Frame {
public:
  explicit Frame(size_t bytes) {
    memory = depth++ ? nested = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : getThreadFrame(bytes);
  }
  ~Frame() {
    --depth;
    std::free(nested);
  }
  void *memory = nullptr;

private:
  void *nested = nullptr;
  static thread_local unsigned depth;
};
thread_local unsigned Frame::depth = 0;

/// For launches without a monitor: prints are dropped; a failed assertion still stops the launch.
const KilnHooks silentHooks = {
    [](const KilnLaunch *, int32_t, int64_t, const void *const *) {},
    [](const KilnLaunch *launch, int32_t, int64_t, int64_t) { abandonInstance(launch); },
    [](const KilnLaunch *, int32_t, int64_t, int64_t, const void *, int32_t, int32_t) {},
};

/// One launch. An instance may wait for what another writes, and that other instance may not have started: there are as
/// many threads as processors, and a waiting instance keeps its thread. When all running instances wait, more threads
/// start further instances, until one makes progress.
struct Job : ThreadPool::Job {
  Job(KilnEntry entry, const LaunchRequest &request, const artifact::Metadata &metadata, void *workspace)
      : ThreadPool::Job(request.grid.count(), runChunk, this), entry(entry), request(request), metadata(metadata),
        workspace(workspace) {
    parallel = !request.sequential;
    oneByOne = metadata.waits && parallel;
    tick = [](void *job) { static_cast<Job *>(job)->lookUp(); };
  }

  static bool runChunk(void *context, unsigned worker, int64_t begin, int64_t end) {
    Job &self = *static_cast<Job *>(context);
    ChunkLaunch launch;
    const Grid &grid = self.request.grid;
    Frame frame(self.metadata.frameBytes);
    if (!frame.memory && self.metadata.frameBytes) {
      self.noMemory = true;
      return false;
    }
    const KilnHooks *hooks = self.request.hooks ? self.request.hooks : &silentHooks;
    std::atomic<int32_t> &word = worker == 0 ? self.safepoint.word : self.word;
    launch.abi = {{grid.x, grid.y, grid.z},
                  int32_t(worker),
                  frame.memory,
                  self.workspace,
                  hooks,
                  self.request.runtime,
                  reinterpret_cast<const volatile int32_t *>(&word),
                  atSafepoint};
    launch.job = &self;
    launch.waiting = false;
    bool counted = self.metadata.waits;
    self.running += counted;
    // No local variable changes between setjmp and the jump, and the jump skips no destructor.
    bool finished = setjmp(launch.exit) == 0;
    if (finished)
      self.entry(self.request.arguments, &launch.abi, begin, end);
    if (!finished)
      self.failed = true;
    self.sees(launch, false);
    self.running -= counted;
    self.ended += counted;
    return finished && !self.stopped;
  }

  /// The function that code calls at a safepoint.
  static int32_t atSafepoint(const KilnLaunch *abi, int32_t waiting) {
    auto &launch = *reinterpret_cast<ChunkLaunch *>(const_cast<KilnLaunch *>(abi));
    Job &self = *launch.job;
    self.sees(launch, waiting);
    if (abi->worker == 0)
      self.lookUp();
    // Yields the processor to the instances that this one waits for.
    if (waiting && !self.stopped)
      sched_yield();
    return self.stopped;
  }

  void sees(ChunkLaunch &launch, bool waiting) {
    if (launch.waiting == waiting)
      return;
    launch.waiting = waiting;
    this->waiting += waiting ? 1 : -1;
  }

  void stop() {
    stopped = true;
    word = 1;
    safepoint.word = 1;
  }

  /// Runs on the launching thread about every 50 ms; more often once `watched`.
  void lookUp() {
    auto now = std::chrono::steady_clock::now();
    if (stopped || (watched && now - lastLook < std::chrono::milliseconds(10)))
      return;
    lastLook = now;
    safepoint.word = watched;
    if (request.attend && request.attend(request.attendant))
      return stop();
    if (metadata.waits)
      help(now);
  }

  void help(std::chrono::steady_clock::time_point now) {
    int64_t steps = getBegun() + ended;
    if (steps != lastSteps) {
      lastSteps = steps;
      lastStep = now;
      return;
    }
    if (now - lastStep < std::chrono::milliseconds(watched ? 20 : 100))
      return;
    // From now on, all threads report at each iteration whether they wait.
    if (!std::exchange(watched, true)) {
      word = 1;
      safepoint.word = 1;
      return;
    }
    // A sequential launch is one chunk; a single instance is not counted among those that have started.
    int64_t others = getCount() - (parallel ? std::max<int64_t>(getBegun(), 1) : 1);
    if (waiting < running)
      return;
    if (others == 0) {
      // An instance that failed is gone, so those that wait for it would never continue.
      if (failed && now - lastStep > std::chrono::seconds(1))
        stop();
      return;
    }
    unsigned have = unsigned(running), room = parallel && have < kMaxTogether ? kMaxTogether - have : 0;
    if (room && addThreads(unsigned(std::min<int64_t>({others, int64_t(room), std::max(2u, have)}))))
      return;
    if (now - lastStep < std::chrono::seconds(1))
      return;
    allWait = have;
    stop();
  }

  KilnEntry entry;
  const LaunchRequest &request;
  const artifact::Metadata &metadata;
  void *workspace;
  Safepoint &safepoint = Safepoint::get();
  std::atomic<int32_t> word{0}; ///< the safepoint word of all threads but the launching one
  std::atomic<bool> noMemory{false}, stopped{false}, failed{false};
  std::atomic<int> running{0}, waiting{0}; ///< chunks, and those of them that wait
  std::atomic<int64_t> ended{0};
  // The launching thread's:
  bool watched = false;
  int64_t lastSteps = -1;
  std::chrono::steady_clock::time_point lastLook, lastStep;
  unsigned allWait = 0; ///< the number of instances that all waited for others that could not start
};

/// Zeroed, 64-byte aligned scratch memory of one launch.
struct Workspace {
  void *memory = nullptr;
  ~Workspace() { std::free(memory); }
  bool allocate(size_t bytes) {
    size_t rounded = (bytes + 63) / 64 * 64;
    memory = std::aligned_alloc(64, rounded);
    if (memory)
      std::memset(memory, 0, rounded);
    return memory;
  }
};
} // namespace

static_assert(offsetof(ChunkLaunch, abi) == 0, "abandonInstance casts");

void kiln::device::abandonInstance(const KilnLaunch *launch) {
  std::longjmp(reinterpret_cast<ChunkLaunch *>(const_cast<KilnLaunch *>(launch))->exit, 1);
}

namespace {
class CpuKernel final : public LoadedKernel {
public:
  CpuKernel(artifact::Metadata metadata, KilnEntry entry, std::shared_ptr<void> code)
      : LoadedKernel(std::move(metadata)), entry(entry), code(std::move(code)) {}

  Status launch(const LaunchRequest &request) override {
    const artifact::Metadata &metadata = getMetadata();
    int64_t count = request.grid.count();
    if (count == 0)
      return {};
    Workspace workspace;
    if (metadata.workspaceBytes && !workspace.allocate(metadata.workspaceBytes))
      return resourceError(llvm::formatv("expected {0} bytes of workspace, got no memory", metadata.workspaceBytes));
    Job job(entry, request, metadata, workspace.memory);
    job.safepoint.begin();
    if (count == 1)
      Job::runChunk(&job, 0, 0, 1);
    else
      ThreadPool::get()->run(job);
    job.safepoint.end();
    if (job.allWait && request.sequential)
      return invalidArgument(llvm::formatv("expected program instances that do not wait for later ones (because check "
                                           "'{0}' runs them one after the other), got one that waits",
                                           metadata.check));
    if (job.allWait)
      return invalidArgument(llvm::formatv("expected a grid whose program instances can all run at once (because those "
                                           "that run wait for others), got {0} instances, of which {1} wait and no "
                                           "more can run",
                                           count, job.allWait));
    if (job.noMemory)
      return resourceError(llvm::formatv("expected {0} bytes of scratch memory for each worker (because the kernel's "
                                         "tiles live there), got no memory; use smaller tiles",
                                         metadata.frameBytes));
    return {};
  }

private:
  KilnEntry entry;
  std::shared_ptr<void> code;
};
} // namespace

std::shared_ptr<LoadedKernel> kiln::device::makeCpuKernel(artifact::Metadata metadata, KilnEntry entry,
                                                          std::shared_ptr<void> code) {
  return std::make_shared<CpuKernel>(std::move(metadata), entry, std::move(code));
}
