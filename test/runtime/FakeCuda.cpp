// A CUDA driver that has no GPU: the shared library that tests load in place of libcuda. It logs calls, uses host
// memory as device memory, and passes every launch to a function of the test. Two devices: an sm_90 with clusters and
// an sm_80 without.
#include "test/runtime/FakeCuda.h"
#include "runtime/device/CudaApi.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace kiln::device::cuda;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct FakeFunction {
  std::string name;
  std::map<int, int> attributes;
  const std::string *image = nullptr;
};
struct FakeModule {
  std::string image;
  std::map<std::string, FakeFunction> functions;
};
struct FakeState {
  std::recursive_mutex mutex;
  std::string log;
  std::map<std::string, int> results; ///< forced, by symbol
  std::map<int, int> functionAttributes{{0, 1024}, {4, 24}, {6, 90}};
  Result (*onLaunch)(const FakeLaunch *) = nullptr;
  CaptureStatus capturing = CaptureStatus::None;
  std::vector<std::pair<HostFunction, void *>> hostFunctions;
  std::map<uintptr_t, std::pair<size_t, unsigned>> memory; ///< bytes, type
  std::set<FakeModule *> modules;
  int contexts[2] = {0, 1};
};
FakeState &state() {
  static auto *instance = new FakeState;
  return *instance;
}
thread_local std::vector<Context> stack;

int ordinalOf(Context context) { return context == reinterpret_cast<Context>(&state().contexts[1]) ? 1 : 0; }

/// Logs a call; returns the forced result, if there is one.
Result call(const char *symbol, const std::string &what = "") {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().log += std::string(symbol) + (what.empty() ? "" : " " + what) + "\n";
  auto forced = state().results.find(symbol);
  return forced == state().results.end() ? success : forced->second;
}
void runHostFunctions() {
  auto functions = std::exchange(state().hostFunctions, {});
  for (auto [function, context] : functions)
    function(context);
}
} // namespace

//===-- For tests ------------------------------------------------------------------------------------------------===//

EXPORT void fakeReset() {
  state().log.clear();
  state().results.clear();
  state().onLaunch = nullptr;
  state().capturing = CaptureStatus::None;
  state().functionAttributes = {{0, 1024}, {4, 24}, {6, 90}};
}
EXPORT const char *fakeLog() { return state().log.c_str(); }
EXPORT void fakeForce(const char *symbol, int result) { state().results[symbol] = result; }
EXPORT void fakeSetLaunch(Result (*function)(const FakeLaunch *)) { state().onLaunch = function; }
EXPORT void fakeSetCapturing(int capturing) { state().capturing = CaptureStatus(capturing); }
EXPORT void fakeSetFunctionAttribute(int attribute, int value) { state().functionAttributes[attribute] = value; }
/// The number of allocations; address and bytes of as many as there is room for.
EXPORT int fakeAllocations(uint64_t *addresses, uint64_t *bytes, int room) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  int i = 0;
  for (auto &[address, entry] : state().memory)
    if (i < room)
      addresses[i] = address, bytes[i++] = entry.first;
  return int(state().memory.size());
}
EXPORT int fakeModules() { return int(state().modules.size()); }
EXPORT void fakeRunHostFunctions() { runHostFunctions(); }

//===-- The driver -----------------------------------------------------------------------------------------------===//

