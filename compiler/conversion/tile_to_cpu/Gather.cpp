// gather: a tile read at positions that are data.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

LogicalResult KernelLowering::emitGather(tile::GatherOp op) {
  const Storage source = storageOf(op.getSource());
  Storage target = allocateFor(op.getResult());
  unsigned axis = op.getAxis();
  int64_t bytes = memoryBytes(source.element), axisStride = bytes;
  for (int64_t side : ArrayRef<int64_t>(source.shape).drop_front(axis + 1))
    axisStride *= side;
  bool checked = check == Check::Bounds;
  LogicalResult result = forEach(chooseWalk(target.shape, -1, checked ? 1 : lanes()), [&](const Index &at) {
    Value index = at.isVector() ? evalVector(op.getIndices(), at) : eval(op.getIndices(), at);
    Type wide = at.isVector() ? Type(VectorType::get({at.width}, b.getI64Type())) : b.getI64Type();
    if (index.getType() != wide)
      index = arith::ExtSIOp::create(b, wide, index);
    auto constant = [&](int64_t value) { return splatConstant(wide, b.getI64IntegerAttr(value)); };
    if (checked)
      emitIndexCheck(op, index, source.shape[axis], at, target.shape);
    // An index out of range is the program's mistake; it must not read outside of the tile.
    index = arith::MinUIOp::create(b, index, constant(source.shape[axis] - 1));
    Value offset = arith::MulIOp::create(b, index, constant(axisStride));
    Index row = at.lane0();
    row.at[axis] = {};
    Value base = bufferAddress(source, row);
    if (!at.isVector()) {
      writeBuffer(target, at, loadFrom(offsetBy(base, offset), source.element, 1));
      return success();
    }
    if (at.vectorDim != static_cast<int>(axis)) {
      int64_t laneStride = bytes;
      for (int64_t side : ArrayRef<int64_t>(source.shape).drop_front(at.vectorDim + 1))
        laneStride *= side;
      Value lanesAway = arith::MulIOp::create(b, iota(b.getI64Type(), at.width), constant(laneStride));
      offset = arith::AddIOp::create(b, offset, lanesAway);
    }
    Value addresses = arith::AddIOp::create(b, toVector(base, at.width), offset);
    writeBuffer(target, at, gather(addresses, {}, {}, source.element, at.width));
    return success();
  });
  assign(op.getResult(), target);
  return result;
}
