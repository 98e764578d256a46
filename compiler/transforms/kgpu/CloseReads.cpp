// kiln-close-reads: marks where a run of reads of tiles ends, so that the assembler keeps the run together.
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/ReadRuns.h"
#include "dialects/kgpu/KgpuOps.h"

namespace kiln {
#define GEN_PASS_DEF_CLOSEREADSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {
struct CloseReads : kiln::impl::CloseReadsPassBase<CloseReads> {
  using Base = kiln::impl::CloseReadsPassBase<CloseReads>;
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr("tile.kernel") || kernel.isExternal())
      return;
    kgpu::ReadRuns runs(kernel);
    for (Operation &op : llvm::make_early_inc_range(kernel.front().without_terminator())) {
      runs.take(&op);
      if (!runs.ends())
        continue;
      // A single read has no run to keep together, and a launch marker preserves the order as well.
      if (!runs.holds() && runs.size() > 1) {
        OpBuilder b(&op);
        kgpu::CloseReadsOp::create(b, op.getLoc());
      }
      runs.close();
    }
  }
};
} // namespace
