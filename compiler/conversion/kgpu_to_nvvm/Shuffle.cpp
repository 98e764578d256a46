#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static int64_t bitsOf(Value value) {
  Type type = value.getType();
  if (isa<LLVM::LLVMPointerType>(type))
    return 64;
  return std::max<int64_t>(8, type.getIntOrFloatBitWidth());
}

/// Runs `shuffle` on 32-bit words that together hold `values`.
static Registers shuffleWords(Lowering &lowering, ArrayRef<Value> values, llvm::function_ref<Value(Value)> shuffle) {
  CodeBuilder &b = lowering.b;
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Registers results(values.size());
  // The values of each narrow width that are to share the next word.
  SmallVector<unsigned> bytes, halves;
  auto flush = [&](SmallVector<unsigned> &waiting, int64_t bits) {
    if (waiting.empty())
      return;
    Value word;
    for (auto [place, index] : llvm::enumerate(waiting)) {
      Value part = arith::ExtUIOp::create(b, i32, b.toBits(values[index]));
      if (place > 0)
        part = arith::ShLIOp::create(b, part, b.i32(bits * place));
      word = word ? arith::OrIOp::create(b, word, part).getResult() : part;
    }
    word = shuffle(word);
    for (auto [place, index] : llvm::enumerate(waiting)) {
      Value part = place > 0 ? arith::ShRUIOp::create(b, word, b.i32(bits * place)).getResult() : word;
      part = arith::TruncIOp::create(b, b.getIntegerType(bits), part);
      results[index] = b.fromBits(part, values[index].getType());
    }
    waiting.clear();
  };
  for (auto [index, value] : llvm::enumerate(values)) {
    switch (bitsOf(value)) {
    case 8:
      bytes.push_back(index);
      if (bytes.size() == 4)
        flush(bytes, 8);
      break;
    case 16:
      halves.push_back(index);
      if (halves.size() == 2)
        flush(halves, 16);
      break;
    case 32:
      results[index] = b.fromBits(shuffle(b.toBits(value)), value.getType());
      break;
    default: {
      Value bits = b.toBits(value);
      Value low = arith::TruncIOp::create(b, i32, bits);
      Value high = arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, bits, b.i64(32)));
      low = arith::ExtUIOp::create(b, i64, shuffle(low));
      high = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i64, shuffle(high)), b.i64(32));
      results[index] = b.fromBits(arith::OrIOp::create(b, low, high), value.getType());
    }
    }
  }
  flush(bytes, 8);
  flush(halves, 16);
  return results;
}

static Value shuffleWord(Lowering &lowering, StringRef mode, Value word, Value operand) {
  // All lanes take part: a kernel's control flow is uniform.
  return lowering.b.intrinsic(("llvm.nvvm.shfl.sync." + mode + ".i32").str(), lowering.b.getI32Type(),
                              {lowering.b.i32(-1), word, operand, lowering.b.i32(31)});
}

Registers nvvm::shuffleXor(Lowering &lowering, ArrayRef<Value> values, int64_t laneXor) {
  Value operand = lowering.b.i32(laneXor);
  return shuffleWords(lowering, values, [&](Value word) { return shuffleWord(lowering, "bfly", word, operand); });
}

Registers nvvm::shuffleFrom(Lowering &lowering, ArrayRef<Value> values, Value source) {
  return shuffleWords(lowering, values, [&](Value word) { return shuffleWord(lowering, "idx", word, source); });
}

Value nvvm::parityOf(Lowering &lowering, const layout::Parity &parity) {
  CodeBuilder &b = lowering.b;
  Value sum;
  for (const layout::ThreadBit &bit : parity) {
    Value shifted = lowering.place.hardware(bit.coord);
    if (bit.digit > 0)
      shifted = arith::ShRUIOp::create(b, shifted, b.i32(bit.digit));
    sum = sum ? arith::XOrIOp::create(b, sum, shifted).getResult() : shifted;
  }
  if (!sum)
    return b.i1(false);
  sum = arith::AndIOp::create(b, sum, b.i32(1));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, sum, b.i32(0));
}

Value nvvm::selectBy(Lowering &lowering, const layout::Select &select, ArrayRef<Value> values) {
  SmallVector<Value> candidates;
  for (int64_t choice : select.choices)
    candidates.push_back(values[choice]);
  // The index's lowest bit is resolved first, which halves the list.
  for (const layout::Parity &parity : select.bits) {
    Value bit;
    SmallVector<Value> half;
    for (unsigned i = 0; i + 1 < candidates.size(); i += 2) {
      if (candidates[i] == candidates[i + 1]) {
        half.push_back(candidates[i]);
        continue;
      }
      if (!bit)
        bit = parityOf(lowering, parity);
      half.push_back(arith::SelectOp::create(lowering.b, bit, candidates[i + 1], candidates[i]));
    }
    candidates = half;
  }
  return candidates.front();
}
