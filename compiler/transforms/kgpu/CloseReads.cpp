// kiln-close-reads: marks where a run of reads of tiles ends, so that the assembler keeps the run together.
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/ReadRuns.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln {
#define GEN_PASS_DEF_CLOSEREADSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// The value whose elements an operand of a product has, in another shape or order.
static Value sourceOf(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<tile::ReshapeOp, tile::TransOp, kgpu::ConvertOp>(op) ? sourceOf(op->getOperand(0)) : value;
}

/// True if products of the loop multiply what threads have read themselves, in this iteration or an earlier one.
static bool multipliesReads(scf::ForOp loop) {
  auto isRead = [&](Value value) {
    Value source = sourceOf(value);
    if (auto argument = dyn_cast<BlockArgument>(source))
      return argument.getOwner() == loop.getBody();
    return isa<tile::LoadOp>(source.getDefiningOp());
  };
  return llvm::any_of(loop.getBody()->getOps<kgpu::WarpMmaOp>(),
                      [&](kgpu::WarpMmaOp product) { return isRead(product.getLhs()) && isRead(product.getRhs()); });
}

namespace {
struct CloseReads : kiln::impl::CloseReadsPassBase<CloseReads> {
  using Base = kiln::impl::CloseReadsPassBase<CloseReads>;
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr("tile.kernel") || kernel.isExternal())
      return;
    kgpu::ReadRuns runs(kernel, /*endAtCopies=*/true);
    close(kernel.front(), runs);
    kernel.walk([&](scf::ForOp loop) {
      if (multipliesReads(loop))
        close(*loop.getBody(), runs);
    });
  }

private:
  void close(Block &block, kgpu::ReadRuns &runs) {
    runs.close();
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      runs.take(&op);
      // A product that needs none of the run multiplies while all of it is in flight.
      if (!runs.ends() && !isa<kgpu::WarpMmaOp>(op))
        continue;
      // A single read has no run to keep together, but may have to stay in front of copies. A launch marker preserves
      // the order as well.
      if (!runs.holds() && (runs.size() > 1 || (runs.size() == 1 && runs.isBeforeCopies()))) {
        OpBuilder b(&op);
        kgpu::CloseReadsOp::create(b, op.getLoc());
      }
      runs.close();
    }
  }
};
} // namespace
