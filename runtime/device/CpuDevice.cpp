// The CPU device. One ORC session for the process, one JITDylib per artifact: unloading removes the dylib. The session
// runs its tasks on the calling thread, so it has no threads that a fork could lose.
#include "runtime/device/CpuDevice.h"
#include "runtime/support/ForkGuard.h"
#include "runtime/support/ThreadPool.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/TaskDispatch.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <csetjmp>
#include <cstring>
#include <mutex>

using namespace kiln;
using namespace kiln::device;
namespace orc = llvm::orc;

//===-- Running --------------------------------------------------------------------------------------------------===//

namespace {
/// KilnLaunch as one chunk sees it; `abandonInstance` finds the way back from the first member.
struct ChunkLaunch {
  KilnLaunch abi;
  std::jmp_buf exit;
};

/// For launches that nobody observes: prints go nowhere, a failed assertion still stops the launch.
const KilnHooks silentHooks = {
    [](const KilnLaunch *, int32_t, int64_t, const void *const *) {},
    [](const KilnLaunch *launch, int32_t, int64_t, int64_t) { abandonInstance(launch); },
    [](const KilnLaunch *, int32_t, int64_t, int64_t, const void *, int32_t, int32_t) {},
};

struct Job {
  KilnEntry entry;
  const LaunchRequest *request;
  size_t frameBytes;
  void *workspace;
  std::atomic<bool> noMemory{false};

  bool runChunk(unsigned worker, int64_t begin, int64_t end) {
    ChunkLaunch launch;
    const Grid &grid = request->grid;
    void *frame = getThreadFrame(frameBytes);
    if (!frame && frameBytes) {
      noMemory = true;
      return false;
    }
    const KilnHooks *hooks = request->hooks ? request->hooks : &silentHooks;
    launch.abi = {{grid.x, grid.y, grid.z}, int32_t(worker), frame, workspace, hooks, request->runtime};
    // No local changes between setjmp and the jump, and no destructor lies in between.
    if (setjmp(launch.exit) != 0)
      return false;
    entry(request->arguments, &launch.abi, begin, end);
    return true;
  }
};

/// Zeroed, 64-byte aligned scratch of one launch.
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

//===-- Loading --------------------------------------------------------------------------------------------------===//

namespace {
/// One loader at a time. Never destroyed, as the session.
std::mutex &getLoaderMutex() {
  static auto *mutex = new std::mutex;
  return *mutex;
}

class Session {
public:
  static ErrorOr<Session *> get() {
    ForkGuard guard;
    std::lock_guard<std::mutex> lock(getLoaderMutex());
    // Never destroyed: kernels may outlive static destructors.
    static Session *instance = nullptr;
    if (!instance) {
      auto control = orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>());
      if (!control)
        return internalError("cannot set up the loader: " + llvm::toString(control.takeError()));
      instance = new Session(std::move(*control));
    }
    return instance;
  }

