// Loads and stores: runs of neighbours become vector accesses (masked where needed), everything else gathers and
// scatters.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

//===----------------------------------------------------------------------===//
// One access
//===----------------------------------------------------------------------===//

static Type withLanes(Type element, int64_t width) {
  return width > 1 ? Type(VectorType::get({width}, element)) : element;
}

Value KernelLowering::toMemory(Value value, Type element) {
  Type memory = memoryType(element);
  if (auto vector = dyn_cast<VectorType>(value.getType())) {
    if (element.isInteger(1))
      return arith::ExtUIOp::create(b, vector.clone(memory), value);
    return vector.getElementType() == memory ? value
                                             : arith::BitcastOp::create(b, vector.clone(memory), value).getResult();
  }
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    return LLVM::PtrToIntOp::create(b, memory, value);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, memory, value);
  return value.getType() == memory ? value : arith::BitcastOp::create(b, memory, value).getResult();
}

Value KernelLowering::fromMemory(Value value, Type element) {
  Type memory = value.getType();
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zeroOf(memory));
  if (auto vector = dyn_cast<VectorType>(memory)) {
    Type wanted = isa<tile::PtrType>(element) ? b.getI64Type() : element;
    return vector.getElementType() == wanted ? value
                                             : arith::BitcastOp::create(b, vector.clone(wanted), value).getResult();
  }
  if (isa<tile::PtrType>(element))
    return LLVM::IntToPtrOp::create(b, ptrType, value);
  return memory == element ? value : arith::BitcastOp::create(b, element, value).getResult();
}

Value KernelLowering::loadFrom(Value address, Type element, int64_t width, bool isVolatile) {
  Type type = withLanes(memoryType(element), width);
  return fromMemory(LLVM::LoadOp::create(b, type, address, memoryBytes(element), isVolatile), element);
}

void KernelLowering::storeTo(Value address, Value value, Type element) {
  LLVM::StoreOp::create(b, toMemory(value, element), address, memoryBytes(element));
}

Value KernelLowering::maskedLoad(Value address, Value mask, Value other, Type element, int64_t width) {
  Type memory = memoryType(element);
  Value pass = other ? toMemory(toVector(other, width), element) : zeroOf(VectorType::get({width}, memory));
  Value loaded = LLVM::MaskedLoadOp::create(b, withLanes(memory, width), address, mask, pass,
                                            b.getI32IntegerAttr(memoryBytes(element)), /*nontemporal=*/nullptr);
  return fromMemory(loaded, element);
}

void KernelLowering::maskedStore(Value address, Value mask, Value value, Type element) {
  LLVM::MaskedStoreOp::create(b, toMemory(value, element), address, mask, b.getI32IntegerAttr(memoryBytes(element)));
}

static Value asPointers(ImplicitLocOpBuilder &b, Value addresses, Type ptrType) {
  auto vector = cast<VectorType>(addresses.getType());
  return LLVM::IntToPtrOp::create(b, VectorType::get(vector.getShape(), ptrType), addresses);
}

static Value allTrue(ImplicitLocOpBuilder &b, int64_t width) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(VectorType::get({width}, b.getI1Type()), true));
}

Value KernelLowering::gather(Value addresses, Value mask, Value other, Type element, int64_t width) {
  Type memory = memoryType(element);
  Value pass = other ? toMemory(toVector(other, width), element) : zeroOf(VectorType::get({width}, memory));
  Value lanes = mask ? toVector(mask, width) : allTrue(b, width);
  Value loaded = LLVM::masked_gather::create(b, withLanes(memory, width), asPointers(b, addresses, ptrType), lanes,
                                             ValueRange{pass}, b.getI32IntegerAttr(memoryBytes(element)));
  return fromMemory(loaded, element);
}

