// Reductions: vectors are combined along the reduced dimension (Nest.cpp); a row ends in a tree over the lanes.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

TypedAttr cpu::identityOf(CodeBuilder &b, tile::ReduceOp op) {
  Block &block = op.getCombine().front();
  if (op.getNumOperands() != 1 || !llvm::hasNItems(block, 2))
    return {};
  Operation &combine = block.front();
  Operation *yield = block.getTerminator();
  if (combine.getNumOperands() != 2 || combine.getNumResults() != 1 || yield->getOperand(0) != combine.getResult(0) ||
      !((combine.getOperand(0) == block.getArgument(0) && combine.getOperand(1) == block.getArgument(1)) ||
        (combine.getOperand(0) == block.getArgument(1) && combine.getOperand(1) == block.getArgument(0))))
    return {};
  // Only values that are an identity for every operand, including NaN and -0.0.
  auto kind = [&]() -> std::optional<arith::AtomicRMWKind> {
    if (isa<arith::AddIOp>(combine))
      return arith::AtomicRMWKind::addi;
    if (isa<arith::MulIOp>(combine))
      return arith::AtomicRMWKind::muli;
    if (isa<arith::MulFOp>(combine))
      return arith::AtomicRMWKind::mulf;
    if (isa<arith::MaximumFOp>(combine))
      return arith::AtomicRMWKind::maximumf;
    if (isa<arith::MinimumFOp>(combine))
      return arith::AtomicRMWKind::minimumf;
    if (isa<arith::MaxSIOp>(combine))
      return arith::AtomicRMWKind::maxs;
    if (isa<arith::MinSIOp>(combine))
      return arith::AtomicRMWKind::mins;
    if (isa<arith::MaxUIOp>(combine))
      return arith::AtomicRMWKind::maxu;
    if (isa<arith::MinUIOp>(combine))
      return arith::AtomicRMWKind::minu;
    if (isa<arith::AndIOp>(combine))
      return arith::AtomicRMWKind::andi;
    if (isa<arith::OrIOp, arith::XOrIOp>(combine))
      return arith::AtomicRMWKind::ori;
    return std::nullopt;
  }();
  Type type = elementOf(op.getOperands()[0]);
  if (kind == arith::AtomicRMWKind::maximumf || kind == arith::AtomicRMWKind::minimumf) {
    auto floatType = cast<FloatType>(type);
    // e4m3fn has no infinity.
    if (floatType.getWidth() < 16)
      return {};
    return FloatAttr::get(type, APFloat::getInf(floatType.getFloatSemantics(), kind == arith::AtomicRMWKind::maximumf));
  }
  if (kind)
    return arith::getIdentityValueAttr(*kind, type, b, op.getLoc());
  if (isa<arith::AddFOp>(combine))
    return FloatAttr::get(type, APFloat::getZero(cast<FloatType>(type).getFloatSemantics(), /*Negative=*/true));
  if (isa<arith::MaxNumFOp, arith::MinNumFOp>(combine))
    return FloatAttr::get(type, APFloat::getNaN(cast<FloatType>(type).getFloatSemantics()));
  return {};
}

SmallVector<Value> cpu::foldLanes(KernelLowering &lowering, tile::ReduceOp op, SmallVector<Value> lanes,
                                  int64_t width) {
  CodeBuilder &b = lowering.b;
  for (int64_t half = width / 2; half >= 1; half /= 2) {
    SmallVector<Value> low, high;
    for (Value value : lanes) {
      if (half == 1) {
        low.push_back(vector::ExtractOp::create(b, value, ArrayRef<int64_t>{0}));
        high.push_back(vector::ExtractOp::create(b, value, ArrayRef<int64_t>{1}));
        continue;
      }
      SmallVector<int64_t> first(half), second(half);
      for (int64_t lane = 0; lane < half; ++lane) {
        first[lane] = lane;
        second[lane] = lane + half;
      }
      low.push_back(vector::ShuffleOp::create(b, value, value, first));
      high.push_back(vector::ShuffleOp::create(b, value, value, second));
    }
    low.append(high);
    lanes = lowering.tiles.combine(op.getCombine(), low);
  }
  return lanes;
}

void cpu::storeReduced(KernelLowering &lowering, tile::ReduceOp op, ValueRange values, const Index &at,
                       ArrayRef<Storage> results) {
  if (results.empty()) {
    for (auto [result, value] : llvm::zip(op.getResults(), values))
      lowering.values.bind(result, value);
    return;
  }
  int axis = op.getAxis();
  Index rest = at;
  rest.at.erase(rest.at.begin() + axis);
  if (at.vectorDim == axis)
    rest = rest.lane0();
  else if (at.vectorDim > axis)
    --rest.vectorDim;
  for (auto [storage, value] : llvm::zip(results, values))
    lowering.buffers.write(storage, rest, value);
}
