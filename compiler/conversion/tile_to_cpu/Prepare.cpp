// Tile IR made easier to lower, before planning:
//   - dot operands of narrow types become f32 (i32) tiles: that is what the CPU multiplies;
//   - a carried tile that every iteration moves by a scalar becomes the scalar:
//       for (p = p0) { use p; yield addptr(p, splat d) }  ->  for (s = 0) { use addptr(p0, splat s); yield s + d }
//     so that the pointers stay a known pattern and none is kept in memory.
#include "compiler/conversion/tile_to_cpu/Prepare.h"
#include "compiler/conversion/tile_to_cpu/Shape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Dots
//===----------------------------------------------------------------------===//

static Value convertTile(Value value, Type element, DenseMap<Value, Value> &converted) {
  Value &result = converted[value];
  if (result && elementOf(result) == element)
    return result;
  OpBuilder b(value.getContext());
  // Beside its definition, so that what is invariant in a loop is converted outside.
  b.setInsertionPointAfterValue(value);
  Type type = cast<RankedTensorType>(value.getType()).clone(element);
  if (isa<FloatType>(element))
    result = arith::ExtFOp::create(b, value.getLoc(), type, value);
  else
    result = arith::ExtSIOp::create(b, value.getLoc(), type, value);
  return result;
}

static void widenDot(tile::DotOp op, DenseMap<Value, Value> &converted) {
  OpBuilder b(op);
  Type accumulator = elementOf(op.getAcc());
  Type compute = accumulator;
  if (isa<FloatType>(accumulator) && accumulator.getIntOrFloatBitWidth() < 32)
    compute = b.getF32Type();
  for (OpOperand *operand : {&op.getLhsMutable(), &op.getRhsMutable()})
    if (elementOf(operand->get()) != compute)
      operand->set(convertTile(operand->get(), compute, converted));
  if (compute == accumulator)
    return;
  Value acc = convertTile(op.getAcc(), compute, converted);
  op.getAccMutable().assign(acc);
  op.getResult().setType(cast<RankedTensorType>(acc.getType()));
  b.setInsertionPointAfter(op);
  auto narrow = arith::TruncFOp::create(b, op.getLoc(), cast<RankedTensorType>(acc.getType()).clone(accumulator),
                                        op.getResult());
  op.getResult().replaceAllUsesExcept(narrow.getResult(), narrow);
}

//===----------------------------------------------------------------------===//
// Carried pointers
//===----------------------------------------------------------------------===//

/// The scalar all elements of a tile are, or null.
static Value uniformScalar(OpBuilder &b, Value tile) {
  if (auto splat = tile.getDefiningOp<tile::SplatOp>())
    return splat.getValue();
  if (auto broadcast = tile.getDefiningOp<tile::BroadcastOp>())
    return uniformScalar(b, broadcast.getValue());
  if (auto expand = tile.getDefiningOp<tile::ExpandDimsOp>())
    return uniformScalar(b, expand.getValue());
  DenseElementsAttr constant;
  if (matchPattern(tile, m_Constant(&constant)) && constant.isSplat())
    return arith::ConstantOp::create(b, tile.getLoc(), cast<TypedAttr>(constant.getSplatValue<Attribute>()));
  return {};
}

/// The steps by which `value` was reached from `from`, or nothing.
static std::optional<SmallVector<Value>> stepsFrom(Value value, Value from) {
  SmallVector<Value> steps;
  while (value != from) {
    Operation *op = value.getDefiningOp();
    if (!op || !isa<tile::AddPtrOp, arith::AddIOp>(op))
      return std::nullopt;
    OpBuilder b(op->getContext());
    auto uniform = [&](Value operand) {
      if (operand.getDefiningOp())
        b.setInsertionPointAfterValue(operand);
      return isTile(operand) ? uniformScalar(b, operand) : operand;
    };
    Value next = op->getOperand(0), step = op->getOperand(1);
    Value scalar = uniform(step);
    if (!scalar && isa<arith::AddIOp>(op)) {
      std::swap(next, step);
      scalar = uniform(step);
    }
    if (!scalar)
      return std::nullopt;
    steps.push_back(scalar);
    value = next;
  }
  return steps;
}

static void carryScalars(scf::ForOp loop) {
  Operation *yield = loop.getBody()->getTerminator();
  SmallVector<Value> inits(loop.getInitArgs());
  SmallVector<SmallVector<Value>> steps(inits.size());
  bool any = false;
  OpBuilder b(loop);
  for (auto [index, argument] : llvm::enumerate(loop.getRegionIterArgs())) {
    if (!isTile(argument) || !isa<IntegerType, tile::PtrType>(elementOf(argument)) || elementOf(argument).isInteger(1))
      continue;
    std::optional<SmallVector<Value>> found = stepsFrom(yield->getOperand(index), argument);
    if (!found || found->empty())
      continue;
    steps[index] = *found;
    Type sum = isa<tile::PtrType>(elementOf(argument)) ? b.getI64Type() : elementOf(argument);
    inits[index] = arith::ConstantOp::create(b, loop.getLoc(), b.getIntegerAttr(sum, 0));
    any = true;
  }
  if (!any)
    return;
  auto moved = [&](OpBuilder &at, Value base, Value sum) -> Value {
    auto type = cast<RankedTensorType>(base.getType());
    Value offset = tile::SplatOp::create(at, loop.getLoc(), type.clone(sum.getType()), sum);
    if (isa<tile::PtrType>(type.getElementType()))
      return tile::AddPtrOp::create(at, loop.getLoc(), base, offset);
    return arith::AddIOp::create(at, loop.getLoc(), base, offset);
  };
  auto next = scf::ForOp::create(b, loop.getLoc(), loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), inits,
                                 nullptr, loop.getUnsignedCmp());
  next->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  if (!next.getBody()->empty())
    next.getBody()->back().erase();
  next.getBody()->getOperations().splice(next.getBody()->end(), loop.getBody()->getOperations());
  loop.getInductionVar().replaceAllUsesWith(next.getInductionVar());
  OpBuilder inner = OpBuilder::atBlockBegin(next.getBody());
  OpBuilder last(yield);
  for (unsigned index = 0; index < inits.size(); ++index) {
    Value argument = next.getRegionIterArg(index), result = next.getResult(index);
    if (!steps[index].empty()) {
      Value sum = argument;
      for (Value step : steps[index]) {
        if (step.getType() != sum.getType())
          step = arith::ExtSIOp::create(last, loop.getLoc(), sum.getType(), step);
        sum = arith::AddIOp::create(last, loop.getLoc(), sum, step);
      }
      yield->setOperand(index, sum);
      argument = moved(inner, loop.getInitArgs()[index], argument);
      result = moved(b, loop.getInitArgs()[index], result);
    }
    loop.getRegionIterArg(index).replaceAllUsesWith(argument);
    loop.getResult(index).replaceAllUsesWith(result);
  }
  loop.erase();
}

void cpu::prepareKernel(func::FuncOp kernel) {
  SmallVector<scf::ForOp> loops;
  kernel.walk<WalkOrder::PostOrder>([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops)
    carryScalars(loop);
  DenseMap<Value, Value> converted;
  kernel.walk([&](tile::DotOp dot) { widenDot(dot, converted); });
  // What nobody uses any more, last first.
  SmallVector<Operation *> ops;
  kernel.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}
