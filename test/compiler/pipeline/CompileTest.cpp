// compile() as a function: failures as values, whose fault they are, reproducers, concurrency, determinism.
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/Metadata.h"
#include "compiler/pipeline/Toolchain.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>
#include <thread>

using namespace kiln;

static const char *const kHead =
    "func.func @kiln_f(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)\n"
    "    attributes {kiln.arguments = [{name = \"x\", type = \"*fp32\", kind = \"pointer\","
    " offset = 0, size = 8, align = 8}],\n"
    "                kiln.arguments_bytes = 8, kiln.frame_bytes = 0} {\n";

static std::string entry(const std::string &body) { return "module {\n" + (kHead + body) + "  return\n}\n}\n"; }

static const char *const kBody = "  %p = llvm.load %args : !llvm.ptr -> !llvm.ptr\n"
                                 "  %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>\n"
                                 "  %y = arith.mulf %x, %x : vector<8xf32>\n"
                                 "  llvm.store %y, %p {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr\n";

static CompileOptions avx2(Stage to = Stage::Object) {
  CompileOptions options;
  options.target = "cpu-avx2";
  options.to = to;
  return options;
}

TEST(Compile, SameInputSameBytes) {
  CompileResult first = compileText(entry(kBody), Stage::Lowered, avx2());
  ASSERT_TRUE(first.succeeded()) << first.failure->message;
  CompileResult second = compileText(entry(kBody), Stage::Lowered, avx2());
  EXPECT_EQ(first.output, second.output);
  EXPECT_EQ(first.metadata.print(), second.metadata.print());
  EXPECT_EQ(first.metadata.symbol, "kiln_f");
  EXPECT_FALSE(first.timings.empty());
}

TEST(Compile, TheInputModuleIsUnchanged) {
  std::string error;
  std::unique_ptr<Program> program = Program::parse(entry(kBody), error);
  ASSERT_TRUE(program) << error;
  std::string before = program->print();
  EXPECT_TRUE(compile(*program, Stage::Lowered, avx2()).succeeded());
  EXPECT_EQ(program->print(), before);
  EXPECT_TRUE(compile(*program, Stage::Lowered, avx2(Stage::Asm)).succeeded());
}

TEST(Compile, ManyThreadsCompileAtOnce) {
  std::string expected = compileText(entry(kBody), Stage::Lowered, avx2()).output, error;
  std::unique_ptr<Program> shared = Program::parse(entry(kBody), error);
  std::vector<std::string> outputs(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outputs.size(); ++i)
    threads.emplace_back([&, i] {
      // Half of the threads share one program, the other half have one each.
      outputs[i] = i % 2 ? compile(*shared, Stage::Lowered, avx2()).output
                         : compileText(entry(kBody), Stage::Lowered, avx2()).output;
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &output : outputs)
    EXPECT_EQ(output, expected);
}

TEST(Compile, OurOwnFailureNamesThePassAndCanBeReproduced) {
  llvm::SmallString<128> directory;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("kiln-crash", directory));
  CompileOptions options = avx2();
  options.crashDirectory = directory.str().str();
  // A tile op that is still present at stage cpu.
  CompileResult result =
      compileText(entry("  %0 = tile.program_id x : i32 loc(\"k.py\":3:4)\n"), Stage::Lowered, options);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->kind, Failure::Kind::Internal);
  EXPECT_EQ(result.failure->pass, "kiln-to-llvm");
  EXPECT_EQ(result.failure->stage, "llvm");
  EXPECT_EQ(result.failure->message, "k.py:3:4: error: failed to legalize operation 'tile.program_id'");
  EXPECT_EQ(result.failure->reproduce,
            "kiln-opt " + result.failure->irPath + " --pass-pipeline='builtin.module(kiln-to-llvm)'");
  auto saved = llvm::MemoryBuffer::getFile(result.failure->irPath);
  ASSERT_TRUE(bool(saved));
  EXPECT_TRUE((*saved)->getBuffer().contains("tile.program_id"));
  std::string error;
  EXPECT_TRUE(Program::parse((*saved)->getBuffer().str(), error)) << error;
  EXPECT_EQ(result.userError(), nullptr);
  llvm::sys::fs::remove_directories(directory);
}

