// Escape hatches: inline assembly applied to groups of registers, and library functions by name.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

//===----------------------------------------------------------------------===//
// tile.inline_asm
//===----------------------------------------------------------------------===//

/// The type that an NVPTX constraint letter holds; the element's own type for any other letter.
static Type typeOfConstraint(OpBuilder &b, StringRef constraint, Type own) {
  constraint = constraint.ltrim("=+&");
  if (constraint == "r")
    return b.getI32Type();
  if (constraint == "l")
    return b.getI64Type();
  if (constraint == "h")
    return b.getI16Type();
  if (constraint == "f")
    return b.getF32Type();
  if (constraint == "d")
    return b.getF64Type();
  return own;
}

/// Elements per register of the assembly: narrow ones share 32 bits.
static int64_t elementsPerRegister(Type element) { return std::max<int64_t>(4 / memoryBytes(element), 1); }

/// Packs `values` into registers as the assembly takes them. Missing elements of the last one are zero.
static void pack(CodeBuilder &b, Type element, ArrayRef<Value> values, ArrayRef<StringRef> constraints, unsigned &next,
                 SmallVectorImpl<Value> &operands) {
  unsigned per = unsigned(elementsPerRegister(element));
  for (unsigned first = 0; first < values.size(); first += per) {
    Value bits;
    if (per == 1) {
      bits = b.toBits(values[first]);
    } else {
      Type lane = b.getIntegerType(unsigned(8 * memoryBytes(element)));
      Value all = b.zero(VectorType::get({int64_t(per)}, lane));
      for (unsigned i = first; i < std::min<size_t>(first + per, values.size()); ++i)
        all = LLVM::InsertElementOp::create(b, all, b.toBits(values[i]), b.i32(i - first));
      bits = LLVM::BitcastOp::create(b, b.getI32Type(), all);
    }
    Type type = typeOfConstraint(b, constraints[next++], bits.getType());
    if (type.getIntOrFloatBitWidth() < bits.getType().getIntOrFloatBitWidth())
      bits = arith::TruncIOp::create(b, b.getIntegerType(type.getIntOrFloatBitWidth()), bits);
    else if (type.getIntOrFloatBitWidth() > bits.getType().getIntOrFloatBitWidth())
      bits = arith::ExtUIOp::create(b, b.getIntegerType(type.getIntOrFloatBitWidth()), bits);
    operands.push_back(b.fromBits(bits, type));
  }
}

/// Unpacks `count` elements, from result `next` on.
static void unpack(CodeBuilder &b, Type element, unsigned count, ArrayRef<Value> results, unsigned &next,
                   Registers &values) {
  unsigned per = unsigned(elementsPerRegister(element)), width = unsigned(8 * memoryBytes(element));
  for (unsigned first = 0; first < count; first += per) {
    Value bits = b.toBits(results[next++]);
    unsigned have = bits.getType().getIntOrFloatBitWidth(), want = per == 1 ? width : 32;
    if (have > want)
      bits = arith::TruncIOp::create(b, b.getIntegerType(want), bits);
    else if (have < want)
      bits = arith::ExtUIOp::create(b, b.getIntegerType(want), bits);
    Type type = registerType(element);
    for (unsigned i = 0; i < per && first + i < count; ++i) {
      Value one = bits;
      if (per > 1) {
        if (i)
          one = arith::ShRUIOp::create(b, bits, b.i32(i * width));
        one = arith::TruncIOp::create(b, b.getIntegerType(width), one);
      }
      values.push_back(b.fromBits(one, type));
    }
  }
}

