// Operations on narrow floats: extend the operands to f32, compute there, round the result back. Sign operations work
// on bits; integers are converted through a type that holds them exactly, so that only one step rounds.
#include "compiler/transforms/math/Functions.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::expand;

static Type elementOf(Type type) { return getElementTypeOrSelf(type); }

/// Operations that move a value without interpreting it.
static bool onlyMoves(Operation *op) {
  return isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp, arith::ExtFOp, arith::TruncFOp>(op);
}

static bool isComputation(Operation *op) {
  if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return !onlyMoves(op) && !isa<arith::SIToFPOp, arith::UIToFPOp>(op);
  return isa<vector::FMAOp, vector::ReductionOp, vector::MultiDimReductionOp>(op);
}

/// Operations whose result is one of the operands. An infinity among them is not saturated.
static bool chooses(Operation *op) {
  using vector::CombiningKind;
  auto byKind = [](CombiningKind kind) {
    return kind == CombiningKind::MAXIMUMF || kind == CombiningKind::MINIMUMF || kind == CombiningKind::MAXNUMF ||
           kind == CombiningKind::MINNUMF;
  };
  if (auto reduction = dyn_cast<vector::ReductionOp>(op))
    return byKind(reduction.getKind());
  if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op))
    return byKind(reduction.getKind());
  return isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op);
}

// Sums and products of f16 and bf16 are correctly rounded either way, so native instructions give the same bits; the
// same holds for fma (FusedMultiplyAdd.cpp).
bool expand::isNativeNarrow(Operation *op, const Target &target) {
  Type element;
  for (Type type :
       llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()), SmallVector<Type>(op->getResultTypes())))
    if (isNarrow(elementOf(type))) {
      if (element && element != elementOf(type))
        return false;
      element = elementOf(type);
    }
  if (!element)
    return false;
  bool half = element.isF16() && target.has(Feature::F16Math), brain = element.isBF16() && target.has(Feature::Bf16Fma);
  if (!half && !brain)
    return false;
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op))
    return half || target.has(Feature::Bf16Math);
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return half || target.has(Feature::Bf16Math);
  return isa<arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, math::AbsFOp,
             math::FmaOp>(op) ||
         (half && isa<arith::CmpFOp>(op));
}

namespace {
struct WidenPattern : RewritePattern {
  WidenPattern(MLIRContext *context, const Target &target)
      : RewritePattern(MatchAnyOpTypeTag(), PatternBenefit(1), context), target(target) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    auto narrow = [](Type type) { return isNarrow(elementOf(type)); };
    if (!isComputation(op) || isNativeNarrow(op, target) ||
        (llvm::none_of(op->getOperandTypes(), narrow) && llvm::none_of(op->getResultTypes(), narrow)))
      return failure();
    auto widened = [&](Type type) -> Type {
      Type f32 = rewriter.getF32Type();
      if (!narrow(type))
        return type;
      auto shaped = dyn_cast<ShapedType>(type);
      return shaped ? Type(shaped.clone(f32)) : f32;
    };
    OperationState state(op->getLoc(), op->getName());
    for (Value operand : op->getOperands())
      state.operands.push_back(
          narrow(operand.getType())
              ? arith::ExtFOp::create(rewriter, op->getLoc(), widened(operand.getType()), operand).getResult()
              : operand);
    for (Type type : op->getResultTypes())
      state.types.push_back(widened(type));
    state.addAttributes(op->getAttrs());
    Operation *wide = rewriter.create(state);
    Emitter emitter{rewriter, op->getLoc(), target};
    SmallVector<Value> results;
    for (auto [result, type] : llvm::zip_equal(wide->getResults(), op->getResultTypes())) {
      Num value(emitter, result);
      if (narrow(type))
        value = chooses(op) ? truncateExact(value, elementOf(type)) : convert(value, elementOf(type));
      results.push_back(value.value());
    }
    rewriter.replaceOp(op, results);
    return success();
  }
  const Target &target;
};

/// negf, absf and copysign change one bit.
template <typename Op, typename Function> struct SignPattern : OpRewritePattern<Op> {
  SignPattern(MLIRContext *context, const Target &target, Function function)
      : OpRewritePattern<Op>(context, PatternBenefit(2)), target(target), function(function) {}
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isNarrow(elementOf(op.getType())) || isNativeNarrow(op, target))
      return failure();
    Emitter emitter{rewriter, op.getLoc(), target};
    SmallVector<Num, 2> values;
    for (Value operand : op->getOperands())
      values.push_back(bits({emitter, operand}));
    int64_t magnitude = formatOf(elementOf(op.getType())).magnitudeMask();
    rewriter.replaceOp(op, fromBits(function(values, magnitude), elementOf(op.getType())).value());
    return success();
  }
  const Target &target;
  Function function;
};

/// Integers of up to 16 bits are exact in f32, of up to 32 in f64. The lowest of 64 bits are folded into one sticky
/// bit; f64 then holds enough for the single rounding that follows.
template <typename Op> struct FromIntegerPattern : OpRewritePattern<Op> {
  FromIntegerPattern(MLIRContext *context, const Target &target) : OpRewritePattern<Op>(context), target(target) {}
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!isNarrow(elementOf(op.getType())) || isNativeNarrow(op, target))
      return failure();
    constexpr bool isSigned = std::is_same_v<Op, arith::SIToFPOp>;
    Emitter emitter{rewriter, op.getLoc(), target};
    Num i(emitter, op.getIn());
    if (i.bitWidth() > 64)
      return failure();
    Type exact = i.bitWidth() <= 16 ? Type(rewriter.getF32Type()) : Type(rewriter.getF64Type());
    if (i.bitWidth() > 32) {
      constexpr int64_t dropped = 0x7ff;
      Num sticky = (i & ~dropped) | select((i & dropped) != 0, i.constant(int64_t(0x400)), int64_t(0));
      Num magnitude = isSigned ? select(i < 0, -i, i) : i;
      i = select(lshr(magnitude, 53) != 0, sticky, i);
    }
    Num wide = i.make<Op>(i.typeWith(exact), i.value());
    rewriter.replaceOp(op, convert(wide, elementOf(op.getType())).value());
    return success();
  }
  const Target &target;
};
} // namespace

template <typename Op, typename Function>
static void addSign(Patterns &patterns, const Target &target, Function function) {
  patterns.add<SignPattern<Op, Function>>(patterns.getContext(), target, function);
}

void expand::addNarrowArithmetic(Patterns &patterns, const Target &target) {
  using Operands = ArrayRef<Num>;
  patterns.add<WidenPattern>(patterns.getContext(), target);
  patterns.add<FromIntegerPattern<arith::SIToFPOp>, FromIntegerPattern<arith::UIToFPOp>>(patterns.getContext(), target);
  addSign<arith::NegFOp>(patterns, target, [](Operands v, int64_t magnitude) { return v[0] ^ ~magnitude; });
  addSign<math::AbsFOp>(patterns, target, [](Operands v, int64_t magnitude) { return v[0] & magnitude; });
  addSign<math::CopySignOp>(patterns, target,
                            [](Operands v, int64_t magnitude) { return (v[0] & magnitude) | (v[1] & ~magnitude); });
}