EXPORT Result cuInit(unsigned) { return call("cuInit"); }
EXPORT Result cuDriverGetVersion(int *version) { return *version = 13000, success; }
EXPORT Result cuGetErrorName(Result result, const char **name) {
  static const std::map<int, const char *> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},       {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},   {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {900, "CUDA_ERROR_STREAM_CAPTURE"}};
  auto found = names.find(result);
  return found == names.end() ? errorInvalidValue : (*name = found->second, success);
}
EXPORT Result cuGetErrorString(Result, const char **text) { return *text = "as the test says", success; }
EXPORT Result cuDeviceGetCount(int *count) { return *count = 2, success; }
EXPORT Result cuDeviceGet(DeviceHandle *device, int ordinal) { return *device = ordinal, success; }
EXPORT Result cuDeviceGetName(char *name, int length, DeviceHandle device) {
  strncpy(name, device ? "Fake 80" : "Fake 90", length);
  return success;
}
EXPORT Result cuDeviceGetAttribute(int *value, DeviceAttribute attribute, DeviceHandle device) {
  static const std::map<DeviceAttribute, int> values = {{DeviceAttribute::MaxThreadsPerBlock, 1024},
                                                        {DeviceAttribute::MaxGridX, 2147483647},
                                                        {DeviceAttribute::MaxGridY, 65535},
                                                        {DeviceAttribute::MaxGridZ, 65535},
                                                        {DeviceAttribute::MaxRegistersPerBlock, 65536},
                                                        {DeviceAttribute::MultiprocessorCount, 132},
                                                        {DeviceAttribute::MaxSharedPerBlockOptIn, 232448},
                                                        {DeviceAttribute::MaxThreadsPerMultiprocessor, 2048}};
  // The test sets the capability of device 0; 90 means 9.0.
  const char *chosen = std::getenv("FAKE_CUDA_CAPABILITY");
  int capability = device ? 80 : chosen ? std::atoi(chosen) : 90;
  if (attribute == DeviceAttribute::CapabilityMajor)
    *value = capability / 10;
  else if (attribute == DeviceAttribute::CapabilityMinor)
    *value = capability % 10;
  else if (attribute == DeviceAttribute::ClusterLaunch)
    *value = capability >= 90;
  else if (auto found = values.find(attribute); found != values.end())
    *value = found->second;
  else
    *value = 0;
  return success;
}
EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, DeviceHandle) { return *bytes = size_t(1) << 37, success; }
EXPORT Result cuDevicePrimaryCtxRetain(Context *context, DeviceHandle device) {
  *context = reinterpret_cast<Context>(&state().contexts[device]);
  return call("cuDevicePrimaryCtxRetain", std::to_string(device));
}
EXPORT Result cuCtxGetCurrent(Context *context) { return *context = stack.empty() ? nullptr : stack.back(), success; }
EXPORT Result cuCtxPushCurrent_v2(Context context) { return stack.push_back(context), success; }
EXPORT Result cuCtxPopCurrent_v2(Context *context) { return *context = stack.back(), stack.pop_back(), success; }
EXPORT Result cuCtxGetDevice(DeviceHandle *device) { return *device = ordinalOf(stack.back()), success; }
EXPORT Result cuCtxSynchronize() {
  runHostFunctions();
  return call("cuCtxSynchronize", std::to_string(ordinalOf(stack.back())));
}
EXPORT Result cuModuleLoadDataEx(Module *module, const void *image, unsigned count, JitOption *options, void **values) {
  if (Result result = call("cuModuleLoadDataEx")) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == JitOption::ErrorLog)
        strcpy(static_cast<char *>(values[i]), "ptxas fake : the log of the assembler\n");
    return result;
  }
  auto *made = new FakeModule{static_cast<const char *>(image), {}};
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().modules.insert(made);
  *module = reinterpret_cast<Module>(made);
  return success;
}
EXPORT Result cuModuleUnload(Module module) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().modules.erase(reinterpret_cast<FakeModule *>(module));
  delete reinterpret_cast<FakeModule *>(module);
  return call("cuModuleUnload");
}
EXPORT Result cuModuleGetFunction(Function *function, Module module, const char *name) {
  auto *in = reinterpret_cast<FakeModule *>(module);
  // Every function exists unless the image starts with "// no ": `strstr` cannot search the symbol table of a cubin.
  if (in->image.rfind("// no ", 0) == 0)
    return errorNotFound;
  FakeFunction &made = in->functions[name];
  made.name = name;
  made.image = &in->image;
  *function = reinterpret_cast<Function>(&made);
  return success;
}
EXPORT Result cuFuncGetAttribute(int *value, FunctionAttribute attribute, Function function) {
  auto &own = reinterpret_cast<FakeFunction *>(function)->attributes;
  auto found = own.find(int(attribute));
  *value = found != own.end() ? found->second : state().functionAttributes[int(attribute)];
  return success;
}
EXPORT Result cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  reinterpret_cast<FakeFunction *>(function)->attributes[int(attribute)] = value;
  return call("cuFuncSetAttribute", std::to_string(int(attribute)) + "=" + std::to_string(value));
}
/// Appends a line for the launch to the file FAKE_CUDA_RECORD, if set: everything that the driver was given.
static void record(const FakeLaunch &launch, const LaunchConfig &config) {
  const char *path = std::getenv("FAKE_CUDA_RECORD");
  FILE *file = path ? std::fopen(path, "a") : nullptr;
  if (!file)
    return;
  std::fprintf(file, "%s grid %u %u %u block %u %u %u shared %u stream %p", launch.name, config.grid[0], config.grid[1],
               config.grid[2], config.block[0], config.block[1], config.block[2], config.sharedBytes,
               static_cast<void *>(config.stream));
  for (unsigned i = 0; i < config.attributeCount; ++i) {
    const LaunchAttribute &attribute = config.attributes[i];
    std::fprintf(file, " attribute %d:", int(attribute.id));
    // Of the value the driver reads only the member for the attribute.
    if (attribute.id == LaunchAttributeId::ClusterDimension)
      std::fprintf(file, "%u,%u,%u", attribute.value.cluster[0], attribute.value.cluster[1],
                   attribute.value.cluster[2]);
    else
      std::fprintf(file, "%d", attribute.value.programmatic);
  }
  std::fprintf(file, " parameters ");
  for (size_t i = 0; i < launch.bytes; ++i)
    std::fprintf(file, "%02x", static_cast<const unsigned char *>(launch.arguments)[i]);
  std::fprintf(file, "\n");
  std::fclose(file);
}