  llvm::Expected<std::pair<orc::JITDylib *, KilnEntry>> load(llvm::StringRef binary, llvm::StringRef symbol) {
    ForkGuard guard;
    std::lock_guard<std::mutex> lock(getLoaderMutex());
    orc::JITDylib &dylib = session.createBareJITDylib("artifact" + std::to_string(counter++));
    std::string causes;
    reported = &causes;
    auto discard = [&](llvm::Error error) -> llvm::Error {
      reported = nullptr;
      error = llvm::joinErrors(std::move(error), session.removeJITDylib(dylib));
      if (causes.empty())
        return error;
      llvm::consumeError(std::move(error));
      return llvm::createStringError(causes);
    };
    orc::SymbolMap symbols;
    auto define = [&](const char *name, auto *function) {
      symbols[session.intern(name)] = {orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
    };
    define("memcpy", static_cast<void *(*)(void *, const void *, size_t)>(std::memcpy));
    define("memmove", static_cast<void *(*)(void *, const void *, size_t)>(std::memmove));
    define("memset", static_cast<void *(*)(void *, int, size_t)>(std::memset));
    if (llvm::Error error = dylib.define(orc::absoluteSymbols(std::move(symbols))))
      return discard(std::move(error));
    if (llvm::Error error = layer.add(dylib, llvm::MemoryBuffer::getMemBufferCopy(binary, symbol)))
      return discard(std::move(error));
    llvm::Expected<orc::ExecutorSymbolDef> entry = session.lookup({&dylib}, symbol);
    if (!entry)
      return discard(entry.takeError());
    reported = nullptr;
    return std::make_pair(&dylib, entry->getAddress().toPtr<KilnEntry>());
  }

  void unload(orc::JITDylib &dylib) {
    ForkGuard guard;
    std::lock_guard<std::mutex> lock(getLoaderMutex());
    llvm::consumeError(session.removeJITDylib(dylib));
  }

private:
  explicit Session(std::unique_ptr<orc::ExecutorProcessControl> control) : session(std::move(control)), layer(session) {
    // A look-up only says that it failed; the cause ("undefined symbol expf") comes here, on the thread that loads.
    session.setErrorReporter([](llvm::Error error) {
      std::string text = llvm::toString(std::move(error));
      if (reported)
        *reported += (reported->empty() ? "" : "; ") + text;
    });
  }

  static thread_local std::string *reported;
  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  std::atomic<uint64_t> counter{0};
};

thread_local std::string *Session::reported = nullptr;

class CpuKernel final : public LoadedKernel {
public:
  CpuKernel(artifact::Metadata metadata, Session &session, orc::JITDylib &dylib, KilnEntry entry)
      : LoadedKernel(std::move(metadata)), session(session), dylib(dylib), entry(entry) {}
  ~CpuKernel() override { session.unload(dylib); }

  Status launch(const LaunchRequest &request) override {
    const artifact::Metadata &metadata = getMetadata();
    int64_t count = request.grid.count();
    if (count == 0)
      return {};
    Workspace workspace;
    if (metadata.workspaceBytes && !workspace.allocate(metadata.workspaceBytes))
      return resourceError(llvm::formatv("expected {0} bytes of workspace, got no memory", metadata.workspaceBytes));
    Job job{entry, &request, metadata.frameBytes, workspace.memory};
    auto runChunk = [](void *context, unsigned worker, int64_t begin, int64_t end) {
      return static_cast<Job *>(context)->runChunk(worker, begin, end);
    };
    if (count == 1)
      job.runChunk(0, 0, 1);
    else
      ThreadPool::get()->run(count, runChunk, &job, !request.sequential);
    if (job.noMemory)
      return resourceError(llvm::formatv("expected {0} bytes of scratch memory for each worker (because the kernel's "
                                         "tiles live there), got no memory; use smaller tiles",
                                         metadata.frameBytes));
    return {};
  }

private:
  Session &session;
  orc::JITDylib &dylib;
  KilnEntry entry;
};

class CpuDevice final : public Device {
public:
  llvm::StringRef getKind() const override { return "cpu"; }

  ErrorOr<std::shared_ptr<LoadedKernel>> load(artifact::Artifact artifact, std::string) override {
    ErrorOr<Session *> session = Session::get();
    if (!session.ok())
      return session.getStatus();
    auto loaded = (*session)->load(artifact.binary, artifact.metadata.symbol);
    if (!loaded)
      return corrupt(llvm::formatv("cannot load the object of kernel '{0}': {1}", artifact.metadata.name,
                                   llvm::toString(loaded.takeError())));
    return std::shared_ptr<LoadedKernel>(
        std::make_shared<CpuKernel>(std::move(artifact.metadata), **session, *loaded->first, loaded->second));
  }
};
} // namespace

Device &kiln::device::getCpuDevice() {
  static CpuDevice device;
  return device;
}