SmallVector<Registers> nvvm::emitAssembly(CodeBuilder &b, tile::InlineAsmOp op, ArrayRef<Registers> groups) {
  SmallVector<StringRef> parts, outputs, inputs;
  op.getConstraints().split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    part = part.trim();
    if (part.starts_with("="))
      outputs.push_back(part);
    else if (!part.starts_with("~"))
      inputs.push_back(part);
  }
  unsigned packed = unsigned(op.getPacked()), next = 0;
  SmallVector<Value> operands;
  for (auto [operand, group] : llvm::zip(op.getOperands(), groups))
    pack(b, elementOf(operand), group, inputs, next, operands);
  SmallVector<Type> types;
  next = 0;
  for (Value result : op.getResults()) {
    Type element = elementOf(result);
    unsigned width = elementsPerRegister(element) > 1 ? 32 : unsigned(8 * memoryBytes(element));
    for (int64_t left = packed; left > 0; left -= elementsPerRegister(element))
      types.push_back(typeOfConstraint(b, outputs[next++], b.getIntegerType(width)));
  }
  Registers raw = b.ptx(op.getAssembly(), op.getConstraints(), types, operands, op.getIsPure());
  SmallVector<Registers> results(op.getNumResults());
  next = 0;
  for (auto [result, registers] : llvm::zip(op.getResults(), results))
    unpack(b, elementOf(result), packed, raw, next, registers);
  return results;
}

static LogicalResult emitInlineAsm(Lowering &lowering, tile::InlineAsmOp op) {
  Type shaped = op.getNumResults()         ? op.getResult(0).getType()
                : op.getOperands().empty() ? Type(lowering.b.getI32Type())
                                           : op.getOperand(0).getType();
  unsigned count = registerCount(shaped), packed = unsigned(op.getPacked());
  SmallVector<Registers> results(op.getNumResults());
  for (unsigned first = 0; first < count; first += packed) {
    SmallVector<Registers> groups;
    for (Value operand : op.getOperands()) {
      ArrayRef<Value> registers = lowering.get(operand);
      // A thread with fewer elements than the assembly takes repeats its last one.
      Registers &group = groups.emplace_back();
      for (unsigned i = 0; i < packed; ++i)
        group.push_back(registers[std::min<size_t>(first + i, registers.size() - 1)]);
    }
    for (auto [registers, more] : llvm::zip(results, emitAssembly(lowering.b, op, groups)))
      llvm::append_range(registers, more);
  }
  for (auto [result, registers] : llvm::zip(op.getResults(), results)) {
    registers.truncate(count);
    lowering.set(result, std::move(registers));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// tile.extern_call
//===----------------------------------------------------------------------===//

Value nvvm::emitExternCall(CodeBuilder &b, tile::ExternCallOp op, ArrayRef<Value> operands) {
  std::string name = op.getSymbol().str();
  // libdevice names functions __nv_NAME (double) and __nv_NAMEf (float). A bare name means the elements' own type.
  if (op.getLibrary() == "libdevice" && !StringRef(name).starts_with("__nv_")) {
    bool isSingle = llvm::any_of(operands, [](Value v) { return v.getType().isF32(); });
    name = "__nv_" + name + (isSingle && !StringRef(name).starts_with("fast_") ? "f" : "");
  }
  Type result = registerType(elementOf(op.getResult()));
  auto type = LLVM::LLVMFunctionType::get(result, llvm::map_to_vector(operands, [](Value v) { return v.getType(); }));
  auto module = op->getParentOfType<ModuleOp>();
  auto declared = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!declared) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    declared = LLVM::LLVMFuncOp::create(b, name, type);
    // If codegen finds that the library has no such function, its error points here.
    declared->setAttr("kiln.library", op.getLibraryAttr());
  } else if (declared.getFunctionType() != type) {
    op.emitError("expected every call of '")
        << name << "' to have the same types, got " << type << " and " << declared.getFunctionType();
    return {};
  }
  return LLVM::CallOp::create(b, declared, operands).getResult();
}

void nvvm::addLibrary(EmitTable &table) {
  table.add<tile::InlineAsmOp, emitInlineAsm>();
  table.addAll<emitElementwise, tile::ExternCallOp>();
}
