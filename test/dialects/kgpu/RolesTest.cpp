// Which warps run a role. On the hardware, wgmma and setmaxnreg work on four warps, the first of whose numbers is a
// multiple of four.
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace kiln::kgpu;
using namespace mlir;

namespace {

/// The first warp of each role, followed by the total number of warps.
std::vector<int32_t> warpsOf(std::string roles) {
  MLIRContext context;
  context.loadDialect<KgpuDialect, func::FuncDialect>();
  for (size_t at; (at = roles.find(';')) != std::string::npos;)
    roles.replace(at, 1, " { kgpu.end_role }");
  auto module = parseSourceString<ModuleOp>("func.func @f() { kgpu.roles " + roles + " return }", &context);
  std::vector<int32_t> warps;
  if (module)
    module->walk([&](RolesOp op) {
      for (unsigned role = 0; role < op.size(); ++role)
        warps.push_back(op.firstWarp(role));
      warps.push_back(op.totalWarps());
    });
  return warps;
}

using Warps = std::vector<int32_t>;

TEST(Roles, ofFourWarpsStartAtMultiplesOfFour) {
  EXPECT_EQ(warpsOf("@load warps 1; @multiply warps 4;"), (Warps{0, 4, 8}));
  EXPECT_EQ(warpsOf("@load warps 2; @multiply groups 3 warps 4;"), (Warps{0, 4, 16}));
  EXPECT_EQ(warpsOf("@load warps 1; @other warps 2; @multiply warps 8;"), (Warps{0, 4, 8, 16}));
}

TEST(Roles, ofFewerWarpsFollowImmediately) {
  EXPECT_EQ(warpsOf("@multiply groups 2 warps 4; @load warps 1; @store warps 2;"), (Warps{0, 8, 9, 11}));
  EXPECT_EQ(warpsOf("@load warps 1; @store warps 2;"), (Warps{0, 1, 3}));
}

TEST(Roles, withReallocatedRegistersArePaddedToFourWarps) {
  EXPECT_EQ(warpsOf("@load warps 1 registers 40; @multiply groups 2 warps 4 registers 232;"), (Warps{0, 4, 12}));
  EXPECT_EQ(warpsOf("@multiply warps 4 registers 232; @load warps 1 registers 40;"), (Warps{0, 4, 8}));
  EXPECT_EQ(warpsOf("@load warps 1 registers 40; @multiply warps 4 registers 40;"), (Warps{0, 4, 8}));
}

TEST(Roles, shareFourWarpsWithEqualRegisters) {
  EXPECT_EQ(warpsOf("@load warps 1 registers 24; @add warps 1 registers 24; @multiply groups 2 warps 4 registers 240;"),
            (Warps{0, 1, 4, 12}));
  EXPECT_EQ(warpsOf("@a warps 2 registers 24; @b warps 1 registers 24; @c warps 2 registers 24;"), (Warps{0, 2, 4, 8}));
  EXPECT_EQ(warpsOf("@load warps 1 registers 24; @add warps 1 registers 32;"), (Warps{0, 4, 8}));
}

} // namespace
