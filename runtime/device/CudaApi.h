// The part of the CUDA driver interface that Kiln uses: handles, constants, the layout of a launch. Declared here so
// that a build needs no CUDA toolkit; names, values and layouts are those of the driver's published C interface, which
// never change.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kiln::device::cuda {

using Result = int; ///< CUresult
using DeviceHandle = int;
using Context = struct ContextHandle *;
using Module = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Address = unsigned long long; ///< CUdeviceptr
using HostFunction = void (*)(void *);

constexpr Result success = 0, errorInvalidValue = 1, errorOutOfMemory = 2, errorNoDevice = 100, errorNoBinary = 209,
                 errorNotFound = 500, errorNotReady = 600, errorOutOfResources = 701, errorCaptureFirst = 900,
                 errorCaptureLast = 908;

/// After one of these errors a context answers every call with an error, permanently.
constexpr bool isSticky(Result result) {
  switch (result) {
  case 214: // ECC_UNCORRECTABLE
  case 220: // NVLINK_UNCORRECTABLE
  case 226: // CONTAINED
  case 700: // ILLEGAL_ADDRESS
  case 702: // LAUNCH_TIMEOUT
  case 709: // CONTEXT_IS_DESTROYED
  case 710: // ASSERT
  case 714: // HARDWARE_STACK_ERROR
  case 715: // ILLEGAL_INSTRUCTION
  case 716: // MISALIGNED_ADDRESS
  case 717: // INVALID_ADDRESS_SPACE
  case 718: // INVALID_PC
  case 719: // LAUNCH_FAILED
  case 721: // TENSOR_MEMORY_LEAK
    return true;
  default:
    return false;
  }
}

enum class DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxGridX = 5,
  MaxGridY = 6,
  MaxGridZ = 7,
  MaxSharedPerBlock = 8,
  MaxRegistersPerBlock = 12,
  ClockRate = 13,
  MultiprocessorCount = 16,
  MemoryClockRate = 36,
  MemoryBusWidth = 37,
  L2Bytes = 38,
  MaxThreadsPerMultiprocessor = 39,
  CapabilityMajor = 75,
  CapabilityMinor = 76,
  MaxSharedPerMultiprocessor = 81,
  MaxSharedPerBlockOptIn = 97,
  ReservedSharedPerBlock = 111,
  ClusterLaunch = 120,
};

enum class FunctionAttribute : int {
  MaxThreadsPerBlock = 0,
  SharedBytes = 1,
  LocalBytes = 3,
  Registers = 4,
  BinaryVersion = 6,
  MaxDynamicSharedBytes = 8,
  RequiredClusterWidth = 11,
  NonPortableClusterSizeAllowed = 14,
};

enum class PointerAttribute : int { MemoryType = 2, DeviceOrdinal = 9 };
enum class MemoryType : unsigned { Host = 1, Device = 2 };

enum class JitOption : int { InfoLog = 3, InfoLogBytes = 4, ErrorLog = 5, ErrorLogBytes = 6, LineInfo = 13 };

enum class LaunchAttributeId : int { ClusterDimension = 4, ProgrammaticStreamSerialization = 6 };

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char bytes[64];
    unsigned cluster[3];
    int programmatic;
  } value;
};

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchConfig, stream) == 32 && sizeof(LaunchConfig) == 56,
              "as the driver lays them out");

/// The `extra` list of a launch whose arguments are packed in one buffer.
inline void *const paramEnd = nullptr;
inline void *const paramBuffer = reinterpret_cast<void *>(1);
inline void *const paramBytes = reinterpret_cast<void *>(2);

enum class TensorMapType : int { U8 = 0, U16 = 1, U32 = 2, U64 = 4, F16 = 6, F32 = 7, F64 = 8, Bf16 = 9 };
enum class TensorMapInterleave : int { None = 0 };
enum class TensorMapSwizzle : int { None = 0, Bytes32 = 1, Bytes64 = 2, Bytes128 = 3 };
enum class TensorMapPromotion : int { None = 0, Bytes64 = 1, Bytes128 = 2, Bytes256 = 3 };
enum class TensorMapFill : int { Zeros = 0, Nan = 1 };

constexpr unsigned eventDisableTiming = 2, hostAllocPortable = 1, hostAllocMapped = 2;
inline const Stream legacyStream = reinterpret_cast<Stream>(1);
enum class CaptureStatus : int { None = 0, Active = 1, Invalidated = 2 };
enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };

