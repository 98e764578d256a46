// kiln-widen-offsets: recomputes address arithmetic that may overflow its width in 64 bits.
//
// Only sums, differences, products, left shifts and ops that move elements are cloned. For these the 64-bit result
// equals the narrow one modulo 2^width. So the new address is either the old one or a multiple of 2^width elements away
// from it, in which case the old one cannot have been intended. After a quotient or a comparison that no longer holds:
// a wrapped hash taken modulo a table size is a meaningful index, and is left unchanged.
#include "compiler/analysis/Range.h"
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"

namespace kiln {
#define GEN_PASS_DEF_WIDENOFFSETSPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

static Type withElement(Type type, Type element) {
  if (auto tile = dyn_cast<RankedTensorType>(type))
    return tile.clone(element);
  return element;
}

static bool isRing(Operation *op) { return isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>(op); }

static bool movesElements(Operation *op) {
  return isa<tile::SplatOp, tile::UnsplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::TransOp,
             tile::JoinOp, tile::SplitOp, tile::CatOp, tile::HintOp>(op);
}

/// Ops with a 64-bit form that agrees with them modulo 2^width.
static bool hasWideForm(Operation *op) { return isRing(op) || movesElements(op) || isa<arith::SelectOp>(op); }

/// The operands whose values become the result's (not the condition of a select).
static MutableArrayRef<OpOperand> partsOf(Operation *op) {
  return op->getOpOperands().drop_front(isa<arith::SelectOp>(op) ? 1 : 0);
}

static bool isNarrow(Value value) {
  return getElementTypeOrSelf(value).isInteger() && integerWidth(value.getType()) < 64;
}

namespace {
/// Which values may depend on a wrapped result, propagated forwards from the ops that can wrap, through loops and
/// branches too.
class WrapMarks {
public:
  WrapMarks(Operation *root, const RangeAnalysis &ranges) {
    SmallVector<Value> work;
    auto mark = [&](Value value) {
      if (isNarrow(value) && marked.insert(value).second)
        work.push_back(value);
    };
    root->walk([&](Operation *op) {
      if (isRing(op) && isNarrow(op->getResult(0)) && ranges.mayOverflowSigned(op))
        mark(op->getResult(0));
    });
    while (!work.empty())
      for (OpOperand &use : work.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        if (auto loop = dyn_cast<scf::ForOp>(user)) {
          if (use.getOperandNumber() >= loop.getNumControlOperands())
            markCarried(loop, use.getOperandNumber() - loop.getNumControlOperands(), mark);
        } else if (isa<scf::YieldOp>(user)) {
          if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()))
            markCarried(loop, use.getOperandNumber(), mark);
          else if (auto branch = dyn_cast<scf::IfOp>(user->getParentOp()))
            mark(branch.getResult(use.getOperandNumber()));
        } else if (hasWideForm(user) && (!isa<arith::SelectOp>(user) || use.getOperandNumber() > 0)) {
          llvm::for_each(user->getResults(), mark);
        }
      }
  }

  bool contains(Value value) const { return marked.contains(value); }
  /// `to` replaces `from`, which is about to be erased.
  void replace(Value from, Value to) {
    if (marked.erase(from))
      marked.insert(to);
  }

private:
  template <typename Mark> static void markCarried(scf::ForOp loop, unsigned index, Mark &mark) {
    mark(loop.getRegionIterArg(index));
    mark(loop.getResult(index));
  }
  llvm::DenseSet<Value> marked;
};

class Widener {
public:
  Widener(WrapMarks &marks, MLIRContext *context)
      : marks(marks), wide(IntegerType::get(context, 64)), builder(context) {}

  /// Gives loops and branches that carry parts of `offsets` a second, 64-bit copy of those values.
  void widenControlFlow(Operation *root, ArrayRef<Value> offsets);
  /// `value` in 64 bits: recomputed as far up as something may have wrapped, sign-extended from there.
  Value widen(Value value);
  /// Removes carried narrow values that only served addresses; to be called once those use the wide ones.
  void dropNarrowCopies();

private:
  void demand(Value value);
  void rebuildFor(scf::ForOp loop, ArrayRef<unsigned> indices);
  void rebuildIf(scf::IfOp branch, ArrayRef<unsigned> indices);
  Value extend(Value value);

  WrapMarks &marks;
  Type wide;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> widened;
  llvm::DenseSet<Value> demanded;
  llvm::DenseMap<Operation *, llvm::SmallSetVector<unsigned, 4>> carriedWide;
  SmallVector<std::pair<scf::YieldOp, SmallVector<unsigned>>> openYields;
};
} // namespace

