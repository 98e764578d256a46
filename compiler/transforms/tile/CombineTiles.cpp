// kiln-combine-tiles: merges dots with their accumulator and selects with selects and loads, and moves elementwise ops
// before broadcasts.
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"

namespace kiln {
#define GEN_PASS_DEF_COMBINETILESPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln::tile;

/// The scalar that all elements are equal to, if it is a constant.
static TypedAttr splatConstant(Value value) {
  if (auto splat = value.getDefiningOp<SplatOp>())
    value = splat.getValue();
  Attribute attribute;
  if (!matchPattern(value, m_Constant(&attribute)))
    return {};
  if (auto elements = dyn_cast<SplatElementsAttr>(attribute))
    return dyn_cast<TypedAttr>(elements.getSplatValue<Attribute>());
  return isa<IntegerAttr, FloatAttr>(attribute) ? cast<TypedAttr>(attribute) : TypedAttr();
}

static bool isZero(Value value) {
  TypedAttr attribute = splatConstant(value);
  if (auto number = dyn_cast_or_null<FloatAttr>(attribute))
    return number.getValue().isZero();
  auto number = dyn_cast_or_null<IntegerAttr>(attribute);
  return number && number.getValue().isZero();
}

namespace {
//===----------------------------------------------------------------------===//
// Dot and add
//===----------------------------------------------------------------------===//

template <typename AddOp> struct DotThenAdd : OpRewritePattern<AddOp> {
  using OpRewritePattern<AddOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    for (auto [side, other] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
      auto dot = side.template getDefiningOp<DotOp>();
      // In another block the product would be computed as often as the sum.
      if (!dot || !dot->hasOneUse() || dot->getBlock() != add->getBlock() || !isZero(dot.getAcc()))
        continue;
      rewriter.replaceOpWithNewOp<DotOp>(add, dot.getType(), dot.getLhs(), dot.getRhs(), other, dot.getPrecisionAttr(),
                                         dot.getMaxImpreciseAccAttr());
      rewriter.eraseOp(dot);
      return success();
    }
    return failure();
  }
};

//===----------------------------------------------------------------------===//
// Selects
//===----------------------------------------------------------------------===//

struct SelectOfLoad : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SelectOp select, PatternRewriter &rewriter) const override {
    auto load = select.getTrueValue().getDefiningOp<LoadOp>();
    Value other = select.getFalseValue();
    if (!load || !load->hasOneUse() || load.getIsVolatile() || load.getMask() != select.getCondition() ||
        load->getBlock() != select->getBlock() || load.getOther() == other)
      return failure();
    // The load stays in place if the new `other` is available there; otherwise it moves down to the select if nothing
    // in between may write.
    Operation *definition = other.getDefiningOp();
    bool known = !definition || definition->getBlock() != load->getBlock() || definition->isBeforeInBlock(load);
    if (!known)
      for (Operation *op = load->getNextNode(); op != select; op = op->getNextNode())
        if (!isMemoryEffectFree(op) && !hasSingleEffect<MemoryEffects::Read>(op))
          return failure();
    rewriter.setInsertionPoint(known ? load.getOperation() : select.getOperation());
    auto combined = LoadOp::create(rewriter, load.getLoc(), load.getType(), load.getPtr(), load.getMask(), other,
                                   load.getCacheAttr(), load.getEvictAttr(), load.getIsVolatileAttr());
    rewriter.replaceOp(select, combined);
    rewriter.eraseOp(load);
    return success();
  }
};

/// MLIR's canonicalization merges nested selects on one condition, and those on two conditions only for booleans.
struct NestedSelect : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::SelectOp select, PatternRewriter &rewriter) const override {
    Value condition = select.getCondition(), yes = select.getTrueValue(), no = select.getFalseValue();
    auto become = [&](Value newCondition, Value newYes, Value newNo) {
      rewriter.replaceOpWithNewOp<arith::SelectOp>(select, newCondition, newYes, newNo);
      return success();
    };
    auto first = yes.getDefiningOp<arith::SelectOp>(), second = no.getDefiningOp<arith::SelectOp>();
    auto joins = [&](arith::SelectOp inner) {
      return inner && inner->hasOneUse() && inner->getBlock() == select->getBlock() &&
             inner.getCondition().getType() == condition.getType();
    };
    if (joins(first) && first.getFalseValue() == no)
      return become(arith::AndIOp::create(rewriter, select.getLoc(), condition, first.getCondition()),
                    first.getTrueValue(), no);
    if (joins(second) && second.getTrueValue() == yes)
      return become(arith::OrIOp::create(rewriter, select.getLoc(), condition, second.getCondition()), yes,
                    second.getFalseValue());
    return failure();
  }
};

