// Integer operations without an instruction: powers, rounding divisions, wide products of i64 vectors.
#include "compiler/transforms/math/Functions.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

namespace {
/// High and low half of a product of i64 vectors from four products of 32-bit halves; LLVM would leave vector registers
/// and multiply lane by lane as i128. Scalars have an instruction.
template <typename Op, bool isSigned> struct WideProductPattern : OpRewritePattern<Op> {
  WideProductPattern(MLIRContext *context, const Target &target) : OpRewritePattern<Op>(context), target(target) {}
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isa<ShapedType>(op.getLhs().getType()) || !getElementTypeOrSelf(op.getLhs().getType()).isInteger(64))
      return failure();
    Emitter emitter{rewriter, op.getLoc(), target};
    Num a(emitter, op.getLhs()), b(emitter, op.getRhs());
    constexpr int64_t mask = 0xffffffff;
    Num aLow = a & mask, aHigh = lshr(a, 32), bLow = b & mask, bHigh = lshr(b, 32);
    Num low = aLow * bLow, cross1 = aLow * bHigh, cross2 = aHigh * bLow;
    Num middle = lshr(low, 32) + (cross1 & mask) + (cross2 & mask);
    Num high = aHigh * bHigh + lshr(cross1, 32) + lshr(cross2, 32) + lshr(middle, 32);
    if (isSigned)
      high = high - ((a >> 63) & b) - ((b >> 63) & a);
    rewriter.replaceOp(op, {(a * b).value(), high.value()});
    return success();
  }
  const Target &target;
};

/// x^n mod 2^bits by squaring. A negative power of anything but 1 and -1 is 0 (including powers of 0, which MLIR leaves
/// unspecified).
struct IPowIPattern : OpRewritePattern<math::IPowIOp> {
  IPowIPattern(MLIRContext *context, const Target &target) : OpRewritePattern(context), target(target) {}
  LogicalResult matchAndRewrite(math::IPowIOp op, PatternRewriter &rewriter) const override {
    Emitter emitter{rewriter, op.getLoc(), target};
    Num x(emitter, op.getLhs()), n(emitter, op.getRhs());
    if (!isa<IntegerType>(x.element()))
      return failure();
    Location loc = op.getLoc();
    Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0),
          one = arith::ConstantIndexOp::create(rewriter, loc, 1);
    Value end = arith::ConstantIndexOp::create(rewriter, loc, x.bitWidth());
    auto body = [&](OpBuilder &, Location, Value, ValueRange args) {
      Num result(emitter, args[0]), square(emitter, args[1]), rest(emitter, args[2]);
      scf::YieldOp::create(rewriter, loc,
                           ValueRange{select((rest & 1) != 0, result * square, result).value(),
                                      (square * square).value(), lshr(rest, 1).value()});
    };
    auto loop = scf::ForOp::create(rewriter, loc, zero, end, one,
                                   ValueRange{x.constant(1).value(), x.value(), n.value()}, body);
    Num positive(emitter, loop.getResult(0));
    Num alternating = select((n & 1) != 0, x, 1);
    Num negative = select((x == 1) | (x == -1), alternating, 0);
    rewriter.replaceOp(op, select(n < 0, negative, positive).value());
    return success();
  }
  const Target &target;
};
} // namespace

void expand::addInteger(Patterns &patterns, const Target &target) {
  MLIRContext *context = patterns.getContext();
  patterns.add<WideProductPattern<arith::MulUIExtendedOp, false>, WideProductPattern<arith::MulSIExtendedOp, true>,
               IPowIPattern>(context, target);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
}
