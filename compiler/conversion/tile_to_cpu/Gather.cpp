// gather: reads a tile at positions that are data.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

LogicalResult cpu::emitGather(KernelLowering &lowering, tile::GatherOp op) {
  CodeBuilder &b = lowering.b;
  const Storage source = lowering.frame.storageOf(op.getSource());
  Storage target = lowering.allocateFor(op.getResult());
  unsigned axis = op.getAxis();
  int64_t bytes = memoryBytes(source.element), axisStride = bytes;
  for (int64_t side : ArrayRef<int64_t>(source.shape).drop_front(axis + 1))
    axisStride *= side;
  bool checked = lowering.check == Check::Bounds;
  LogicalResult result = lowering.nests.forEach(
      lowering.chooseWalk(target.shape, -1, checked ? 1 : lowering.lanes()), [&](const Index &at) {
        Value index =
            at.isVector() ? lowering.tiles.evalVector(op.getIndices(), at) : lowering.tiles.eval(op.getIndices(), at);
        Type wide = at.isVector() ? Type(VectorType::get({at.width}, b.getI64Type())) : b.getI64Type();
        if (index.getType() != wide)
          index = arith::ExtSIOp::create(b, wide, index);
        auto constant = [&](int64_t value) { return b.splatConstant(wide, b.getI64IntegerAttr(value)); };
        if (checked)
          lowering.hooks.checkIndex(op, index, source.shape[axis], at, target.shape);
        // An index out of range is the program's error, but it must not read outside the tile.
        index = arith::MinUIOp::create(b, index, constant(source.shape[axis] - 1));
        Value offset = arith::MulIOp::create(b, index, constant(axisStride));
        Index row = at.lane0();
        row.at[axis] = {};
        Value base = lowering.buffers.address(source, row);
        if (!at.isVector()) {
          lowering.buffers.write(target, at, b.loadFrom(b.offsetBy(base, offset), source.element, 1));
          return success();
        }
        if (at.vectorDim != static_cast<int>(axis)) {
          int64_t laneStride = bytes;
          for (int64_t side : ArrayRef<int64_t>(source.shape).drop_front(at.vectorDim + 1))
            laneStride *= side;
          Value lanesAway = arith::MulIOp::create(b, b.iota(b.getI64Type(), at.width), constant(laneStride));
          offset = arith::AddIOp::create(b, offset, lanesAway);
        }
        Value addresses = arith::AddIOp::create(b, b.toVector(base, at.width), offset);
        lowering.buffers.write(target, at, b.gather(addresses, {}, {}, source.element, at.width));
        return success();
      });
  lowering.frame.assign(op.getResult(), target);
  return result;
}
