// The stages after the passes: symbols of objects, assembling, target machines, errors as values.
#include "compiler/codegen/Codegen.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kiln;

static const Target &avx2() {
  static const Target target = *lookupTarget("cpu-avx2");
  return target;
}

static std::string objectOf(llvm::StringRef ir) {
  llvm::Expected<codegen::Unit> unit = codegen::parse(ir, avx2());
  if (!unit) {
    ADD_FAILURE() << llvm::toString(unit.takeError());
    return "";
  }
  auto machine = llvm::cantFail(codegen::createTargetMachine(avx2()));
  return llvm::cantFail(codegen::emit(*unit, *machine, codegen::FileKind::Object));
}

static std::string message(llvm::Error error) { return error ? llvm::toString(std::move(error)) : "none"; }

TEST(Codegen, UndefinedSymbolsAreListedSorted) {
  std::string object =
      objectOf("declare void @zebra()\ndeclare float @ape(float)\n"
               "define void @kiln_f(ptr %a, ptr %l, i64 %b, i64 %e) {\n"
               "  call void @zebra()\n  %x = load float, ptr %a\n  %y = call float @ape(float %x)\n"
               "  call void @zebra()\n  %q = load ptr, ptr %a\n  store float %y, ptr %q\n  ret void\n}\n");
  EXPECT_EQ(llvm::cantFail(codegen::undefinedSymbols(object)), (std::vector<std::string>{"ape", "zebra"}));
  EXPECT_NE(message(codegen::checkObject(object, "kiln_f")).find("zebra"), std::string::npos);
}

TEST(Codegen, BlockCopiesAreAllowedAndTheEntryIsRequired) {
  std::string object =
      objectOf("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
               "define void @kiln_f(ptr %a, ptr %l, i64 %b, i64 %e) {\n"
               "  %p = load ptr, ptr %a\n"
               "  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %l, i64 %b, i1 false)\n  ret void\n}\n");
  EXPECT_EQ(llvm::cantFail(codegen::undefinedSymbols(object)), (std::vector<std::string>{"memcpy"}));
  EXPECT_EQ(message(codegen::checkObject(object, "kiln_f")), "none");
  EXPECT_EQ(message(codegen::checkObject(object, "kiln_g")), "the object does not define kiln_g");
}

TEST(Codegen, OnlyEntriesAreVisible) {
  std::string object = objectOf("define void @helper(ptr %p) noinline {\n  store i32 1, ptr %p\n  ret void\n}\n"
                                "define void @kiln_f(ptr %a, ptr %l, i64 %b, i64 %e) {\n"
                                "  %p = load ptr, ptr %a\n  call void @helper(ptr %p)\n  ret void\n}\n");
  EXPECT_EQ(message(codegen::checkObject(object, "helper")), "the object does not define helper");
  EXPECT_EQ(message(codegen::checkObject(object, "kiln_f")), "none");
}

TEST(Codegen, BadTextIsAnErrorWithItsLine) {
  llvm::Expected<codegen::Unit> unit = codegen::parse("define void @f() {\n  rat void\n}\n", avx2());
  ASSERT_FALSE(bool(unit));
  EXPECT_EQ(llvm::toString(unit.takeError()).rfind("line 2: ", 0), 0u);

  llvm::Expected<std::string> object = codegen::assemble("kiln_f:\n  retq\n  frobnicate %rax\n", avx2());
  ASSERT_FALSE(bool(object));
  EXPECT_EQ(llvm::toString(object.takeError()).rfind("line 3: ", 0), 0u);
}

TEST(Codegen, GarbageIsNoObject) {
  llvm::Expected<std::vector<std::string>> names = codegen::undefinedSymbols("not an object at all");
  EXPECT_FALSE(bool(names));
  llvm::consumeError(names.takeError());
}

TEST(Codegen, InvalidIRIsRefused) {
  // Parses but does not verify: the entry block has a predecessor.
  llvm::Expected<codegen::Unit> unit = codegen::parse("define void @f() {\na:\n  br label %a\n}\n", avx2());
  ASSERT_FALSE(bool(unit));
  EXPECT_NE(llvm::toString(unit.takeError()).find("Entry block"), std::string::npos);
}

TEST(Codegen, TargetMachinesAreCheap) {
  llvm::cantFail(codegen::createTargetMachine(avx2())); // initialises the back end's tables
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i)
    llvm::cantFail(codegen::createTargetMachine(hostTarget()));
  std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(passed.count() / 100, 2.0) << "a compile makes one, within a budget of 250 ms";
}

TEST(Ptx, MinimumBlocksAreRequestedWithTheThreads) {
  llvm::StringRef kernel = ".visible .entry k(\n)\n.reqntid 512\n{\n\tret;\n}\n";
  std::string roomy = codegen::withOneBlock(kernel);
  EXPECT_EQ(roomy, ".visible .entry k(\n)\n.minnctapersm 1\n.reqntid 512\n{\n\tret;\n}\n");
  EXPECT_EQ(codegen::withOneBlock(roomy), roomy) << "a kernel that says how many it wants keeps that";
  EXPECT_EQ(codegen::withOneBlock(".entry k() { ret; }"), ".entry k() { ret; }");
}

TEST(Ptx, VersionsAreSelectedByName) {
  Target hopper = *lookupTarget("sm_90a");
  auto newest = codegen::createTargetMachine(hopper), older = codegen::createTargetMachine(hopper, 84);
  ASSERT_TRUE(bool(newest) && bool(older));
  EXPECT_EQ((*newest)->getTargetFeatureString(), "+ptx90");
  EXPECT_EQ((*older)->getTargetFeatureString(), "+ptx84");
  EXPECT_EQ((*newest)->getTargetCPU(), "sm_90a");
}

TEST(Codegen, CpuTimeOfAProcessIsCounted) {
  double before = codegen::processorSeconds(getpid());
  // The kernel counts in ticks of 10 ms of this process's CPU time, not of wall-clock time.
  timespec had;
  volatile unsigned turns = 0;
  do {
    for (unsigned i = 0; i < 100000; ++i)
      turns = turns + 1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &had);
  } while (double(had.tv_sec) + 1e-9 * double(had.tv_nsec) < before + 0.1);
  EXPECT_GT(codegen::processorSeconds(getpid()), before);
  EXPECT_EQ(codegen::processorSeconds(-1), 0);
}
