// Loads and stores: contiguous runs become vector accesses (masked where needed); everything else is gathered and
// scattered.
#include "compiler/conversion/tile_to_cpu/Tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

bool Tiles::contiguous(Value pointers, unsigned dim, int64_t width) {
  return shapes.contiguous(pointers, dim) || alignment.contiguousElements(pointers, dim) % width == 0;
}

Value Tiles::addressOf(Value pointers, const Index &at) {
  // Constant strides are separated from the address at index zero, which is computed outside the loop.
  Index zero = at.lane0();
  Coord offset;
  for (unsigned dim = 0; dim < at.at.size(); ++dim) {
    std::optional<int64_t> step = shapes.stride(pointers, dim);
    if (!step || !at.at[dim].value)
      continue;
    // Only along the innermost dimension.
    if (static_cast<int>(dim) != at.vectorDim && nests.levelOf(at) != nests.levelOf(at.at[dim]))
      continue;
    offset = nests.scaled(at.at[dim], *step);
    zero.at[dim] = {};
    break;
  }
  Value base = eval(pointers, zero);
  return offset.value      ? b.offsetBy(base, nests.value(offset))
         : offset.constant ? b.offsetBy(base, offset.constant)
                           : base;
}

Value Tiles::evalLoad(tile::LoadOp op, const Index &at) {
  Type element = cast<tile::PtrType>(elementOf(op.getPtr())).getPointee();
  Value mask = op.getMask() && !trueMasks.contains(op.getMask()) && !alignment.alwaysTrue(op.getMask())
                   ? (isTile(op.getMask()) ? eval(op.getMask(), at) : values.scalar(op.getMask()))
                   : Value();
  Value other;
  if (mask && op.getOther())
    other = isTile(op.getOther()) ? eval(op.getOther(), at) : values.scalar(op.getOther());
  Type type = b.laneType(element, at);
  auto instead = [&]() -> SmallVector<Value> {
    if (!other)
      return {b.zeroOf(type)};
    return {at.isVector() ? b.toVector(other, at.width) : other};
  };
  bool direct = !at.isVector() || contiguous(op.getPtr(), at.vectorDim, at.width);
  Value near = direct ? Value() : neighbours(op.getPtr(), at);
  Value address = direct || near ? addressOf(op.getPtr(), at) : Value();
  Value addresses = direct ? Value() : evalVector(op.getPtr(), at);
  if (check != Check::None)
    hooks.access(op, KILN_ACCESS_LOAD, direct ? address : Value(), mask, element, at, shapeOf(op.getResult()), {},
                 addresses);
  auto read = [&](Value lanes) -> SmallVector<Value> {
    auto run = [&]() -> SmallVector<Value> {
      return {lanes ? b.maskedLoad(address, lanes, other, element, at.width)
                    : b.loadFrom(address, element, at.width, op.getIsVolatile())};
    };
    auto apart = [&]() -> SmallVector<Value> { return {b.gather(addresses, lanes, other, element, at.width)}; };
    return direct ? run() : near ? b.branch(near, type, run, apart) : apart();
  };
  if (mask && !isa<VectorType>(mask.getType()))
    return b.branch(mask, type, [&] { return read({}); }, instead).front();
  return read(mask).front();
}

void Tiles::store(Operation *op, const Index &at) {
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    Type element = cast<tile::PtrType>(elementOf(store.getPtr())).getPointee();
    Value mask = store.getMask() && !trueMasks.contains(store.getMask()) && !alignment.alwaysTrue(store.getMask())
                     ? (isTile(store.getMask()) ? eval(store.getMask(), at) : values.scalar(store.getMask()))
                     : Value();
    Value value = isTile(store.getValue()) ? eval(store.getValue(), at) : values.scalar(store.getValue());
    bool direct = !at.isVector() || contiguous(store.getPtr(), at.vectorDim, at.width);
    Value near = direct ? Value() : neighbours(store.getPtr(), at);
    Value address = direct || near ? addressOf(store.getPtr(), at) : Value();
    Value addresses = direct ? Value() : evalVector(store.getPtr(), at);
    if (at.isVector())
      value = b.toVector(value, at.width);
    if (check != Check::None)
      hooks.access(op, KILN_ACCESS_STORE, direct ? address : Value(), mask, element, at, shapeOf(store.getPtr()), {},
                   addresses);
    auto write = [&](Value lanes) -> SmallVector<Value> {
      auto run = [&]() -> SmallVector<Value> {
        if (lanes)
          b.maskedStore(address, lanes, value, element);
        else
          b.storeTo(address, value, element);
        return {};
      };
      // If several lanes write to one address, the last one's value stays, as if they were written in order.
      auto apart = [&]() -> SmallVector<Value> {
        b.scatter(addresses, lanes, value, element);
        return {};
      };
      return direct ? run() : near ? b.branch(near, {}, run, apart) : apart();
    };
    if (mask && !isa<VectorType>(mask.getType()))
      b.branch(mask, {}, [&] { return write({}); }, nullptr);
    else
      write(mask);
    return;
  }
  storeBox(cast<tile::DescStoreOp>(op), at);
}

