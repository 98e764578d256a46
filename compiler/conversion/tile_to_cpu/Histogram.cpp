// histogram: increments counters at positions that are data.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

LogicalResult cpu::emitHistogram(KernelLowering &lowering, tile::HistogramOp op) {
  CodeBuilder &b = lowering.b;
  const Storage source = lowering.frame.storageOf(op.getValue());
  std::optional<Storage> mask;
  if (op.getMask())
    mask = lowering.frame.storageOf(op.getMask());
  Storage target = lowering.allocateFor(op.getResult());
  int64_t bins = target.shape.front();
  // One extra slot takes what is not counted, because a branch on data would be mispredicted.
  int lifetime;
  Storage counts =
      lowering.frame.allocate(op.getType(), lowering.frame.buffer((bins + 1) * memoryBytes(target.element), lifetime));
  counts.lifetime = lifetime;
  (void)lowering.nests.forEach(lowering.chooseWalk(counts.shape, -1, lowering.lanes()), [&](const Index &at) {
    lowering.buffers.write(counts, at, b.zeroOf(b.laneType(counts.element, at)));
    return success();
  });
  LogicalResult result = lowering.nests.forEach(lowering.chooseWalk(source.shape, -1, 1), [&](const Index &at) {
    Value bin = lowering.buffers.read(source, at);
    if (!source.element.isInteger(64))
      bin = arith::ExtSIOp::create(b, b.getI64Type(), bin);
    bin = arith::MinUIOp::create(b, bin, b.i64(bins));
    if (mask)
      bin = arith::SelectOp::create(b, lowering.buffers.read(*mask, at), bin, b.i64(bins));
    Value address = LLVM::GEPOp::create(b, b.ptrType, counts.element, counts.pointer, ArrayRef<LLVM::GEPArg>{bin});
    b.storeTo(address, arith::AddIOp::create(b, b.loadFrom(address, counts.element, 1), b.i32(1)), counts.element);
    return success();
  });
  lowering.copyBuffer(counts, target);
  lowering.frame.assign(op.getResult(), target);
  return result;
}
