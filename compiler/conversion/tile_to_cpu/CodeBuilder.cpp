// The builder of CPU code; see CodeBuilder.h. Accesses to memory are in Access.cpp.
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Constants and vectors
//===----------------------------------------------------------------------===//

Value CodeBuilder::i64(int64_t value) { return arith::ConstantOp::create(*this, getI64IntegerAttr(value)); }
Value CodeBuilder::i32(int64_t value) { return arith::ConstantOp::create(*this, getI32IntegerAttr(value)); }

Value CodeBuilder::splatConstant(Type type, Attribute value) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vector, value));
  return arith::ConstantOp::create(*this, cast<TypedAttr>(value));
}

Value CodeBuilder::zeroOf(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::ZeroOp::create(*this, type);
  return arith::ConstantOp::create(*this, cast<TypedAttr>(getZeroAttr(type)));
}

Value CodeBuilder::iota(Type element, int64_t width) {
  SmallVector<APInt> lanes;
  for (int64_t lane = 0; lane < width; ++lane)
    lanes.push_back(APInt(element.getIntOrFloatBitWidth(), lane, false, /*implicitTrunc=*/true));
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(VectorType::get({width}, element), lanes));
}

Type CodeBuilder::scalarType(Type element) { return isa<tile::PtrType>(element) ? ptrType : element; }

Type CodeBuilder::laneType(Type element, const Index &at) {
  if (!at.isVector())
    return scalarType(element);
  return VectorType::get({at.width}, isa<tile::PtrType>(element) ? getI64Type() : element);
}

Value CodeBuilder::toVector(Value value, int64_t width) {
  if (isa<VectorType>(value.getType()))
    return value;
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    value = LLVM::PtrToIntOp::create(*this, getI64Type(), value);
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return splatConstant(VectorType::get({width}, value.getType()), constant.getValue());
  return vector::BroadcastOp::create(*this, VectorType::get({width}, value.getType()), value);
}

Value CodeBuilder::indexOf(Value value) { return arith::IndexCastOp::create(*this, getIndexType(), value); }

void CodeBuilder::turnOver(MutableArrayRef<Value> columns) {
  int64_t size = columns.size();
  // In log2(size) rounds, exchange quarters of blocks of twice the stride.
  for (int64_t stride = 1; stride < size; stride *= 2)
    for (int64_t low = 0; low < size; ++low) {
      if (low & stride)
        continue;
      Value x = columns[low], y = columns[low + stride];
      SmallVector<int64_t> first(size), second(size);
      for (int64_t lane = 0; lane < size; ++lane) {
        first[lane] = lane & stride ? size + lane - stride : lane;
        second[lane] = lane & stride ? size + lane : lane + stride;
      }
      columns[low] = vector::ShuffleOp::create(*this, x, y, first);
      columns[low + stride] = vector::ShuffleOp::create(*this, x, y, second);
    }
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> CodeBuilder::loop(int64_t count, int64_t step, ValueRange inits, LoopBody body) {
  if (count <= step)
    return body(i64(0), inits);
  auto loop = scf::ForOp::create(*this, i64(0), i64(count), i64(step), inits);
  if (!loop.getBody()->empty())
    loop.getBody()->back().erase();
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> yields = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(*this, yields);
  return {loop.getResults().begin(), loop.getResults().end()};
}

SmallVector<Value> CodeBuilder::branch(Value condition, TypeRange types, Body then, Body otherwise) {
  auto op =
      scf::IfOp::create(*this, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(*this);
  auto fill = [&](Block *block, Body fn) {
    if (!block->empty())
      block->back().erase();
    setInsertionPointToEnd(block);
    scf::YieldOp::create(*this, fn());
  };
  fill(op.thenBlock(), then);
  if (otherwise)
    fill(op.elseBlock(), otherwise);
  return {op.getResults().begin(), op.getResults().end()};
}
