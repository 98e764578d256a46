// kgpu.keep: words of registers pass through a permutation of bytes that is the identity, which the compiler cannot
// know. Empty inline assembly would stop LLVM but not the assembler, which merges computations on the two sides of it.
//
//     %k = kgpu.keep %x : tensor<512xf16, blocked [512] vector 8>
//   becomes, once per kernel and once per word of two elements,
//     %order = smid >> 31 | 0x3210               always 0x3210
//     %word' = prmt.b32 %word, %word, %order     bytes 3, 2, 1, 0 of the word: the word itself
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

/// The word that the registers were unpacked from, if they are all of it and in order; else a newly packed one.
static Value packWord(Lowering &lowering, ArrayRef<Value> registers, VectorType type) {
  CodeBuilder &b = lowering.b;
  if (registers.size() == 1)
    return arith::ExtUIOp::create(b, b.getI32Type(), b.toBits(registers.front()));
  if (registers.size() == 2 && type.getNumElements() == 2) {
    auto [low, first] = wordOf(registers[0]);
    auto [high, second] = wordOf(registers[1]);
    if (low && low == high && first == 0 && second == 1)
      return low;
  }
  Value vector = LLVM::PoisonOp::create(b, type);
  for (auto [place, value] : llvm::enumerate(registers)) {
    Value part = type.getElementType() == value.getType() ? value : b.toBits(value);
    vector = LLVM::InsertElementOp::create(b, vector, part, b.i32(place));
  }
  return LLVM::BitcastOp::create(b, b.getI32Type(), vector);
}

static LogicalResult emitKeep(Lowering &lowering, kgpu::KeepOp op) {
  CodeBuilder &b = lowering.b;
  ArrayRef<Value> source = lowering.get(op.getSource());
  Type element = registerType(elementOf(op.getSource()));
  unsigned bits = element.getIntOrFloatBitWidth(), perWord = 32 / bits;
  // LLVM has vectors of its own float types; narrower floats are integers to it.
  Type part = bits == 8 ? Type(b.getI8Type()) : element;
  auto vectorType = VectorType::get({perWord}, part);
  // No multiprocessor's number has this bit set.
  Value order = lowering.place.atEntry([&]() -> Value {
    return lowering.b
        .ptx("{\n\t.reg .b32 number;\n\tmov.u32 number, %smid;\n\tshr.u32 number, number, 31;\n\t"
             "or.b32 $0, number, 0x3210;\n\t}",
             "=r", b.getI32Type(), {}, /*pure=*/true)
        .front();
  });
  Registers result(source.size());
  // Registers that hold the same value are kept once.
  DenseMap<Value, Value> kept;
  SmallVector<unsigned> waiting;
  auto flush = [&] {
    if (waiting.empty())
      return;
    SmallVector<Value> values = llvm::map_to_vector(waiting, [&](unsigned reg) { return source[reg]; });
    Value word = bits == 32 ? b.toBits(values.front()) : packWord(lowering, values, vectorType);
    word = b.ptx("prmt.b32 $0, $1, $1, $2;", "=r,r,r", b.getI32Type(), {word, order}, /*pure=*/true).front();
    Value vector =
        bits == 32 || values.size() == 1 ? Value() : LLVM::BitcastOp::create(b, vectorType, word).getResult();
    for (auto [place, reg] : llvm::enumerate(waiting)) {
      Value value = bits == 32 ? word
                    : vector   ? LLVM::ExtractElementOp::create(b, vector, b.i32(place)).getResult()
                               : arith::TruncIOp::create(b, b.getIntegerType(bits), word).getResult();
      result[reg] = kept[source[reg]] = value.getType() == element ? value : b.fromBits(value, element);
    }
    waiting.clear();
  };
  for (auto [reg, value] : llvm::enumerate(source))
    if (kept.try_emplace(value).second) {
      waiting.push_back(reg);
      if (waiting.size() == perWord)
        flush();
    }
  flush();
  for (auto [reg, value] : llvm::enumerate(source))
    result[reg] = kept[value];
  lowering.set(op, std::move(result));
  return success();
}

/// Visits the ops of `block` whose results `op`, or an op in its regions, uses.
static void visitNeeds(Operation *op, Block *block, llvm::function_ref<void(Operation *)> visit) {
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (Operation *needed = operand.getDefiningOp(); needed && needed->getBlock() == block)
        visit(needed);
  });
}

void nvvm::orderByUse(Block &block) {
  SmallVector<Operation *> fixed;
  DenseSet<Operation *> loose;
  for (Operation &op : block)
    if (op.getNumRegions() == 0 && !op.use_empty() && isMemoryEffectFree(&op))
      loose.insert(&op);
    else
      fixed.push_back(&op);
  // A loose op moves to before the first fixed op that needs it, after its own operands; the stack holds the ops whose
  // operands are being placed.
  SmallVector<std::pair<Operation *, SmallVector<Operation *, 4>>> stack;
  for (Operation *user : fixed) {
    auto push = [&](Operation *op) {
      SmallVector<Operation *, 4> needs;
      visitNeeds(op, &block, [&](Operation *needed) {
        if (loose.contains(needed))
          needs.push_back(needed);
      });
      std::reverse(needs.begin(), needs.end());
      stack.push_back({op, std::move(needs)});
    };
    push(user);
    while (!stack.empty()) {
      if (stack.back().second.empty()) {
        if (stack.back().first != user)
          stack.back().first->moveBefore(user);
        stack.pop_back();
        continue;
      }
      Operation *needed = stack.back().second.pop_back_val();
      if (loose.erase(needed))
        push(needed);
    }
  }
}

void nvvm::addKeep(EmitTable &table) { table.add<kgpu::KeepOp, emitKeep>(); }
