// kiln-widen-offsets: address arithmetic that may pass its width is computed again in 64 bits.
//
// Only sums, differences, products, left shifts and ops that move elements are cloned. In these the 64-bit result is
// the narrow one modulo 2^width, so the new address is either the old one or a multiple of 2^width elements from it,
// where the old one cannot have been meant. After a quotient or a comparison that no longer holds: a wrapped hash taken
// modulo a table size is a meaningful index, and stays what it is.
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

/// Operands that hold what the result is made of (not the condition of a select).
static OperandRange partsOf(Operation *op) {
  return isa<arith::SelectOp>(op) ? op->getOperands().drop_front() : op->getOperands();
}

namespace {
class Widener {
public:
  Widener(const RangeAnalysis &ranges, MLIRContext *context)
      : ranges(ranges), wide(IntegerType::get(context, 64)), builder(context) {}

  /// True when computing `value` may wrap on the way.
  bool mayWrap(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !(isRing(op) || movesElements(op) || isa<arith::SelectOp>(op)))
      return false;
    auto [slot, isNew] = wraps.try_emplace(op, false);
    if (!isNew)
      return slot->second;
    bool result = isRing(op) && ranges.mayOverflowSigned(op);
    for (Value part : partsOf(op))
      result |= mayWrap(part);
    return wraps[op] = result;
  }

  /// `value` in 64 bits: exact as far up as something may wrap, sign-extended from there.
  Value widen(Value value) {
    if (Value known = widened.lookup(value))
      return known;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(value);
    if (!mayWrap(value)) {
      Value extended = extend(value);
      widened[value] = extended;
      return extended;
    }
    Operation *op = value.getDefiningOp();
    SmallVector<Value> operands(op->getOperands());
    for (Value &operand : MutableArrayRef<Value>(operands).drop_front(op->getNumOperands() - partsOf(op).size()))
      operand = widen(operand);
    builder.setInsertionPointAfter(op);
    Operation *clone = builder.clone(*op);
    clone->setOperands(operands);
    for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults())) {
      to.setType(withElement(from.getType(), wide));
      widened[from] = to;
    }
    // A promise not to wrap at the narrow width says nothing about this one, but is implied by it being exact.
    return widened[value];
  }

private:
  Value extend(Value value) {
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
    // Spread after extending: the small value is cheaper to extend, and may serve elsewhere.
    if (auto splat = value.getDefiningOp<tile::SplatOp>())
      return tile::SplatOp::create(builder, value.getLoc(), type, widen(splat.getValue()));
    return arith::ExtSIOp::create(builder, value.getLoc(), type, value);
  }

  const RangeAnalysis &ranges;
  Type wide;
  OpBuilder builder;
  llvm::DenseMap<Operation *, bool> wraps;
  llvm::DenseMap<Value, Value> widened;
};

struct WidenOffsets : kiln::impl::WidenOffsetsPassBase<WidenOffsets> {
  void runOnOperation() override {
    RangeAnalysis ranges(getOperation());
    Widener widener(ranges, &getContext());
    SmallVector<tile::AddPtrOp> steps;
    getOperation().walk([&](tile::AddPtrOp op) {
      if (integerWidth(op.getOffset().getType()) < 64 && widener.mayWrap(op.getOffset()))
        steps.push_back(op);
    });
    SmallVector<Operation *> stale;
    for (tile::AddPtrOp op : steps) {
      if (Operation *definition = op.getOffset().getDefiningOp())
        stale.push_back(definition);
      op.getOffsetMutable().assign(widener.widen(op.getOffset()));
    }
    // Values are looked up by identity until here; only now may unused ones go.
    llvm::SetVector<Operation *> dead(stale.begin(), stale.end());
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
};
} // namespace