void Widener::demand(Value value) {
  if (!marks.contains(value) || !demanded.insert(value).second)
    return;
  Operation *owner = value.getDefiningOp();
  unsigned index = 0;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    owner = argument.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(owner))
      index = argument.getArgNumber() - loop.getNumInductionVars();
  } else {
    index = cast<OpResult>(value).getResultNumber();
  }
  if (auto loop = dyn_cast<scf::ForOp>(owner)) {
    carriedWide[owner].insert(index);
    demand(loop.getInitArgs()[index]);
    demand(loop.getYieldedValues()[index]);
  } else if (auto branch = dyn_cast<scf::IfOp>(owner)) {
    carriedWide[owner].insert(index);
    demand(branch.thenYield().getOperand(index));
    demand(branch.elseYield().getOperand(index));
  } else {
    for (OpOperand &part : partsOf(owner))
      demand(part.get());
  }
}

void Widener::rebuildFor(scf::ForOp loop, ArrayRef<unsigned> indices) {
  SmallVector<Value> inits(loop.getInitArgs());
  for (unsigned index : indices)
    inits.push_back(widen(loop.getInitArgs()[index]));
  builder.setInsertionPoint(loop);
  auto next = scf::ForOp::create(
      builder, loop.getLoc(), loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), inits,
      [](OpBuilder &, Location, Value, ValueRange) {}, loop.getUnsignedCmp());
  next->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  // The body moves unchanged: its values keep their identity, and with it the analysis results.
  next.getRegion().takeBody(loop.getRegion());
  unsigned count = loop.getNumResults();
  for (auto [extra, index] : llvm::enumerate(indices)) {
    Value init = inits[count + extra];
    widened[next.getRegionIterArg(index)] = next.getBody()->addArgument(init.getType(), init.getLoc());
    widened[next.getResult(index)] = next.getResult(count + extra);
  }
  for (unsigned i = 0; i < count; ++i) {
    marks.replace(loop.getResult(i), next.getResult(i));
    loop.getResult(i).replaceAllUsesWith(next.getResult(i));
  }
  openYields.push_back({cast<scf::YieldOp>(next.getBody()->getTerminator()), llvm::to_vector(indices)});
  loop.erase();
}

void Widener::rebuildIf(scf::IfOp branch, ArrayRef<unsigned> indices) {
  SmallVector<Type> types(branch.getResultTypes());
  for (unsigned index : indices)
    types.push_back(withElement(types[index], wide));
  builder.setInsertionPoint(branch);
  auto next = scf::IfOp::create(builder, branch.getLoc(), types, branch.getCondition(), /*withElseRegion=*/true);
  next->setDiscardableAttrs(branch->getDiscardableAttrDictionary());
  next.getThenRegion().takeBody(branch.getThenRegion());
  next.getElseRegion().takeBody(branch.getElseRegion());
  unsigned count = branch.getNumResults();
  for (auto [extra, index] : llvm::enumerate(indices))
    widened[next.getResult(index)] = next.getResult(count + extra);
  for (unsigned i = 0; i < count; ++i) {
    marks.replace(branch.getResult(i), next.getResult(i));
    branch.getResult(i).replaceAllUsesWith(next.getResult(i));
  }
  openYields.push_back({next.thenYield(), llvm::to_vector(indices)});
  openYields.push_back({next.elseYield(), llvm::to_vector(indices)});
  branch.erase();
}

static void eraseUnused(ArrayRef<Operation *> candidates) {
  llvm::SetVector<Operation *> dead(candidates.begin(), candidates.end());
  while (!dead.empty()) {
    Operation *op = dead.pop_back_val();
    if (!isOpTriviallyDead(op))
      continue;
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp())
        dead.insert(definition);
    op->erase();
  }
}

/// True if `value` is used inside its loop, inner loops included, only to compute operand `index` of the loop's yield.
static bool feedsOnly(Value value, scf::YieldOp yield, unsigned index, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return true;
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (user == yield)
      return use.getOperandNumber() == index;
    if (user->getBlock() != yield->getBlock())
      return false;
    if (auto inner = dyn_cast<scf::ForOp>(user)) {
      if (use.getOperandNumber() < inner.getNumControlOperands())
        return false;
      unsigned carried = use.getOperandNumber() - inner.getNumControlOperands();
      return feedsOnly(inner.getRegionIterArg(carried), cast<scf::YieldOp>(inner.getBody()->getTerminator()), carried,
                       seen) &&
             feedsOnly(inner.getResult(carried), yield, index, seen);
    }
    return user->getNumRegions() == 0 && isMemoryEffectFree(user) &&
           llvm::all_of(user->getResults(), [&](Value result) { return feedsOnly(result, yield, index, seen); });
  });
}

