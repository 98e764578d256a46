// The pass kiln-tile-to-cpu: every tile.kernel function becomes a KilnEntry.
#include "compiler/conversion/tile_to_cpu/TileToCpu.h"
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "compiler/conversion/tile_to_cpu/Prepare.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace kiln {
#define GEN_PASS_DEF_TILETOCPUPASS
#include "compiler/conversion/tile_to_cpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {
struct TileToCpu : kiln::impl::TileToCpuPassBase<TileToCpu> {
  using Base = kiln::impl::TileToCpuPassBase<TileToCpu>;
  using Base::Base;

  void runOnOperation() override {
    cpu::Check kind = cpu::Check::None;
    if (check == "bounds") {
      kind = cpu::Check::Bounds;
    } else if (check == "races") {
      kind = cpu::Check::Races;
    } else if (check != "none") {
      getOperation().emitError("expected check to be none, bounds or races, got '") << check << "'";
      return signalPassFailure();
    }
    Target target = Target::fromModule(getOperation());
    SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr("tile.kernel"))
        kernels.push_back(function);
    for (func::FuncOp kernel : kernels) {
      cpu::prepareKernel(kernel);
      if (failed(cpu::KernelLowering(kernel, target, kind).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
