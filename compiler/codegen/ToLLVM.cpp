// kiln-to-llvm: converts what the target lowering and the math expansion have left to the LLVM dialect.
#include "compiler/codegen/Passes.h"
#include "compiler/target/Target.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Transforms/DialectConversion.h"

namespace kiln {
#define GEN_PASS_DEF_TOLLVMPASS
#include "compiler/codegen/Passes.h.inc"
} // namespace kiln

using namespace mlir;

// Far beyond any machine's registers; with longer vectors the masks of shuffles alone would fill the memory.
static constexpr int64_t kMaxVectorElements = int64_t(1) << 16;

/// The first vector type of the operation (including its blocks' arguments) that is too long; null if there is none.
static VectorType findLongVector(Operation *op) {
  auto find = [](TypeRange types) -> VectorType {
    for (Type type : types)
      if (auto vector = dyn_cast<VectorType>(type); vector && vector.getNumElements() > kMaxVectorElements)
        return vector;
    return {};
  };
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (VectorType vector = find(block.getArgumentTypes()))
        return vector;
  return find(op->getResultTypes());
}

/// True if the counter provably stays within its type up to and including the step that passes the upper bound.
static bool staysInRange(scf::ForOp loop) {
  APInt upper, step;
  if (loop.getInductionVar().getType().isIndex()) // our own, over sizes
    return true;
  if (!matchPattern(loop.getStep(), m_ConstantInt(&step)))
    return false;
  if (step.isOne())
    return true;
  if (!matchPattern(loop.getUpperBound(), m_ConstantInt(&upper)))
    return false;
  // The counter is at most upper - 1 when the last step is added.
  bool overflow;
  APInt last = upper - 1;
  (void)last.sadd_ov(step, overflow);
  return !overflow && step.isStrictlyPositive();
}

/// True if the value is at least 0, as far as the operations near it tell.
static bool isNonNegative(Value value, unsigned depth = 4) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.isNonNegative();
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  auto holds = [&](unsigned index) { return isNonNegative(op->getOperand(index), depth - 1); };
  if (isa<arith::MaxSIOp, arith::AndIOp>(op))
    return holds(0) || holds(1);
  if (isa<arith::RemSIOp>(op))
    return holds(0);
  if (isa<arith::MinSIOp, arith::DivSIOp>(op))
    return holds(0) && holds(1);
  if (isa<arith::SelectOp>(op))
    return holds(1) && holds(2);
  if (auto sum = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op); sum && isa<arith::AddIOp, arith::MulIOp>(op))
    return sum.hasNoSignedWrap() && holds(0) && holds(1);
  // Indices of threads, blocks and clusters; not clocks.
  if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
    return call.getIntrin().starts_with("llvm.nvvm.read.ptx.sreg.") && call.getIntrin().contains("id.");
  return isa<arith::ExtUIOp>(op);
}

namespace {
/// A loop whose counter might wrap in the step that passes the upper bound, after which it would never end. Compares
/// before the step: another iteration runs if counter < upper - step, where the difference saturates. That costs a few
/// instructions before the loop; so loops of GPUs from a computed number keep the plain form, and go on for ever if the
/// upper bound is near the largest integer and nothing close by says that the number is at least 0.
///
/// On CPUs a loop from 0 or more compares the sum of counter and step as an unsigned number, which it fits: no
/// instruction more. On GPUs, LLVM then computes addresses in a way for which ptxas issues loads one by one (products
/// of two rows with streamed weights took 8 to 28 % longer).
struct LowerFor : OpRewritePattern<scf::ForOp> {
  LowerFor(MLIRContext *context, bool isGpu) : OpRewritePattern(context, /*benefit=*/2), isGpu(isGpu) {}

