// The pass kiln-kgpu-to-nvvm: every tile.kernel function becomes the code of one of its threads.
#include "compiler/conversion/kgpu_to_nvvm/KgpuToNvvm.h"
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace kiln {
#define GEN_PASS_DEF_KGPUTONVVMPASS
#include "compiler/conversion/kgpu_to_nvvm/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// The one list of which function emits which op.
static const nvvm::EmitTable &emitters() {
  static const nvvm::EmitTable table = [] {
    nvvm::EmitTable table;
    nvvm::addProgram(table);
    nvvm::addTensorMaps(table);
    nvvm::addElementwise(table);
    nvvm::addShape(table);
    nvvm::addControlFlow(table);
    nvvm::addMemory(table);
    nvvm::addDescriptors(table);
    nvvm::addAtomics(table);
    nvvm::addLibrary(table);
    nvvm::addHooks(table);
    nvvm::addSharedMemory(table);
    nvvm::addBarriers(table);
    nvvm::addRoles(table);
    nvvm::addChannels(table);
    nvvm::addCopies(table);
    nvvm::addThreadCopies(table);
    nvvm::addMbarriers(table);
    nvvm::addConvert(table);
    nvvm::addReduce(table);
    nvvm::addScan(table);
    nvvm::addCompare(table);
    nvvm::addGather(table);
    nvvm::addKeep(table);
    nvvm::addAny(table);
    nvvm::addRescale(table);
    nvvm::addDot(table);
    nvvm::addWarpgroupMma(table);
    nvvm::addWarpMma(table);
    return table;
  }();
  return table;
}

namespace {
struct KgpuToNvvm : kiln::impl::KgpuToNvvmPassBase<KgpuToNvvm> {
  using Base = kiln::impl::KgpuToNvvmPassBase<KgpuToNvvm>;
  using Base::Base;

  void runOnOperation() override {
    Target target = Target::fromModule(getOperation());
    SmallVector<func::FuncOp> kernels;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr("tile.kernel"))
        kernels.push_back(function);
    for (func::FuncOp kernel : kernels)
      if (failed(nvvm::Lowering(kernel, target, emitters()).run()))
        return signalPassFailure();
  }
};
} // namespace
