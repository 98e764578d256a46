// Single accesses to memory: scalars, vectors of contiguous elements (masked where needed), and scattered lanes.
#include "compiler/conversion/tile_to_cpu/CodeBuilder.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

static Type withLanes(Type element, int64_t width) {
  return width > 1 ? Type(VectorType::get({width}, element)) : element;
}

Value CodeBuilder::toMemory(Value value, Type element) {
  Type memory = memoryType(element);
  if (auto vector = dyn_cast<VectorType>(value.getType())) {
    if (element.isInteger(1))
      return arith::ExtUIOp::create(*this, vector.clone(memory), value);
    return vector.getElementType() == memory ? value
                                             : arith::BitcastOp::create(*this, vector.clone(memory), value).getResult();
  }
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    return LLVM::PtrToIntOp::create(*this, memory, value);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(*this, memory, value);
  return value.getType() == memory ? value : arith::BitcastOp::create(*this, memory, value).getResult();
}

Value CodeBuilder::fromMemory(Value value, Type element) {
  Type memory = value.getType();
  if (element.isInteger(1))
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::ne, value, zeroOf(memory));
  if (auto vector = dyn_cast<VectorType>(memory)) {
    Type wanted = isa<tile::PtrType>(element) ? getI64Type() : element;
    return vector.getElementType() == wanted ? value
                                             : arith::BitcastOp::create(*this, vector.clone(wanted), value).getResult();
  }
  if (isa<tile::PtrType>(element))
    return LLVM::IntToPtrOp::create(*this, ptrType, value);
  return memory == element ? value : arith::BitcastOp::create(*this, element, value).getResult();
}

Value CodeBuilder::loadFrom(Value address, Type element, int64_t width, bool isVolatile) {
  Type type = withLanes(memoryType(element), width);
  return fromMemory(LLVM::LoadOp::create(*this, type, address, memoryBytes(element), isVolatile), element);
}

void CodeBuilder::storeTo(Value address, Value value, Type element) {
  LLVM::StoreOp::create(*this, toMemory(value, element), address, memoryBytes(element));
}

Value CodeBuilder::maskedLoad(Value address, Value mask, Value other, Type element, int64_t width) {
  Type memory = memoryType(element);
  Value pass = other ? toMemory(toVector(other, width), element) : zeroOf(VectorType::get({width}, memory));
  Value loaded = LLVM::MaskedLoadOp::create(*this, withLanes(memory, width), address, mask, pass,
                                            getI32IntegerAttr(memoryBytes(element)), /*nontemporal=*/nullptr);
  return fromMemory(loaded, element);
}

void CodeBuilder::maskedStore(Value address, Value mask, Value value, Type element) {
  LLVM::MaskedStoreOp::create(*this, toMemory(value, element), address, mask, getI32IntegerAttr(memoryBytes(element)));
}

static Value asPointers(CodeBuilder &b, Value addresses) {
  auto vector = cast<VectorType>(addresses.getType());
  return LLVM::IntToPtrOp::create(b, VectorType::get(vector.getShape(), b.ptrType), addresses);
}

static Value allTrue(CodeBuilder &b, int64_t width) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(VectorType::get({width}, b.getI1Type()), true));
}

Value CodeBuilder::gather(Value addresses, Value mask, Value other, Type element, int64_t width) {
  Type memory = memoryType(element);
  Value pass = other ? toMemory(toVector(other, width), element) : zeroOf(VectorType::get({width}, memory));
  Value lanes = mask ? toVector(mask, width) : allTrue(*this, width);
  Value loaded = LLVM::masked_gather::create(*this, withLanes(memory, width), asPointers(*this, addresses), lanes,
                                             ValueRange{pass}, getI32IntegerAttr(memoryBytes(element)));
  return fromMemory(loaded, element);
}

void CodeBuilder::scatter(Value addresses, Value mask, Value value, Type element) {
  int64_t width = cast<VectorType>(addresses.getType()).getNumElements();
  LLVM::masked_scatter::create(*this, toMemory(toVector(value, width), element), asPointers(*this, addresses),
                               mask ? toVector(mask, width) : allTrue(*this, width),
                               getI32IntegerAttr(memoryBytes(element)));
}

Value CodeBuilder::offsetBy(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(*this, ptrType, getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

Value CodeBuilder::offsetBy(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  return LLVM::GEPOp::create(*this, ptrType, getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

Value CodeBuilder::laneAddresses(Value base, Value strideBytes, int64_t width) {
  Value lanes = arith::MulIOp::create(*this, iota(getI64Type(), width), toVector(strideBytes, width));
  return arith::AddIOp::create(*this, toVector(base, width), lanes);
}
