// The CUDA runtime against a driver without a GPU (FakeCuda.cpp): the driver calls it makes, their order, and how it
// handles the results.
#include "runtime/device/CudaDevice.h"
#include "runtime/device/CudaKernel.h"
#include "runtime/device/CudaLog.h"
#include "runtime/launch/DeviceReport.h"
#include "runtime/launch/Staging.h"
#include "test/runtime/FakeCuda.h"
#include <array>
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using namespace kiln::device;

namespace {
std::function<int(const FakeLaunch &)> onLaunch;

class CudaDeviceTest : public ::testing::Test {
protected:
  void SetUp() override {
    CudaDriver::setLibrary(KILN_FAKE_CUDA);
    fake = dlopen(KILN_FAKE_CUDA, RTLD_NOW);
    ASSERT_TRUE(fake) << dlerror();
    get<void()>("fakeReset")();
    onLaunch = nullptr;
    get<void(int (*)(const FakeLaunch *))>("fakeSetLaunch")(
        [](const FakeLaunch *launch) { return onLaunch ? onLaunch(*launch) : 0; });
    (void)takeCollectedLogs();
  }
  template <typename F> F *get(const char *name) { return reinterpret_cast<F *>(dlsym(fake, name)); }
  std::string log() { return get<const char *()>("fakeLog")(); }
  void force(const char *symbol, int result) { get<void(const char *, int)>("fakeForce")(symbol, result); }
  int modules() { return get<int()>("fakeModules")(); }

  CudaDevice &device(int ordinal = 0) {
    ErrorOr<CudaDevice *> found = CudaDevice::get(ordinal);
    EXPECT_TRUE(found.ok()) << found.getStatus().getMessage();
    return **found;
  }

  /// A kernel with one pointer and one i32.
  artifact::Artifact makeArtifact(int cluster = 1, int shared = 0, bool pdl = false) {
    artifact::Artifact result;
    result.binary = "// code";
    artifact::Metadata &metadata = result.metadata;
    metadata.abi = KILN_ABI_VERSION;
    metadata.name = "add";
    metadata.symbol = "kiln_add";
    metadata.arguments = {*artifact::makeArgument("x", "*fp32"), *artifact::makeArgument("n", "i32")};
    metadata.argumentsBytes = artifact::layoutArguments(metadata.arguments);
    metadata.cuda.emplace();
    metadata.cuda->numWarps = 4;
    metadata.cuda->threads = 128;
    metadata.cuda->cluster = cluster;
    metadata.cuda->sharedBytes = shared;
    metadata.cuda->pdl = pdl;
    return result;
  }
  static void addSite(artifact::Artifact &to, artifact::SiteKind kind, const char *message,
                      std::vector<artifact::Site::Operand> operands) {
    artifact::Site site;
    site.kind = kind;
    site.message = message;
    site.location = {{"kernel.py", 7, 5, "add"}};
    site.operands = std::move(operands);
    to.metadata.sites.push_back(std::move(site));
  }
  std::shared_ptr<LoadedKernel> load(artifact::Artifact artifact, int ordinal = 0) {
    ErrorOr<std::shared_ptr<LoadedKernel>> kernel = device(ordinal).load(std::move(artifact), "add (kernel.py:3)");
    EXPECT_TRUE(kernel.ok()) << kernel.getStatus().getMessage();
    return kernel.ok() ? *kernel : nullptr;
  }

  struct Block {
    void *x = reinterpret_cast<void *>(0x1230);
    int32_t n = 42, padding = 0;
  } block;
  LaunchRequest request(int x, int y = 1, int z = 1) {
    LaunchRequest result;
    result.grid.x = x;
    result.grid.y = y;
    result.grid.z = z;
    result.arguments = &block;
    return result;
  }
  void *fake = nullptr;
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }
} // namespace

TEST_F(CudaDeviceTest, LaunchesWithThePackedBlock) {
  auto kernel = load(makeArtifact());
  Block seen;
  onLaunch = [&](const FakeLaunch &launch) {
    std::memcpy(&seen, launch.arguments, launch.bytes);
    return 0;
  };
  LaunchRequest with = request(3, 2);
  with.stream = reinterpret_cast<void *>(77);
  ASSERT_TRUE(kernel->launch(with).ok());
  EXPECT_EQ(seen.x, block.x);
  EXPECT_EQ(seen.n, 42);
  // Padding after the last argument is not part of the parameters.
  EXPECT_TRUE(contains(log(), "kiln_add grid 3x2x1 block 128x1x1 cluster 1 shared 0 bytes 12 pdl 0 stream 77 device 0"))
      << log();
}

