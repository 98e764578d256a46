// Code on a GPU: a loaded module, and launches of its kernel.
#pragma once
#include "runtime/device/CudaDevice.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kiln::device {

/// A cubin or PTX in a device's memory. Code that a graph may hold is never unloaded; other code is unloaded once its
/// last owner is gone and the device has been waited for.
class CudaModule {
public:
  /// `what` names the code in errors. The driver assembles PTX, and its log becomes part of the error.
  static ErrorOr<std::unique_ptr<CudaModule>> load(CudaDevice &device, llvm::StringRef image, const std::string &what);
  ~CudaModule();

  ErrorOr<cuda::Function> find(const std::string &symbol) const;
  CudaDevice &getDevice() const { return device; }
  void keepForever() { forever.store(true, std::memory_order_relaxed); }
  bool isKeptForever() const { return forever.load(std::memory_order_relaxed); }

private:
  CudaModule(CudaDevice &device, cuda::Module module) : device(device), module(module) {}
  CudaDevice &device;
  cuda::Module module;
  std::atomic<bool> forever{false};
};

/// How one function is launched.
struct CudaShape {
  unsigned grid[3] = {1, 1, 1}; ///< in blocks
  unsigned block[3] = {1, 1, 1};
  unsigned cluster[3] = {1, 1, 1};
  unsigned sharedBytes = 0;  ///< dynamic
  bool programmatic = false; ///< may start before the preceding work in the stream has completed
};

/// A function of a module and what launching it takes; used for Kiln's kernels and for CUDA C.
class CudaFunction {
public:
  static ErrorOr<CudaFunction> find(std::shared_ptr<CudaModule> module, const std::string &symbol, std::string label);

  /// Allows this much dynamic shared memory and clusters of this size; names whatever does not fit the device.
  Status prepare(const CudaShape &shape);
  Status launch(const CudaShape &shape, const void *arguments, size_t bytes, cuda::Stream stream, const Grid &shown);
  /// One bare launch by the driver each time `next` returns true.
  Status launchAlone(const CudaShape &shape, const void *arguments, size_t bytes, cuda::Stream stream,
                     llvm::function_ref<bool()> next);
  CodeFigures measure(const CudaShape &shape) const;

  CudaDevice &getDevice() const { return *device; }
  /// The offset and size of each parameter; empty where the driver cannot tell.
  std::vector<std::pair<size_t, size_t>> getParameters() const;
  int getAttribute(cuda::FunctionAttribute attribute) const;
  const std::string &getLabel() const { return *label; }
  bool isKeptForever() const { return module->isKeptForever(); }

private:
  CudaFunction() = default;
  std::shared_ptr<CudaModule> module;
  CudaDevice *device = nullptr;
  cuda::Function function = nullptr;
  const std::string *label = nullptr; ///< never freed, because the device's record of launches refers to it
  bool fixedCluster = false;          ///< the cluster size is compiled in
  unsigned allowedSharedBytes = 0, allowedCluster = 8;
};

} // namespace kiln::device
