// histogram: counters counted up at positions that are data.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

LogicalResult KernelLowering::emitHistogram(tile::HistogramOp op) {
  const Storage source = storageOf(op.getValue());
  std::optional<Storage> mask;
  if (op.getMask())
    mask = storageOf(op.getMask());
  Storage target = allocateFor(op.getResult());
  int64_t bins = target.shape.front();
  // One slot more takes what is not counted: a branch on data would be mispredicted.
  int lifetime;
  Storage counts = allocate(op.getType(), frameBuffer((bins + 1) * memoryBytes(target.element), lifetime));
  counts.lifetime = lifetime;
  (void)forEach(chooseWalk(counts.shape, -1, lanes()), [&](const Index &at) {
    writeBuffer(counts, at, zeroOf(laneType(counts.element, at)));
    return success();
  });
  LogicalResult result = forEach(chooseWalk(source.shape, -1, 1), [&](const Index &at) {
    Value bin = readBuffer(source, at);
    if (!source.element.isInteger(64))
      bin = arith::ExtSIOp::create(b, b.getI64Type(), bin);
    bin = arith::MinUIOp::create(b, bin, i64(bins));
    if (mask)
      bin = arith::SelectOp::create(b, readBuffer(*mask, at), bin, i64(bins));
    Value address = LLVM::GEPOp::create(b, ptrType, counts.element, counts.pointer, ArrayRef<LLVM::GEPArg>{bin});
    storeTo(address, arith::AddIOp::create(b, loadFrom(address, counts.element, 1), i32(1)), counts.element);
    return success();
  });
  copyBuffer(counts, target);
  assign(op.getResult(), target);
  return result;
}