  LogicalResult matchAndRewrite(scf::ForOp loop, PatternRewriter &rewriter) const override {
    if (loop.getUnsignedCmp() || staysInRange(loop))
      return failure();
    Location loc = loop.getLoc();
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound(), step = loop.getStep();

    bool fromZero = isNonNegative(lower);
    // A maximum is where the rest of an unrolled loop begins.
    bool isComputed =
        lower.getDefiningOp() && !lower.getDefiningOp<arith::MaxSIOp>() && !matchPattern(lower, m_Constant());
    if (!fromZero && isGpu && isComputed)
      return failure();
    Block *before = rewriter.getInsertionBlock();
    Block *after = rewriter.splitBlock(before, rewriter.getInsertionPoint());
    SmallVector<Location> locs(loop.getNumResults(), loc);
    Block *done = rewriter.createBlock(after, loop.getResultTypes(), locs);
    cf::BranchOp::create(rewriter, loc, after);
    Block *body = loop.getBody();
    Operation *yield = loop.getRegion().back().getTerminator();
    rewriter.inlineRegionBefore(loop.getRegion(), done);

    SmallVector<Value> first = {lower};
    llvm::append_range(first, loop.getInitArgs());
    Value counter = body->getArgument(0);
    Block *enter = rewriter.createBlock(body);
    rewriter.setInsertionPointToEnd(before);
    Value runs = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt, lower, upper);
    cf::CondBranchOp::create(rewriter, loc, runs, enter, ValueRange(), done, loop.getInitArgs());
    rewriter.setInsertionPointToEnd(enter);
    // Where lower < upper, LLVM often proves that a plain difference does not wrap.
    bool asUnsigned = fromZero && !isGpu;
    Value limit = asUnsigned ? upper : LLVM::SSubSat::create(rewriter, loc, upper, step);
    cf::BranchOp::create(rewriter, loc, body, first);

    rewriter.setInsertionPoint(yield);
    SmallVector<Value> next = {arith::AddIOp::create(rewriter, loc, counter, step)};
    Value more = asUnsigned ? arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ult, next.front(), limit)
                            : arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt, counter, limit);
    llvm::append_range(next, yield->getOperands());
    cf::CondBranchOp::create(rewriter, loc, more, body, next, done, yield->getOperands());
    rewriter.eraseOp(yield);
    rewriter.replaceOp(loop, done->getArguments());
    return success();
  }

private:
  bool isGpu;
};
} // namespace

static bool isNvvm(Operation *op) { return op->getName().getDialectNamespace() == "nvvm"; }

namespace {
struct ToLLVM : kiln::impl::ToLLVMPassBase<ToLLVM> {
  using ToLLVMPassBase::ToLLVMPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    MLIRContext *context = &getContext();
    WalkResult result = module.walk([](Operation *op) {
      VectorType vector = findLongVector(op);
      if (!vector)
        return WalkResult::advance();
      op->emitOpError("expected vectors of at most ")
          << kMaxVectorElements << " elements (because vectors stand for registers), got " << vector;
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();

    // Branches first and separately: converting scf and block arguments together would leave casts on loop-carried
    // index values.
    {
      RewritePatternSet patterns(context);
      populateSCFToControlFlowConversionPatterns(patterns);
      patterns.add<LowerFor>(context, kiln::Target::fromModule(module).isGpu());
      ConversionTarget target(*context);
      target.addIllegalDialect<scf::SCFDialect>();
      target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
      if (failed(applyPartialConversion(module, target, std::move(patterns))))
        return signalPassFailure();
    }

    // Most nvvm operations are translated directly; those that stand for PTX become inline assembly.
    if (module.walk([](Operation *op) { return isNvvm(op) ? WalkResult::interrupt() : WalkResult::advance(); })
            .wasInterrupted()) {
      RewritePatternSet patterns(context);
      populateNVVMToLLVMConversionPatterns(patterns);
      ConversionTarget target(*context);
      target.addLegalDialect<LLVM::LLVMDialect>();
      if (failed(applyPartialConversion(module, target, std::move(patterns))))
        return signalPassFailure();
    }

    LowerToLLVMOptions options(context);
    options.overrideIndexBitwidth(64);
    LLVMTypeConverter types(context, options);
    RewritePatternSet patterns(context);
    populateFuncToLLVMConversionPatterns(types, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(types, patterns);
    populateMathToLLVMConversionPatterns(types, patterns);
    ub::populateUBToLLVMConversionPatterns(types, patterns);
    vector::populateVectorStepLoweringPatterns(patterns);
    vector::populateVectorInterleaveToShufflePatterns(patterns);
    populateVectorToLLVMConversionPatterns(types, patterns, /*reassociateFPReductions=*/false,
                                           /*force32BitVectorIndices=*/false);
    LLVMConversionTarget target(*context);
    target.addLegalOp<ModuleOp>();
    target.addLegalDialect("nvvm");
    if (failed(applyFullConversion(module, target, std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
