// Canonicalizations of the tile ops: splats move down so that scalars stay scalars as long as possible, accesses lose
// constant masks, and reductions of one element lose their region.
#include "dialects/tile/TileVerifiers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln::tile;

//===----------------------------------------------------------------------===//
// Splats
//===----------------------------------------------------------------------===//

namespace {

/// op(splat(x)) is splat(x) for every op that only moves elements around.
template <typename OpTy> struct MoveSplat : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    auto splat = op.getValue().template getDefiningOp<SplatOp>();
    if (!splat)
      return failure();
    rewriter.replaceOpWithNewOp<SplatOp>(op, op.getType(), splat.getValue());
    return success();
  }
};

/// The scalar that all elements of `tile` equal: a splat's value, or a new constant.
Value uniformScalar(Value tile, PatternRewriter &rewriter) {
  if (auto splat = tile.getDefiningOp<SplatOp>())
    return splat.getValue();
  SplatElementsAttr constant;
  if (!matchPattern(tile, m_Constant(&constant)))
    return {};
  return arith::ConstantOp::create(rewriter, tile.getLoc(), cast<TypedAttr>(constant.getSplatValue<Attribute>()));
}

/// addptr(splat(p), splat(o)) is splat(addptr(p, o)).
struct StepScalar : OpRewritePattern<AddPtrOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddPtrOp op, PatternRewriter &rewriter) const override {
    auto base = op.getPtr().getDefiningOp<SplatOp>();
    if (!base)
      return failure();
    Value offset = uniformScalar(op.getOffset(), rewriter);
    if (!offset)
      return failure();
    Value stepped = AddPtrOp::create(rewriter, op.getLoc(), base.getValue().getType(), base.getValue(), offset);
    rewriter.replaceOpWithNewOp<SplatOp>(op, op.getType(), stepped);
    return success();
  }
};

/// addptr(addptr(p, a), b) is addptr(p, a + b) for constants whose sum does not wrap. Each step is widened to 64 bits
/// before it is added, so a sum that wraps in the offsets' own type would give another address.
struct AddConstantSteps : OpRewritePattern<AddPtrOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddPtrOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getPtr().getDefiningOp<AddPtrOp>();
    Type type = op.getOffset().getType();
    APInt first, second;
    if (!inner || inner.getOffset().getType() != type || !matchPattern(inner.getOffset(), m_ConstantInt(&first)) ||
        !matchPattern(op.getOffset(), m_ConstantInt(&second)))
      return failure();
    bool wraps = false;
    APInt sum = first.sadd_ov(second, wraps);
    if (wraps)
      return failure();
    Attribute value = rewriter.getIntegerAttr(elementOf(type), sum);
    if (auto tile = dyn_cast<RankedTensorType>(type))
      value = DenseElementsAttr::get(tile, value);
    Value offset = arith::ConstantOp::create(rewriter, op.getLoc(), cast<TypedAttr>(value));
    rewriter.replaceOpWithNewOp<AddPtrOp>(op, op.getType(), inner.getPtr(), offset);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Constant conditions
//===----------------------------------------------------------------------===//

/// The value of every element of a condition, where it is known.
std::optional<bool> constantCondition(Value condition) {
  APInt value;
  if (!condition || !matchPattern(condition, m_ConstantInt(&value)))
    return std::nullopt;
  return value.getBoolValue();
}

/// A zero of `type`; null for pointers.
Value createZero(PatternRewriter &rewriter, Location loc, Type type) {
  if (!isa<PtrType>(elementOf(type)))
    return arith::ConstantOp::create(rewriter, loc, cast<TypedAttr>(rewriter.getZeroAttr(type)));
  Type address = withElement(type, rewriter.getI64Type());
  Value zero = arith::ConstantOp::create(rewriter, loc, cast<TypedAttr>(rewriter.getZeroAttr(address)));
  return IntToPtrOp::create(rewriter, loc, type, zero);
}

/// Unmasked accesses vectorise best; an access whose mask is false is removed.
struct LoadConstantMask : OpRewritePattern<LoadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LoadOp op, PatternRewriter &rewriter) const override {
    std::optional<bool> mask = constantCondition(op.getMask());
    if (!mask)
      return failure();
    if (*mask) {
      rewriter.modifyOpInPlace(op, [&] {
        op.getMaskMutable().clear();
        op.getOtherMutable().clear();
      });
      return success();
    }
    Value other = op.getOther() ? op.getOther() : createZero(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, other);
    return success();
  }
};

/// Of an op without results.
template <typename Op> struct ConstantMask : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    std::optional<bool> mask = constantCondition(op.getMask());
    if (!mask)
      return failure();
    if (*mask)
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    else
      rewriter.eraseOp(op);
    return success();
  }
};

struct AtomicConstantMask : OpRewritePattern<AtomicRMWOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AtomicRMWOp op, PatternRewriter &rewriter) const override {
    std::optional<bool> mask = constantCondition(op.getMask());
    if (!mask)
      return failure();
    if (*mask)
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    else
      rewriter.replaceOp(op, createZero(rewriter, op.getLoc(), op.getType()));
    return success();
  }
};

/// assert(true) and assume(true) have no effect.
template <typename OpTy> struct EraseTrue : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!constantCondition(op.getCondition()).value_or(false))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// With one element along the axis the region never runs: the result is the operand in another shape.
struct ReduceOneElement : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    if (shapeOf(op.getOperands().front().getType())[op.getAxis()] != 1)
      return failure();
    SmallVector<Value> results;
    for (auto [operand, type] : llvm::zip(op.getOperands(), op.getResultTypes())) {
      if (isa<RankedTensorType>(type))
        results.push_back(ReshapeOp::create(rewriter, op.getLoc(), type, operand));
      else
        results.push_back(UnsplatOp::create(rewriter, op.getLoc(), type, operand));
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

} // namespace

void AddPtrOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<StepScalar, AddConstantSteps>(context);
}
void ExpandDimsOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<ExpandDimsOp>>(context);
}
void BroadcastOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<BroadcastOp>>(context);
}
void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<ReshapeOp>>(context);
}
void TransOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MoveSplat<TransOp>>(context);
}
void LoadOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<LoadConstantMask>(context);
}
void StoreOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ConstantMask<StoreOp>>(context);
}
void PrefetchOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ConstantMask<PrefetchOp>>(context);
}
void AtomicRMWOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<AtomicConstantMask>(context);
}
void AssertOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<EraseTrue<AssertOp>>(context);
}
void AssumeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<EraseTrue<AssumeOp>>(context);
}
void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReduceOneElement>(context);
}
