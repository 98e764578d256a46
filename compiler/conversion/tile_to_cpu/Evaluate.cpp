// Evaluation of lazy tiles: the value of a tile at an index, as a scalar or as one vector along a dimension.
//
// A dimension along which a value is uniform is dropped from the index first. Whatever then depends only on outer loops
// is emitted there, once: the index says how deep a value belongs.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Small values
//===----------------------------------------------------------------------===//

Value KernelLowering::i64(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
Value KernelLowering::i32(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }

Value KernelLowering::splatConstant(Type type, Attribute value) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, value));
  return arith::ConstantOp::create(b, cast<TypedAttr>(value));
}

Value KernelLowering::zeroOf(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::ZeroOp::create(b, type);
  return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type)));
}

Value KernelLowering::iota(Type element, int64_t width) {
  SmallVector<APInt> lanes;
  for (int64_t lane = 0; lane < width; ++lane)
    lanes.push_back(APInt(element.getIntOrFloatBitWidth(), lane, false, /*implicitTrunc=*/true));
  return arith::ConstantOp::create(b, DenseElementsAttr::get(VectorType::get({width}, element), lanes));
}

Type KernelLowering::scalarType(Type element) { return isa<tile::PtrType>(element) ? ptrType : element; }

Type KernelLowering::laneType(Type element, const Index &at) {
  if (!at.isVector())
    return scalarType(element);
  return VectorType::get({at.width}, isa<tile::PtrType>(element) ? b.getI64Type() : element);
}

Value KernelLowering::toVector(Value value, int64_t width) {
  if (isa<VectorType>(value.getType()))
    return value;
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    value = LLVM::PtrToIntOp::create(b, b.getI64Type(), value);
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return splatConstant(VectorType::get({width}, value.getType()), constant.getValue());
  return vector::BroadcastOp::create(b, VectorType::get({width}, value.getType()), value);
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

Value KernelLowering::coordValue(const Coord &coord) {
  if (!coord.value)
    return i64(coord.constant);
  return coord.constant ? arith::AddIOp::create(b, coord.value, i64(coord.constant)).getResult() : coord.value;
}

Coord KernelLowering::derived(const Coord &coord, function_ref<Value(Value)> fn) {
  int level = levelOf(coord);
  OpBuilder::InsertionGuard guard(b);
  insertAt(level);
  Value value = fn(coordValue(coord));
  nest->levelOf[value] = level;
  return {value, 0};
}

Coord KernelLowering::total(const Coord &a, const Coord &c) {
  if (!a.value || !c.value)
    return {a.value ? a.value : c.value, a.constant + c.constant};
  // Where both are known: in the inner of their loops.
  const Coord &inner = levelOf(a) < levelOf(c) ? c : a, &outer = levelOf(a) < levelOf(c) ? a : c;
  return derived(inner, [&](Value value) { return arith::AddIOp::create(b, value, coordValue(outer)); });
}

Coord KernelLowering::scaled(const Coord &coord, int64_t factor) {
  if (!coord.value)
    return {Value(), coord.constant * factor};
  return derived(coord, [&](Value value) { return arith::MulIOp::create(b, value, i64(factor)); });
}

Coord KernelLowering::quotient(const Coord &coord, int64_t divisor) {
  if (!coord.value)
    return {Value(), coord.constant / divisor};
  return derived(coord, [&](Value value) { return arith::DivUIOp::create(b, value, i64(divisor)); });
}

Coord KernelLowering::remainder(const Coord &coord, int64_t divisor) {
  if (!coord.value)
    return {Value(), coord.constant % divisor};
  return derived(coord, [&](Value value) { return arith::RemUIOp::create(b, value, i64(divisor)); });
}

//===----------------------------------------------------------------------===//
// eval
//===----------------------------------------------------------------------===//

std::vector<uintptr_t> KernelLowering::keyOf(Value tile, const Index &at) const {
  std::vector<uintptr_t> key{reinterpret_cast<uintptr_t>(tile.getAsOpaquePointer()),
                             static_cast<uintptr_t>(at.vectorDim), static_cast<uintptr_t>(at.width)};
  for (const Coord &coord : at.at) {
    key.push_back(reinterpret_cast<uintptr_t>(coord.value.getAsOpaquePointer()));
    key.push_back(coord.constant);
  }
  return key;
}

void KernelLowering::memoise(Value tile, const Index &at, Value lowered) {
  nest->levels[levelOf(at)].cache[keyOf(tile, at)] = lowered;
}

Value KernelLowering::eval(Value tile, Index at) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  for (unsigned dim = 0; dim < shape.size(); ++dim)
    if (shapes.uniform(tile, dim)) {
      at.at[dim] = {};
      if (at.vectorDim == static_cast<int>(dim))
        at = at.lane0();
    }
  int level = levelOf(at);
  std::vector<uintptr_t> key = keyOf(tile, at);
  auto &cache = nest->levels[level].cache;
  if (auto found = cache.find(key); found != cache.end())
    return found->second;

  OpBuilder::InsertionGuard guard(b);
  Location loc = b.getLoc();
  insertAt(level);
  Value result;
  if (storages.count(tile)) {
    result = readBuffer(storageOf(tile), at);
  } else {
    b.setLoc(tile.getLoc());
    result = evalOp(tile, at);
  }
  b.setLoc(loc);
  cache[key] = result;
  return result;
}

