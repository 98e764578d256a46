// How one thread reads and writes a vector of contiguous elements; see Access.h.
#include "compiler/conversion/kgpu_to_nvvm/Access.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

//===----------------------------------------------------------------------===//
// Registers as 32-bit (or 16-, 64-bit) words
//===----------------------------------------------------------------------===//

namespace {
/// The words of an access, as PTX moves them.
struct Words {
  unsigned bits;  ///< per word, in memory
  unsigned count; ///< 1, 2, 4 or 8
  const char *constraint;
  Type type; ///< of a word in a register

  Words(OpBuilder &b, const VectorAccess &access) {
    int64_t bytes = access.bytes();
    bits = memoryBytes(access.element) == 8 ? 64 : bytes >= 4 ? 32 : unsigned(8 * bytes);
    count = unsigned(8 * bytes / bits);
    constraint = bits == 64 ? "l" : bits == 32 ? "r" : "h";
    type = b.getIntegerType(std::max(bits, 16u));
  }
  std::string suffix() const {
    return (count > 1 ? ".v" + std::to_string(count) : std::string()) + ".b" + std::to_string(bits);
  }
};
} // namespace

Registers nvvm::packWords(Lowering &lowering, const VectorAccess &access, ArrayRef<Value> values) {
  CodeBuilder &b = lowering.b;
  Words words(b, access);
  unsigned perWord = unsigned(access.count / words.count);
  Registers packed;
  for (unsigned word = 0; word < words.count; ++word) {
    if (perWord == 1) {
      Value bits = b.toBits(b.toMemory(values[word], access.element));
      if (bits.getType() != words.type)
        bits = arith::ExtUIOp::create(b, words.type, bits);
      packed.push_back(bits);
      continue;
    }
    Type lane = memoryType(access.element);
    auto vector = VectorType::get({int64_t(perWord)}, lane);
    Value all = LLVM::PoisonOp::create(b, vector);
    for (unsigned i = 0; i < perWord; ++i)
      all = LLVM::InsertElementOp::create(b, all, b.toMemory(values[word * perWord + i], access.element), b.i32(i));
    Value bits = LLVM::BitcastOp::create(b, b.getIntegerType(words.bits), all);
    if (bits.getType() != words.type)
      bits = arith::ExtUIOp::create(b, words.type, bits);
    packed.push_back(bits);
  }
  return packed;
}