TEST_F(CudaDeviceTest, ClustersMultiplyTheGridAndPdlIsAnAttribute) {
  auto kernel = load(makeArtifact(4, 100000, true));
  EXPECT_TRUE(contains(log(), "cuFuncSetAttribute 8=100000")) << log();
  ASSERT_TRUE(kernel->launch(request(5)).ok());
  EXPECT_TRUE(contains(log(), "grid 20x1x1 block 128x1x1 cluster 4 shared 100000 bytes 12 pdl 1")) << log();
  EXPECT_EQ(kernel->getFigures()->registers, 24);
  EXPECT_EQ(kernel->getFigures()->blocksPerProcessor, 16);
  EXPECT_EQ(kernel->getFigures()->clusters, 33);
}

TEST_F(CudaDeviceTest, LargeClustersAreAllowedFirst) {
  load(makeArtifact(16));
  EXPECT_TRUE(contains(log(), "cuFuncSetAttribute 14=1")) << log();
}

//===-- Tensor maps ----------------------------------------------------------------------------------------------===//

namespace {
struct FakeTensorMap { // as in FakeCuda.cpp
  uint32_t magic;
  uint8_t rank, type, elementBytes, swizzle, promotion, fill, reserved[6];
  uint64_t base, sizes[5], strides[4];
  uint16_t box[5];
  uint8_t rest[22];
};
using Number = artifact::TensorMapSpec::Number;
Number argument(int32_t index, bool isUnsigned = false) { return {index, isUnsigned, 0}; }
Number constant(int64_t value) { return {-1, false, value}; }

/// A kernel of an array, two extents and a stride, with one tensor map of the array.
class TensorMapTest : public CudaDeviceTest {
protected:
  artifact::Artifact makeMapped(artifact::ElementType element = artifact::ElementType::FP16) {
    artifact::Artifact result = makeArtifact();
    artifact::Metadata &metadata = result.metadata;
    metadata.arguments = {*artifact::makeArgument("x", "*" + std::string(artifact::getName(element))),
                          *artifact::makeArgument("m", "i32"), *artifact::makeArgument("n", "u32"),
                          *artifact::makeArgument("s", "i64")};
    metadata.argumentsBytes = artifact::layoutArguments(metadata.arguments);
    artifact::TensorMapSpec map;
    map.offset = 64;
    map.element = element;
    map.shape = {argument(1), argument(2, true)};
    map.strides = {argument(3), constant(1)};
    map.box = {32, 64};
    map.swizzle = 128;
    metadata.cuda->tensorMaps = {map};
    return result;
  }
  struct Arguments {
    uint64_t x = 0x10000;
    int32_t m = 300;
    uint32_t n = 200;
    int64_t s = 256;
  } arguments;
  LaunchRequest mapped() {
    LaunchRequest result = request(3);
    result.arguments = &arguments;
    return result;
  }
  /// Launches and returns what the kernel found `offset` bytes after the start of its parameters.
  FakeTensorMap launched(LoadedKernel &kernel, size_t offset = 64) {
    FakeTensorMap seen = {};
    onLaunch = [&](const FakeLaunch &launch) {
      EXPECT_GE(launch.bytes, offset + 128);
      std::memcpy(&seen, static_cast<const char *>(launch.arguments) + offset, sizeof seen);
      return 0;
    };
    Status status = kernel.launch(mapped());
    EXPECT_TRUE(status.ok()) << status.getMessage();
    return seen;
  }
  std::string refusal(LoadedKernel &kernel) {
    Status status = kernel.launch(mapped());
    EXPECT_EQ(status.getCode(), StatusCode::InvalidArgument);
    return status.getMessage();
  }
  size_t encoded() {
    size_t count = 0;
    std::string text = log();
    for (size_t at = 0; (at = text.find("cuTensorMapEncodeTiled", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
};
} // namespace

TEST_F(TensorMapTest, ComesAfterTheArgumentsInnermostDimensionFirst) {
  auto kernel = load(makeMapped());
  FakeTensorMap map = launched(*kernel);
  EXPECT_EQ(map.magic, 0x314d544bu);
  EXPECT_EQ(map.base, 0x10000u);
  EXPECT_EQ(map.sizes[0], 200u);
  EXPECT_EQ(map.sizes[1], 300u);
  EXPECT_EQ(map.strides[0], 512u);
  EXPECT_TRUE(contains(log(), "cuTensorMapEncodeTiled type 6 sizes 200,300 strides 512 box 64,32 swizzle 3 promotion 3 "
                              "fill 0"))
      << log();
  EXPECT_TRUE(contains(log(), "bytes 192 ")) << log();
}

TEST_F(TensorMapTest, HasTheTypeRankAndPaddingOfItsDescription) {
  using artifact::ElementType;
  for (auto [element, type] : {std::pair(ElementType::FP16, 6),
                               {ElementType::BF16, 9},
                               {ElementType::FP32, 7},
                               {ElementType::FP64, 8},
                               {ElementType::I8, 0},
                               {ElementType::FP8E5, 0},
                               {ElementType::I16, 1},
                               {ElementType::U32, 2},
                               {ElementType::I64, 4}}) {
    artifact::Artifact artifact = makeMapped(element);
    artifact::TensorMapSpec &map = artifact.metadata.cuda->tensorMaps[0];
    map.box = {8, 16};
    map.swizzle = 0;
    map.nanPadding = element == ElementType::BF16;
    FakeTensorMap seen = launched(*load(std::move(artifact)));
    EXPECT_EQ(int(seen.type), type);
    EXPECT_EQ(seen.elementBytes, artifact::getBytes(element));
    EXPECT_EQ(int(seen.fill), element == ElementType::BF16);
    EXPECT_EQ(seen.strides[0], 256u * artifact::getBytes(element));
    // Rows of 128 bytes prefetch 256 into the cache.
    EXPECT_EQ(int(seen.promotion), artifact::getBytes(element) == 8 ? 3 : 2);
  }
  artifact::Artifact row = makeMapped();
  row.metadata.cuda->tensorMaps[0].shape = {constant(1 << 20)};
  row.metadata.cuda->tensorMaps[0].strides = {constant(1)};
  row.metadata.cuda->tensorMaps[0].box = {256};
  row.metadata.cuda->tensorMaps[0].swizzle = 0;
  FakeTensorMap seen = launched(*load(std::move(row)));
  EXPECT_EQ(int(seen.rank), 1);
  EXPECT_EQ(seen.sizes[0], uint64_t(1) << 20);
  artifact::Artifact five = makeMapped();
  five.metadata.cuda->tensorMaps[0].shape = {constant(2), argument(1), constant(3), constant(4), argument(2)};
  five.metadata.cuda->tensorMaps[0].strides = {constant(8000), constant(4000), constant(2000), argument(3),
                                               constant(1)};
  five.metadata.cuda->tensorMaps[0].box = {1, 1, 2, 4, 64};
  launched(*load(std::move(five)));
  EXPECT_TRUE(contains(log(), "sizes 200,4,3,300,2 strides 512,4000,8000,16000 box 64,4,2,1,1")) << log();
}

TEST_F(TensorMapTest, IsEncodedOnceForTheSameValues) {
  auto kernel = load(makeMapped());
  for (int i = 0; i < 3; ++i)
    launched(*kernel);
  EXPECT_EQ(encoded(), 1u);
  // Every input is part of the cache key.
  arguments.x += 16;
  EXPECT_EQ(launched(*kernel).base, 0x10010u);
  arguments.m = 301;
  EXPECT_EQ(launched(*kernel).sizes[1], 301u);
  arguments.n = 201;
  EXPECT_EQ(launched(*kernel).sizes[0], 201u);
  arguments.s = 264;
  EXPECT_EQ(launched(*kernel).strides[0], 528u);
  EXPECT_EQ(encoded(), 5u);
  arguments = {};
  EXPECT_EQ(launched(*kernel).sizes[1], 300u);
  EXPECT_EQ(encoded(), 5u);
}

TEST_F(TensorMapTest, MoreArraysThanTheCacheHoldsStillWork) {
  auto kernel = load(makeMapped());
  for (int round = 0; round < 2; ++round)
    for (uint64_t i = 1; i <= 1000; ++i) {
      arguments.x = i * 4096;
      ASSERT_EQ(launched(*kernel).base, i * 4096);
    }
  // 60 layers launched in turn keep nearly all of their maps.
  auto layers = load(makeMapped());
  size_t before = encoded();
  for (int round = 0; round < 10; ++round)
    for (uint64_t i = 1; i <= 60; ++i) {
      arguments.x = i * 4096;
      ASSERT_EQ(launched(*layers).base, i * 4096);
    }
  EXPECT_LT(encoded() - before, 200u);
}

TEST_F(TensorMapTest, ThreadsShareTheCache) {
  auto kernel = load(makeMapped());
  std::atomic<int> wrong{0};
  onLaunch = [&](const FakeLaunch &launch) {
    FakeTensorMap seen;
    uint64_t x;
    std::memcpy(&x, launch.arguments, sizeof x);
    std::memcpy(&seen, static_cast<const char *>(launch.arguments) + 64, sizeof seen);
    wrong += seen.base != x;
    return 0;
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 200; ++i) {
        Arguments mine;
        mine.x = 0x10000 + 16 * ((t * 7 + i) % 300);
        LaunchRequest with = request(1);
        with.arguments = &mine;
        wrong += !kernel->launch(with).ok();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TensorMapTest, SignednessFollowsTheKernel) {
  auto kernel = load(makeMapped());
  arguments.n = 0xfffffff0u; // without a sign
  EXPECT_EQ(launched(*kernel).sizes[0], 0xfffffff0u);
  arguments.m = -16; // with one
  EXPECT_EQ(refusal(*kernel),
            "argument 'm': expected an extent of 0 to 2^32 (because the copy engine supports no larger one), got -16");
}

TEST_F(TensorMapTest, UnencodableMapsNameTheirArgument) {
  auto kernel = load(makeMapped());
  arguments.x = 0x10008;
  EXPECT_EQ(refusal(*kernel), "argument 'x': expected an address that is a multiple of 16 (because the copy engine "
                              "needs that alignment), got 0x10008");
  arguments = {};
  arguments.s = 260;
  EXPECT_EQ(refusal(*kernel), "argument 's': expected a stride that is a multiple of 16 bytes (because the copy engine "
                              "needs aligned rows), got 260 elements of 2 bytes");
  arguments.s = -256;
  EXPECT_TRUE(contains(refusal(*kernel), "argument 's': expected a stride of 0 to 2^40 bytes")) << log();
  arguments.s = int64_t(1) << 39;
  EXPECT_TRUE(contains(refusal(*kernel), "argument 's': expected a stride of 0 to 2^40 bytes")) << log();
  EXPECT_EQ(encoded(), 0u);
  artifact::Artifact fixed = makeMapped();
  fixed.metadata.cuda->tensorMaps[0].strides[0] = constant(12);
  EXPECT_TRUE(contains(refusal(*load(std::move(fixed))), "a descriptor of array 'x': expected a stride"));
  // An error that only the driver finds carries the driver's text, and its map is not cached.
  arguments = {};
  force("cuTensorMapEncodeTiled", 1);
  std::string message = kernel->launch(mapped()).getMessage();
  EXPECT_TRUE(
      contains(message, "cannot describe array 'x' of shape [300, 200] at 0x10000, with strides of [512] bytes"))
      << message;
  force("cuTensorMapEncodeTiled", 0);
  launched(*kernel);
}

TEST_F(TensorMapTest, AnEmptyArrayUsesAPlaceholderElement) {
  auto bytesAt = [&](uint64_t address) {
    std::array<unsigned char, 16> bytes;
    std::memcpy(bytes.data(), reinterpret_cast<void *>(address), 16);
    return bytes;
  };
  auto kernel = load(makeMapped());
  arguments.x = 0; // as an empty tensor has it
  arguments.n = 0;
  FakeTensorMap zeros = launched(*kernel);
  EXPECT_EQ(zeros.sizes[0], 1u);
  EXPECT_EQ(zeros.sizes[1], 1u);
  EXPECT_EQ(bytesAt(zeros.base), (std::array<unsigned char, 16>{}));
  artifact::Artifact padded = makeMapped();
  padded.metadata.cuda->tensorMaps[0].nanPadding = true;
  for (unsigned char byte : bytesAt(launched(*load(std::move(padded))).base))
    EXPECT_EQ(byte, 0xff);
  artifact::Artifact written = makeMapped();
  written.metadata.arguments[0].written = true;
  FakeTensorMap sink = launched(*load(std::move(written)));
  EXPECT_NE(sink.base, zeros.base);
  EXPECT_NE(sink.base, 0u);
}

TEST_F(TensorMapTest, ComesAfterTheLogAndTheCountedGrid) {
  artifact::Artifact artifact = makeMapped();
  addSite(artifact, artifact::SiteKind::Assert, "holds", {{artifact::ElementType::I1, false, {}}});
  artifact.metadata.cuda->persistent = true;
  artifact.metadata.cuda->tensorMaps.push_back(artifact.metadata.cuda->tensorMaps[0]);
  artifact.metadata.cuda->tensorMaps[1].offset = 192;
  artifact.metadata.cuda->tensorMaps[1].box = {16, 64};
  auto kernel = load(std::move(artifact));
  EXPECT_EQ(launched(*kernel).box[1], 32u);
  EXPECT_EQ(launched(*kernel, 192).box[1], 16u);
  int32_t counted[3];
  uint64_t logAt = 0;
  onLaunch = [&](const FakeLaunch &launch) {
    std::memcpy(&logAt, static_cast<const char *>(launch.arguments) + 24, 8);
    std::memcpy(counted, static_cast<const char *>(launch.arguments) + 32, 12);
    return 0;
  };
  LaunchRequest with = mapped();
  with.grid = {5, 6, 7};
  ASSERT_TRUE(kernel->launch(with).ok());
  EXPECT_NE(logAt, 0u);
  EXPECT_EQ(counted[0], 5);
  EXPECT_EQ(counted[1], 6);
  EXPECT_EQ(counted[2], 7);
}

TEST_F(TensorMapTest, IsMadeInsideACaptureToo) {
  auto kernel = load(makeMapped());
  get<void(int)>("fakeSetCapturing")(1);
  std::string before = log();
  FakeTensorMap seen = {};
  onLaunch = [&](const FakeLaunch &launch) {
    std::memcpy(&seen, static_cast<const char *>(launch.arguments) + 64, sizeof seen);
    return 0;
  };
  LaunchRequest with = mapped();
  with.stream = reinterpret_cast<void *>(77);
  ASSERT_TRUE(kernel->launch(with).ok());
  EXPECT_EQ(seen.base, 0x10000u);
  // Nothing but the launch and the encoding, which runs on the host.
  std::string during = log().substr(before.size());
  EXPECT_EQ(during.find("cuTensorMapEncodeTiled"), 0u) << during;
  EXPECT_TRUE(contains(during, "\ncuLaunchKernelEx")) << during;
  EXPECT_FALSE(contains(during, "cuMem")) << during;
}

TEST_F(TensorMapTest, IsAbsentFromKernelsWithoutMaps) {
  auto kernel = load(makeArtifact());
  ASSERT_TRUE(kernel->launch(request(3)).ok());
  EXPECT_EQ(encoded(), 0u);
  EXPECT_FALSE(contains(log(), "cuMemAlloc")) << log();
}

//===-- Persistent kernels ---------------------------------------------------------------------------------------===//

TEST_F(CudaDeviceTest, APersistentKernelStartsOnlyResidentBlocks) {
  artifact::Artifact artifact = makeArtifact();
  artifact.metadata.cuda->persistent = true;
  auto kernel = load(std::move(artifact));
  int32_t counted[3] = {};
  onLaunch = [&](const FakeLaunch &launch) {
    EXPECT_EQ(launch.bytes, 24u); // after 12 bytes of arguments, not after the padded block
    std::memcpy(counted, static_cast<const char *>(launch.arguments) + 12, 12);
    return 0;
  };
  // 16 blocks of 128 threads on each of 132 processors; grid sides beyond that are only counted.
  ASSERT_TRUE(kernel->launch(request(3, 70000, 2)).ok());
  EXPECT_TRUE(contains(log(), "grid 2112x1x1 block 128x1x1")) << log();
  EXPECT_EQ(counted[0], 3);
  EXPECT_EQ(counted[1], 70000);
  EXPECT_EQ(counted[2], 2);
  ASSERT_TRUE(kernel->launch(request(5, 2, 3)).ok());
  EXPECT_TRUE(contains(log(), "grid 30x1x1 block 128x1x1")) << log();
  // One step past the last instance is still a positive i32.
  ASSERT_TRUE(kernel->launch(request(INT32_MAX - 2112)).ok());
  Status status = kernel->launch(request(INT32_MAX - 2111));
  EXPECT_EQ(status.getCode(), StatusCode::InvalidArgument);
  EXPECT_TRUE(contains(status.getMessage(), "expected at most 2147481535 program instances (because a persistent "
                                            "kernel counts them in 32 bits), got 2147481536"))
      << status.getMessage();
}

TEST_F(CudaDeviceTest, APersistentKernelOfClustersCountsClusters) {
  artifact::Artifact artifact = makeArtifact(/*cluster=*/4);
  artifact.metadata.cuda->persistent = true;
  auto kernel = load(std::move(artifact));
  ASSERT_TRUE(kernel->launch(request(1000)).ok());
  EXPECT_TRUE(contains(log(), "grid 132x1x1 block 128x1x1 cluster 4")) << log();
  ASSERT_TRUE(kernel->launch(request(7)).ok());
  EXPECT_TRUE(contains(log(), "grid 28x1x1 block 128x1x1 cluster 4")) << log();
}

TEST_F(CudaDeviceTest, AnEmptyGridLaunchesNothing) {
  auto kernel = load(makeArtifact());
  ASSERT_TRUE(kernel->launch(request(0)).ok());
  EXPECT_FALSE(contains(log(), "cuLaunchKernelEx"));
}

TEST_F(CudaDeviceTest, OversizedGridsAreRefusedByName) {
  auto kernel = load(makeArtifact());
  Status status = kernel->launch(request(1, 70000));
  EXPECT_EQ(status.getCode(), StatusCode::InvalidArgument);
  EXPECT_TRUE(contains(status.getMessage(), "at most 65535 program instances in dimension 1")) << status.getMessage();
  status = load(makeArtifact(2))->launch(request(2000000000));
  EXPECT_TRUE(contains(status.getMessage(), "at most 1073741823 program instances in dimension 0"))
      << status.getMessage();
  EXPECT_FALSE(contains(log(), "cuLaunchKernelEx"));
}

TEST_F(CudaDeviceTest, ResourceErrorsSayHowMuch) {
  ErrorOr<std::shared_ptr<LoadedKernel>> shared = device().load(makeArtifact(1, 300000));
  ASSERT_FALSE(shared.ok());
  ASSERT_TRUE(shared.getStatus().getNeed());
  EXPECT_EQ(shared.getStatus().getNeed()->resource, "shared memory of one block");
  EXPECT_EQ(shared.getStatus().getNeed()->required, 300000);
  EXPECT_EQ(shared.getStatus().getNeed()->available, 232448);
  ErrorOr<std::shared_ptr<LoadedKernel>> clusters = device(1).load(makeArtifact(2));
  ASSERT_FALSE(clusters.ok());
  EXPECT_EQ(clusters.getStatus().getNeed()->required, 2);
  get<void(int, int)>("fakeSetFunctionAttribute")(0, 96); // too many registers for 128 threads
  ErrorOr<std::shared_ptr<LoadedKernel>> registers = device().load(makeArtifact());
  ASSERT_FALSE(registers.ok());
  EXPECT_EQ(registers.getStatus().getNeed()->resource, "registers of one block");
}

TEST_F(CudaDeviceTest, AnErrorOfTheAssemblerHasItsLog) {
  force("cuModuleLoadDataEx", 218);
  ErrorOr<std::shared_ptr<LoadedKernel>> kernel = device().load(makeArtifact());
  ASSERT_FALSE(kernel.ok());
  EXPECT_TRUE(contains(kernel.getStatus().getMessage(), "CUDA_ERROR_INVALID_PTX")) << kernel.getStatus().getMessage();
  EXPECT_TRUE(contains(kernel.getStatus().getMessage(), "the log of the assembler"));
  EXPECT_TRUE(contains(kernel.getStatus().getMessage(), "compute capability 9.0"));
}

TEST_F(CudaDeviceTest, CodeIsUnloadedAfterSynchronizing) {
  ASSERT_TRUE(device().synchronize().ok()); // left by earlier tests
  int before = modules();
  auto kernel = load(makeArtifact());
  ASSERT_TRUE(kernel->launch(request(1)).ok());
  kernel.reset();
  EXPECT_EQ(modules(), before + 1);
  ASSERT_TRUE(device().synchronize().ok());
  EXPECT_EQ(modules(), before);
}

TEST_F(CudaDeviceTest, CodeInAGraphIsKept) {
  ASSERT_TRUE(device().synchronize().ok());
  int before = modules();
  auto kernel = load(makeArtifact());
  get<void(int)>("fakeSetCapturing")(1);
  LaunchRequest with = request(1);
  with.stream = reinterpret_cast<void *>(77);
  ASSERT_TRUE(kernel->launch(with).ok());
  kernel.reset();
  ASSERT_TRUE(device().synchronize().ok());
  EXPECT_EQ(modules(), before + 1);
}

TEST_F(CudaDeviceTest, OrderingUsesAnEventWithoutAHostWait) {
  auto stream = [](uintptr_t number) { return reinterpret_cast<cuda::Stream>(number); };
  ASSERT_TRUE(device().order(stream(5), stream(9)).ok());
  EXPECT_TRUE(contains(log(), "cuEventRecord 9\ncuStreamWaitEvent 5\n")) << log();
  EXPECT_FALSE(contains(log(), "Synchronize"));
}

//===-- What code says -------------------------------------------------------------------------------------------===//

/// The address of the log, after the packed argument block.
static KilnDeviceLog *getLog(const FakeLaunch &launch) {
  KilnDeviceLog *log;
  std::memcpy(&log, static_cast<const char *>(launch.arguments) + 16, sizeof log);
  return log;
}

TEST_F(CudaDeviceTest, PrintsAreInProgramOrderAsOnTheCpu) {
  artifact::Artifact artifact = makeArtifact();
  addSite(artifact, artifact::SiteKind::Print, "x", {{artifact::ElementType::FP32, false, {2}}});
  addSite(artifact, artifact::SiteKind::Print, "done", {});
  auto kernel = load(std::move(artifact));
  onLaunch = [&](const FakeLaunch &launch) {
    EXPECT_EQ(launch.bytes, 24u);
    KilnDeviceLog *log = getLog(launch);
    auto *records = reinterpret_cast<KilnDeviceRecord *>(log + 1);
    float values[] = {0.5f, -2.0f};
    auto add = [&](uint32_t site, uint32_t sequence, uint64_t program, uint32_t operand, uint32_t element) {
      KilnDeviceRecord record = {site, sequence, program, operand, element, 0};
      if (operand == 0)
        std::memcpy(&record.bits, &values[element], 4);
      records[log->cursor++] = record;
    };
    // Out of order, as threads would do it.
    add(0, 0, 1, 0, 1);
    add(1, 1, 0, KILN_LOG_NO_OPERAND, 0);
    add(0, 0, 0, 0, 1);
    add(0, 0, 1, 0, 0);
    add(0, 0, 0, 0, 0);
    return 0;
  };
  ASSERT_TRUE(kernel->launch(request(2)).ok());
  EXPECT_FALSE(hasCollectedLogs());
  ASSERT_TRUE(device().synchronize().ok());
  std::vector<CollectedLog> logs = takeCollectedLogs();
  ASSERT_EQ(logs.size(), 1u);
  launch::DeviceReport report(logs[0]);
  EXPECT_EQ(report.takeOutput(), "pid (0, 0, 0) idx (0) x: 0.5\npid (0, 0, 0) idx (1) x: -2.0\n"
                                 "pid (0, 0, 0) done\n"
                                 "pid (1, 0, 0) idx (0) x: 0.5\npid (1, 0, 0) idx (1) x: -2.0\n");
  EXPECT_FALSE(report.getFailure());
  // The same memory is reused, and empty.
  onLaunch = [&](const FakeLaunch &launch) {
    EXPECT_EQ(getLog(launch)->cursor, 0u);
    return 0;
  };
  ASSERT_TRUE(kernel->launch(request(2)).ok());
  ASSERT_TRUE(device().synchronize().ok());
  EXPECT_FALSE(hasCollectedLogs());
}

TEST_F(CudaDeviceTest, PendingPrintsAreBounded) {
  artifact::Artifact artifact = makeArtifact();
  addSite(artifact, artifact::SiteKind::Print, "x", {{artifact::ElementType::I32, false, {}}});
  auto kernel = load(std::move(artifact));
  std::set<KilnDeviceLog *> logs;
  onLaunch = [&](const FakeLaunch &launch) {
    logs.insert(getLog(launch));
    return 0;
  };
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(kernel->launch(request(1)).ok());
  EXPECT_EQ(logs.size(), 64u);
  EXPECT_TRUE(contains(log(), "cuStreamSynchronize"));
}

TEST_F(CudaDeviceTest, DroppedPrintsAreCounted) {
  artifact::Artifact artifact = makeArtifact();
  addSite(artifact, artifact::SiteKind::Print, "x", {{artifact::ElementType::I32, false, {}}});
  auto kernel = load(std::move(artifact));
  onLaunch = [&](const FakeLaunch &launch) {
    KilnDeviceLog *log = getLog(launch);
    auto *records = reinterpret_cast<KilnDeviceRecord *>(log + 1);
    for (uint32_t i = 0; i < log->capacity; ++i)
      records[i] = {0, i, 0, 0, 0, i};
    log->cursor = log->capacity + 5;
    return 0;
  };
  ASSERT_TRUE(kernel->launch(request(1)).ok());
  ASSERT_TRUE(device().synchronize().ok());
  launch::DeviceReport report(takeCollectedLogs().at(0));
  EXPECT_TRUE(contains(report.takeOutput(), "printed 5 values more than one launch has room for"));
}

TEST_F(CudaDeviceTest, AFailedAssertionIsSeenByTheNextPoll) {
  artifact::Artifact artifact = makeArtifact();
  addSite(artifact, artifact::SiteKind::Assert, "must be positive", {{artifact::ElementType::I1, false, {4, 8}}});
  auto kernel = load(std::move(artifact));
  onLaunch = [&](const FakeLaunch &launch) {
    KilnDeviceLog *log = getLog(launch);
    EXPECT_EQ(log->capacity, 0u);
    log->grid[0] = 3;
    log->grid[1] = 2;
    for (uint64_t failed : {KILN_LOG_FAILURE(5, 0, 9), KILN_LOG_FAILURE(4, 0, 11), KILN_LOG_FAILURE(4, 0, 30)})
      log->failed = std::min<uint64_t>(log->failed, failed);
    return 0;
  };
  ASSERT_TRUE(kernel->launch(request(3, 2)).ok());
  EXPECT_FALSE(contains(log(), "cuLaunchHostFunc")); // only the kernel is in the stream
  device().getLogs().poll();
  std::vector<CollectedLog> logs = takeCollectedLogs();
  ASSERT_EQ(logs.size(), 1u);
  launch::DeviceReport report(logs[0]);
  ASSERT_TRUE(report.getFailure());
  EXPECT_EQ(report.getMonitor().describe(*report.getFailure()),
            "kernel.py:7: assertion failed: must be positive, in program (1, 1, 0), tile coordinate (1, 3)");
  device().getLogs().poll();
  EXPECT_FALSE(hasCollectedLogs()); // reported once
}

TEST_F(CudaDeviceTest, PrintsInAGraphAreCollectedEachTime) {
  artifact::Artifact artifact = makeArtifact();
  addSite(artifact, artifact::SiteKind::Print, "hello", {});
  auto kernel = load(std::move(artifact));
  get<void(int)>("fakeSetCapturing")(1);
  KilnDeviceLog *kept = nullptr;
  onLaunch = [&](const FakeLaunch &launch) {
    kept = getLog(launch);
    *reinterpret_cast<KilnDeviceRecord *>(kept + 1) = {0, 0, 0, KILN_LOG_NO_OPERAND, 0, 0};
    kept->cursor = 1;
    return 0;
  };
  LaunchRequest with = request(1);
  with.stream = reinterpret_cast<void *>(77);
  ASSERT_TRUE(kernel->launch(with).ok());
  get<void()>("fakeRunHostFunctions")();
  EXPECT_EQ(takeCollectedLogs().size(), 1u);
  EXPECT_EQ(kept->cursor, 0u);
  // Not given to another launch: the graph may run again.
  KilnDeviceLog *other = nullptr;
  onLaunch = [&](const FakeLaunch &launch) {
    other = getLog(launch);
    return 0;
  };
  ASSERT_TRUE(kernel->launch(with).ok());
  EXPECT_NE(other, kept);
}

//===-- Host arrays on the device --------------------------------------------------------------------------------===//

TEST_F(CudaDeviceTest, StagingKeepsOverlapsAndAlignment) {
  alignas(256) static float memory[256];
  for (int i = 0; i < 256; ++i)
    memory[i] = float(i);
  auto begin = reinterpret_cast<uintptr_t>(memory);
  launch::Staging staging(device());
  ASSERT_TRUE(staging.upload({{"x", begin + 40, begin + 400, false}, {"y", begin + 200, begin + 800, true}}).ok());
  cuda::Address x = staging.translate(begin + 40), y = staging.translate(begin + 200);
  EXPECT_EQ(y - x, 160u);
  EXPECT_EQ(x % 256, (begin + 40) % 256);
  EXPECT_EQ(staging.translate(begin + 900), 0u);
  EXPECT_EQ(reinterpret_cast<float *>(x)[0], 10.0f);
  reinterpret_cast<float *>(y)[0] = -1.0f;
  EXPECT_EQ(memory[50], 50.0f);
  ASSERT_TRUE(staging.download().ok());
  EXPECT_EQ(memory[50], -1.0f);
}

TEST_F(CudaDeviceTest, StagingWritesNothingBackIntoReadOnlyArrays) {
  static const float memory[4] = {1, 2, 3, 4};
  auto begin = reinterpret_cast<uintptr_t>(memory);
  launch::Staging staging(device());
  ASSERT_TRUE(staging.upload({{"x", begin, begin + 16, false}}).ok());
  ASSERT_TRUE(staging.download().ok());
  EXPECT_FALSE(contains(log(), "cuMemcpyDtoH_v2"));
  Status status = launch::Staging(device()).upload({{"x", begin, UINTPTR_MAX, true}});
  EXPECT_EQ(status.getCode(), StatusCode::InvalidArgument);
}

//===-- Endings, which cannot be undone: in processes of their own ------------------------------------------------===//

TEST_F(CudaDeviceTest, AStickyErrorNamesTheLaunchesAndStays) {
  auto inChild = [&] {
    auto kernel = load(makeArtifact());
    (void)kernel->launch(request(1));
    (void)device().synchronize(); // this launch is known to be good
    (void)kernel->launch(request(7, 2));
    force("cuCtxSynchronize", 700);
    Status status = device().synchronize();
    bool ok = status.getCode() == StatusCode::DeviceLost &&
              contains(status.getMessage(), "CUDA_ERROR_ILLEGAL_ADDRESS") &&
              contains(status.getMessage(), "the launch that did it:\n  add (kernel.py:3), grid (7, 2, 1)");
    force("cuCtxSynchronize", 0);
    Status again = kernel->launch(request(1));
    ok = ok && again.getCode() == StatusCode::DeviceLost && again.getMessage() == status.getMessage();
    fprintf(stderr, "%s\n", status.getMessage().c_str());
    _exit(ok ? 0 : 1);
  };
  ::testing::FLAGS_gtest_death_test_style = "threadsafe"; // a new process: a forked one may not use the driver
  EXPECT_EXIT(inChild(), ::testing::ExitedWithCode(0), "is lost");
}

TEST_F(CudaDeviceTest, AForkedChildGetsAnError) {
  auto kernel = load(makeArtifact());
  pid_t child = fork();
  if (child == 0) {
    Status status = kernel->launch(request(1));
    _exit(contains(status.getMessage(), "forked") && !CudaDriver::get().ok() ? 0 : 1);
  }
  int code;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(WEXITSTATUS(code), 0);
  EXPECT_TRUE(kernel->launch(request(1)).ok());
}
