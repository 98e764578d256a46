// sort, topk, gather, histogram.
//
// Rows are sorted by merging runs of 1, 2, 4, ... elements between the row and a scratch row: n log n steps without a
// branch, one small loop nest for any length and type.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// Strict order of two elements. NaN counts as larger than every number.
Value KernelLowering::goesBefore(Value a, Value c, bool descending, bool isUnsigned) {
  if (descending)
    std::swap(a, c);
  if (isa<FloatType>(a.getType())) {
    Value less = arith::CmpFOp::create(b, arith::CmpFPredicate::ULT, a, c);
    return arith::AndIOp::create(b, less, arith::CmpFOp::create(b, arith::CmpFPredicate::ORD, a, a));
  }
  return arith::CmpIOp::create(b, isUnsigned || a.getType().isInteger(1) ? arith::CmpIPredicate::ult
                                                                         : arith::CmpIPredicate::slt, a, c);
}

void KernelLowering::sortRows(const Storage &rows, bool descending, bool isUnsigned) {
  int64_t n = rows.shape.back(), count = 1;
  for (int64_t side : ArrayRef<int64_t>(rows.shape).drop_back())
    count *= side;
  int64_t bytes = memoryBytes(rows.element), passes = llvm::Log2_64_Ceil(n);
  if (passes == 0)
    return;
  ++now;
  touch(rows.lifetime);
  int lifetime;
  Value scratch = frameBuffer(n * bytes, lifetime);
  touch(lifetime);
  Type memory = memoryType(rows.element);
  auto address = [&](Value base, Value index) {
    return LLVM::GEPOp::create(b, ptrType, memory, base, ArrayRef<LLVM::GEPArg>{index}).getResult();
  };
  loop(count, 1, {}, [&](Value row, ValueRange) -> SmallVector<Value> {
    Value home = offsetBy(rows.pointer, arith::MulIOp::create(b, row, i64(n * bytes)).getResult());
    Value source = home, target = scratch;
    if (passes % 2) {
      // So that the last pass ends in the row.
      loop(n, 1, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
        LLVM::StoreOp::create(b, LLVM::LoadOp::create(b, memory, address(home, i), bytes), address(scratch, i), bytes);
        return {};
      });
      std::swap(source, target);
    }
    SmallVector<Value> start{source, target, i64(1)};
    loop(passes, 1, start, [&](Value, ValueRange carried) -> SmallVector<Value> {
      Value from = carried[0], to = carried[1], run = carried[2];
      Value two = arith::ShLIOp::create(b, run, i64(1));
      auto merges = scf::ForOp::create(b, i64(0), i64(n), two);
      merges.getBody()->back().erase();
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(merges.getBody());
        Value begin = merges.getInductionVar();
        Value middle = arith::MinUIOp::create(b, arith::AddIOp::create(b, begin, run), i64(n));
        Value end = arith::MinUIOp::create(b, arith::AddIOp::create(b, begin, two), i64(n));
        auto merge = scf::ForOp::create(b, begin, end, i64(1), ValueRange{begin, middle});
        if (!merge.getBody()->empty())
          merge.getBody()->back().erase();
        {
          OpBuilder::InsertionGuard inner(b);
          b.setInsertionPointToEnd(merge.getBody());
          Value left = merge.getRegionIterArg(0), right = merge.getRegionIterArg(1);
          // Reads past a run stay inside the row; their value is not used.
          Value last = i64(n - 1);
          Value x = loadFrom(address(from, arith::MinUIOp::create(b, left, last)), rows.element, 1);
          Value y = loadFrom(address(from, arith::MinUIOp::create(b, right, last)), rows.element, 1);
          Value leftDone = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, left, middle);
          Value rightLeft = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, right, end);
          Value earlier = goesBefore(y, x, descending, isUnsigned);
          Value takeRight = arith::AndIOp::create(b, rightLeft, arith::OrIOp::create(b, leftDone, earlier));
          storeTo(address(to, merge.getInductionVar()), arith::SelectOp::create(b, takeRight, y, x), rows.element);
          Value one = arith::ExtUIOp::create(b, b.getI64Type(), takeRight);
          Value other = arith::SubIOp::create(b, i64(1), one);
          scf::YieldOp::create(b, ValueRange{arith::AddIOp::create(b, left, other),
                                             arith::AddIOp::create(b, right, one)});
        }
        scf::YieldOp::create(b);
      }
      return {to, from, two};
    });
    return {};
  });
}