void Tiles::storeBox(tile::DescStoreOp store, const Index &at) {
  Type element = elementOf(store.getValue());
  Value value = at.isVector() ? evalVector(store.getValue(), at) : eval(store.getValue(), at);
  BoxPart part = boxPart(values.descriptor(store.getDesc()), store.getOffsets(), store.getBoundary(), element, at);
  if (check != Check::None)
    hooks.access(store, KILN_ACCESS_STORE, part.address, part.mask, element, at, shapeOf(store.getValue()), part.stride,
                 {});
  auto strided = [&]() -> SmallVector<Value> {
    b.scatter(b.laneAddresses(part.address, part.stride, at.width), part.mask, value, element);
    return {};
  };
  auto dense = [&]() -> SmallVector<Value> {
    if (part.mask && isa<VectorType>(part.mask.getType()))
      b.maskedStore(part.address, part.mask, value, element);
    else
      b.storeTo(part.address, value, element);
    return {};
  };
  auto either = [&]() -> SmallVector<Value> {
    if (!part.stride || !at.isVector())
      return dense();
    Value unit = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part.stride, b.i64(memoryBytes(element)));
    b.branch(unit, {}, dense, strided);
    return {};
  };
  if (part.mask && !isa<VectorType>(part.mask.getType()))
    b.branch(part.mask, {}, either, nullptr);
  else
    either();
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

/// The part of a block that one index covers: the address of its first element, and which lanes are inside the array.
/// Dimensions of outer loops are handled at the level where their coordinate is known.
Tiles::BoxPart Tiles::boxPart(const Descriptor &desc, ValueRange offsets, std::optional<ArrayRef<int32_t>> boundary,
                              Type element, const Index &at) {
  BoxPart part;
  part.address = desc.base;
  int64_t bytes = memoryBytes(element);
  SmallVector<std::pair<int, int>> dims; // level, dimension
  for (unsigned dim = 0; dim < at.at.size(); ++dim) {
    dims.push_back({nests.levelOf(at.at[dim]), dim});
  }
  llvm::sort(dims);
  Value outer;
  OpBuilder::InsertionGuard guard(b);
  for (auto [level, dim] : dims) {
    nests.insertAt(level);
    bool along = dim == at.vectorDim;
    Value start = arith::ExtSIOp::create(b, b.getI64Type(), values.scalar(offsets[dim]));
    Value position = arith::AddIOp::create(b, start, nests.value(at.at[dim]));
    Value stride = desc.strides[dim];
    std::optional<int64_t> known = constantOf(stride);
    Value step = known ? b.i64(*known * bytes) : arith::MulIOp::create(b, stride, b.i64(bytes)).getResult();
    part.address = b.offsetBy(part.address, arith::MulIOp::create(b, position, step).getResult());
    if (along && known != 1)
      part.stride = step;
    if (boundary && !llvm::is_contained(*boundary, static_cast<int32_t>(dim)))
      continue;
    Value inside;
    if (along) {
      // Lanes [low, high) of this vector are inside.
      Value width = b.i64(at.width);
      auto clamp = [&](Value value) {
        value = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, value, width), b.i64(0));
        return b.toVector(arith::TruncIOp::create(b, b.getI32Type(), value), at.width);
      };
      Value high = clamp(arith::SubIOp::create(b, desc.shape[dim], position));
      Value low = clamp(arith::SubIOp::create(b, b.i64(0), position));
      Value lanes = b.iota(b.getI32Type(), at.width);
      inside = arith::AndIOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lanes, high),
                                     arith::CmpIOp::create(b, arith::CmpIPredicate::sge, lanes, low));
      part.mask = inside;
    } else {
      // Compared as unsigned numbers, negative positions are beyond every extent.
      inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, desc.shape[dim]);
      outer = outer ? arith::AndIOp::create(b, outer, inside).getResult() : inside;
    }
  }
  nests.insertAt(nests.levelOf(at));
  if (outer && part.mask)
    part.mask = arith::AndIOp::create(b, part.mask, b.toVector(outer, at.width));
  else if (outer)
    part.mask = outer;
  return part;
}

Value Tiles::evalDescLoad(tile::DescLoadOp op, const Index &at) {
  const Descriptor &desc = values.descriptor(op.getDesc());
  Type element = elementOf(op.getResult());
  BoxPart part = boxPart(desc, op.getOffsets(), op.getBoundary(), element, at);
  Type type = b.laneType(element, at);
  Value other;
  if (part.mask && desc.padding == tile::Padding::NaN && isa<FloatType>(element))
    other =
        b.splatConstant(type, FloatAttr::get(element, APFloat::getNaN(cast<FloatType>(element).getFloatSemantics())));
  if (check != Check::None)
    hooks.access(op, KILN_ACCESS_LOAD, part.address, part.mask, element, at, shapeOf(op.getResult()), part.stride, {});
  auto dense = [&]() -> SmallVector<Value> {
    if (part.mask && isa<VectorType>(part.mask.getType()))
      return {b.maskedLoad(part.address, part.mask, other, element, at.width)};
    return {b.loadFrom(part.address, element, at.width)};
  };
  auto strided = [&]() -> SmallVector<Value> {
    Value mask = part.mask && isa<VectorType>(part.mask.getType()) ? part.mask : Value();
    return {b.gather(b.laneAddresses(part.address, part.stride, at.width), mask, other, element, at.width)};
  };
  auto either = [&]() -> SmallVector<Value> {
    if (!part.stride || !at.isVector())
      return dense();
    Value unit = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part.stride, b.i64(memoryBytes(element)));
    return b.branch(unit, type, dense, strided);
  };
  if (part.mask && !isa<VectorType>(part.mask.getType()))
    return b.branch(part.mask, type, either, [&]() -> SmallVector<Value> { return {other ? other : b.zeroOf(type)}; })
        .front();
  return either().front();
}
