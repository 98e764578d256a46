// The C interface of kiln/runtime.h: what an export may contain, which variant a launch takes on which machine, what is
// launched. The GPUs are those of FakeCuda.cpp, an sm_90 and an sm_80; CPU code is functions of this file.
#include "kiln/runtime.h"
#include "runtime/api/Machine.h"
#include "runtime/device/CpuKernel.h"
#include "runtime/device/CudaLog.h"
#include "runtime/launch/Specialize.h"
#include "test/runtime/FakeCuda.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include <atomic>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <thread>

using namespace kiln;

namespace {
std::vector<std::string> launched; ///< images, and the bytes of their arguments
std::atomic<int> counts[3];

/// CPU code. Its arguments: a pointer to a sum, and a number of 32 or 64 bits that each instance adds to it.
template <typename T, int which> void addUp(const void *arguments, const KilnLaunch *, int64_t begin, int64_t end) {
  char *sum;
  T number;
  std::memcpy(&sum, arguments, sizeof sum);
  std::memcpy(&number, static_cast<const char *>(arguments) + 8, sizeof number);
  reinterpret_cast<std::atomic<int64_t> *>(sum)->fetch_add((end - begin) * int64_t(number));
  counts[which] += int(end - begin);
}
void assertFalse(const void *, const KilnLaunch *launch, int64_t begin, int64_t) {
  launch->hooks->fail(launch, 0, begin, 0);
}

/// An export under construction; it owns what its tables point at.
class Export {
public:
  explicit Export(std::vector<const char *> parameters) : parameters(std::move(parameters)) {}

  /// A variant for a target: "cpu" runs `entry`.
  artifact::Metadata &add(const char *signature, const char *target,
                          void (*entry)(const void *, const KilnLaunch *, int64_t, int64_t) = nullptr) {
    artifact::Metadata &metadata = described.emplace_back();
    metadata.abi = KILN_ABI_VERSION;
    metadata.name = "kernel";
    metadata.symbol = "kiln_kernel";
    uint32_t bytes;
    std::vector<std::string> names(parameters.begin(), parameters.end());
    metadata.arguments = launch::flatten(names, *launch::parseSignature(signature), bytes);
    metadata.argumentsBytes = bytes;
    metadata.target["name"] = target;
    metadata.target["kind"] = entry ? "cpu" : "cuda";
    metadata.target["cpu"] = entry ? "x86-64" : target;
    if (!entry) {
      metadata.cuda.emplace();
      metadata.cuda->threads = 128;
      metadata.cuda->form = "cubin";
    }
    codes.push_back(std::string("// ") + target + " " + signature);
    variants.push_back({signature, nullptr, entry ? nullptr : codes.back().c_str(), codes.back().size(), entry});
    return metadata;
  }

  const kiln_export &get() {
    for (size_t i = 0; i < variants.size(); ++i) {
      texts.push_back(described[i].print());
      variants[i].metadata = texts.back().c_str();
    }
    whole = {KILN_RUNTIME_VERSION, "kernel", parameters.data(), parameters.size(), variants.data(), variants.size()};
    return whole;
  }

  std::vector<kiln_variant> variants;
  kiln_export whole;

private:
  std::vector<const char *> parameters;
  std::deque<artifact::Metadata> described;
  std::deque<std::string> codes, texts;
};

class ApiTest : public ::testing::Test {
protected:
  void SetUp() override {
    kiln_set_cuda_library(KILN_FAKE_CUDA);
    fake = dlopen(KILN_FAKE_CUDA, RTLD_NOW);
    ASSERT_TRUE(fake) << dlerror();
    get<void()>("fakeReset")();
    launched.clear();
    get<void(int (*)(const FakeLaunch *))>("fakeSetLaunch")([](const FakeLaunch *launch) {
      std::string bytes;
      for (size_t i = 0; i < launch->bytes; ++i) {
        char text[3];
        snprintf(text, sizeof text, "%02x", static_cast<const unsigned char *>(launch->arguments)[i]);
        bytes += text;
      }
      launched.push_back(std::string(launch->image) + " on " + std::to_string(launch->device) + ": " + bytes);
      return 0;
    });
    for (std::atomic<int> &count : counts)
      count = 0;
  }
  void TearDown() override {
    if (kernel)
      kiln_kernel_release(kernel);
  }
  template <typename F> F *get(const char *name) { return reinterpret_cast<F *>(dlsym(fake, name)); }