LogicalResult KernelLowering::emitSort(tile::SortOp op) {
  Storage target = allocateFor(op.getResult());
  copyBuffer(storageOf(op.getValue()), target);
  b.setLoc(op.getLoc());
  sortRows(target, op.getDescending(), op.getIsUnsigned());
  assign(op.getResult(), target);
  return success();
}

LogicalResult KernelLowering::emitTopk(tile::TopkOp op) {
  Storage all = allocate(op.getValue().getType());
  copyBuffer(storageOf(op.getValue()), all);
  b.setLoc(op.getLoc());
  sortRows(all, !op.getAscending(), op.getIsUnsigned());
  ++now;
  Storage target = allocateFor(op.getResult());
  touch(all.lifetime);
  (void)forEach(chooseWalk(target.shape, -1, lanes()), [&](const Index &at) {
    writeBuffer(target, at, readBuffer(all, at));
    return success();
  });
  assign(op.getResult(), target);
  return success();
}

LogicalResult KernelLowering::emitGather(tile::GatherOp op) {
  const Storage source = storageOf(op.getSource());
  Storage target = allocateFor(op.getResult());
  unsigned axis = op.getAxis();
  int64_t bytes = memoryBytes(source.element), axisStride = bytes;
  for (int64_t side : ArrayRef<int64_t>(source.shape).drop_front(axis + 1))
    axisStride *= side;
  LogicalResult result = forEach(chooseWalk(target.shape, -1, lanes()), [&](const Index &at) {
    Value index = at.isVector() ? evalVector(op.getIndices(), at) : eval(op.getIndices(), at);
    Type wide = at.isVector() ? Type(VectorType::get({at.width}, b.getI64Type())) : b.getI64Type();
    if (index.getType() != wide)
      index = arith::ExtSIOp::create(b, wide, index);
    auto constant = [&](int64_t value) { return splatConstant(wide, b.getI64IntegerAttr(value)); };
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

LogicalResult KernelLowering::emitHistogram(tile::HistogramOp op) {
  const Storage source = storageOf(op.getValue());
  std::optional<Storage> mask;
  if (op.getMask())
    mask = storageOf(op.getMask());
  Storage target = allocateFor(op.getResult());
  int64_t bins = target.shape.front();
  (void)forEach(chooseWalk(target.shape, -1, lanes()), [&](const Index &at) {
    writeBuffer(target, at, zeroOf(laneType(target.element, at)));
    return success();
  });
  Walk walk = chooseWalk(source.shape, -1, 1);
  LogicalResult result = forEach(walk, [&](const Index &at) {
    Value value = readBuffer(source, at);
    Value wide = source.element.isInteger(64) ? value
                                              : arith::ExtSIOp::create(b, b.getI64Type(), value).getResult();
    Value counts = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, wide, i64(bins));
    if (mask)
      counts = arith::AndIOp::create(b, counts, readBuffer(*mask, at));
    branch(
        counts, {},
        [&]() -> SmallVector<Value> {
          Value address = LLVM::GEPOp::create(b, ptrType, target.element, target.pointer, ArrayRef<LLVM::GEPArg>{wide});
          Value count = loadFrom(address, target.element, 1);
          storeTo(address, arith::AddIOp::create(b, count, i32(1)), target.element);
          return {};
        },
        nullptr);
    return success();
  });
  assign(op.getResult(), target);
  return result;
}
