// kgpu.warp_mma: mma.sync on accumulator fragments of 16 by 8, one instruction per fragment and step along K.
#include "compiler/conversion/kgpu_to_nvvm/Words.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

// Registers of an accumulator fragment; words of a left and of a right operand's fragment.
static constexpr int64_t kSums = 4, kLeftWords = 4, kRightWords = 2;
// The number of successive products that do not wait for each other.
static constexpr int64_t kIndependent = 8;
// Columns of fragments whose operands are loaded together in code that rarely runs.
static constexpr int64_t kRareColumns = 2;

/// "{$3, $4}, ": a list of `count` operands from number `first` on.
static std::string operandsFrom(unsigned first, unsigned count) {
  std::string list = "{";
  for (unsigned i = 0; i < count; ++i)
    list += (i ? ", $" : "$") + std::to_string(first + i);
  return list + "}, ";
}

/// "=f,=f,r,r,0,1": the results, the operands' words, and the sums that the results are tied to.
static std::string constraintsOf(Type sum, unsigned sums, unsigned words) {
  std::string list;
  for (unsigned i = 0; i < sums; ++i)
    list += std::string(i ? "," : "") + (sum.isF32() ? "=f" : "=r");
  for (unsigned i = 0; i < words; ++i)
    list += ",r";
  for (unsigned i = 0; i < sums; ++i)
    list += "," + std::to_string(i);
  return list;
}

/// True if an op may be moved past others of its kind.
static bool isMovable(Operation *op) {
  if (isPure(op))
    return true;
  if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
    return call.getIntrin().starts_with("llvm.nvvm.ldmatrix.");
  auto load = dyn_cast<LLVM::LoadOp>(op);
  return load && !load.getVolatile_();
}

/// Moves `op` and the ops before it, back to the last write, down to their first use. So the fragments of an operand
/// are loaded step by step along K, and never held as a whole.
static void sinkToUses(Operation *op) {
  while (op && isMovable(op)) {
    Operation *before = op->getPrevNode(), *first = nullptr;
    for (Operation *user : op->getUsers()) {
      Operation *place = op->getBlock()->findAncestorOpInBlock(*user);
      if (place && (!first || place->isBeforeInBlock(first)))
        first = place;
    }
    if (first && first != op->getNextNode())
      op->moveBefore(first);
    op = before;
  }
}

/// Code that few warps ever run should take few registers, however long it takes.
static bool isRare(kgpu::WarpMmaOp op) {
  auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
  return branch && op->getBlock() == branch.thenBlock() && branch.getCondition().getDefiningOp<kgpu::AnyOp>();
}

static LogicalResult emitWarpMma(Lowering &lowering, kgpu::WarpMmaOp op) {
  Type element = elementOf(op.getAcc()), lhsElement = elementOf(op.getLhs()), rhsElement = elementOf(op.getRhs());
  const Layout &acc = kgpu::layoutOf(op.getType());
  int64_t step = kgpu::productDepth(lhsElement, rhsElement, element, /*warpgroup=*/false);
  int64_t steps = shapeOf(op.getRhs())[acc.rank() - 2] / step;
  Registers lhs = packWords(lowering, lowering.get(op.getLhs())), rhs = packWords(lowering, lowering.get(op.getRhs()));
  ArrayRef<Value> registers = lowering.get(op.getAcc());
  Registers sums = element.isF32() ? Registers(registers) : packWords(lowering, registers);
  unsigned perSum = kSums * sums.size() / registers.size();
  // The fragments of each batch: the accumulator's along N first, then along M; the operands' along K first.
  int64_t left = int64_t(lhs.size()) / (kLeftWords * steps), right = int64_t(rhs.size()) / (kRightWords * steps);
  // Per warp: the operands have batches · rows and batches · columns fragments, the accumulator batches · rows ·
  // columns.
  int64_t batches = left * right / (int64_t(registers.size()) / kSums);
  int64_t rows = left / batches, columns = right / batches;

  std::string text = "mma.sync.aligned.m16n8k" + std::to_string(step) + ".row.col." +
                     productTypeName(element, false).str() + "." + productTypeName(lhsElement, true).str() + "." +
                     productTypeName(rhsElement, true).str() + "." + productTypeName(element, false).str() + " " +
                     operandsFrom(0, perSum) + operandsFrom(perSum, kLeftWords) +
                     operandsFrom(perSum + kLeftWords, kRightWords) +
                     StringRef(operandsFrom(perSum + kLeftWords + kRightWords, perSum)).drop_back(2).str() + ";";
  std::string constraints = constraintsOf(sums.front().getType(), perSum, kLeftWords + kRightWords);
  SmallVector<Type> types(perSum, sums.front().getType());
  Block *block = lowering.b.getInsertionBlock();
  Block::iterator place = lowering.b.getInsertionPoint();
  Operation *last = place == block->begin() ? nullptr : &*std::prev(place);
  // All fragments of one step along K precede those of the next step, so that none waits for the previous one. Where
  // the left operand is held in registers anyway, only some columns at a time: this bounds the registers of the right
  // operand.
  auto loaded = op.getLhs().getDefiningOp<kgpu::LocalLoadOp>();
  bool held = !loaded || loaded->getBlock() != op->getBlock();
  int64_t together = held ? std::max<int64_t>(1, kIndependent / rows) : columns;
  // One instruction loads a right operand's fragments of two steps.
  bool rare = isRare(op);
  int64_t deep = rare ? 2 : 1;
  auto multiply = [&](int64_t batch, int64_t row, int64_t column, int64_t k) {
    SmallVector<Value> operands;
    auto append = [&](ArrayRef<Value> words, int64_t fragment, int64_t count) {
      llvm::append_range(operands, words.slice(fragment * count, count));
    };
    int64_t sum = (batch * rows + row) * columns + column;
    append(lhs, (batch * rows + row) * steps + k, kLeftWords);
    append(rhs, (batch * columns + column) * steps + k, kRightWords);
    append(sums, sum, perSum);
    Registers results = lowering.b.ptx(text, constraints, types, operands, /*pure=*/true);
    for (auto [i, result] : llvm::enumerate(results))
      sums[sum * perSum + i] = result;
  };
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t first = 0; first < columns; first += together)
      for (int64_t from = 0; from < steps; from += deep)
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t column = first; column < std::min(first + together, columns); ++column) {
            for (int64_t k = from; k < std::min(from + deep, steps); ++k)
              multiply(batch, row, column, k);
            if (rare && column % kRareColumns == kRareColumns - 1)
              lowering.b.hold();
          }
  sinkToUses(last);
  lowering.set(op, element.isF32() ? sums : unpackWords(lowering, sums, element));
  return success();
}

void nvvm::addWarpMma(EmitTable &table) { table.add<kgpu::WarpMmaOp, emitWarpMma>(); }
