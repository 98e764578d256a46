// The CUDA runtime against a driver without a GPU (FakeCuda.cpp): what is asked of the driver, in which order, and what
// is made of its answers.
#include "runtime/device/CudaDevice.h"
#include "runtime/device/CudaKernel.h"
#include "runtime/device/CudaLog.h"
#include "runtime/launch/DeviceReport.h"
#include "runtime/launch/Staging.h"
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::device;

namespace {
struct FakeLaunch { // as in FakeCuda.cpp
  const char *name;
  unsigned grid[3], block[3], cluster, sharedBytes;
  int programmatic;
  const void *arguments;
  size_t bytes;
  void *stream;
  int device;
  const char *image;
};

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

  /// A kernel of one pointer and one i32.
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
  // Without the padding behind the last argument, which is no parameter.
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

TEST_F(CudaDeviceTest, WhatDoesNotFitIsSaidWithAmounts) {
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

TEST_F(CudaDeviceTest, CodeIsUnloadedOnceTheDeviceWasWaitedFor) {
  ASSERT_TRUE(device().synchronize().ok()); // what earlier tests left
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

TEST_F(CudaDeviceTest, OrderUsesAnEventAndNoWaitOfTheHost) {
  auto stream = [](uintptr_t number) { return reinterpret_cast<cuda::Stream>(number); };
  ASSERT_TRUE(device().order(stream(5), stream(9)).ok());
  EXPECT_TRUE(contains(log(), "cuEventRecord 9\ncuStreamWaitEvent 5\n")) << log();
  EXPECT_FALSE(contains(log(), "Synchronize"));
}

//===-- What code says -------------------------------------------------------------------------------------------===//

/// The log's address behind the packed block.
static KilnDeviceLog *getLog(const FakeLaunch &launch) {
  KilnDeviceLog *log;
  std::memcpy(&log, static_cast<const char *>(launch.arguments) + 16, sizeof log);
  return log;
}

TEST_F(CudaDeviceTest, PrintsComeOutInProgramOrderAsOnTheCpu) {
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
    // As threads would: out of order.
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
  // The same memory again, empty.
  onLaunch = [&](const FakeLaunch &launch) {
    EXPECT_EQ(getLog(launch)->cursor, 0u);
    return 0;
  };
  ASSERT_TRUE(kernel->launch(request(2)).ok());
  ASSERT_TRUE(device().synchronize().ok());
  EXPECT_FALSE(hasCollectedLogs());
}

TEST_F(CudaDeviceTest, PrintsUnderWayHaveABound) {
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

TEST_F(CudaDeviceTest, PrintsWithoutRoomAreCounted) {
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
  EXPECT_FALSE(contains(log(), "cuLaunchHostFunc")); // nothing in the stream but the kernel
  device().getLogs().poll();
  std::vector<CollectedLog> logs = takeCollectedLogs();
  ASSERT_EQ(logs.size(), 1u);
  launch::DeviceReport report(logs[0]);
  ASSERT_TRUE(report.getFailure());
  EXPECT_EQ(report.getMonitor().describe(*report.getFailure()),
            "kernel.py:7: assertion failed: must be positive, in program (1, 1, 0), tile coordinate (1, 3)");
  device().getLogs().poll();
  EXPECT_FALSE(hasCollectedLogs()); // said once
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
    (void)device().synchronize(); // that one is known to be good
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

TEST_F(CudaDeviceTest, AForkedChildIsToldWhyNot) {
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
