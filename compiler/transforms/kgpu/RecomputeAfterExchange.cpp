// kiln-recompute-after-exchange: a wide tile that is used on both sides of an exchange, and that a few cheap ops
// compute from narrow tiles, is kept during the exchange as those narrow tiles.
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Layout.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

namespace kiln {
#define GEN_PASS_DEF_RECOMPUTEAFTEREXCHANGEPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// From this many registers on, one tile determines how many blocks share a multiprocessor. At half as many the
/// conversions cost more than the registers (LayerNorm 2048x4096 on an H200: 3.17 TB/s without, 2.80 with).
constexpr int64_t kLeastRegisters = 64;
/// Ops that may be repeated per element: in all, and on the special-function unit.
constexpr unsigned kMostOps = 6, kMostSpecial = 1;

int64_t registersOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? kgpu::layoutOf(tile).registers() : 1;
}

int64_t bitsOf(Type type) { return getElementTypeOrSelf(type).getIntOrFloatBitWidth(); }

bool isCheap(Operation *op) {
  return isa<arith::ExtFOp, arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp, arith::SelectOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, math::FmaOp, math::AbsFOp>(op);
}

bool isSpecial(Operation *op) {
  if (auto text = dyn_cast<tile::InlineAsmOp>(op))
    return text.getIsPure() && text->getNumResults() == 1;
  return isa<math::Exp2Op, math::ExpOp, math::RsqrtOp>(op);
}

/// How to compute a tile from tiles that are cheaper to hold.
struct Recipe {
  llvm::SetVector<Operation *> ops; ///< to be repeated, operands first
  llvm::SetVector<Value> narrow;    ///< tiles to keep instead
  unsigned special = 0;

  bool add(Value value, int64_t registers);
};

/// It takes few registers because many elements share a value: a row's statistics, a constant, a column's mask.
bool isShared(Value value, int64_t registers) {
  while (isa_and_nonnull<tile::BroadcastOp, tile::ExpandDimsOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  if (isa_and_nonnull<tile::SplatOp, arith::ConstantOp>(value.getDefiningOp()) || !isa<ShapedType>(value.getType()))
    return true;
  return registersOf(value.getType()) * 8 <= registers;
}

bool Recipe::add(Value value, int64_t registers) {
  Operation *op = value.getDefiningOp();
  if (op && ops.contains(op))
    return true;
  // The assembler rematerializes predicates from a few words.
  if (isShared(value, registers) || getElementTypeOrSelf(value.getType()).isInteger(1))
    return true;
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isIntOrFloat() && bitsOf(element) <= 16) {
    narrow.insert(value);
    return true;
  }
  if (!op || !(isCheap(op) || isSpecial(op)))
    return false;
  special += isSpecial(op);
  if (special > kMostSpecial || !llvm::all_of(op->getOperands(), [&](Value v) { return add(v, registers); }))
    return false;
  ops.insert(op);
  return ops.size() <= kMostOps;
}

/// Processes the exchanges of one block, first to last.
class Recomputation {
public:
  Recomputation(Block &block) : block(block) {}

  void run() {
    SmallVector<Operation *> cuts(block.getOps<kgpu::LocalLoadOp>());
    for (Operation *cut : cuts) {
      // Last to first: recomputing a tile that was made from other waiting tiles frees those.
      SmallVector<Value> waiting;
      for (Operation &op : llvm::make_range(block.begin(), cut->getIterator()))
        for (Value result : op.getResults())
          if (mayWait(result))
            waiting.push_back(result);
      for (Value value : llvm::reverse(waiting))
        recompute(value, cut);
    }
  }

private:
  static bool mayWait(Value value) {
    auto tile = dyn_cast<RankedTensorType>(value.getType());
    return tile && tile.getElementType().isF32() && registersOf(tile) >= kLeastRegisters;
  }

  /// The op of this block that contains a use.
  Operation *place(OpOperand &use) { return block.findAncestorOpInBlock(*use.getOwner()); }

  /// The first use after `cut`; null if there is none.
  Operation *firstAfter(Value value, Operation *cut) {
    Operation *first = nullptr;
    for (OpOperand &use : value.getUses())
      if (Operation *user = place(use); cut->isBeforeInBlock(user) && (!first || user->isBeforeInBlock(first)))
        first = user;
    return first;
  }

  void recompute(Value value, Operation *cut) {
    Operation *first = firstAfter(value, cut);
    bool usedBefore = llvm::any_of(value.getUses(), [&](OpOperand &use) { return place(use)->isBeforeInBlock(cut); });
    if (!first || !usedBefore)
      return;
    Recipe recipe;
    int64_t registers = registersOf(value.getType()), held = 0;
    if (!recipe.add(value, registers) || recipe.narrow.empty())
      return;
    for (Value narrow : recipe.narrow)
      if (!firstAfter(narrow, cut))
        held += registersOf(narrow.getType()) * bitsOf(narrow.getType());
    if (held >= registers * bitsOf(value.getType()))
      return;
    OpBuilder builder(first);
    IRMapping again;
    for (Value narrow : recipe.narrow)
      again.map(narrow, kgpu::KeepOp::create(builder, value.getLoc(), narrow.getType(), narrow));
    for (Operation *op : recipe.ops)
      builder.clone(*op, again);
    value.replaceUsesWithIf(again.lookup(value), [&](OpOperand &use) { return cut->isBeforeInBlock(place(use)); });
  }

  Block &block;
};

struct RecomputeAfterExchange : kiln::impl::RecomputeAfterExchangePassBase<RecomputeAfterExchange> {
  void runOnOperation() override {
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks)
      Recomputation(*block).run();
  }
};

} // namespace
