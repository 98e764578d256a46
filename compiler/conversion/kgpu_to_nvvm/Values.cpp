// Values of one thread: their types in registers and in memory, constants, addresses, registers as bits.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

Type nvvm::memoryType(Type element) {
  MLIRContext *context = element.getContext();
  if (isa<tile::PtrType, LLVM::LLVMPointerType>(element))
    return LLVM::LLVMPointerType::get(context, kGlobal);
  if (element.isInteger(1))
    return IntegerType::get(context, 8);
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8)
    return IntegerType::get(context, 8);
  return element;
}

int64_t nvvm::memoryBytes(Type element) {
  Type type = memoryType(element);
  return isa<LLVM::LLVMPointerType>(type) ? 8 : type.getIntOrFloatBitWidth() / 8;
}

Type nvvm::registerType(Type element) {
  if (isa<tile::PtrType>(element))
    return LLVM::LLVMPointerType::get(element.getContext(), kGlobal);
  return element;
}

//===----------------------------------------------------------------------===//
// Constants and addresses
//===----------------------------------------------------------------------===//

Value Lowering::i1(bool value) { return arith::ConstantOp::create(b, b.getBoolAttr(value)); }
Value Lowering::i32(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(value))); }
Value Lowering::i64(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }

Value Lowering::zero(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::ZeroOp::create(b, type);
  return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type)));
}

Value Lowering::constant(Type type, Attribute value) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::IntToPtrOp::create(b, type, i64(cast<IntegerAttr>(value).getInt()));
  return arith::ConstantOp::create(b, type, cast<TypedAttr>(value));
}

Value Lowering::offsetBy(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(b, pointer.getType(), b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{bytes});
}

Value Lowering::offsetBy(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  return LLVM::GEPOp::create(b, pointer.getType(), b.getI8Type(), pointer, ArrayRef<LLVM::GEPArg>{int32_t(bytes)});
}

//===----------------------------------------------------------------------===//
// Registers as bits, and as they lie in memory
//===----------------------------------------------------------------------===//

Value Lowering::toBits(Value value) {
  Type type = value.getType();
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::PtrToIntOp::create(b, b.getI64Type(), value);
  if (type.isInteger(1))
    return arith::ExtUIOp::create(b, b.getI8Type(), value);
  if (isa<IntegerType>(type))
    return value;
  return arith::BitcastOp::create(b, b.getIntegerType(type.getIntOrFloatBitWidth()), value);
}

Value Lowering::fromBits(Value bits, Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return LLVM::IntToPtrOp::create(b, type, bits);
  if (type.isInteger(1))
    return arith::TruncIOp::create(b, type, bits);
  if (isa<IntegerType>(type))
    return bits;
  return arith::BitcastOp::create(b, type, bits);
}

Value Lowering::toMemory(Value value, Type element) {
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, b.getI8Type(), value);
  Type type = memoryType(element);
  return value.getType() == type ? value : arith::BitcastOp::create(b, type, value).getResult();
}

Value Lowering::fromMemory(Value value, Type element) {
  // Any byte but 0 is true, as on the CPU.
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero(value.getType()));
  Type type = registerType(element);
  return value.getType() == type ? value : arith::BitcastOp::create(b, type, value).getResult();
}