void KernelLowering::scatter(Value addresses, Value mask, Value value, Type element) {
  int64_t width = cast<VectorType>(addresses.getType()).getNumElements();
  LLVM::masked_scatter::create(b, toMemory(toVector(value, width), element), asPointers(b, addresses, ptrType),
                               mask ? toVector(mask, width) : allTrue(b, width),
                               b.getI32IntegerAttr(memoryBytes(element)));
}

Value KernelLowering::offsetBy(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(b, ptrType, b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

Value KernelLowering::offsetBy(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  return LLVM::GEPOp::create(b, ptrType, b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

Value KernelLowering::laneAddresses(Value base, Value strideBytes, int64_t width) {
  Value lanes = arith::MulIOp::create(b, iota(b.getI64Type(), width), toVector(strideBytes, width));
  return arith::AddIOp::create(b, toVector(base, width), lanes);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value KernelLowering::bufferAddress(const Storage &storage, const Index &at) {
  // Terms are grouped by loop depth, so that each is added where it becomes known.
  int64_t bytes = memoryBytes(storage.element), stride = bytes, constant = 0;
  SmallVector<std::pair<int, std::pair<Value, int64_t>>> terms;
  for (int dim = storage.shape.size() - 1; dim >= 0; --dim) {
    const Coord &coord = at.at[dim];
    constant += coord.constant * stride;
    if (coord.value) {
      auto found = nest->levelOf.find(coord.value);
      terms.push_back({found == nest->levelOf.end() ? 0 : found->second, {coord.value, stride}});
    }
    stride *= storage.shape[dim];
  }
  // Equal levels by stride, which differs: the order is deterministic.
  llvm::sort(terms, [](const auto &x, const auto &y) {
    return std::make_pair(x.first, x.second.second) < std::make_pair(y.first, y.second.second);
  });
  Value address = storage.pointer;
  OpBuilder::InsertionGuard guard(b);
  for (auto &[level, term] : terms) {
    insertAt(level);
    address = offsetBy(address, arith::MulIOp::create(b, term.first, i64(term.second)).getResult());
  }
  if (!terms.empty() || constant == 0)
    return offsetBy(address, constant);
  insertAt(0);
  return offsetBy(address, constant);
}

Value KernelLowering::readBuffer(const Storage &storage, const Index &at) {
  Value address = bufferAddress(storage, at);
  if (!at.isVector())
    return loadFrom(address, storage.element, 1);
  int64_t stride = 1;
  for (int64_t side : ArrayRef<int64_t>(storage.shape).drop_front(at.vectorDim + 1))
    stride *= side;
  if (stride == 1)
    return loadFrom(address, storage.element, at.width);
  Value step = i64(stride * memoryBytes(storage.element));
  return gather(laneAddresses(address, step, at.width), {}, {}, storage.element, at.width);
}

void KernelLowering::writeBuffer(const Storage &storage, const Index &at, Value value) {
  Value address = bufferAddress(storage, at);
  if (!at.isVector()) {
    storeTo(address, value, storage.element);
    return;
  }
  int64_t stride = 1;
  for (int64_t side : ArrayRef<int64_t>(storage.shape).drop_front(at.vectorDim + 1))
    stride *= side;
  value = toVector(value, at.width);
  if (stride == 1) {
    storeTo(address, value, storage.element);
    return;
  }
  Value step = i64(stride * memoryBytes(storage.element));
  scatter(laneAddresses(address, step, at.width), {}, value, storage.element);
}

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

bool KernelLowering::contiguous(Value pointers, unsigned dim, int64_t width) {
  return shapes.contiguous(pointers, dim) || alignment.contiguousElements(pointers, dim) % width == 0;
}

Value KernelLowering::addressOf(Value pointers, const Index &at) {
  // Steps that are constants are taken from the address at zero, which is computed outside of the loop.
  Index zero = at.lane0();
  Coord offset;
  for (unsigned dim = 0; dim < at.at.size(); ++dim) {
    std::optional<int64_t> step = shapes.stride(pointers, dim);
    if (!step || !at.at[dim].value)
      continue;
    // Only along one dimension: the innermost.
    if (static_cast<int>(dim) != at.vectorDim && levelOf(at) != nest->levelOf.lookup(at.at[dim].value))
      continue;
    offset = scaled(at.at[dim], *step);
    zero.at[dim] = {};
    break;
  }
  Value base = eval(pointers, zero);
  return offset.value ? offsetBy(base, coordValue(offset)) : offset.constant ? offsetBy(base, offset.constant) : base;
}

Value KernelLowering::evalLoad(tile::LoadOp op, const Index &at) {
  Type element = cast<tile::PtrType>(elementOf(op.getPtr())).getPointee();
  Value mask = op.getMask() && !trueMasks.contains(op.getMask()) && !alignment.alwaysTrue(op.getMask())
                   ? (isTile(op.getMask()) ? eval(op.getMask(), at) : scalar(op.getMask()))
                   : Value();
  Value other;
  if (mask && op.getOther())
    other = isTile(op.getOther()) ? eval(op.getOther(), at) : scalar(op.getOther());
  Type type = laneType(element, at);
  auto instead = [&]() -> SmallVector<Value> {
    if (!other)
      return {zeroOf(type)};
    return {at.isVector() ? toVector(other, at.width) : other};
  };
  bool direct = !at.isVector() || contiguous(op.getPtr(), at.vectorDim, at.width);
  Value near = direct ? Value() : neighbours(op.getPtr(), at);
  Value address = direct || near ? addressOf(op.getPtr(), at) : Value();
  Value addresses = direct ? Value() : evalVector(op.getPtr(), at);
  if (check != Check::None)
    emitAccess(op, Access::Load, direct ? address : Value(), mask, element, at, shapeOf(op.getResult()), {}, addresses);
  auto read = [&](Value lanes) -> SmallVector<Value> {
    auto run = [&]() -> SmallVector<Value> {
      return {lanes ? maskedLoad(address, lanes, other, element, at.width)
                    : loadFrom(address, element, at.width, op.getIsVolatile())};
    };
    auto apart = [&]() -> SmallVector<Value> { return {gather(addresses, lanes, other, element, at.width)}; };
    return direct ? run() : near ? branch(near, type, run, apart) : apart();
  };
  if (mask && !isa<VectorType>(mask.getType()))
    return branch(mask, type, [&] { return read({}); }, instead).front();
  return read(mask).front();
}

LogicalResult KernelLowering::emitStore(Operation *op, const Index &at) {
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    Type element = cast<tile::PtrType>(elementOf(store.getPtr())).getPointee();
    Value mask = store.getMask() && !trueMasks.contains(store.getMask()) && !alignment.alwaysTrue(store.getMask())
                     ? (isTile(store.getMask()) ? eval(store.getMask(), at) : scalar(store.getMask()))
                     : Value();
    Value value = isTile(store.getValue()) ? eval(store.getValue(), at) : scalar(store.getValue());
    bool direct = !at.isVector() || contiguous(store.getPtr(), at.vectorDim, at.width);
    Value near = direct ? Value() : neighbours(store.getPtr(), at);
    Value address = direct || near ? addressOf(store.getPtr(), at) : Value();
    Value addresses = direct ? Value() : evalVector(store.getPtr(), at);
    if (at.isVector())
      value = toVector(value, at.width);
    if (check != Check::None)
      emitAccess(op, Access::Store, direct ? address : Value(), mask, element, at, shapeOf(store.getPtr()), {},
                 addresses);
    auto write = [&](Value lanes) -> SmallVector<Value> {
      auto run = [&]() -> SmallVector<Value> {
        if (lanes)
          maskedStore(address, lanes, value, element);
        else
          storeTo(address, value, element);
        return {};
      };
      // Lanes that write one place: the last one stays, as if written in order.
      auto apart = [&]() -> SmallVector<Value> {
        scatter(addresses, lanes, value, element);
        return {};
      };
      return direct ? run() : near ? branch(near, {}, run, apart) : apart();
    };
    if (mask && !isa<VectorType>(mask.getType()))
      branch(mask, {}, [&] { return write({}); }, nullptr);
    else
      write(mask);
    return failure(failed);
  }
  auto store = cast<tile::DescStoreOp>(op);
  Type element = elementOf(store.getValue());
  Value value = at.isVector() ? evalVector(store.getValue(), at) : eval(store.getValue(), at);
  BoxPart part =
      boxPart(descriptors.find(store.getDesc())->second, store.getOffsets(), store.getBoundary(), element, at);
  if (check != Check::None)
    emitAccess(op, Access::Store, part.address, part.mask, element, at, shapeOf(store.getValue()), part.stride, {});
  auto strided = [&]() -> SmallVector<Value> {
    scatter(laneAddresses(part.address, part.stride, at.width), part.mask, value, element);
    return {};
  };
  auto dense = [&]() -> SmallVector<Value> {
    if (part.mask && isa<VectorType>(part.mask.getType()))
      maskedStore(part.address, part.mask, value, element);
    else
      storeTo(part.address, value, element);
    return {};
  };
  auto either = [&]() -> SmallVector<Value> {
    if (!part.stride || !at.isVector())
      return dense();
    Value unit = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part.stride, i64(memoryBytes(element)));
    branch(unit, {}, dense, strided);
    return {};
  };
  if (part.mask && !isa<VectorType>(part.mask.getType()))
    branch(part.mask, {}, either, nullptr);
  else
    either();
  return failure(failed);
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value KernelLowering::emitScalarLoad(tile::LoadOp op) {
  Type element = cast<tile::PtrType>(op.getPtr().getType()).getPointee();
  Value address = scalar(op.getPtr());
  Value mask = op.getMask() ? scalar(op.getMask()) : Value();
  if (check != Check::None)
    emitAccess(op, Access::Load, address, mask, element, Index(), {}, {}, {});
  // Who waits reads anew each time.
  bool isVolatile = op.getIsVolatile() || mayWait(op);
  if (!mask)
    return loadFrom(address, element, 1, isVolatile);
  Type type = scalarType(element);
  return branch(
             mask, type, [&]() -> SmallVector<Value> { return {loadFrom(address, element, 1, isVolatile)}; },
             [&]() -> SmallVector<Value> { return {op.getOther() ? scalar(op.getOther()) : zeroOf(type)}; })
      .front();
}

void KernelLowering::emitScalarStore(tile::StoreOp op) {
  Type element = cast<tile::PtrType>(op.getPtr().getType()).getPointee();
  Value address = scalar(op.getPtr()), value = scalar(op.getValue());
  Value mask = op.getMask() ? scalar(op.getMask()) : Value();
  if (check != Check::None)
    emitAccess(op, Access::Store, address, mask, element, Index(), {}, {}, {});
  if (!mask) {
    storeTo(address, value, element);
    return;
  }
  branch(
      mask, {},
      [&]() -> SmallVector<Value> {
        storeTo(address, value, element);
        return {};
      },
      nullptr);
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

void KernelLowering::bindDescriptor(tile::MakeDescOp op) {
  Descriptor desc;
  desc.base = scalar(op.getBase());
  for (Value side : op.getShape())
    desc.shape.push_back(scalar(side));
  for (Value stride : op.getStrides())
    desc.strides.push_back(scalar(stride));
  desc.padding = op.getPadding();
  descriptors[op.getResult()] = desc;
}

/// The part of a block that one index covers: address of its first element, and which lanes lie inside the array.
/// Dimensions outside the loop nest's innermost level are handled where their coordinate is known.
KernelLowering::BoxPart KernelLowering::boxPart(const Descriptor &desc, ValueRange offsets,
                                                std::optional<ArrayRef<int32_t>> boundary, Type element,
                                                const Index &at) {
  BoxPart part;
  part.address = desc.base;
  int64_t bytes = memoryBytes(element);
  SmallVector<std::pair<int, int>> dims; // level, dimension
  for (unsigned dim = 0; dim < at.at.size(); ++dim) {
    auto found = nest->levelOf.find(at.at[dim].value);
    dims.push_back({at.at[dim].value && found != nest->levelOf.end() ? found->second : 0, dim});
  }
  llvm::sort(dims);
  Value outer;
  OpBuilder::InsertionGuard guard(b);
  for (auto [level, dim] : dims) {
    insertAt(level);
    bool along = dim == at.vectorDim;
    Value start = arith::ExtSIOp::create(b, b.getI64Type(), scalar(offsets[dim]));
    Value position = arith::AddIOp::create(b, start, coordValue(at.at[dim]));
    Value stride = desc.strides[dim];
    std::optional<int64_t> known = constantOf(stride);
    Value step = known ? i64(*known * bytes) : arith::MulIOp::create(b, stride, i64(bytes)).getResult();
    part.address = offsetBy(part.address, arith::MulIOp::create(b, position, step).getResult());
    if (along && known != 1)
      part.stride = step;
    if (boundary && !llvm::is_contained(*boundary, static_cast<int32_t>(dim)))
      continue;
    Value inside;
    if (along) {
      // Lanes [low, high) of this vector are inside.
      Value width = i64(at.width);
      auto clamp = [&](Value value) {
        value = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, value, width), i64(0));
        return toVector(arith::TruncIOp::create(b, b.getI32Type(), value), at.width);
      };
      Value high = clamp(arith::SubIOp::create(b, desc.shape[dim], position));
      Value low = clamp(arith::SubIOp::create(b, i64(0), position));
      Value lanes = iota(b.getI32Type(), at.width);
      inside = arith::AndIOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lanes, high),
                                     arith::CmpIOp::create(b, arith::CmpIPredicate::sge, lanes, low));
      part.mask = inside;
    } else {
      // As unsigned numbers, negative positions are beyond every shape.
      inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, desc.shape[dim]);
      outer = outer ? arith::AndIOp::create(b, outer, inside).getResult() : inside;
    }
  }
  insertAt(levelOf(at));
  if (outer && part.mask)
    part.mask = arith::AndIOp::create(b, part.mask, toVector(outer, at.width));
  else if (outer)
    part.mask = outer;
  return part;
}

