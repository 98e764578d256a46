// Evaluation of ops that only rearrange elements: the index of the result becomes an index of an operand, or lanes are
// shuffled.
#include "compiler/conversion/tile_to_cpu/Tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Renaming of dimensions
//===----------------------------------------------------------------------===//

bool cpu::isRenaming(Operation *op) {
  auto reshape = dyn_cast<tile::ReshapeOp>(op);
  return reshape ? isUnitReshape(reshape) : isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp>(op);
}

Index cpu::operandIndex(Operation *op, const Index &at) {
  Index inner;
  inner.at.resize(shapeOf(op->getOperand(0)).size());
  for (unsigned dim = 0; dim < at.at.size(); ++dim) {
    int source = sourceDim(op, dim);
    if (source < 0)
      continue;
    inner.at[source] = at.at[dim];
    if (at.vectorDim == static_cast<int>(dim)) {
      inner.vectorDim = source;
      inner.width = at.width;
    }
  }
  return inner;
}

//===----------------------------------------------------------------------===//
// Other shape ops
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> lanesFrom(int64_t start, int64_t step, int64_t count) {
  SmallVector<int64_t> lanes(count);
  for (int64_t lane = 0; lane < count; ++lane)
    lanes[lane] = start + lane * step;
  return lanes;
}

Value Tiles::evalReshape(tile::ReshapeOp op, const Index &at) {
  Value operand = op.getValue();
  unsigned rank = at.at.size();
  if (splitsPairs(op)) {
    // From [.., 2n] to [.., n, 2]: element (i, c) is 2i + c.
    Index inner;
    inner.at.assign(at.at.begin(), at.at.end() - 1);
    const Coord &row = at.at[rank - 2], &parity = at.at[rank - 1];
    Coord twice = nests.scaled(row, 2);
    if (at.vectorDim == static_cast<int>(rank) - 2) {
      inner.at.back() = twice;
      inner.vectorDim = rank - 2;
      inner.width = at.width * 2;
      Value both = evalVector(operand, inner);
      auto half = [&](int64_t start) {
        return vector::ShuffleOp::create(b, both, both, lanesFrom(start, 2, at.width)).getResult();
      };
      if (!parity.value)
        return half(parity.constant);
      Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, nests.value(parity), b.i64(0));
      return arith::SelectOp::create(b, first, half(0), half(1));
    }
    inner.at.back() = nests.total(twice, parity);
    bool pairs = at.vectorDim == static_cast<int>(rank) - 1;
    inner.vectorDim = pairs ? at.vectorDim - 1 : at.vectorDim;
    inner.width = at.width;
    return eval(operand, inner);
  }
  if (mergesPairs(op) && !frame.holds(operand)) {
    // From [.., n, 2] to [.., 2n].
    Index inner;
    inner.at.assign(at.at.begin(), at.at.end());
    inner.at.back() = nests.quotient(at.at.back(), 2);
    inner.at.push_back(nests.remainder(at.at.back(), 2));
    if (at.vectorDim < 0)
      return eval(operand, inner);
    if (at.vectorDim == static_cast<int>(rank) - 1) {
      inner.at.back() = {};
      inner.vectorDim = at.width > 2 ? at.vectorDim : -1;
      inner.width = at.width / 2;
      Value even = b.toVector(eval(operand, inner), at.width / 2);
      inner.at.back() = {Value(), 1};
      Value odd = b.toVector(eval(operand, inner), at.width / 2);
      SmallVector<int64_t> lanes;
      for (int64_t lane = 0; lane < at.width / 2; ++lane)
        lanes.append({lane, lane + at.width / 2});
      return vector::ShuffleOp::create(b, even, odd, lanes);
    }
    inner.vectorDim = at.vectorDim;
    inner.width = at.width;
    return eval(operand, inner);
  }
  // Otherwise the operand is in memory (Plan::requireByUse), and the reshape is only a different view of it.
  Storage view = frame.storageOf(operand);
  view.shape.assign(shapeOf(op.getResult()).begin(), shapeOf(op.getResult()).end());
  return buffers.read(view, at);
}

Value Tiles::evalJoin(tile::JoinOp op, const Index &at) {
  unsigned last = at.at.size() - 1;
  Index inner = at;
  inner.at.pop_back();
  if (at.vectorDim == static_cast<int>(last)) {
    inner = inner.lane0();
    Value lhs = b.toVector(eval(op.getLhs(), inner), 1), rhs = b.toVector(eval(op.getRhs(), inner), 1);
    return vector::ShuffleOp::create(b, lhs, rhs, ArrayRef<int64_t>{0, 1});
  }
  const Coord &side = at.at[last];
  if (!side.value)
    return eval(side.constant ? op.getRhs() : op.getLhs(), inner);
  Value lhs = eval(op.getLhs(), inner), rhs = eval(op.getRhs(), inner);
  if (at.isVector()) {
    lhs = b.toVector(lhs, at.width);
    rhs = b.toVector(rhs, at.width);
  }
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, nests.value(side), b.i64(0));
  return arith::SelectOp::create(b, first, lhs, rhs);
}

Value Tiles::evalSplit(Value value, const Index &at) {
  auto op = value.getDefiningOp<tile::SplitOp>();
  Index inner = at;
  inner.at.push_back({Value(), value == op.getLhs() ? 0 : 1});
  return eval(op.getValue(), inner);
}

Value Tiles::evalCat(tile::CatOp op, const Index &at) {
  unsigned axis = op.getAxis();
  int64_t first = shapeOf(op.getLhs())[axis], second = shapeOf(op.getRhs())[axis];
  bool along = at.vectorDim == static_cast<int>(axis);
  int64_t width = along ? at.width : 1;
  if (first % width || second % width) {
    // In a vector that straddles the seam, lanes are evaluated one by one.
    Value result = b.zeroOf(b.laneType(elementOf(op.getResult()), at));
    for (int64_t lane = 0; lane < at.width; ++lane) {
      Index one = at.lane0();
      if (one.at[axis].value)
        one.at[axis] =
            nests.derived({one.at[axis].value, one.at[axis].constant + lane}, [](Value value) { return value; });
      else
        one.at[axis].constant += lane;
      Value element = evalCat(op, one);
      if (isa<LLVM::LLVMPointerType>(element.getType()))
        element = LLVM::PtrToIntOp::create(b, b.getI64Type(), element);
      result = vector::InsertOp::create(b, element, result, ArrayRef<int64_t>{lane});
    }
    return result;
  }
  const Coord &where = at.at[axis];
  Index left = at, right = at;
  if (!where.value) {
    if (where.constant < first)
      return along ? evalVector(op.getLhs(), left) : eval(op.getLhs(), left);
    right.at[axis].constant -= first;
    return along ? evalVector(op.getRhs(), right) : eval(op.getRhs(), right);
  }
  // Both sides are evaluated, each at an index clamped to its range.
  left.at[axis] =
      nests.derived(where, [&](Value value) { return arith::MinUIOp::create(b, value, b.i64(first - width)); });
  right.at[axis] = nests.derived(where, [&](Value value) {
    return arith::MaxSIOp::create(b, arith::SubIOp::create(b, value, b.i64(first)), b.i64(0));
  });
  Value lhs = eval(op.getLhs(), left), rhs = eval(op.getRhs(), right);
  if (at.isVector()) {
    lhs = b.toVector(lhs, at.width);
    rhs = b.toVector(rhs, at.width);
  }
  Value inFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, nests.value(where), b.i64(first));
  return arith::SelectOp::create(b, inFirst, lhs, rhs);
}
