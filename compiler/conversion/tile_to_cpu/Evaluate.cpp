// Evaluation of lazy tiles; see Tiles.h. Ops that rearrange elements are in EvaluateShape.cpp, loads in Memory.cpp.
#include "compiler/conversion/tile_to_cpu/Tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// eval
//===----------------------------------------------------------------------===//

std::vector<uintptr_t> Tiles::keyOf(Value tile, const Index &at) const {
  std::vector<uintptr_t> key{reinterpret_cast<uintptr_t>(tile.getAsOpaquePointer()),
                             static_cast<uintptr_t>(at.vectorDim), static_cast<uintptr_t>(at.width)};
  for (const Coord &coord : at.at) {
    key.push_back(reinterpret_cast<uintptr_t>(coord.value.getAsOpaquePointer()));
    key.push_back(coord.constant);
  }
  return key;
}

void Tiles::memoise(Value tile, const Index &at, Value lowered) {
  nests.cache(nests.levelOf(at))[keyOf(tile, at)] = lowered;
}

Value Tiles::eval(Value tile, Index at) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  for (unsigned dim = 0; dim < shape.size(); ++dim)
    if (shapes.uniform(tile, dim)) {
      at.at[dim] = {};
      if (at.vectorDim == static_cast<int>(dim))
        at = at.lane0();
    }
  int level = nests.levelOf(at);
  std::vector<uintptr_t> key = keyOf(tile, at);
  Nest::Cache &cache = nests.cache(level);
  if (auto found = cache.find(key); found != cache.end())
    return found->second;

  OpBuilder::InsertionGuard guard(b);
  Location loc = b.getLoc();
  nests.insertAt(level);
  Value result;
  if (frame.holds(tile)) {
    result = buffers.read(frame.storageOf(tile), at);
  } else {
    b.setLoc(tile.getLoc());
    result = evalOp(tile, at);
  }
  b.setLoc(loc);
  cache[key] = result;
  return result;
}

Value Tiles::evalVector(Value tile, const Index &at) { return b.toVector(eval(tile, at), at.width); }

Value Tiles::evalAlone(Value tile, Index at) {
  OpenNest open;
  nests.open(open, Walk(), {});
  Value result = eval(tile, at);
  nests.close(open);
  return result;
}

Value Tiles::evalConstant(arith::ConstantOp constant, const Index &at) {
  if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
    return b.splatConstant(elementOf(constant), splat.getSplatValue<Attribute>());
  // Only storing a constant gets here: its lanes are selected from a table of the constant's rows built in registers.
  auto dense = cast<DenseElementsAttr>(constant.getValue());
  SmallVector<Attribute> elements(dense.getValues<Attribute>());
  Value position;
  int64_t stride = 1;
  ArrayRef<int64_t> shape = shapeOf(constant);
  for (int dim = shape.size() - 1; dim >= 0; --dim, stride *= shape[dim + 1]) {
    Value term = arith::MulIOp::create(b, nests.value(at.at[dim]), b.i64(stride));
    position = position ? arith::AddIOp::create(b, position, term).getResult() : term;
  }
  auto pick = [&](Value where) {
    Value result = arith::ConstantOp::create(b, cast<TypedAttr>(elements[0]));
    for (size_t i = 1; i < elements.size(); ++i) {
      Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, where, b.i64(i));
      result = arith::SelectOp::create(b, here, arith::ConstantOp::create(b, cast<TypedAttr>(elements[i])), result);
    }
    return result;
  };
  if (!at.isVector())
    return pick(position);
  int64_t laneStride = 1;
  for (int64_t side : shape.drop_front(at.vectorDim + 1))
    laneStride *= side;
  Value result = b.zeroOf(VectorType::get({at.width}, elementOf(constant)));
  for (int64_t lane = 0; lane < at.width; ++lane)
    result = vector::InsertOp::create(b, pick(arith::AddIOp::create(b, position, b.i64(lane * laneStride))), result,
                                      ArrayRef<int64_t>{lane});
  return result;
}