void Widener::dropNarrowCopies() {
  for (auto &[yield, indices] : openYields) {
    auto loop = dyn_cast<scf::ForOp>(yield->getParentOp());
    if (!loop)
      continue;
    for (unsigned index : indices) {
      llvm::DenseSet<Value> seen;
      if (!loop.getResult(index).use_empty() || !feedsOnly(loop.getRegionIterArg(index), yield, index, seen))
        continue;
      Operation *last = yield.getOperand(index).getDefiningOp();
      yield->setOperand(index, loop.getRegionIterArg(index)); // now invariant and unused
      if (last)
        eraseUnused(last);
    }
  }
}

void Widener::widenControlFlow(Operation *root, ArrayRef<Value> offsets) {
  llvm::for_each(offsets, [&](Value offset) { demand(offset); });
  if (carriedWide.empty())
    return;
  // Outer before inner and first before later, so that initial values exist in 64 bits when they are needed.
  SmallVector<Operation *> order;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (carriedWide.contains(op))
      order.push_back(op);
  });
  for (Operation *op : order) {
    SmallVector<unsigned> indices = llvm::to_vector(carriedWide[op]);
    llvm::sort(indices);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      rebuildFor(loop, indices);
    else
      rebuildIf(cast<scf::IfOp>(op), indices);
  }
  for (auto &[yield, indices] : openYields) {
    SmallVector<Value> operands(yield.getOperands());
    for (unsigned index : indices)
      operands.push_back(widen(yield.getOperand(index)));
    yield->setOperands(operands);
  }
}

Value Widener::widen(Value value) {
  if (Value known = widened.lookup(value))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(value);
  if (!marks.contains(value))
    return widened[value] = extend(value);
  Operation *op = value.getDefiningOp();
  SmallVector<Value> operands(op->getOperands());
  for (OpOperand &part : partsOf(op))
    operands[part.getOperandNumber()] = widen(part.get());
  builder.setInsertionPointAfter(op);
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults())) {
    to.setType(withElement(from.getType(), wide));
    widened[from] = to;
  }
  return widened[value];
}

Value Widener::extend(Value value) {
  Attribute constant;
  Type type = withElement(value.getType(), wide);
  if (matchPattern(value, m_Constant(&constant))) {
    if (auto number = dyn_cast<IntegerAttr>(constant))
      return arith::ConstantOp::create(builder, value.getLoc(),
                                       builder.getIntegerAttr(wide, number.getValue().getSExtValue()));
    if (auto splat = dyn_cast<SplatElementsAttr>(constant))
      return arith::ConstantOp::create(
          builder, value.getLoc(),
          DenseElementsAttr::get(cast<ShapedType>(type), splat.getSplatValue<APInt>().sext(64)));
  }
  // Splat after extending: a scalar is cheaper to extend, and may be reused elsewhere.
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    return tile::SplatOp::create(builder, value.getLoc(), type, widen(splat.getValue()));
  return arith::ExtSIOp::create(builder, value.getLoc(), type, value);
}

namespace {
struct WidenOffsets : kiln::impl::WidenOffsetsPassBase<WidenOffsets> {
  void runOnOperation() override {
    SmallVector<tile::AddPtrOp> steps;
    SmallVector<Value> offsets;
    RangeAnalysis ranges(getOperation());
    WrapMarks marks(getOperation(), ranges);
    getOperation().walk([&](tile::AddPtrOp op) {
      if (marks.contains(op.getOffset())) {
        steps.push_back(op);
        offsets.push_back(op.getOffset());
      }
    });
    if (steps.empty())
      return markAllAnalysesPreserved();

    Widener widener(marks, &getContext());
    widener.widenControlFlow(getOperation(), offsets);
    SmallVector<Operation *> stale;
    for (tile::AddPtrOp op : steps) {
      if (Operation *definition = op.getOffset().getDefiningOp())
        stale.push_back(definition);
      op.getOffsetMutable().assign(widener.widen(op.getOffset()));
    }
    // Values are looked up by identity up to here; only now may unused ones be erased.
    eraseUnused(stale);
    widener.dropNarrowCopies();
    RewritePatternSet cleanup(&getContext());
    scf::ForOp::getCanonicalizationPatterns(cleanup, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(cleanup))))
      signalPassFailure();
  }
};
} // namespace
