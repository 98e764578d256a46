// What is observed of a launch: prints in program order, the lowest failing program, bounds, races.
#include "runtime/launch/Monitor.h"
#include "runtime/device/CpuDevice.h"
#include "runtime/support/ThreadPool.h"
#include "test/runtime/Objects.h"
#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::launch;

// For each program, calls hook(site 0); the IR function chooses the hook and its arguments.
static std::string makeIR(const std::string &body) {
  return R"(
define void @kiln_test(ptr %args, ptr %launch, i64 %begin, i64 %end) {
entry:
  %hooks.at = getelementptr i8, ptr %launch, i64 32
  %hooks = load ptr, ptr %hooks.at
  %print = load ptr, ptr %hooks
  %fail.at = getelementptr i8, ptr %hooks, i64 8
  %fail = load ptr, ptr %fail.at
  %access.at = getelementptr i8, ptr %hooks, i64 16
  %access = load ptr, ptr %access.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %continue ]
)" + body +
         R"(
  br label %continue
continue:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
)";
}

static artifact::Artifact makeArtifact(const std::string &body, artifact::Site site, std::string check = "none") {
  artifact::Artifact artifact;
  artifact.binary = test::compileIR(makeIR(body));
  artifact.metadata.abi = KILN_ABI_VERSION;
  artifact.metadata.name = artifact.metadata.symbol = "kiln_test";
  artifact.metadata.check = std::move(check);
  site.location = {{"kernel.py", 12, 4, "kernel"}};
  artifact.metadata.sites.push_back(site);
  site.kind = artifact::SiteKind::Load;
  site.location = {{"kernel.py", 34, 4, "kernel"}};
  artifact.metadata.sites.push_back(site);
  return artifact;
}

static artifact::Site makeSite(artifact::SiteKind kind, std::string message,
                               std::vector<artifact::Site::Operand> operands, bool hex = false) {
  artifact::Site site;
  site.kind = kind;
  site.message = std::move(message);
  site.operands = std::move(operands);
  site.hex = hex;
  return site;
}

namespace {
struct Outcome {
  std::string output, failure;
};
} // namespace

static Outcome run(artifact::Artifact artifact, device::Grid grid, void *data, std::vector<BufferExtent> buffers = {}) {
  auto kernel = device::getCpuDevice().load(std::move(artifact));
  EXPECT_TRUE(kernel.ok()) << kernel.getStatus().getMessage();
  Monitor monitor((*kernel)->getMetadata(), grid, std::move(buffers));
  device::LaunchRequest request;
  request.grid = grid;
  request.arguments = &data;
  request.hooks = monitor.getHooks();
  request.runtime = &monitor;
  request.sequential = monitor.isSequential();
  EXPECT_TRUE((*kernel)->launch(request).ok());
  Outcome outcome;
  outcome.output = monitor.takeOutput();
  if (monitor.getFailure())
    outcome.failure = monitor.describe(*monitor.getFailure());
  return outcome;
}

static const char *const printBody = R"(
  %slot = load ptr, ptr %args
  %list = getelementptr i8, ptr %args, i64 0
  call void %print(ptr %launch, i32 0, i64 %i, ptr %list)
)";

TEST(Monitor, printsInProgramOrderWithCoordinates) {
  ThreadPool::setSize(4);
  float values[] = {1.0f, 0.1f, -INFINITY, 1e30f};
  auto site = makeSite(artifact::SiteKind::Print, "x: ", {{artifact::ElementType::FP32, false, {2, 2}}});
  Outcome outcome = run(makeArtifact(printBody, site), {2, 1, 2}, values);
  std::string expected;
  for (const char *pid : {"(0, 0, 0)", "(1, 0, 0)", "(0, 0, 1)", "(1, 0, 1)"})
    for (const char *element : {"(0, 0) x: 1.0", "(0, 1) x: 0.1", "(1, 0) x: -inf", "(1, 1) x: 1e+30"})
      expected += "pid " + std::string(pid) + " idx " + element + "\n";
  EXPECT_EQ(outcome.output, expected);
  ThreadPool::setSize(0);
}

