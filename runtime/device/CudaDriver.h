// The CUDA driver, found at run time: no part of Kiln links to it, so that everything imports, and the CPU target
// works, on machines without one.
#pragma once
#include "runtime/device/CudaApi.h"
#include "runtime/support/Status.h"
#include <string>

namespace kiln::device {

class CudaDriver {
  template <typename Signature> using Entry = Signature;
  using Result = cuda::Result;
  using DeviceHandle = cuda::DeviceHandle;
  using DeviceAttribute = cuda::DeviceAttribute;
  using Context = cuda::Context;
  using Module = cuda::Module;
  using Function = cuda::Function;
  using FunctionAttribute = cuda::FunctionAttribute;
  using PointerAttribute = cuda::PointerAttribute;
  using JitOption = cuda::JitOption;
  using LaunchConfig = cuda::LaunchConfig;
  using Stream = cuda::Stream;
  using Event = cuda::Event;
  using Address = cuda::Address;
  using HostFunction = cuda::HostFunction;
  using CaptureStatus = cuda::CaptureStatus;
  using CaptureMode = cuda::CaptureMode;
  using TensorMapType = cuda::TensorMapType;
  using TensorMapInterleave = cuda::TensorMapInterleave;
  using TensorMapSwizzle = cuda::TensorMapSwizzle;
  using TensorMapPromotion = cuda::TensorMapPromotion;
  using TensorMapFill = cuda::TensorMapFill;

public:
  /// The driver, loaded and initialised on first use. An error says which step failed. The answer is kept, except that
  /// a child forked afterwards is told that CUDA does not survive a fork.
  static ErrorOr<const CudaDriver *> get();

  /// The library that `get` loads instead of libcuda.so.1; must be set before its first use.
  static void setLibrary(std::string path);

  /// True if anything in this process has loaded the driver, and may have memory from it.
  static bool isLoaded();

  /// True in a child of a process that had initialised the driver. Costs one load, since every launch checks it.
  static bool isForked();
  static Status forkedStatus();

  /// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)".
  std::string describe(cuda::Result result) const;
  /// A status for a failed call: what was being done, then the driver's message.
  Status failure(const std::string &what, cuda::Result result) const;

  int getVersion() const { return version; } ///< 13000 for CUDA 13.0
  const std::string &getPath() const { return path; }

#define KILN_CUDA_MEMBER(member, symbol, ...) Entry<__VA_ARGS__> *member = nullptr;
  KILN_CUDA_FUNCTIONS(KILN_CUDA_MEMBER, KILN_CUDA_MEMBER)
#undef KILN_CUDA_MEMBER

private:
  CudaDriver() = default;
  Status load(const std::string &library);
  int version = 0;
  std::string path;
};

} // namespace kiln::device
