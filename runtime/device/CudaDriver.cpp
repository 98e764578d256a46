// Finds libcuda, and translates its errors to text.
#include "runtime/device/CudaDriver.h"
#include "runtime/support/ForkGuard.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>

using namespace kiln;
using namespace kiln::device;

namespace {
std::atomic<bool> initialised{false}, forked{false};

struct Loader {
  std::mutex mutex;
  std::string library = "libcuda.so.1";
  const CudaDriver *driver = nullptr;
  Status problem;
  bool tried = false;
};

/// Never destroyed: kernels may outlive static destructors.
Loader &getLoader() {
  static auto *loader = new Loader;
  return *loader;
}
} // namespace

bool CudaDriver::isForked() { return forked.load(std::memory_order_relaxed); }

bool CudaDriver::isLoaded() {
  if (initialised.load(std::memory_order_relaxed))
    return true;
  Loader &loader = getLoader();
  std::lock_guard<std::mutex> lock(loader.mutex);
  void *handle = dlopen(loader.library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle)
    dlclose(handle);
  return handle;
}

Status CudaDriver::forkedStatus() {
  return invalidArgument("this process was forked from one that had already used CUDA, which the driver does not "
                         "support: start worker processes with the method 'spawn', or fork before the first use of a "
                         "GPU");
}

void CudaDriver::setLibrary(std::string path) {
  Loader &loader = getLoader();
  std::lock_guard<std::mutex> lock(loader.mutex);
  if (!loader.tried && !path.empty())
    loader.library = std::move(path);
}

Status CudaDriver::load(const std::string &library) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return invalidArgument(llvm::formatv("no CUDA driver: {0}", dlerror()));
#define KILN_LOAD(member, symbol, ...)                                                                                 \
  member = reinterpret_cast<Entry<__VA_ARGS__> *>(dlsym(handle, #symbol));                                             \
  if (!member)                                                                                                         \
    return invalidArgument(llvm::formatv("the CUDA driver ({0}) is too old: it has no {1}; expected one for CUDA "     \
                                         "11.8 or later",                                                              \
                                         library, #symbol));
#define KILN_LOOK(member, symbol, ...) member = reinterpret_cast<Entry<__VA_ARGS__> *>(dlsym(handle, #symbol));
  KILN_CUDA_FUNCTIONS(KILN_LOAD, KILN_LOOK)
#undef KILN_LOAD
#undef KILN_LOOK
  if (cuda::Result result = init(0))
    return result == cuda::errorNoDevice ? invalidArgument("no CUDA device: the driver sees none")
                                         : failure("initialise the CUDA driver", result);
  driverGetVersion(&version);
  Dl_info info;
  path = dladdr(reinterpret_cast<void *>(init), &info) && info.dli_fname ? info.dli_fname : library;
  return {};
}

ErrorOr<const CudaDriver *> CudaDriver::get() {
  if (isForked())
    return forkedStatus();
  ForkGuard guard;
  Loader &loader = getLoader();
  std::lock_guard<std::mutex> lock(loader.mutex);
  if (!loader.tried) {
    auto *driver = new CudaDriver;
    loader.problem = driver->load(loader.library);
    loader.tried = true;
    if (loader.problem.ok()) {
      loader.driver = driver;
      initialised = true;
      pthread_atfork(nullptr, nullptr, [] { forked = initialised.load(); });
    } else {
      delete driver;
    }
  }
  if (!loader.driver)
    return loader.problem;
  return loader.driver;
}

std::string CudaDriver::describe(cuda::Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(result, &name) || !name)
    return "CUDA error " + std::to_string(result);
  if (getErrorString(result, &text) || !text)
    return name;
  return std::string(name) + " (" + text + ")";
}

Status CudaDriver::failure(const std::string &what, cuda::Result result) const {
  std::string message = "cannot " + what + ": " + describe(result);
  if (result == cuda::errorOutOfMemory)
    return resourceError(std::move(message)).with({"memory", -1, -1, ""});
  if (result == cuda::errorOutOfResources)
    return resourceError(std::move(message)).with({"resources of one block", -1, -1, ""});
  if (result >= cuda::errorCaptureFirst && result <= cuda::errorCaptureLast)
    return invalidArgument(message + "; a kernel must have run once with these arguments before its launch is captured "
                                     "into a graph");
  return internalError(std::move(message));
}