TEST(Monitor, printsEveryType) {
  auto printed = [](artifact::ElementType type, uint64_t bits, bool hex = false) {
    auto site = makeSite(artifact::SiteKind::Print, "v", {{type, false, {}}}, hex);
    return run(makeArtifact(printBody, site), {1, 1, 1}, &bits).output;
  };
  using artifact::ElementType;
  EXPECT_EQ(printed(ElementType::I1, 1), "pid (0, 0, 0) v: True\n");
  EXPECT_EQ(printed(ElementType::I8, 0xff), "pid (0, 0, 0) v: -1\n");
  EXPECT_EQ(printed(ElementType::U8, 0xff), "pid (0, 0, 0) v: 255\n");
  EXPECT_EQ(printed(ElementType::I64, ~uint64_t(0)), "pid (0, 0, 0) v: -1\n");
  EXPECT_EQ(printed(ElementType::BF16, 0x3f80), "pid (0, 0, 0) v: 1.0\n");
  EXPECT_EQ(printed(ElementType::BF16, 0x3dcd), "pid (0, 0, 0) v: 0.1\n");
  EXPECT_EQ(printed(ElementType::FP16, 0x7bff), "pid (0, 0, 0) v: 65500.0\n");
  EXPECT_EQ(printed(ElementType::FP16, 0x7c00), "pid (0, 0, 0) v: inf\n");
  EXPECT_EQ(printed(ElementType::FP8E4NV, 0x38), "pid (0, 0, 0) v: 1.0\n");
  EXPECT_EQ(printed(ElementType::I32, 0xab, true), "pid (0, 0, 0) v: 0x000000ab\n");
}

TEST(Monitor, theLowestFailingProgramIsReported) {
  // Programs 300 and above fail, at element 5 of a 2x4 tile.
  const char *body = R"(
  %bad = icmp sge i64 %i, 300
  br i1 %bad, label %stop, label %continue
stop:
  call void %fail(ptr %launch, i32 0, i64 %i, i64 5)
)";
  auto site = makeSite(artifact::SiteKind::Assert, "n is small", {{artifact::ElementType::I1, false, {2, 4}}});
  for (unsigned threads : {1u, 4u}) {
    ThreadPool::setSize(threads);
    for (int repeat = 0; repeat < 20; ++repeat)
      EXPECT_EQ(run(makeArtifact(body, site), {100, 100, 1}, nullptr).failure,
                "kernel.py:12: assertion failed: n is small, in program (0, 3, 0), tile coordinate (1, 1)");
  }
  ThreadPool::setSize(0);
}

TEST(Monitor, hooksAreOptional) {
  const char *body = R"(
  %data = load ptr, ptr %args
  call void %print(ptr %launch, i32 0, i64 %i, ptr %args)
  call void %access(ptr %launch, i32 0, i64 %i, i64 0, ptr %data, i32 4, i32 1)
  store float 1.0, ptr %data
  call void %fail(ptr %launch, i32 0, i64 %i, i64 0)
  store float 2.0, ptr %data
)";
  auto kernel = device::getCpuDevice().load(makeArtifact(body, makeSite(artifact::SiteKind::Assert, "", {})));
  ASSERT_TRUE(kernel.ok());
  float value = 0;
  void *data = &value;
  device::LaunchRequest request;
  request.arguments = &data;
  EXPECT_TRUE((*kernel)->launch(request).ok());
  EXPECT_EQ(value, 1.0f);
}

// Program i stores 4 bytes at data[4 * i], seen by the access hook first.
static const char *const storeBody = R"(
  %data = load ptr, ptr %args
  %at = getelementptr float, ptr %data, i64 %i
  call void %access(ptr %launch, i32 0, i64 %i, i64 3, ptr %at, i32 4, i32 1)
  store float 1.0, ptr %at
)";

static BufferExtent makeExtent(const char *name, const void *begin, size_t bytes, bool writable = true) {
  auto address = reinterpret_cast<uintptr_t>(begin);
  return {name, address, address + bytes, writable};
}

