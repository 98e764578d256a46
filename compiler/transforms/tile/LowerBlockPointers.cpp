// kiln-lower-block-pointers: converts each block pointer to base, extents, strides and offsets; the structural patterns
// of scf carry these parts. Parts that are the same on every path are then folded away.
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"

namespace kiln {
#define GEN_PASS_DEF_LOWERBLOCKPOINTERSPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::tile;

namespace {
/// The order of the parts: base, extents, strides, offsets.
struct Parts {
  explicit Parts(ValueRange values) : rank((values.size() - 1) / 3), values(values) {}
  Value base() const { return values[0]; }
  ValueRange shape() const { return values.slice(1, rank); }
  ValueRange strides() const { return values.slice(1 + rank, rank); }
  ValueRange offsets() const { return values.slice(1 + 2 * rank, rank); }

  size_t rank;
  ValueRange values;
};

struct BlockPtrConverter : TypeConverter {
  BlockPtrConverter() {
    addConversion([](Type type) { return type; });
    addConversion([](BlockPtrType type, SmallVectorImpl<Type> &parts) -> std::optional<LogicalResult> {
      int64_t rank = type.getBlock().getRank();
      MLIRContext *context = type.getContext();
      parts.push_back(PtrType::get(type.getBlock().getElementType()));
      parts.append(2 * rank, IntegerType::get(context, 64));
      parts.append(rank, IntegerType::get(context, 32));
      return success();
    });
  }
};

Value describe(OpBuilder &builder, Location loc, const Parts &parts, RankedTensorType block, Padding padding) {
  return MakeDescOp::create(builder, loc, DescType::get(block), parts.base(), parts.shape(), parts.strides(),
                            PaddingAttr::get(builder.getContext(), padding));
}

struct ConvertMake : OpConversionPattern<MakeBlockPtrOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(MakeBlockPtrOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> parts{adaptor.getBase()};
    llvm::append_range(parts, adaptor.getShape());
    llvm::append_range(parts, adaptor.getStrides());
    llvm::append_range(parts, adaptor.getOffsets());
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

struct ConvertAdvance : OpConversionPattern<AdvanceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(AdvanceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Parts from(adaptor.getPtr());
    SmallVector<Value> parts(from.values.drop_back(from.rank));
    for (auto [offset, delta] : llvm::zip(from.offsets(), op.getOffsets()))
      parts.push_back(matchPattern(delta, m_Zero())
                          ? offset
                          : arith::AddIOp::create(rewriter, op.getLoc(), offset, delta).getResult());
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

struct ConvertSelect : OpConversionPattern<arith::SelectOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::SelectOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!isa<BlockPtrType>(op.getType()))
      return failure();
    SmallVector<Value> parts;
    for (auto [yes, no] : llvm::zip(adaptor.getTrueValue(), adaptor.getFalseValue()))
      parts.push_back(
          yes == no ? yes : arith::SelectOp::create(rewriter, op.getLoc(), op.getCondition(), yes, no).getResult());
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

struct ConvertLoad : OpConversionPattern<BlockLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(BlockLoadOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Parts parts(adaptor.getPtr());
    // Without padding the elements outside may be anything; a descriptor gives zero.
    Value desc = describe(rewriter, op.getLoc(), parts, op.getPtr().getType().getBlock(),
                          op.getPadding().value_or(Padding::Zero));
    auto load =
        DescLoadOp::create(rewriter, op.getLoc(), op.getType(), desc, parts.offsets(),
                           rewriter.getDenseI32ArrayAttr(op.getBoundary()), op.getCacheAttr(), op.getEvictAttr());
    rewriter.replaceOp(op, load);
    return success();
  }
};

struct ConvertStore : OpConversionPattern<BlockStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(BlockStoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Parts parts(adaptor.getPtr());
    Value desc = describe(rewriter, op.getLoc(), parts, op.getPtr().getType().getBlock(), Padding::Zero);
    DescStoreOp::create(rewriter, op.getLoc(), desc, parts.offsets(), op.getValue(),
                        rewriter.getDenseI32ArrayAttr(op.getBoundary()), op.getCacheAttr(), op.getEvictAttr());
    rewriter.eraseOp(op);
    return success();
  }
};

struct LowerBlockPointers : kiln::impl::LowerBlockPointersPassBase<LowerBlockPointers> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    auto isBlockPtr = [](Type type) { return isa<BlockPtrType>(type); };
    if (llvm::any_of(func.getFunctionType().getInputs(), isBlockPtr) ||
        llvm::any_of(func.getFunctionType().getResults(), isBlockPtr)) {
      func.emitOpError("expected no block pointer in the signature (because calls are inlined first), got ")
          << func.getFunctionType();
      return signalPassFailure();
    }
    auto hasBlockPtr = [&](Operation *op) {
      return llvm::any_of(op->getOperandTypes(), isBlockPtr) || llvm::any_of(op->getResultTypes(), isBlockPtr);
    };
    bool found = false;
    func.walk([&](Operation *op) { found |= hasBlockPtr(op); });
    if (!found)
      return;

    MLIRContext *context = &getContext();
    BlockPtrConverter converter;
    ConversionTarget target(*context);
    RewritePatternSet patterns(context);
    target.markUnknownOpDynamicallyLegal([&](Operation *op) { return !hasBlockPtr(op); });
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
    patterns.add<ConvertMake, ConvertAdvance, ConvertSelect, ConvertLoad, ConvertStore>(converter, context);
    if (failed(applyPartialConversion(func, target, std::move(patterns))))
      return signalPassFailure();

    // Every loop and branch now carries base, extents and strides; drop them where they never change.
    RewritePatternSet cleanup(context);
    scf::ForOp::getCanonicalizationPatterns(cleanup, context);
    scf::IfOp::getCanonicalizationPatterns(cleanup, context);
    scf::WhileOp::getCanonicalizationPatterns(cleanup, context);
    arith::SelectOp::getCanonicalizationPatterns(cleanup, context);
    if (failed(applyPatternsGreedily(func, std::move(cleanup))))
      return signalPassFailure();
  }
};
} // namespace
