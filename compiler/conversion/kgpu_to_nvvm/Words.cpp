#include "compiler/conversion/kgpu_to_nvvm/Words.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static constexpr int64_t kWordBits = 32;

Registers nvvm::packWords(Lowering &lowering, ArrayRef<Value> values) {
  CodeBuilder &b = lowering.b;
  Registers words;
  int64_t count = kWordBits / int64_t(values.front().getType().getIntOrFloatBitWidth());
  for (; !values.empty(); values = values.drop_front(count)) {
    if (count == 1) {
      words.push_back(b.toBits(values.front()));
      continue;
    }
    // Pairs of floats stay floats, because one instruction rounds two f32 to such a pair.
    Type element = values.front().getType();
    bool narrow = kWordBits / count == 8;
    if (narrow)
      element = b.getI8Type();
    Value vector = LLVM::PoisonOp::create(b, VectorType::get(count, element));
    for (int64_t i = 0; i < count; ++i)
      vector = LLVM::InsertElementOp::create(b, vector, narrow ? b.toBits(values[i]) : values[i], b.i32(i));
    words.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), vector));
  }
  return words;
}

Registers nvvm::unpackWords(Lowering &lowering, ArrayRef<Value> words, Type element) {
  CodeBuilder &b = lowering.b;
  Registers values;
  int64_t bits = int64_t(element.getIntOrFloatBitWidth()), count = kWordBits / bits;
  for (Value word : words) {
    if (count == 1) {
      values.push_back(b.fromBits(word, element));
      continue;
    }
    Type inVector = bits == 8 ? Type(b.getI8Type()) : element;
    Value vector = LLVM::BitcastOp::create(b, VectorType::get(count, inVector), word);
    for (int64_t i = 0; i < count; ++i) {
      Value value = LLVM::ExtractElementOp::create(b, vector, b.i32(i));
      values.push_back(bits == 8 ? b.fromBits(value, element) : value);
    }
  }
  return values;
}

StringRef nvvm::productTypeName(Type type, bool isFactor) {
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  if (type.isF32())
    return isFactor ? "tf32" : "f32";
  if (isa<Float8E4M3FNType>(type))
    return "e4m3";
  if (isa<Float8E5M2Type>(type))
    return "e5m2";
  return isFactor ? "s8" : "s32";
}