TEST(Monitor, boundsNameTheBufferAndTheDistance) {
  alignas(64) float data[64] = {};
  auto site = makeSite(artifact::SiteKind::Store, "", {{artifact::ElementType::FP32, false, {8}}});
  EXPECT_EQ(run(makeArtifact(storeBody, site, "bounds"), {16, 1, 1}, data, {makeExtent("x", data, 64)}).failure, "");
  std::string failure =
      run(makeArtifact(storeBody, site, "bounds"), {17, 1, 1}, data, {makeExtent("x", data, 64)}).failure;
  EXPECT_NE(failure.find("kernel.py:12: store of 4 bytes at address"), std::string::npos) << failure;
  EXPECT_NE(failure.find("in program (16, 0, 0), tile coordinate (3)"), std::string::npos) << failure;
  EXPECT_NE(failure.find("nearest buffer is argument 'x'"), std::string::npos) << failure;
  EXPECT_NE(failure.find("4 bytes past the end of it"), std::string::npos) << failure;
  EXPECT_EQ(data[16], 0.0f) << "the bad store must not happen";
  failure = run(makeArtifact(storeBody, site, "bounds"), {1, 1, 1}, data, {makeExtent("x", data + 2, 64)}).failure;
  EXPECT_NE(failure.find("8 bytes before the start of it"), std::string::npos) << failure;
  failure = run(makeArtifact(storeBody, site, "bounds"), {1, 1, 1}, data, {makeExtent("x", data, 64, false)}).failure;
  EXPECT_NE(failure.find("read-only buffer"), std::string::npos) << failure;
}

TEST(Monitor, racesAreReportedTheSameWayEachTime) {
  float data = 0;
  const char *body = R"(
  %data = load ptr, ptr %args
  %reads = icmp slt i64 %i, 5
  br i1 %reads, label %read, label %write
read:
  call void %access(ptr %launch, i32 1, i64 %i, i64 0, ptr %data, i32 4, i32 0)
  br label %continue
write:
  call void %access(ptr %launch, i32 0, i64 %i, i64 0, ptr %data, i32 4, i32 1)
)";
  auto site = makeSite(artifact::SiteKind::Store, "", {});
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::string failure = run(makeArtifact(body, site, "races"), {9, 1, 1}, &data, {makeExtent("x", &data, 4)}).failure;
    EXPECT_NE(failure.find("kernel.py:12: store"), std::string::npos) << failure;
    EXPECT_NE(failure.find("races with the load of program (0, 0, 0), in program (5, 0, 0)"), std::string::npos)
        << failure;
    EXPECT_NE(failure.find("the other access is at kernel.py:34"), std::string::npos) << failure;
  }
}

TEST(RaceDetector, racesAndNonRaces) {
  auto races = [](std::initializer_list<std::tuple<int64_t, KilnAccess, uintptr_t, uint32_t>> accesses) {
    RaceDetector detector;
    bool found = false;
    for (auto [program, kind, address, bytes] : accesses)
      found |= detector.note({program, 0, kind}, address, bytes).has_value();
    return found;
  };
  const KilnAccess load = KILN_ACCESS_LOAD, store = KILN_ACCESS_STORE, atomic = KILN_ACCESS_ATOMIC;
  EXPECT_FALSE(races({{0, load, 64, 4}, {1, load, 64, 4}, {2, load, 64, 4}}));
  EXPECT_FALSE(races({{0, atomic, 64, 4}, {1, atomic, 64, 4}}));
  EXPECT_FALSE(races({{0, store, 64, 4}, {0, load, 64, 4}, {0, store, 64, 4}}));
  EXPECT_FALSE(races({{0, store, 64, 4}, {1, store, 68, 4}})) << "neighbours in one granule";
  EXPECT_FALSE(races({{0, store, 64, 1}, {1, store, 65, 1}}));
  EXPECT_TRUE(races({{0, store, 64, 4}, {1, load, 64, 4}}));
  EXPECT_TRUE(races({{0, load, 64, 4}, {1, store, 64, 4}}));
  EXPECT_TRUE(races({{0, store, 64, 4}, {1, store, 67, 1}}));
  EXPECT_TRUE(races({{0, atomic, 64, 4}, {1, load, 64, 4}}));
  EXPECT_TRUE(races({{0, store, 60, 16}, {1, store, 72, 4}})) << "an access over several granules";
  EXPECT_TRUE(races({{0, load, 64, 4}, {1, load, 64, 4}, {2, load, 64, 4}, {1, store, 64, 4}}));
  EXPECT_TRUE(races({{0, load, 64, 4}, {1, load, 64, 4}, {0, store, 64, 4}})) << "the second reader still counts";
}