static Registers unpackWords(Lowering &lowering, const VectorAccess &access, const Words &words,
                             ArrayRef<Value> packed) {
  CodeBuilder &b = lowering.b;
  unsigned perWord = unsigned(access.count / words.count);
  Type lane = memoryType(access.element);
  Registers values;
  for (Value word : packed) {
    Type exact = b.getIntegerType(words.bits);
    Value bits = word.getType() == exact ? word : arith::TruncIOp::create(b, exact, word).getResult();
    if (perWord == 1) {
      values.push_back(b.fromMemory(b.fromBits(bits, lane), access.element));
      continue;
    }
    Value all = LLVM::BitcastOp::create(b, VectorType::get({int64_t(perWord)}, lane), bits);
    for (unsigned i = 0; i < perWord; ++i)
      values.push_back(b.fromMemory(LLVM::ExtractElementOp::create(b, all, b.i32(i)), access.element));
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Hints
//===----------------------------------------------------------------------===//

static StringRef cacheSuffix(tile::CacheModifier cache) {
  switch (cache) {
  case tile::CacheModifier::None:
    return "";
  case tile::CacheModifier::CA:
    return ".ca";
  case tile::CacheModifier::CG:
    return ".cg";
  case tile::CacheModifier::CS:
    return ".cs";
  case tile::CacheModifier::CV:
    return ".cv";
  case tile::CacheModifier::WB:
    return ".wb";
  case tile::CacheModifier::WT:
    return ".wt";
  }
  return "";
}

/// ".cs", ".L1::evict_first.L2::cache_hint", …: the part between the state space and the type.
static std::string hintSuffix(const VectorAccess &access) {
  if (access.isVolatile)
    return "";
  std::string text = cacheSuffix(access.cache).str();
  if (access.evict == tile::Eviction::Normal)
    return text;
  // A cache operator and an L1 priority exclude each other.
  if (text.empty())
    text = access.evict == tile::Eviction::First ? ".L1::evict_first" : ".L1::evict_last";
  return text + ".L2::cache_hint";
}

static bool isPlain(const VectorAccess &access) {
  return access.cache == tile::CacheModifier::None && access.evict == tile::Eviction::Normal;
}

/// "{$0, $1}" or "$0", from operand `first` on.
static std::string operandList(unsigned first, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return count > 1 ? "{" + text + "}" : text;
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

Registers nvvm::loadVector(Lowering &lowering, const VectorAccess &access, Value address, Value mask,
                           ArrayRef<Value> others) {
  CodeBuilder &b = lowering.b;
  if (!mask && isPlain(access) && !access.isOrdered) {
    Type lane = tile::memoryType(access.element);
    Type type = access.count == 1 ? lane : VectorType::get({access.count}, lane);
    Value loaded = LLVM::LoadOp::create(b, type, address, unsigned(access.alignment), access.isVolatile,
                                        /*isNonTemporal=*/false, access.isReadOnly && !access.isVolatile);
    Registers values;
    for (int64_t i = 0; i < access.count; ++i) {
      Value value = access.count == 1 ? loaded : LLVM::ExtractElementOp::create(b, loaded, b.i32(i)).getResult();
      values.push_back(b.fromTransfer(value, access.element));
    }
    return values;
  }

  Words words(b, access);
  bool readOnly = access.isReadOnly && !access.isVolatile && access.cache != tile::CacheModifier::CV &&
                  (!access.isOrdered || access.mayFollowStore);
  bool withPolicy = !access.isVolatile && access.evict != tile::Eviction::Normal;
  unsigned next = words.count; // operand numbers: results, address, policy, mask
  std::string text = "ld";
  text += access.isVolatile ? ".volatile.global" : ".global";
  std::string hints = hintSuffix(access);
  // The cache operator precedes .nc; priorities follow it.
  bool operatorFirst = StringRef(hints).starts_with(".c");
  if (readOnly && operatorFirst)
    text += hints.substr(0, 3) + ".nc" + hints.substr(3);
  else
    text += (readOnly ? ".nc" : "") + hints;
  text += words.suffix() + " " + operandList(0, words.count) + ", [$" + std::to_string(next++) + "]";
  std::string constraints;
  for (unsigned i = 0; i < words.count; ++i)
    constraints += std::string(i ? ",=" : "=") + words.constraint;
  constraints += ",l";
  SmallVector<Value> operands{address};
  if (withPolicy) {
    text += ", $" + std::to_string(next++);
    constraints += ",l";
    operands.push_back(lowering.global.evictPolicy(access.evict));
  }
  text += ";";
  if (mask) {
    text = "@$" + std::to_string(next) + " " + text;
    constraints += ",b";
    operands.push_back(mask);
    // Where the mask is false, the registers keep their previous contents.
    Registers preset;
    if (others.empty())
      preset.assign(words.count, b.zero(words.type));
    else
      preset = packWords(lowering, access, others);
    for (unsigned i = 0; i < words.count; ++i) {
      constraints += "," + std::to_string(i);
      operands.push_back(preset[i]);
    }
  }
  SmallVector<Type> types(words.count, words.type);
  return unpackWords(lowering, access, words, b.ptx(text, constraints, types, operands, readOnly && !access.isOrdered));
}

void nvvm::storeVector(Lowering &lowering, const VectorAccess &access, Value address, Value mask,
                       ArrayRef<Value> values) {
  CodeBuilder &b = lowering.b;
  if (!mask && isPlain(access)) {
    Type lane = tile::memoryType(access.element);
    Value stored;
    if (access.count == 1) {
      stored = b.toTransfer(values.front(), access.element);
    } else {
      stored = LLVM::PoisonOp::create(b, VectorType::get({access.count}, lane));
      for (int64_t i = 0; i < access.count; ++i)
        stored = LLVM::InsertElementOp::create(b, stored, b.toTransfer(values[i], access.element), b.i32(i));
    }
    LLVM::StoreOp::create(b, stored, address, unsigned(access.alignment), access.isVolatile);
    return;
  }
  Words words(b, access);
  bool withPolicy = access.evict != tile::Eviction::Normal;
  unsigned next = words.count + 1; // operand numbers: address, values, policy, mask
  std::string text = "st.global" + hintSuffix(access) + words.suffix() + " [$0], " + operandList(1, words.count);
  std::string constraints = "l";
  SmallVector<Value> operands{address};
  llvm::append_range(operands, packWords(lowering, access, values));
  for (unsigned i = 0; i < words.count; ++i)
    constraints += std::string(",") + words.constraint;
  if (withPolicy) {
    text += ", $" + std::to_string(next++);
    constraints += ",l";
    operands.push_back(lowering.global.evictPolicy(access.evict));
  }
  text += ";";
  if (mask) {
    text = "@$" + std::to_string(next) + " " + text;
    constraints += ",b";
    operands.push_back(mask);
  }
  b.ptx(text, constraints, {}, operands);
}
