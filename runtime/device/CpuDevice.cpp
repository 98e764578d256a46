// The CPU device: one ORC session for the process, one JITDylib per artifact; unloading removes the dylib. The session
// runs its tasks on the calling thread, so it has no threads that a fork could lose.
#include "runtime/device/CpuDevice.h"
#include "runtime/device/CpuKernel.h"
#include "runtime/device/HostLibrary.h"
#include "runtime/support/ForkGuard.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/TaskDispatch.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

using namespace kiln;
using namespace kiln::device;
namespace orc = llvm::orc;

namespace {
/// Held by one loader at a time. Like the session, never destroyed.
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
    for (auto [name, function] : getHostLibrary())
      symbols[session.intern(name)] = {orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
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
    // A failed look-up says only that it failed; the cause ("undefined symbol expf") arrives here, on the loading
    // thread.
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
    std::shared_ptr<void> code(loaded->first, [session = *session](orc::JITDylib *dylib) { session->unload(*dylib); });
    return makeCpuKernel(std::move(artifact.metadata), loaded->second, std::move(code));
  }
};
} // namespace

Device &kiln::device::getCpuDevice() {
  static CpuDevice device;
  return device;
}