TEST(Compile, AFailingInputIsTheCallersFault) {
  CompileResult broken = compileText("module {", Stage::Tile, avx2());
  ASSERT_TRUE(broken.failure);
  EXPECT_EQ(broken.failure->kind, Failure::Kind::Input);

  CompileOptions unknown = avx2();
  unknown.target = "abacus";
  CompileResult target = compileText(entry(kBody), Stage::Lowered, unknown);
  ASSERT_TRUE(target.failure);
  EXPECT_EQ(target.failure->kind, Failure::Kind::Input);
  EXPECT_NE(target.failure->message.find("unknown target 'abacus'"), std::string::npos);

  CompileResult backwards = compileText(entry(kBody), Stage::Lowered, avx2(Stage::Opt));
  ASSERT_TRUE(backwards.failure);
  EXPECT_EQ(backwards.failure->kind, Failure::Kind::Input);
}

TEST(Compile, ADumpThatCannotBeWrittenIsAWarning) {
  CompileOptions options = avx2();
  options.dumpDirectory = "/proc/nowhere";
  CompileResult result = compileText(entry(kBody), Stage::Lowered, options);
  EXPECT_TRUE(result.succeeded());
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_EQ(result.diagnostics[0].severity, Diagnostic::Severity::Warning);
  EXPECT_EQ(result.diagnostics[0].message.rfind("cannot write /proc/nowhere/", 0), 0u);
}

TEST(Diagnostic, FramesGoInnermostFirst) {
  std::string error;
  std::unique_ptr<Program> program = Program::parse(
      "module {\n} loc(callsite(\"inner\"(\"a.py\":3:9 to :17) at callsite(\"middle\"(\"b.py\":4:1) at \"c.py\":7:5)))",
      error);
  ASSERT_TRUE(program) << error;
  std::vector<Frame> frames = sourceFrames(program->getModule().getLoc());
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].file, "a.py");
  EXPECT_EQ(frames[0].function, "inner");
  EXPECT_EQ(frames[0].line, 3u);
  EXPECT_EQ(frames[0].column, 9u);
  EXPECT_EQ(frames[0].endLine, 3u);
  EXPECT_EQ(frames[0].endColumn, 17u);
  EXPECT_EQ(frames[1].function, "middle");
  EXPECT_EQ(frames[2].file, "c.py");
  EXPECT_EQ(frames[2].function, "");
}

TEST(Diagnostic, TheKindOfErrorDecidesWhoseFaultItIs) {
  Diagnostic diagnostic;
  diagnostic.message = "expected a portable body (because the cpu target cannot run PTX assembly), got none";
  EXPECT_FALSE(diagnostic.isUserError()) << "without a source position nobody's program is meant";
  diagnostic.frames.push_back({"k.py", 3, 4, 3, 9, "k"});
  EXPECT_TRUE(diagnostic.isUserError());
  diagnostic.message = "'tile.load' op expected a mask of the pointer's shape";
  EXPECT_FALSE(diagnostic.isUserError()) << "a verifier complains about us";
  diagnostic.message = "failed to legalize operation 'math.exp'";
  EXPECT_FALSE(diagnostic.isUserError());
}

TEST(Metadata, TargetSurvivesJSON) {
  for (const std::string &name : targetNames()) {
    Target row = *lookupTarget(name);
    EXPECT_TRUE(targetFromJSON(targetJSON(row)) == row) << name;
  }
  EXPECT_FALSE(targetFromJSON(llvm::json::Object{{"name", "cpu"}}));
}

TEST(Toolchain, NamesThisBuild) {
  ASSERT_EQ(toolchain().size(), 3u);
  EXPECT_EQ(toolchain()[1].first, "build");
  EXPECT_EQ(toolchain()[1].second.size(), 40u) << "the linker's build id";
}