Value KernelLowering::evalVector(Value tile, const Index &at) { return toVector(eval(tile, at), at.width); }

Value KernelLowering::evalAlone(Value tile, Index at) {
  OpenNest open;
  Walk walk;
  openNest(open, walk, {});
  Value result = eval(tile, at);
  closeNest(open);
  return result;
}

Value KernelLowering::evalOp(Value value, const Index &at) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return splatConstant(elementOf(value), splat.getSplatValue<Attribute>());
    // Storing it is what asks for it: read from a table of the constant's rows built in registers, lane by lane.
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    SmallVector<Attribute> elements(dense.getValues<Attribute>());
    Value position;
    int64_t stride = 1;
    ArrayRef<int64_t> shape = shapeOf(value);
    for (int dim = shape.size() - 1; dim >= 0; --dim, stride *= shape[dim + 1]) {
      Value term = arith::MulIOp::create(b, coordValue(at.at[dim]), i64(stride));
      position = position ? arith::AddIOp::create(b, position, term).getResult() : term;
    }
    auto pick = [&](Value where) {
      Value result = arith::ConstantOp::create(b, cast<TypedAttr>(elements[0]));
      for (size_t i = 1; i < elements.size(); ++i) {
        Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, where, i64(i));
        result = arith::SelectOp::create(b, here, arith::ConstantOp::create(b, cast<TypedAttr>(elements[i])), result);
      }
      return result;
    };
    if (!at.isVector())
      return pick(position);
    int64_t laneStride = 1;
    for (int64_t side : shape.drop_front(at.vectorDim + 1))
      laneStride *= side;
    Value result = zeroOf(VectorType::get({at.width}, elementOf(value)));
    for (int64_t lane = 0; lane < at.width; ++lane)
      result = vector::InsertOp::create(b, pick(arith::AddIOp::create(b, position, i64(lane * laneStride))), result,
                                        ArrayRef<int64_t>{lane});
    return result;
  }
  if (isa<ub::PoisonOp>(op))
    return zeroOf(scalarType(elementOf(value)));
  if (auto range = dyn_cast<tile::MakeRangeOp>(op))
    return evalRange(range, at);
  if (auto splat = dyn_cast<tile::SplatOp>(op))
    return scalar(splat.getValue());
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

Value KernelLowering::evalRange(tile::MakeRangeOp op, const Index &at) {
  Value first = coordValue({at.at[0].value, at.at[0].constant + static_cast<int64_t>(op.getStart())});
  first = arith::TruncIOp::create(b, b.getI32Type(), first);
  if (!at.isVector())
    return first;
  return arith::AddIOp::create(b, toVector(first, at.width), iota(b.getI32Type(), at.width));
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Operation *KernelLowering::cloneFor(Operation *op, ArrayRef<Value> operands, int64_t width) {
  Operation *clone = op->cloneWithoutRegions();
  clone->setOperands(operands);
  clone->setLoc(b.getLoc());
  clone->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  for (Value result : clone->getResults()) {
    Type element = elementOf(result.getType());
    Type lane = isa<tile::PtrType>(element) ? (width > 1 ? Type(b.getI64Type()) : ptrType) : element;
    result.setType(width > 1 ? Type(VectorType::get({width}, lane)) : lane);
  }
  return b.insert(clone);
}

Value KernelLowering::guardDivisor(Operation *op, Value dividend, Value divisor) {
  // x86 traps where a GPU gives some number: a zero divisor becomes 1, and so does -1 under the smallest integer.
  if (matchPattern(divisor, m_NonZero()) &&
      !isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op))
    return divisor;
  Type type = divisor.getType();
  Type element = getElementTypeOrSelf(type);
  auto constant = [&](APInt value) { return splatConstant(type, b.getIntegerAttr(element, value)); };
  unsigned bits = element.getIntOrFloatBitWidth();
  APInt known;
  if (matchPattern(divisor, m_ConstantInt(&known)) && !known.isZero() && !known.isAllOnes())
    return divisor;
  Value bad = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, divisor, constant(APInt::getZero(bits)));
  if (isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op)) {
    Value least =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, dividend, constant(APInt::getSignedMinValue(bits)));
    Value minusOne = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, divisor, constant(APInt::getAllOnes(bits)));
    bad = arith::OrIOp::create(b, bad, arith::AndIOp::create(b, least, minusOne));
  }
  return arith::SelectOp::create(b, bad, constant(APInt(bits, 1)), divisor);
}

static bool isDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
             arith::CeilDivUIOp>(op);
}