EXPORT Result cuLaunchKernelEx(const LaunchConfig *config, Function function, void **parameters, void **extra) {
  FakeLaunch launch = {};
  launch.name = reinterpret_cast<FakeFunction *>(function)->name.c_str();
  launch.image = reinterpret_cast<FakeFunction *>(function)->image->c_str();
  memcpy(launch.grid, config->grid, sizeof launch.grid);
  memcpy(launch.block, config->block, sizeof launch.block);
  launch.cluster = 1;
  for (unsigned i = 0; i < config->attributeCount; ++i) {
    const LaunchAttribute &attribute = config->attributes[i];
    if (attribute.id == LaunchAttributeId::ClusterDimension)
      launch.cluster = attribute.value.cluster[0];
    if (attribute.id == LaunchAttributeId::ProgrammaticStreamSerialization)
      launch.programmatic = attribute.value.programmatic;
  }
  launch.sharedBytes = config->sharedBytes;
  launch.stream = config->stream;
  launch.device = ordinalOf(stack.back());
  for (void **entry = extra; entry && *entry != paramEnd; entry += 2) {
    if (entry[0] == paramBuffer)
      launch.arguments = entry[1];
    if (entry[0] == paramBytes)
      launch.bytes = *static_cast<size_t *>(entry[1]);
  }
  auto sides = [](const unsigned *s) {
    return std::to_string(s[0]) + "x" + std::to_string(s[1]) + "x" + std::to_string(s[2]);
  };
  std::string what = std::string(launch.name) + " grid " + sides(launch.grid) + " block " + sides(launch.block) +
                     " cluster " + std::to_string(launch.cluster) + " shared " + std::to_string(launch.sharedBytes) +
                     " bytes " + std::to_string(launch.bytes) + " pdl " + std::to_string(launch.programmatic) +
                     " stream " + std::to_string(reinterpret_cast<uintptr_t>(launch.stream)) + " device " +
                     std::to_string(launch.device);
  if (Result result = call("cuLaunchKernelEx", what))
    return result;
  record(launch, *config);
  return parameters ? errorInvalidValue : state().onLaunch ? state().onLaunch(&launch) : success;
}
EXPORT Result cuLaunchHostFunc(Stream, HostFunction function, void *context) {
  state().hostFunctions.push_back({function, context});
  return call("cuLaunchHostFunc");
}
EXPORT Result cuStreamSynchronize(Stream) { return runHostFunctions(), call("cuStreamSynchronize"); }
EXPORT Result cuStreamIsCapturing(Stream, CaptureStatus *status) { return *status = state().capturing, success; }
EXPORT Result cuThreadExchangeStreamCaptureMode(CaptureMode *mode) {
  static thread_local CaptureMode current = CaptureMode::Global;
  return std::swap(*mode, current), success;
}
EXPORT Result cuStreamWaitEvent(Stream stream, Event, unsigned) {
  return call("cuStreamWaitEvent", std::to_string(reinterpret_cast<uintptr_t>(stream)));
}
EXPORT Result cuEventCreate(Event *event, unsigned) {
  return *event = reinterpret_cast<Event>(new int), call("cuEventCreate");
}
EXPORT Result cuEventDestroy_v2(Event event) { return delete reinterpret_cast<int *>(event), success; }
EXPORT Result cuEventRecord(Event, Stream stream) {
  return call("cuEventRecord", std::to_string(reinterpret_cast<uintptr_t>(stream)));
}
EXPORT Result cuEventSynchronize(Event) { return call("cuEventSynchronize"); }
EXPORT Result cuEventElapsedTime(float *milliseconds, Event, Event) { return *milliseconds = 1.5f, success; }

