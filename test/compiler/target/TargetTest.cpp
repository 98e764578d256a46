// The target table and its form on the module.
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

using namespace kiln;

TEST(Target, EveryRowSurvivesTheModule) {
  mlir::MLIRContext context;
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context)));
  for (const std::string &name : targetNames()) {
    std::optional<Target> row = lookupTarget(name);
    ASSERT_TRUE(row) << name;
    EXPECT_EQ(row->name, name);
    row->attachTo(*module);
    EXPECT_TRUE(Target::fromModule(*module) == *row) << name;
    EXPECT_TRUE(Target::fromAttr(row->toAttr(&context)) == row) << name;
  }
}

TEST(Target, RowsAreSound) {
  for (const std::string &name : targetNames()) {
    Target row = *lookupTarget(name);
    int64_t accumulators = row.registerTileRows * row.registerTileCols * 4 / row.vectorBytes;
    EXPECT_EQ(row.registerTileCols * 4 % row.vectorBytes, 0) << name;
    // Room is left for a row of the right operand and a broadcast of the left.
    EXPECT_LE(accumulators + row.registerTileCols * 4 / row.vectorBytes + 1, row.vectorRegisters) << name;
    EXPECT_EQ(row.vectorLanes(4), row.vectorBytes / 4);
    EXPECT_EQ(row.maxVectorBytes(), row.registerTileRows * row.registerTileCols * 4);
  }
}

TEST(Target, FeaturesOfTheRows) {
  EXPECT_TRUE(lookupTarget("cpu-avx512")->has(Feature::MaskedBytes));
  EXPECT_TRUE(lookupTarget("cpu-avx2")->hasFMA());
  EXPECT_FALSE(lookupTarget("cpu-avx2")->has(Feature::Scatter));
  EXPECT_FALSE(lookupTarget("cpu-sse")->hasFMA());
  EXPECT_FALSE(lookupTarget("cpu-sse")->hasF16C());
}

TEST(Target, TheHostIsDescribedInFull) {
  const Target &host = hostTarget();
  EXPECT_EQ(host.name, "cpu");
  EXPECT_FALSE(host.cpu.empty());
  EXPECT_NE(host.features.find("sse2"), std::string::npos);
  EXPECT_TRUE(&host == &hostTarget());
}

TEST(Target, AModuleWithoutOneIsTheSameEverywhere) {
  mlir::MLIRContext context;
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context)));
  EXPECT_EQ(Target::fromModule(*module).name, "cpu-avx512");
}

TEST(Target, UnknownNamesGetTheNearest) {
  EXPECT_FALSE(lookupTarget("cpu-avx5"));
  EXPECT_NE(unknownTargetMessage("cpu-avx5").find("did you mean 'cpu-avx2'?"), std::string::npos);
  EXPECT_EQ(unknownTargetMessage("submarine").find("did you mean"), std::string::npos);
}
