// Loading objects, running grids, and rejecting what is not an artifact.
#include "runtime/device/CpuDevice.h"
#include "runtime/device/HostLibrary.h"
#include "runtime/support/ThreadPool.h"
#include "test/runtime/Objects.h"
#include <atomic>
#include <gtest/gtest.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kiln;
using namespace kiln::device;

// Adds one to counts[program] for each program of the range; uses memset to show that the loader provides it.
static const char *const countIR = R"(
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @kiln_count(ptr %args, ptr %launch, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  %size = getelementptr i8, ptr %args, i64 8
  %bytes = load i64, ptr %size
  %frame.at = getelementptr i8, ptr %launch, i64 16
  %frame = load ptr, ptr %frame.at
  call void @llvm.memset.p0.i64(ptr %frame, i8 1, i64 %bytes, i1 false)
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i32, ptr %counts, i64 %i
  %one = load i8, ptr %frame
  %wide = zext i8 %one to i32
  %old = load i32, ptr %at
  %new = add i32 %old, %wide
  store i32 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
)";

static artifact::Artifact makeArtifact(std::string object, std::string symbol = "kiln_count") {
  artifact::Artifact artifact;
  artifact.binary = std::move(object);
  artifact.metadata.abi = KILN_ABI_VERSION;
  artifact.metadata.name = "count";
  artifact.metadata.symbol = std::move(symbol);
  artifact.metadata.argumentsBytes = 16;
  artifact.metadata.frameBytes = 4096;
  return artifact;
}

static void runAndCheck(LoadedKernel &kernel, Grid grid) {
  std::vector<int32_t> counts(grid.count() + 1, 0);
  struct {
    void *counts;
    int64_t bytes;
  } arguments{counts.data(), 4096};
  LaunchRequest request;
  request.grid = grid;
  request.arguments = &arguments;
  ASSERT_TRUE(kernel.launch(request).ok());
  for (int64_t i = 0; i < grid.count(); ++i)
    ASSERT_EQ(counts[i], 1) << i;
  EXPECT_EQ(counts.back(), 0);
}

TEST(CpuDevice, runsEveryProgramOfAGrid) {
  auto kernel = getCpuDevice().load(makeArtifact(test::compileIR(countIR)));
  ASSERT_TRUE(kernel.ok()) << kernel.getStatus().getMessage();
  for (Grid grid : {Grid{1, 1, 1}, Grid{7, 1, 1}, Grid{5, 3, 2}, Grid{100000, 1, 1}, Grid{0, 5, 1}})
    runAndCheck(**kernel, grid);
}

TEST(CpuDevice, loadsAndUnloadsManyTimes) {
  std::string object = test::compileIR(countIR);
  for (int i = 0; i < 50; ++i) {
    auto kernel = getCpuDevice().load(makeArtifact(object));
    ASSERT_TRUE(kernel.ok()) << kernel.getStatus().getMessage();
    runAndCheck(**kernel, {3, 1, 1});
  }
}

TEST(CpuDevice, oneKernelFromManyThreads) {
  auto kernel = getCpuDevice().load(makeArtifact(test::compileIR(countIR)));
  ASSERT_TRUE(kernel.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat)
        runAndCheck(**kernel, {257, 1, 1});
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(CpuDevice, theSymbolMustBeThere) {
  auto kernel = getCpuDevice().load(makeArtifact(test::compileIR(countIR), "kiln_other"));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.getStatus().getCode(), StatusCode::Corrupt);
  EXPECT_NE(kernel.getStatus().getMessage().find("kiln_other"), std::string::npos);
}

TEST(CpuDevice, otherExternalsAreRefused) {
  auto kernel = getCpuDevice().load(makeArtifact(test::compileIR(R"(
    declare float @expf(float)
    define void @kiln_count(ptr %args, ptr %launch, i64 %begin, i64 %end) {
      %x = call float @expf(float 1.0)
      store float %x, ptr %args
      ret void
    })")));
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.getStatus().getMessage().find("expf"), std::string::npos);
}

TEST(CpuDevice, damagedObjectsAreRefused) {
  std::string object = test::compileIR(countIR);
  EXPECT_FALSE(getCpuDevice().load(makeArtifact("")).ok());
  EXPECT_FALSE(getCpuDevice().load(makeArtifact("no object at all")).ok());
  EXPECT_FALSE(getCpuDevice().load(makeArtifact(object.substr(0, object.size() / 3))).ok());
  EXPECT_TRUE(getCpuDevice().load(makeArtifact(object)).ok()) << "a refusal must not spoil the session";
}

TEST(CpuDevice, aForkedChildLoadsAndRuns) {
  auto kernel = getCpuDevice().load(makeArtifact(test::compileIR(countIR)));
  ASSERT_TRUE(kernel.ok());
  runAndCheck(**kernel, {1000, 1, 1});
  std::string object = test::compileIR(countIR);
  pid_t child = fork();
  if (child == 0) {
    runAndCheck(**kernel, {1000, 1, 1});
    auto again = getCpuDevice().load(makeArtifact(object));
    if (again.ok())
      runAndCheck(**again, {1000, 1, 1});
    _exit(again.ok() && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(CpuDevice, otherKindsAreRefusedByName) {
  EXPECT_NE(getDevice("nvidia").getStatus().getMessage().find("'nvidia'"), std::string::npos);
}

TEST(HostLibrary, definesWhatTheCompilerCalls) {
  std::set<std::string> listed, defined;
  for (const artifact::HostFunction &function : artifact::hostFunctions)
    listed.insert(function.symbol);
  for (auto [name, function] : device::getHostLibrary()) {
    EXPECT_NE(function, nullptr) << name;
    defined.insert(name);
  }
  EXPECT_EQ(listed, defined);
}