  void create(Export &from) { ASSERT_EQ(kiln_kernel_create(&from.get(), &kernel), KILN_OK) << kiln_message(); }
  kiln_status launch(int device, std::vector<kiln_argument> arguments, int grid = 1) {
    return kiln_kernel_launch(kernel, {device, nullptr}, {grid, 1, 1}, arguments.data(), arguments.size());
  }
  static kiln_argument array(uintptr_t address, kiln_element element = KILN_FP32) {
    return kiln_pointer(reinterpret_cast<const void *>(address), element);
  }
  static bool says(const std::string &part) { return std::string(kiln_message()).find(part) != std::string::npos; }

  void *fake = nullptr;
  kiln_kernel *kernel = nullptr;
};
} // namespace

//===-- What an export may say -----------------------------------------------------------------------------------===//

TEST_F(ApiTest, refusesOtherVersions) {
  Export made({"x"});
  made.add("*fp32", "sm_80");
  made.get();
  made.whole.version = 99;
  EXPECT_EQ(kiln_kernel_create(&made.whole, &kernel), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(kernel, nullptr);
  EXPECT_STREQ(kiln_message(), "expected an export for version 1 of this library, got one for version 99");
}

TEST_F(ApiTest, refusesDamage) {
  Export made({"x", "n"});
  made.add("*fp32, i32", "sm_80");
  const kiln_export &whole = made.get();
  const char *metadata = made.variants[0].metadata;
  made.variants[0].signature = "*fp32, i64";
  EXPECT_EQ(kiln_kernel_create(&whole, &kernel), KILN_CORRUPT);
  EXPECT_TRUE(says("the arguments that the code of variant 0 expects are not those of its signature"))
      << kiln_message();
  made.variants[0].signature = "*fp32";
  EXPECT_EQ(kiln_kernel_create(&whole, &kernel), KILN_CORRUPT);
  made.variants[0].signature = "*fp32, i32";
  made.variants[0].metadata = "{";
  EXPECT_EQ(kiln_kernel_create(&whole, &kernel), KILN_CORRUPT);
  made.variants[0].metadata = metadata;
  made.variants[0].entry = assertFalse;
  EXPECT_EQ(kiln_kernel_create(&whole, &kernel), KILN_CORRUPT);
  EXPECT_TRUE(says("got both")) << kiln_message();
  made.variants[0].entry = nullptr;
  EXPECT_EQ(kiln_kernel_create(&whole, &kernel), KILN_OK) << kiln_message();
}

//===-- Machines -------------------------------------------------------------------------------------------------===//

TEST_F(ApiTest, eachDeviceRunsItsOwnCode) {
  Export made({"x", "n"});
  made.add("*fp32, i32", "sm_80");
  made.add("*fp32, i32", "sm_90a");
  create(made);
  EXPECT_EQ(launch(0, {array(0x1230), kiln_integer(7)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(1, {array(0x1230), kiln_integer(7)}), KILN_OK) << kiln_message();
  ASSERT_EQ(launched.size(), 2u);
  EXPECT_EQ(launched[0], "// sm_90a *fp32, i32 on 0: 301200000000000007000000");
  EXPECT_EQ(launched[1], "// sm_80 *fp32, i32 on 1: 301200000000000007000000");
  EXPECT_EQ(launch(2, {array(0x1230), kiln_integer(7)}), KILN_INVALID_ARGUMENT);
  EXPECT_TRUE(says("expected a CUDA device from 0 to 1, got 2")) << kiln_message();
  EXPECT_EQ(launch(-2, {array(0x1230), kiln_integer(7)}), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(launch(KILN_CPU, {array(0x1230), kiln_integer(7)}), KILN_NO_VARIANT);
  EXPECT_STREQ(kiln_message(), "kernel 'kernel' was not exported for this CPU");
}

TEST_F(ApiTest, saysWhatADeviceLacks) {
  Export made({"x", "n"});
  made.add("*fp32, i32", "sm_90a");
  create(made);
  EXPECT_EQ(launch(1, {array(0x1230), kiln_integer(7)}), KILN_NO_VARIANT);
  EXPECT_STREQ(kiln_message(), "kernel 'kernel' was not exported for CUDA device 1 (Fake 80, compute capability 8.0): "
                               "sm_90a is not for compute capability 8.0");
}

TEST(Machine, whichCodeAGpuRuns) {
  auto runs = [](const char *target, int major, int minor, const char *form = "cubin") {
    artifact::Metadata metadata;
    metadata.target["name"] = target;
    metadata.cuda.emplace();
    metadata.cuda->form = form;
    device::CudaProperties has;
    has.major = major;
    has.minor = minor;
    std::string why;
    return api::rankOnGpu(metadata, has, why).has_value();
  };
  EXPECT_TRUE(runs("sm_80", 8, 0));
  EXPECT_TRUE(runs("sm_80", 8, 9));
  EXPECT_FALSE(runs("sm_86", 8, 0));
  EXPECT_FALSE(runs("sm_80", 9, 0));
  EXPECT_TRUE(runs("sm_80", 9, 0, "ptx"));
  EXPECT_TRUE(runs("sm_90a", 9, 0));
  EXPECT_FALSE(runs("sm_90a", 10, 0, "ptx"));
  EXPECT_TRUE(runs("sm_100a", 10, 0));
  EXPECT_FALSE(runs("sm_100a", 10, 3));
  EXPECT_TRUE(runs("sm_120a", 12, 0));
  EXPECT_FALSE(runs("cpu", 9, 0));
}

TEST(Machine, codeForFeaturesThatTheProcessorLacksIsNotRun) {
  std::string lacking, having;
  for (const auto &entry : llvm::sys::getHostCPUFeatures())
    (entry.getValue() ? having : lacking) = entry.getKey().str();
  artifact::Metadata metadata;
  metadata.target["name"] = "cpu-mine";
  metadata.target["cpu"] = "x86-64";
  metadata.target["features"] = "+" + having + ",-" + lacking;
  std::string why;
  EXPECT_TRUE(api::rankOnCpu(metadata, why)) << why;
  metadata.target["features"] = "+" + lacking;
  EXPECT_FALSE(api::rankOnCpu(metadata, why));
  EXPECT_EQ(why, "cpu-mine needs " + lacking + ", which this processor has not");
  // Levels with more features rank higher, on processors that have them.
  metadata.target["features"] = "";
  int plain = *api::rankOnCpu(metadata, why);
  metadata.target["cpu"] = "x86-64-v2";
  if (std::optional<int> better = api::rankOnCpu(metadata, why)) {
    EXPECT_GT(*better, plain);
  }
}

//===-- Arguments ------------------------------------------------------------------------------------------------===//

TEST_F(ApiTest, theMostSpecificVariantGetsItsOwnPacking) {
  Export made({"x", "n"});
  made.add("*fp32, i64", "sm_90a");
  made.add("*fp32:16, i32", "sm_90a");
  made.add("*fp32:16, 1", "sm_90a");
  create(made);
  EXPECT_EQ(launch(0, {array(0x1234), kiln_integer(7)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {array(0x1230), kiln_integer(7)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {array(0x1230), kiln_integer(1)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {array(0x1234), kiln_integer(1)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {array(0x1230), kiln_integer(int64_t(1) << 32)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launched, (std::vector<std::string>{
                          "// sm_90a *fp32, i64 on 0: 34120000000000000700000000000000",
                          "// sm_90a *fp32:16, i32 on 0: 301200000000000007000000",
                          "// sm_90a *fp32:16, 1 on 0: 3012000000000000",
                          "// sm_90a *fp32, i64 on 0: 34120000000000000100000000000000",
                          "// sm_90a *fp32, i64 on 0: 30120000000000000000000001000000",
                      }));
}

TEST_F(ApiTest, oneTypeInAllVariantsIsTheArguments) {
  Export made({"n", "m", "f", "b"});
  made.add("u16, i64, bf16, i1", "sm_90a");
  made.add("u16:16, i64:16, bf16, i1", "sm_90a");
  create(made);
  EXPECT_EQ(launch(0, {kiln_unsigned(1), kiln_integer(1), kiln_float(1.0), kiln_bool(2)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {kiln_unsigned(0x120), kiln_integer(-16), kiln_float(1.0), kiln_bool(0)}), KILN_OK);
  EXPECT_EQ(launched, (std::vector<std::string>{
                          "// sm_90a u16, i64, bf16, i1 on 0: 01000000000000000100000000000000803f01",
                          "// sm_90a u16:16, i64:16, bf16, i1 on 0: 2001000000000000f0ffffffffffffff803f00",
                      }));
  EXPECT_EQ(launch(0, {kiln_unsigned(65536), kiln_integer(1), kiln_float(1.0), kiln_bool(0)}), KILN_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_message(), "kernel 'kernel': argument 'n': expected a value of uint16 (because the parameter is "
                               "annotated so), got 65536");
  EXPECT_EQ(launch(0, {array(16), kiln_integer(1), kiln_float(1.0), kiln_bool(0)}), KILN_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_message(), "kernel 'kernel': argument 'n': expected a number, got an array");
}

TEST_F(ApiTest, constantsAndNoneChooseTheVariant) {
  Export made({"bias", "BLOCK", "MODE"});
  made.add("None, 64, 'fast'", "sm_90a");
  made.add("*fp32, 64, 'fast'", "sm_90a");
  made.add("*fp32, 128, 'fast'", "sm_90a");
  made.add("*fp32, 128, 'slow'", "sm_90a");
  create(made);
  EXPECT_EQ(launch(0, {array(0), kiln_integer(64), kiln_text("fast")}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {kiln_none(), kiln_integer(64), kiln_text("fast")}), KILN_OK) << kiln_message();
  EXPECT_EQ(launch(0, {array(0x20), kiln_integer(128), kiln_text("slow")}), KILN_OK) << kiln_message();
  EXPECT_EQ(launched, (std::vector<std::string>{
                          "// sm_90a None, 64, 'fast' on 0: ",
                          "// sm_90a None, 64, 'fast' on 0: ",
                          "// sm_90a *fp32, 128, 'slow' on 0: 2000000000000000",
                      }));
  EXPECT_EQ(launch(0, {array(0x20), kiln_integer(64), kiln_text("slow")}), KILN_NO_VARIANT);
  EXPECT_TRUE(says("kernel 'kernel' has no variant for these arguments:\n  variant 0: argument 'bias': expected None, "
                   "got *fp32:16\n  variant 1: argument 'MODE': expected 'fast', got 'slow'"))
      << kiln_message();
  EXPECT_EQ(launch(0, {array(0x20), array(0x20), kiln_text("slow")}), KILN_INVALID_ARGUMENT);
}

TEST_F(ApiTest, descriptorsAreCheckedAndFlattened) {
  Export made({"d"});
  made.add("tensordesc<fp16[8,16]>", "sm_90a");
  create(made);
  kiln_descriptor what = {{reinterpret_cast<void *>(0x1000), KILN_FP16}, 2, {3, 40}, {40, 1}};
  EXPECT_EQ(launch(0, {kiln_described(&what)}), KILN_OK) << kiln_message();
  EXPECT_EQ(launched, (std::vector<std::string>{"// sm_90a tensordesc<fp16[8,16]> on 0: 0010000000000000"
                                                "03000000000000002800000000000000"
                                                "28000000000000000100000000000000"}));
  what.strides[0] = 41;
  EXPECT_EQ(launch(0, {kiln_described(&what)}), KILN_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_message(), "kernel 'kernel': argument 'd': expected strides that are multiples of 16 bytes, got 82 "
                               "bytes in dimension 0");
  what.strides[0] = 40;
  what.rank = 1;
  EXPECT_EQ(launch(0, {kiln_described(&what)}), KILN_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_message(),
               "kernel 'kernel': argument 'd': expected a descriptor of rank 2, got a descriptor of rank 1");
  what.rank = 2;
  what.base.element = KILN_FP32;
  EXPECT_EQ(launch(0, {kiln_described(&what)}), KILN_NO_VARIANT);
  what.base.element = 99;
  EXPECT_EQ(launch(0, {kiln_described(&what)}), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(launch(0, {kiln_described(nullptr)}), KILN_INVALID_ARGUMENT);
  EXPECT_TRUE(says("argument 'd': expected a descriptor, got null")) << kiln_message();
}

TEST_F(ApiTest, rejectsInvalidLaunches) {
  Export made({"x"});
  made.add("*fp32", "sm_90a");
  create(made);
  EXPECT_EQ(launch(0, {}), KILN_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_message(), "kernel 'kernel': expected 1 arguments, got 0");
  EXPECT_EQ(launch(0, {array(0x10)}, -1), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(launch(0, {{99, 0, {0}}}), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(launch(0, {array(0x10, 99)}), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(launch(0, {array(0x10)}, 0), KILN_OK);
  EXPECT_TRUE(launched.empty());
}

//===-- Running --------------------------------------------------------------------------------------------------===//

TEST_F(ApiTest, theCpuRunsLinkedCode) {
  Export made({"sum", "n"});
  made.add("*i64, i32", "cpu", addUp<int32_t, 0>);
  made.add("*i64, i64", "cpu", addUp<int64_t, 1>);
  create(made);
  std::atomic<int64_t> sum{0};
  EXPECT_EQ(launch(KILN_CPU, {kiln_pointer(&sum, KILN_I64), kiln_integer(3)}, 100), KILN_OK) << kiln_message();
  EXPECT_EQ(sum, 300);
  EXPECT_EQ(launch(KILN_CPU, {kiln_pointer(&sum, KILN_I64), kiln_integer(int64_t(1) << 40)}, 2), KILN_OK);
  EXPECT_EQ(sum, 300 + (int64_t(1) << 41));
  EXPECT_EQ(counts[0], 100);
  EXPECT_EQ(counts[1], 2);
  EXPECT_EQ(kiln_synchronize(KILN_CPU), KILN_OK);
}

TEST_F(ApiTest, aFailedAssertionIsAStatus) {
  Export made({});
  artifact::Metadata &metadata = made.add("", "cpu", assertFalse);
  artifact::Site site;
  site.kind = artifact::SiteKind::Assert;
  site.message = "n is positive";
  site.location = {{"kernel.py", 7, 5, "kernel"}};
  metadata.sites.push_back(site);
  create(made);
  EXPECT_EQ(launch(KILN_CPU, {}, 4), KILN_ASSERTION_FAILED);
  EXPECT_TRUE(says("kernel.py:7") && says("n is positive")) << kiln_message();
  EXPECT_EQ(launch(KILN_CPU, {}, 0), KILN_OK);
}

TEST_F(ApiTest, aGpuAssertionIsReportedBySynchronize) {
  Export made({"x"});
  artifact::Metadata &metadata = made.add("*fp32", "sm_90a");
  artifact::Site site;
  site.kind = artifact::SiteKind::Assert;
  site.message = "x is finite";
  site.location = {{"kernel.py", 9, 5, "kernel"}};
  metadata.sites.push_back(site);
  create(made);
  get<void(int (*)(const FakeLaunch *))>("fakeSetLaunch")([](const FakeLaunch *launch) {
    KilnDeviceLog *log;
    std::memcpy(&log, static_cast<const char *>(launch->arguments) + 8, sizeof log);
    log->grid[0] = log->grid[1] = 1;
    log->failed = KILN_LOG_FAILURE(0, 0, 0);
    return 0;
  });
  EXPECT_EQ(launch(0, {array(0x10)}), KILN_OK) << kiln_message();
  EXPECT_EQ(kiln_synchronize(0), KILN_ASSERTION_FAILED);
  EXPECT_TRUE(says("kernel.py:9") && says("x is finite")) << kiln_message();
  EXPECT_EQ(kiln_synchronize(0), KILN_OK);
}

TEST_F(ApiTest, threadsShareLoadedCode) {
  Export made({"sum", "n"});
  made.add("*i64, i32", "cpu", addUp<int32_t, 0>);
  made.add("*i64, i32", "sm_90a");
  made.add("*i64, i32", "sm_80");
  create(made);
  int before = get<int()>("fakeModules")();
  std::atomic<int64_t> sum{0};
  std::atomic<int> bad{0};
  get<void(int (*)(const FakeLaunch *))>("fakeSetLaunch")(nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        bad += launch(i % 3 - 1, {kiln_pointer(&sum, KILN_I64), kiln_integer(5)}, 4) != KILN_OK;
        // A thread's message does not change with errors of other threads.
        if (launch(i % 3 - 1, {}) != KILN_OK)
          bad += std::string(kiln_message()) != "kernel 'kernel': expected 2 arguments, got 0";
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(sum, 3 * 50 * 4 * 5); // of three of the threads
  EXPECT_EQ(get<int()>("fakeModules")(), before + 2);
}

TEST_F(ApiTest, preparingLoadsEverythingThatRunsThere) {
  Export made({"x"});
  made.add("*fp32", "sm_90a");
  made.add("*fp32:16", "sm_90a");
  made.add("*fp32", "sm_80");
  create(made);
  EXPECT_EQ(kiln_synchronize(0), KILN_OK); // unloads what earlier tests left
  EXPECT_EQ(kiln_synchronize(1), KILN_OK);
  int before = get<int()>("fakeModules")();
  EXPECT_EQ(kiln_kernel_prepare(kernel, 0), KILN_OK) << kiln_message();
  EXPECT_EQ(get<int()>("fakeModules")(), before + 2);
  EXPECT_EQ(launch(0, {array(0x10)}), KILN_OK);
  EXPECT_EQ(get<int()>("fakeModules")(), before + 2);
  // Owners are counted; code is unloaded after the last one has gone and the device has been synchronised.
  kiln_kernel_retain(kernel);
  kiln_kernel_release(kernel);
  EXPECT_EQ(launch(0, {array(0x10)}), KILN_OK);
  kiln_kernel_release(std::exchange(kernel, nullptr));
  EXPECT_EQ(kiln_synchronize(0), KILN_OK);
  EXPECT_EQ(get<int()>("fakeModules")(), before);
}

TEST_F(ApiTest, driverErrorsAreReportedAndRetried) {
  Export made({"x"});
  made.add("*fp32", "sm_90a");
  create(made);
  get<void(const char *, int)>("fakeForce")("cuModuleLoadDataEx", 209);
  EXPECT_EQ(launch(0, {array(0x10)}), KILN_INTERNAL);
  EXPECT_TRUE(says("CUDA_ERROR_NO_BINARY_FOR_GPU")) << kiln_message();
  get<void()>("fakeReset")();
  EXPECT_EQ(launch(0, {array(0x10)}), KILN_OK) << kiln_message();
  int32_t count = 0;
  EXPECT_EQ(kiln_device_count(&count), KILN_OK);
  EXPECT_EQ(count, 2);
}