//===----------------------------------------------------------------------===//
// Elementwise ops before broadcasts
//===----------------------------------------------------------------------===//

/// How a tile is made from something smaller: the op that broadcasts it, and the shape before (empty: a scalar).
struct Spread {
  Operation *op;
  SmallVector<int64_t> source;
};

std::optional<Spread> spreadOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
    return Spread{op, llvm::to_vector(cast<ShapedType>(broadcast.getValue().getType()).getShape())};
  if (auto expand = dyn_cast_or_null<ExpandDimsOp>(op))
    return Spread{op, llvm::to_vector(cast<ShapedType>(expand.getValue().getType()).getShape())};
  return std::nullopt;
}

bool isPointwise(Operation *op) {
  return op->getNumResults() == 1 && op->getNumRegions() == 0 && op->getNumOperands() > 0 &&
         (OpTrait::hasElementwiseMappableTraits(op) || isa<AddPtrOp, PtrToIntOp, IntToPtrOp, PtrCastOp>(op)) &&
         isMemoryEffectFree(op);
}

struct PointwiseBeforeSpread : RewritePattern {
  explicit PointwiseBeforeSpread(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    auto type = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
    if (!type || !isPointwise(op))
      return failure();
    std::optional<Spread> spread;
    bool anyTile = false;
    for (Value operand : op->getOperands()) {
      if (!isa<RankedTensorType>(operand.getType()))
        continue;
      if (operand.getDefiningOp<SplatOp>()) {
        anyTile = true;
        continue;
      }
      if (splatConstant(operand))
        continue;
      std::optional<Spread> here = spreadOf(operand);
      if (!here)
        return failure();
      if (spread && (spread->op->getName() != here->op->getName() || spread->source != here->source ||
                     spread->op->getAttrDictionary() != here->op->getAttrDictionary()))
        return failure();
      spread = here;
      anyTile = true;
    }
    if (!anyTile) // constants alone are left to the folders
      return failure();

    Location loc = op->getLoc();
    auto typeBefore = [&](Type element) -> Type {
      return spread ? Type(RankedTensorType::get(spread->source, element)) : element;
    };
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto tile = dyn_cast<RankedTensorType>(operand.getType());
      if (!tile) {
        operands.push_back(operand);
      } else if (auto splat = operand.getDefiningOp<SplatOp>()) {
        operands.push_back(
            spread ? SplatOp::create(rewriter, loc, typeBefore(tile.getElementType()), splat.getValue()).getResult()
                   : splat.getValue());
      } else if (TypedAttr constant = splatConstant(operand)) {
        if (spread)
          constant = DenseElementsAttr::get(cast<ShapedType>(typeBefore(tile.getElementType())),
                                            ArrayRef<Attribute>(constant));
        operands.push_back(arith::ConstantOp::create(rewriter, loc, constant));
      } else {
        operands.push_back(operand.getDefiningOp()->getOperand(0));
      }
    }
    OperationState state(loc, op->getName(), operands, typeBefore(type.getElementType()),
                         op->getDiscardableAttrDictionary().getValue());
    state.propertiesAttr = op->getPropertiesAsAttribute();
    Value small = rewriter.create(state)->getResult(0);
    if (!spread) {
      rewriter.replaceOpWithNewOp<SplatOp>(op, type, small);
    } else if (auto expand = dyn_cast<ExpandDimsOp>(spread->op)) {
      rewriter.replaceOpWithNewOp<ExpandDimsOp>(op, type, small, expand.getAxisAttr());
    } else {
      rewriter.replaceOpWithNewOp<BroadcastOp>(op, type, small);
    }
    return success();
  }
};

struct CombineTiles : kiln::impl::CombineTilesPassBase<CombineTiles> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns
        .add<DotThenAdd<arith::AddFOp>, DotThenAdd<arith::AddIOp>, SelectOfLoad, NestedSelect, PointwiseBeforeSpread>(
            &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