Value Tiles::evalOp(Value value, const Index &at) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return evalConstant(constant, at);
  if (isa<ub::PoisonOp>(op))
    return b.zeroOf(b.scalarType(elementOf(value)));
  if (auto range = dyn_cast<tile::MakeRangeOp>(op))
    return evalRange(range, at);
  if (auto splat = dyn_cast<tile::SplatOp>(op))
    return values.scalar(splat.getValue());
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return evalLoad(load, at);
  if (auto load = dyn_cast<tile::DescLoadOp>(op))
    return evalDescLoad(load, at);
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    if (!isUnitReshape(reshape))
      return evalReshape(reshape, at);
  if (isRenaming(op))
    return eval(op->getOperand(0), operandIndex(op, at));
  if (auto join = dyn_cast<tile::JoinOp>(op))
    return evalJoin(join, at);
  if (isa<tile::SplitOp>(op))
    return evalSplit(value, at);
  if (auto cat = dyn_cast<tile::CatOp>(op))
    return evalCat(cat, at);
  if (isa<tile::InlineAsmOp>(op))
    return evalInlineAsm(value, at);
  return evalElementwise(value, at);
}

Value Tiles::evalRange(tile::MakeRangeOp op, const Index &at) {
  Value first = nests.value({at.at[0].value, at.at[0].constant + static_cast<int64_t>(op.getStart())});
  first = arith::TruncIOp::create(b, b.getI32Type(), first);
  if (!at.isVector())
    return first;
  return arith::AddIOp::create(b, b.toVector(first, at.width), b.iota(b.getI32Type(), at.width));
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Value Tiles::evalElementwise(Value value, const Index &at) {
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (!isTile(operand)) {
      operands.push_back(values.scalar(operand));
      continue;
    }
    Value lowered = eval(operand, at);
    operands.push_back(at.isVector() ? b.toVector(lowered, at.width) : lowered);
  }
  // Scalar operands become vectors, except that the condition of a select may stay scalar.
  if (at.isVector())
    for (auto [index, operand] : llvm::enumerate(operands))
      if (!isa<VectorType>(operand.getType()) && !(isa<arith::SelectOp>(op) && index == 0))
        operand = b.toVector(operand, at.width);

  if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
    Type pointee = cast<tile::PtrType>(elementOf(value)).getPointee();
    Value offset = operands[1];
    Type wide = at.isVector() ? Type(VectorType::get({at.width}, b.getI64Type())) : b.getI64Type();
    if (offset.getType() != wide)
      offset = getElementTypeOrSelf(offset.getType()).isInteger(1)
                   ? arith::ExtUIOp::create(b, wide, offset).getResult()
                   : arith::ExtSIOp::create(b, wide, offset).getResult();
    if (!at.isVector())
      return LLVM::GEPOp::create(b, b.ptrType, memoryType(pointee), operands[0], ArrayRef<LLVM::GEPArg>{offset});
    Value bytes = b.splatConstant(wide, b.getI64IntegerAttr(memoryBytes(pointee)));
    return arith::AddIOp::create(b, operands[0], arith::MulIOp::create(b, offset, bytes));
  }
  if (isa<tile::HintOp, tile::PtrCastOp>(op))
    return operands[0];
  if (isa<tile::PtrToIntOp>(op))
    return at.isVector() ? operands[0] : LLVM::PtrToIntOp::create(b, b.getI64Type(), operands[0]).getResult();
  if (isa<tile::IntToPtrOp>(op))
    return at.isVector() ? operands[0] : LLVM::IntToPtrOp::create(b, b.ptrType, operands[0]).getResult();
  if (auto call = dyn_cast<tile::ExternCallOp>(op))
    return emitExternCall(b, call, operands);
  Operation *clone = cloneFor(b, op, operands, at.width);
  for (auto [result, lowered] : llvm::zip(op->getResults(), clone->getResults()))
    memoise(result, at, lowered);
  return clone->getResult(cast<OpResult>(value).getResultNumber());
}

SmallVector<Value> Tiles::combine(Region &region, ArrayRef<Value> arguments) {
  return emitRegion(b, region, arguments, [&](Value value) { return values.scalar(value); });
}

Value Tiles::evalInlineAsm(Value value, const Index &at) {
  auto op = value.getDefiningOp<tile::InlineAsmOp>();
  SmallVector<Value> arguments;
  for (Value operand : op.getOperands()) {
    Value lowered = isTile(operand) ? eval(operand, at) : values.scalar(operand);
    arguments.push_back(at.isVector() ? b.toVector(lowered, at.width) : lowered);
  }
  SmallVector<Value> results = combine(op.getPortable(), arguments);
  for (auto [result, lowered] : llvm::zip(op.getResults(), results))
    memoise(result, at, lowered);
  return results[cast<OpResult>(value).getResultNumber()];
}
