// Recognizes reductions in turns.
#include "compiler/transforms/schedule/Turns.h"
#include "compiler/analysis/Disjoint.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

static bool isScalar(tile::AtomicRMWOp atomic) { return !isa<RankedTensorType>(atomic.getResult().getType()); }

/// A loop that polls memory and does nothing else.
static bool onlyPolls(scf::WhileOp loop) {
  auto polls = [](Operation &op) {
    auto atomic = dyn_cast<tile::AtomicRMWOp>(op);
    return atomic && isScalar(atomic) && atomic.getSem() == tile::MemSemantic::Acquire;
  };
  auto isPure = [](Operation &op) { return op.getNumRegions() == 0 && isMemoryEffectFree(&op); };
  Block &before = *loop.getBeforeBody(), &after = *loop.getAfterBody();
  return loop.getNumResults() == 0 && loop.getInits().empty() && llvm::count_if(before, polls) == 1 &&
         llvm::all_of(before, [&](Operation &op) { return polls(op) || isPure(op); }) && llvm::all_of(after, isPure);
}

static std::optional<Turn> turnAt(scf::WhileOp loop) {
  Turn turn{loop, {}, {}};
  for (Operation *op = loop->getNextNode(); op; op = op->getNextNode()) {
    if (auto reduction = dyn_cast<tile::DescReduceOp>(op)) {
      turn.reductions.push_back(reduction);
    } else if (!isMemoryEffectFree(op)) {
      turn.end = dyn_cast<tile::AtomicRMWOp>(op);
      break;
    }
  }
  auto isOfArgument = [](tile::AtomicRMWOp end) {
    Value argument = pointerArgument(end.getPtr());
    return argument && argument.getType() == end.getPtr().getType();
  };
  bool ends = turn.end && isScalar(turn.end) && !turn.end.getMask() && turn.end.getResult().use_empty() &&
              turn.end.getSem() == tile::MemSemantic::Release && isOfArgument(turn.end);
  return ends && onlyPolls(loop) && !turn.reductions.empty() ? std::optional(turn) : std::nullopt;
}

SmallVector<Turn> schedule::findTurns(func::FuncOp kernel) {
  SmallVector<Turn> turns;
  bool others = false;
  kernel.walk([&](scf::WhileOp loop) {
    if (std::optional<Turn> turn = turnAt(loop))
      turns.push_back(*turn);
    else
      others = true;
  });
  if (turns.empty() || others)
    return {};
  auto isAlike = [first = turns.front().end](const Turn &turn) mutable {
    tile::AtomicRMWOp end = turn.end;
    return end.getKind() == first.getKind() && end.getScope() == first.getScope() &&
           end.getPtr().getType() == first.getPtr().getType();
  };
  if (!llvm::all_of(turns, isAlike))
    return {};
  // The end of a turn releases all writes before it in the program. Elsewhere the turn's numbers are not touched, and
  // nothing is written that the program reads: no acquire orders that once turns are taken in a role of their own.
  Block &body = kernel.front();
  Operation *last = body.findAncestorOpInBlock(*turns.back().end);
  SmallVector<Operation *> numbers, reads, writes;
  kernel.walk([&](Operation *op) {
    std::optional<GlobalEffect> effect = globalEffect(op);
    if (!effect)
      return;
    if (isOrdering(turns, op)) {
      numbers.push_back(op);
    } else if (!llvm::any_of(turns, [&](const Turn &turn) { return llvm::is_contained(turn.reductions, op); })) {
      (effect->writes ? writes : reads).push_back(op);
      others |= effect->writes && !last->isBeforeInBlock(body.findAncestorOpInBlock(*op));
    }
  });
  auto areApart = [](ArrayRef<Operation *> some, ArrayRef<Operation *> all) {
    return llvm::all_of(some, [&](Operation *one) {
      return llvm::all_of(all, [&](Operation *other) { return areDisjoint(one, other); });
    });
  };
  others |= !areApart(numbers, reads) || !areApart(numbers, writes) || !areApart(reads, writes);
  return others ? SmallVector<Turn>() : turns;
}
