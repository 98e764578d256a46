// The builder of one thread's code; see CodeBuilder.h. Instructions by name are in Ptx.cpp.
#include "compiler/conversion/kgpu_to_nvvm/CodeBuilder.h"
#include "dialects/tile/TileOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

//===----------------------------------------------------------------------===//
// Constants and addresses
//===----------------------------------------------------------------------===//

Value CodeBuilder::i1(bool value) { return arith::ConstantOp::create(*this, getBoolAttr(value)); }
Value CodeBuilder::i32(int64_t value) { return arith::ConstantOp::create(*this, getI32IntegerAttr(int32_t(value))); }
Value CodeBuilder::i64(int64_t value) { return arith::ConstantOp::create(*this, getI64IntegerAttr(value)); }

Value CodeBuilder::zero(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::ZeroOp::create(*this, type);
  return arith::ConstantOp::create(*this, cast<TypedAttr>(getZeroAttr(type)));
}

Value CodeBuilder::constant(Type type, Attribute value) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::IntToPtrOp::create(*this, type, i64(cast<IntegerAttr>(value).getInt()));
  return arith::ConstantOp::create(*this, type, cast<TypedAttr>(value));
}

Value CodeBuilder::offsetBy(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

Value CodeBuilder::offsetBy(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{int32_t(bytes)});
}

Value CodeBuilder::addressOf(Value pointer) { return LLVM::PtrToIntOp::create(*this, getI32Type(), pointer); }

//===----------------------------------------------------------------------===//
// Registers as bits, and in their form in memory
//===----------------------------------------------------------------------===//

Value CodeBuilder::toBits(Value value) {
  Type type = value.getType();
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::PtrToIntOp::create(*this, getI64Type(), value);
  if (type.isInteger(1))
    return arith::ExtUIOp::create(*this, getI8Type(), value);
  if (isa<IntegerType>(type))
    return value;
  return arith::BitcastOp::create(*this, getIntegerType(type.getIntOrFloatBitWidth()), value);
}

Value CodeBuilder::fromBits(Value bits, Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::IntToPtrOp::create(*this, type, bits);
  if (type.isInteger(1))
    return arith::TruncIOp::create(*this, type, bits);
  if (isa<IntegerType>(type))
    return bits;
  return arith::BitcastOp::create(*this, type, bits);
}

Value CodeBuilder::toMemory(Value value, Type element) {
  if (element.isInteger(1))
    return arith::ExtUIOp::create(*this, getI8Type(), value);
  Type type = memoryType(element);
  return value.getType() == type ? value : arith::BitcastOp::create(*this, type, value).getResult();
}

Value CodeBuilder::fromMemory(Value value, Type element) {
  // Any byte other than 0 is true, as on the CPU.
  if (element.isInteger(1))
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::ne, value, zero(value.getType()));
  Type type = registerType(element);
  return value.getType() == type ? value : arith::BitcastOp::create(*this, type, value).getResult();
}

Value CodeBuilder::toTransfer(Value value, Type element) {
  return isa<tile::PtrType>(element) ? toBits(value) : toMemory(value, element);
}

Value CodeBuilder::fromTransfer(Value value, Type element) {
  return isa<tile::PtrType>(element) ? fromBits(value, registerType(element)) : fromMemory(value, element);
}

std::pair<Value, unsigned> nvvm::wordOf(Value value) {
  auto extract = value.getDefiningOp<LLVM::ExtractElementOp>();
  auto cast = extract ? extract.getVector().getDefiningOp<LLVM::BitcastOp>() : LLVM::BitcastOp();
  APInt half;
  if (!cast || !cast.getArg().getType().isInteger(32) || !matchPattern(extract.getPosition(), m_ConstantInt(&half)))
    return {};
  return {cast.getArg(), unsigned(half.getZExtValue())};
}