/// The 128 bytes as this driver fills them, little-endian; dimensions innermost first, as they are given. The real
/// driver's format is undocumented.
struct FakeTensorMap {
  uint32_t magic;       ///< "KTM1"
  uint8_t rank;         ///< 1 to 5
  uint8_t type;         ///< CUtensorMapDataType
  uint8_t elementBytes; ///< 1, 2, 4 or 8
  uint8_t swizzle;      ///< CUtensorMapSwizzle: 0 none, 1 to 3 over 32, 64 or 128 bytes
  uint8_t promotion;    ///< CUtensorMapL2promotion
  uint8_t fill;         ///< outside the array: 0 zeros, 1 nans
  uint8_t reserved[6];
  uint64_t base;       ///< address of element 0
  uint64_t sizes[5];   ///< in elements
  uint64_t strides[4]; ///< in bytes, of dimensions 1 on
  uint16_t box[5];     ///< in elements
  uint8_t rest[22];
};
static_assert(sizeof(FakeTensorMap) == 128);

EXPORT Result cuTensorMapEncodeTiled(void *map, TensorMapType type, uint32_t rank, void *base, const uint64_t *sizes,
                                     const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                     TensorMapInterleave interleave, TensorMapSwizzle swizzle,
                                     TensorMapPromotion promotion, TensorMapFill fill) {
  static const uint8_t bytesOf[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  auto list = [](const auto *numbers, uint32_t count) {
    std::string text;
    for (uint32_t i = 0; i < count; ++i)
      text += (i ? "," : "") + std::to_string(numbers[i]);
    return text;
  };
  if (rank < 1 || rank > 5 || unsigned(type) >= sizeof bytesOf)
    return errorInvalidValue;
  if (Result result =
          call("cuTensorMapEncodeTiled", "type " + std::to_string(int(type)) + " sizes " + list(sizes, rank) +
                                             " strides " + list(strides, rank - 1) + " box " + list(box, rank) +
                                             " swizzle " + std::to_string(int(swizzle)) + " promotion " +
                                             std::to_string(int(promotion)) + " fill " + std::to_string(int(fill))))
    return result;
  FakeTensorMap made = {0x314d544b,
                        uint8_t(rank),
                        uint8_t(type),
                        bytesOf[int(type)],
                        uint8_t(swizzle),
                        uint8_t(promotion),
                        uint8_t(fill),
                        {},
                        reinterpret_cast<uint64_t>(base),
                        {},
                        {},
                        {},
                        {}};
  // The requirements of the driver's manual.
  bool fits = reinterpret_cast<uintptr_t>(map) % 64 == 0 && base && made.base % 16 == 0 &&
              interleave == TensorMapInterleave::None && unsigned(swizzle) <= 3 && unsigned(promotion) <= 3;
  bool isFloat = type == TensorMapType::F16 || type == TensorMapType::F32 || type == TensorMapType::F64 ||
                 type == TensorMapType::Bf16;
  fits &= fill == TensorMapFill::Zeros || (fill == TensorMapFill::Nan && isFloat);
  for (uint32_t i = 0; i < rank; ++i) {
    fits &= sizes[i] >= 1 && sizes[i] <= uint64_t(1) << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
    made.sizes[i] = sizes[i];
    made.box[i] = uint16_t(box[i]);
  }
  for (uint32_t i = 0; i + 1 < rank; ++i) {
    fits &= strides[i] % 16 == 0 && strides[i] < uint64_t(1) << 40;
    made.strides[i] = strides[i];
  }
  uint64_t rowBytes = uint64_t(box[0]) * made.elementBytes;
  fits &= rowBytes % 16 == 0 && (swizzle == TensorMapSwizzle::None || rowBytes <= uint64_t(16) << int(swizzle));
  if (!fits)
    return errorInvalidValue;
  memcpy(map, &made, sizeof made);
  return success;
}

static Result allocate(void **memory, size_t bytes, unsigned type) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  state().memory[reinterpret_cast<uintptr_t>(*memory)] = {bytes, type};
  return success;
}
EXPORT Result cuMemAlloc_v2(Address *address, size_t bytes) {
  if (Result result = call("cuMemAlloc_v2", std::to_string(bytes)))
    return result;
  return allocate(reinterpret_cast<void **>(address), bytes, unsigned(MemoryType::Device));
}
static Result release(void *memory) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  state().memory.erase(reinterpret_cast<uintptr_t>(memory));
  std::free(memory);
  return success;
}
EXPORT Result cuMemFree_v2(Address address) { return release(reinterpret_cast<void *>(address)); }
EXPORT Result cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
  memcpy(reinterpret_cast<void *>(to), from, bytes);
  return call("cuMemcpyHtoD_v2", std::to_string(bytes));
}
EXPORT Result cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
  memcpy(to, reinterpret_cast<void *>(from), bytes);
  return call("cuMemcpyDtoH_v2", std::to_string(bytes));
}
EXPORT Result cuMemGetInfo_v2(size_t *available, size_t *total) {
  *available = 3 << 20, *total = size_t(80) << 30;
  return call("cuMemGetInfo_v2");
}
EXPORT Result cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  return allocate(memory, bytes, unsigned(MemoryType::Host));
}
EXPORT Result cuMemFreeHost(void *memory) { return release(memory); }
EXPORT Result cuMemHostGetDevicePointer_v2(Address *address, void *memory, unsigned) {
  return *address = reinterpret_cast<Address>(memory), success;
}
EXPORT Result cuPointerGetAttribute(void *value, PointerAttribute attribute, Address address) {
  std::lock_guard<std::recursive_mutex> lock(state().mutex);
  auto entry = state().memory.upper_bound(address);
  if (entry == state().memory.begin() || address >= (--entry)->first + entry->second.first)
    return errorInvalidValue;
  if (attribute == PointerAttribute::MemoryType)
    *static_cast<unsigned *>(value) = entry->second.second;
  else
    *static_cast<int *>(value) = 0;
  return success;
}
EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function, int threads, size_t) {
  return *blocks = 2048 / threads, success;
}
EXPORT Result cuOccupancyMaxActiveClusters(int *clusters, Function, const LaunchConfig *config) {
  return *clusters = int(132 / config->grid[0]), success;
}