Value KernelLowering::evalElementwise(Value value, const Index &at) {
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (!isTile(operand)) {
      operands.push_back(scalar(operand));
      continue;
    }
    Value lowered = eval(operand, at);
    operands.push_back(at.isVector() ? toVector(lowered, at.width) : lowered);
  }
  // A scalar condition may stay one.
  if (at.isVector())
    for (auto [index, operand] : llvm::enumerate(operands))
      if (!isa<VectorType>(operand.getType()) && !(isa<arith::SelectOp>(op) && index == 0))
        operand = toVector(operand, at.width);

  if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
    Type pointee = cast<tile::PtrType>(elementOf(value)).getPointee();
    Value offset = operands[1];
    Type wide = at.isVector() ? Type(VectorType::get({at.width}, b.getI64Type())) : b.getI64Type();
    if (offset.getType() != wide)
      offset = getElementTypeOrSelf(offset.getType()).isInteger(1)
                   ? arith::ExtUIOp::create(b, wide, offset).getResult()
                   : arith::ExtSIOp::create(b, wide, offset).getResult();
    if (!at.isVector())
      return LLVM::GEPOp::create(b, ptrType, memoryType(pointee), operands[0], ArrayRef<LLVM::GEPArg>{offset});
    Value bytes = splatConstant(wide, b.getI64IntegerAttr(pointeeBytes(pointee)));
    return arith::AddIOp::create(b, operands[0], arith::MulIOp::create(b, offset, bytes));
  }
  if (isa<tile::HintOp, tile::PtrCastOp>(op))
    return operands[0];
  if (isa<tile::PtrToIntOp>(op))
    return at.isVector() ? operands[0] : LLVM::PtrToIntOp::create(b, b.getI64Type(), operands[0]).getResult();
  if (isa<tile::IntToPtrOp>(op))
    return at.isVector() ? operands[0] : LLVM::IntToPtrOp::create(b, ptrType, operands[0]).getResult();
  if (auto call = dyn_cast<tile::ExternCallOp>(op))
    return emitExternCall(call, operands);
  if (isDivision(op))
    operands[1] = guardDivisor(op, operands[0], operands[1]);
  Operation *clone = cloneFor(op, operands, at.width);
  for (auto [result, lowered] : llvm::zip(op->getResults(), clone->getResults()))
    memoise(result, at, lowered);
  return clone->getResult(cast<OpResult>(value).getResultNumber());
}

SmallVector<Value> KernelLowering::emitRegion(Region &region, ArrayRef<Value> arguments) {
  Block &block = region.front();
  DenseMap<Value, Value> values;
  int64_t width = 1;
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments)) {
    values[argument] = value;
    if (auto type = dyn_cast<VectorType>(value.getType()))
      width = type.getNumElements();
  }
  auto lookup = [&](Value value) {
    auto found = values.find(value);
    Value lowered = found != values.end() ? found->second : scalar(value);
    return width > 1 ? toVector(lowered, width) : lowered;
  };
  for (Operation &op : block.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      Type type = constant.getType();
      values[constant.getResult()] =
          splatConstant(width > 1 ? Type(VectorType::get({width}, type)) : type, constant.getValue());
      continue;
    }
    SmallVector<Value> operands = llvm::map_to_vector(op.getOperands(), lookup);
    if (auto call = dyn_cast<tile::ExternCallOp>(op)) {
      values[call.getResult()] = emitExternCall(call, operands);
      continue;
    }
    if (op.getNumRegions() != 0 || !isa<arith::ArithDialect, math::MathDialect>(op.getDialect())) {
      op.emitError("expected arithmetic in a combine or portable region (because it is applied to vectors of "
                   "elements), got this op");
      failed = true;
      for (Value result : op.getResults())
        values[result] = zeroOf(width > 1 ? Type(VectorType::get({width}, result.getType())) : result.getType());
      continue;
    }
    if (isDivision(&op))
      operands[1] = guardDivisor(&op, operands[0], operands[1]);
    Operation *clone = cloneFor(&op, operands, width);
    for (auto [result, lowered] : llvm::zip(op.getResults(), clone->getResults()))
      values[result] = lowered;
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(), lookup);
}

Value KernelLowering::evalInlineAsm(Value value, const Index &at) {
  auto op = value.getDefiningOp<tile::InlineAsmOp>();
  if (op.getPortable().empty()) {
    op.emitError("expected a portable body (because the cpu target cannot run PTX assembly), got none");
    failed = true;
    return zeroOf(laneType(elementOf(value), at));
  }
  SmallVector<Value> arguments;
  for (Value operand : op.getOperands()) {
    Value lowered = isTile(operand) ? eval(operand, at) : scalar(operand);
    arguments.push_back(at.isVector() ? toVector(lowered, at.width) : lowered);
  }
  SmallVector<Value> results = emitRegion(op.getPortable(), arguments);
  for (auto [result, lowered] : llvm::zip(op.getResults(), results))
    memoise(result, at, lowered);
  return results[cast<OpResult>(value).getResultNumber()];
}
