// A fatal error of LLVM is returned as an error; after it the process refuses to compile and says why.
#include "compiler/codegen/FatalError.h"
#include "compiler/codegen/Codegen.h"
#include "compiler/pipeline/Compile.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Support/ErrorHandling.h"
#include <gtest/gtest.h>

using namespace kiln;

TEST(FatalError, BecomesAnErrorAndPoisonsTheProcess) {
  EXPECT_FALSE(bool(codegen::runProtected([] { return llvm::Error::success(); })));

  // Not destroyed, like objects in LLVM's frames, whose destructors do not run.
  llvm::WeakVH *left = nullptr;
  llvm::Error first = codegen::runProtected([&]() -> llvm::Error {
    codegen::Unit unit = llvm::cantFail(codegen::parse("declare void @boat()", *lookupTarget("cpu-avx2")));
    left = new llvm::WeakVH(unit.module->getFunction("boat"));
    llvm::report_fatal_error("the boat is full");
  });
  ASSERT_TRUE(bool(first));
  EXPECT_EQ(llvm::toString(std::move(first)), "LLVM failed fatally: the boat is full");
  // Leave what the error left half done: deleting the function would write to the handle.
  ASSERT_TRUE(bool(*left));
  EXPECT_EQ((*left)->getName(), "boat");

  bool ran = false;
  llvm::Error second = codegen::runProtected([&] {
    ran = true;
    return llvm::Error::success();
  });
  ASSERT_TRUE(bool(second));
  EXPECT_FALSE(ran);
  EXPECT_EQ(llvm::toString(std::move(second)), "this process cannot compile any more: LLVM failed fatally before (the "
                                               "boat is full); start a new process");

  CompileOptions options;
  options.to = Stage::Tile;
  CompileResult result = compileText("module {}", Stage::Tile, options);
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->kind, Failure::Kind::Internal);
  EXPECT_NE(result.failure->message.find("start a new process"), std::string::npos);
}
