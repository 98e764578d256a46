// f32 quotients and square roots whose operation has the flag `afn` (`/` and kl.sqrt do, kl.div_rn and kl.sqrt_rn do
// not): on a GPU, one approximate instruction (2 ulp) instead of a sequence with a branch.
#include "compiler/transforms/math/Functions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

bool expand::isApproximate(Operation *op, const Target &target) {
  if (!isa<arith::DivFOp, math::SqrtOp>(op) || !target.has(Feature::SpecialFunctions) ||
      !op->getResult(0).getType().isF32())
    return false;
  auto flags = cast<arith::ArithFastMathInterface>(op).getFastMathFlagsAttr();
  return flags && bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::afn);
}

namespace {
struct ApproximatePattern : RewritePattern {
  ApproximatePattern(MLIRContext *context, const Target &target)
      : RewritePattern(MatchAnyOpTypeTag(), PatternBenefit(1), context), target(target) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isApproximate(op, target))
      return failure();
    Emitter emitter{rewriter, op->getLoc(), target};
    Num x(emitter, op->getOperand(0));
    Num result = isa<math::SqrtOp>(op) ? intrinsic("llvm.nvvm.sqrt.approx.f", {x})
                                       : intrinsic("llvm.nvvm.div.full", {x, Num(emitter, op->getOperand(1))});
    rewriter.replaceOp(op, result.value());
    return success();
  }
  const Target &target;
};
} // namespace

void expand::addApproximate(Patterns &patterns, const Target &target) {
  if (target.has(Feature::SpecialFunctions))
    patterns.add<ApproximatePattern>(patterns.getContext(), target);
}