Value KernelLowering::evalDescLoad(tile::DescLoadOp op, const Index &at) {
  const Descriptor &desc = descriptors.find(op.getDesc())->second;
  Type element = elementOf(op.getResult());
  BoxPart part = boxPart(desc, op.getOffsets(), op.getBoundary(), element, at);
  Type type = laneType(element, at);
  Value other;
  if (part.mask && desc.padding == tile::Padding::NaN && isa<FloatType>(element))
    other = splatConstant(type, FloatAttr::get(element, APFloat::getNaN(cast<FloatType>(element).getFloatSemantics())));
  if (check != Check::None)
    emitAccess(op, Access::Load, part.address, part.mask, element, at, shapeOf(op.getResult()), part.stride, {});
  auto dense = [&]() -> SmallVector<Value> {
    if (part.mask && isa<VectorType>(part.mask.getType()))
      return {maskedLoad(part.address, part.mask, other, element, at.width)};
    return {loadFrom(part.address, element, at.width)};
  };
  auto strided = [&]() -> SmallVector<Value> {
    Value mask = part.mask && isa<VectorType>(part.mask.getType()) ? part.mask : Value();
    return {gather(laneAddresses(part.address, part.stride, at.width), mask, other, element, at.width)};
  };
  auto either = [&]() -> SmallVector<Value> {
    if (!part.stride || !at.isVector())
      return dense();
    Value unit = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part.stride, i64(memoryBytes(element)));
    return branch(unit, type, dense, strided);
  };
  if (part.mask && !isa<VectorType>(part.mask.getType()))
    return branch(part.mask, type, either, [&]() -> SmallVector<Value> { return {other ? other : zeroOf(type)}; })
        .front();
  return either().front();
}