/// Every entry point, as X(name of the member, exported symbol, signature). `REQUIRED` ones exist since driver 520
/// (CUDA 11.8); `OPTIONAL` ones may be null.
#define KILN_CUDA_FUNCTIONS(REQUIRED, OPTIONAL)                                                                        \
  REQUIRED(init, cuInit, Result(unsigned))                                                                             \
  REQUIRED(driverGetVersion, cuDriverGetVersion, Result(int *))                                                        \
  REQUIRED(getErrorName, cuGetErrorName, Result(Result, const char **))                                                \
  REQUIRED(getErrorString, cuGetErrorString, Result(Result, const char **))                                            \
  REQUIRED(deviceGetCount, cuDeviceGetCount, Result(int *))                                                            \
  REQUIRED(deviceGet, cuDeviceGet, Result(DeviceHandle *, int))                                                        \
  REQUIRED(deviceGetName, cuDeviceGetName, Result(char *, int, DeviceHandle))                                          \
  REQUIRED(deviceGetAttribute, cuDeviceGetAttribute, Result(int *, DeviceAttribute, DeviceHandle))                     \
  REQUIRED(deviceTotalMem, cuDeviceTotalMem_v2, Result(size_t *, DeviceHandle))                                        \
  REQUIRED(primaryCtxRetain, cuDevicePrimaryCtxRetain, Result(Context *, DeviceHandle))                                \
  REQUIRED(ctxGetCurrent, cuCtxGetCurrent, Result(Context *))                                                          \
  REQUIRED(ctxPushCurrent, cuCtxPushCurrent_v2, Result(Context))                                                       \
  REQUIRED(ctxPopCurrent, cuCtxPopCurrent_v2, Result(Context *))                                                       \
  REQUIRED(ctxGetDevice, cuCtxGetDevice, Result(DeviceHandle *))                                                       \
  REQUIRED(ctxSynchronize, cuCtxSynchronize, Result())                                                                 \
  REQUIRED(moduleLoadDataEx, cuModuleLoadDataEx, Result(Module *, const void *, unsigned, JitOption *, void **))       \
  REQUIRED(moduleUnload, cuModuleUnload, Result(Module))                                                               \
  REQUIRED(moduleGetFunction, cuModuleGetFunction, Result(Function *, Module, const char *))                           \
  REQUIRED(funcGetAttribute, cuFuncGetAttribute, Result(int *, FunctionAttribute, Function))                           \
  REQUIRED(funcSetAttribute, cuFuncSetAttribute, Result(Function, FunctionAttribute, int))                             \
  REQUIRED(launchKernelEx, cuLaunchKernelEx, Result(const LaunchConfig *, Function, void **, void **))                 \
  REQUIRED(launchHostFunc, cuLaunchHostFunc, Result(Stream, HostFunction, void *))                                     \
  REQUIRED(streamSynchronize, cuStreamSynchronize, Result(Stream))                                                     \
  REQUIRED(streamIsCapturing, cuStreamIsCapturing, Result(Stream, CaptureStatus *))                                    \
  REQUIRED(threadExchangeCaptureMode, cuThreadExchangeStreamCaptureMode, Result(CaptureMode *))                        \
  REQUIRED(streamWaitEvent, cuStreamWaitEvent, Result(Stream, Event, unsigned))                                        \
  REQUIRED(eventCreate, cuEventCreate, Result(Event *, unsigned))                                                      \
  REQUIRED(eventDestroy, cuEventDestroy_v2, Result(Event))                                                             \
  REQUIRED(eventRecord, cuEventRecord, Result(Event, Stream))                                                          \
  REQUIRED(eventSynchronize, cuEventSynchronize, Result(Event))                                                        \
  REQUIRED(eventElapsedTime, cuEventElapsedTime, Result(float *, Event, Event))                                        \
  REQUIRED(memAlloc, cuMemAlloc_v2, Result(Address *, size_t))                                                         \
  REQUIRED(memFree, cuMemFree_v2, Result(Address))                                                                     \
  REQUIRED(memcpyHtoD, cuMemcpyHtoD_v2, Result(Address, const void *, size_t))                                         \
  REQUIRED(memcpyDtoH, cuMemcpyDtoH_v2, Result(void *, Address, size_t))                                               \
  REQUIRED(memHostAlloc, cuMemHostAlloc, Result(void **, size_t, unsigned))                                            \
  REQUIRED(memFreeHost, cuMemFreeHost, Result(void *))                                                                 \
  REQUIRED(memHostGetDevicePointer, cuMemHostGetDevicePointer_v2, Result(Address *, void *, unsigned))                 \
  REQUIRED(pointerGetAttribute, cuPointerGetAttribute, Result(void *, PointerAttribute, Address))                      \
  REQUIRED(occupancyMaxActiveBlocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                      \
           Result(int *, Function, int, size_t))                                                                       \
  REQUIRED(occupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, Result(int *, Function, const LaunchConfig *))    \
  OPTIONAL(tensorMapEncodeTiled, cuTensorMapEncodeTiled,                                                               \
           Result(void *, TensorMapType, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,       \
                  const uint32_t *, TensorMapInterleave, TensorMapSwizzle, TensorMapPromotion, TensorMapFill))         \
  OPTIONAL(memGetInfo, cuMemGetInfo_v2, Result(size_t *, size_t *))                                                    \
  OPTIONAL(funcGetParamInfo, cuFuncGetParamInfo, Result(Function, size_t, size_t *, size_t *))

} // namespace kiln::device::cuda
