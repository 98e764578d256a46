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

TEST(Target, RowsAreConsistent) {
  for (const std::string &name : targetNames()) {
    Target row = *lookupTarget(name);
    if (row.isGpu())
      continue;
    int64_t accumulators = row.registerTileRows * row.registerTileCols * 4 / row.vectorBytes;
    EXPECT_EQ(row.registerTileCols * 4 % row.vectorBytes, 0) << name;
    // There is room for a row of the right operand and a broadcast of the left.
    EXPECT_LE(accumulators + row.registerTileCols * 4 / row.vectorBytes + 1, row.vectorRegisters) << name;
    EXPECT_EQ(row.vectorLanes(4), row.vectorBytes / 4);
    EXPECT_EQ(row.maxVectorBytes(), row.registerTileRows * row.registerTileCols * 4);
  }
}

TEST(Target, GpuRowsAreConsistent) {
  unsigned rows = 0;
  for (const std::string &name : targetNames()) {
    Target row = *lookupTarget(name);
    if (!row.isGpu())
      continue;
    ++rows;
    EXPECT_EQ(row.cpu, name);
    // A block's opt-in maximum is the multiprocessor's memory minus what the system reserves per block.
    EXPECT_EQ(row.gpu.maxSharedBytes + 1024, row.gpu.sharedBytesPerProcessor) << name;
    EXPECT_EQ(row.gpu.maxThreads % kWarpLanes, 0);
    EXPECT_LE(row.gpu.maxThreads, row.gpu.threadsPerProcessor);
    EXPECT_EQ(row.has(Feature::Cluster), row.gpu.maxCluster > 1) << name;
    EXPECT_EQ(row.has(Feature::Vector256), row.vectorBytes == 32) << name;
    EXPECT_TRUE(row.has(Feature::SpecialFunctions) && row.hasFMA() && row.hasF16C() && row.hasBF16()) << name;
    EXPECT_FALSE(row.has(Feature::MaskedMemory)) << name;
  }
  EXPECT_EQ(rows, 6u);
}

TEST(Target, FeaturesOfTheRows) {
  EXPECT_FALSE(lookupTarget("sm_86")->has(Feature::Fp8Convert));
  EXPECT_TRUE(lookupTarget("sm_89")->has(Feature::Fp8Convert));
  EXPECT_FALSE(lookupTarget("sm_89")->has(Feature::Cluster));
  EXPECT_TRUE(lookupTarget("sm_100a")->has(Feature::ReduxF32));
  EXPECT_FALSE(lookupTarget("sm_120a")->has(Feature::ReduxF32));
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

TEST(Target, AModuleWithoutATargetIsTheSameEverywhere) {
  mlir::MLIRContext context;
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context)));
  EXPECT_EQ(Target::fromModule(*module).name, "cpu-avx512");
}

TEST(Target, UnknownNamesGetTheNearest) {
  EXPECT_FALSE(lookupTarget("cpu-avx5"));
  EXPECT_NE(unknownTargetMessage("cpu-avx5").find("did you mean 'cpu-avx2'?"), std::string::npos);
  EXPECT_NE(unknownTargetMessage("sm_90").find("did you mean 'sm_90a'?"), std::string::npos);
  EXPECT_EQ(unknownTargetMessage("submarine").find("did you mean"), std::string::npos);
}
