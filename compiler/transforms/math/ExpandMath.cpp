// kiln-expand-math: outlines functions that a kernel computes very often, collects and applies the patterns of all
// families, and refuses what is left.
#include "compiler/transforms/math/ExpandMath.h"
#include "compiler/transforms/math/Functions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/MapVector.h"

namespace kiln {
#define GEN_PASS_DEF_EXPANDMATHPASS
#include "compiler/transforms/math/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

void kiln::populateExpandMathPatterns(RewritePatternSet &patterns, const Target &target) {
  using namespace expand;
  for (auto add : {addApproximate, addExponential, addLogarithm, addTrigonometric, addInverseTrigonometric,
                   addHyperbolic, addErrorFunction, addPower, addRemainder, addRounding, addFusedMultiplyAdd,
                   addInteger, addNarrowFloat, addNarrowArithmetic})
    add(patterns, target);
}

/// Conversions between float types that are one instruction.
static bool isNativeCast(Operation *op, const Target &target) {
  Type from = getElementTypeOrSelf(op->getOperand(0).getType()), to = getElementTypeOrSelf(op->getResult(0).getType());
  if (auto truncate = dyn_cast<arith::TruncFOp>(op))
    if (truncate.getRoundingmode())
      return false;
  auto between = [&](Type a, Type b) { return (from == a && to == b) || (from == b && to == a); };
  MLIRContext *context = op->getContext();
  Type f16 = Float16Type::get(context), f32 = Float32Type::get(context), f64 = Float64Type::get(context);
  return between(f32, f64) || (target.hasF16C() && between(f16, f32)) ||
         (expand::convertsBf16(target) && between(BFloat16Type::get(context), f32)) ||
         (isa<arith::TruncFOp>(op) && expand::truncatesNatively(from, to, target));
}

bool kiln::needsMathExpansion(Operation *op, const Target &target) {
  auto computes = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return isa<FloatType>(element) && !element.isF32() && !element.isF64();
  };
  bool narrow = llvm::any_of(op->getOperandTypes(), computes) || llvm::any_of(op->getResultTypes(), computes);
  if (isa<vector::FMAOp, vector::ReductionOp, vector::MultiDimReductionOp>(op))
    return narrow;
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return false;
  if (isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp>(op))
    return false;
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return !isNativeCast(op, target);
  if (narrow)
    return !expand::isNativeNarrow(op, target);
  if (isa<arith::MaxNumFOp, arith::MinNumFOp>(op))
    return !target.isGpu();
  if (isa<arith::RemFOp, arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(op) ||
      expand::isApproximate(op, target))
    return true;
  if (isa<arith::MulSIExtendedOp, arith::MulUIExtendedOp>(op)) {
    Type type = op->getResult(0).getType();
    return isa<ShapedType>(type) && getElementTypeOrSelf(type).isInteger(64);
  }
  if (isa<math::FmaOp>(op))
    return !target.hasFMA();
  return isa<math::MathDialect>(op->getDialect()) &&
         !isa<math::SqrtOp, math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp, math::AbsFOp,
              math::CopySignOp, math::AbsIOp, math::CtPopOp, math::CountLeadingZerosOp, math::CountTrailingZerosOp>(op);
}

// An expansion is up to a hundred operations, and LLVM spends 10 ms on each: a kernel with hundreds of them would take
// seconds. Ordinary kernels stay below the threshold and pay for no call. On a GPU, where a call also constrains
// registers, only functions with a second, long path for reducing huge arguments are worth one.
static constexpr size_t kOftenEnough = 32, kOftenEnoughOnGpu = 64;

/// Whether this op may become a call if it occurs often.
static bool mayOutline(Operation *op, const Target &target) {
  return target.isGpu() ? isa<math::SinOp, math::CosOp, math::TanOp>(op) : isa<math::MathDialect>(op->getDialect());
}

/// Replaces an elementary function that occurs at least `kOftenEnough` times on one type in the module by calls to one
/// function.
static void outlineRepeated(ModuleOp module, const Target &target) {
  size_t often = target.isGpu() ? kOftenEnoughOnGpu : kOftenEnough;
  // Ops with the same name, type and attributes share a function.
  llvm::MapVector<std::pair<std::pair<StringAttr, Type>, DictionaryAttr>, SmallVector<Operation *>> groups;
  module.walk([&](Operation *op) {
    if (!mayOutline(op, target) || !needsMathExpansion(op, target) || op->getNumResults() != 1)
      return;
    Type type = op->getResult(0).getType(), element = getElementTypeOrSelf(type);
    bool uniform = llvm::all_of(op->getOperandTypes(), [&](Type operand) { return operand == type; });
    if (uniform && (element.isF32() || element.isF64()) && !isa<TensorType>(type))
      groups[{{op->getName().getIdentifier(), type}, op->getAttrDictionary()}].push_back(op);
  });
  SymbolTable symbols(module);
  for (auto &[key, ops] : groups) {
    if (ops.size() < often)
      continue;
    Operation *first = ops.front();
    Location loc = UnknownLoc::get(module.getContext());
    OpBuilder b(module.getContext());
    auto function = func::FuncOp::create(b, loc, ("kiln_" + first->getName().stripDialect()).str(),
                                         b.getFunctionType(first->getOperandTypes(), first->getResultTypes()));
    function.setPrivate();
    // LLVM would inline it again.
    function->setAttr("passthrough", b.getStrArrayAttr({"noinline"}));
    symbols.insert(function);
    b.setInsertionPointToStart(function.addEntryBlock());
    Operation *body = b.clone(*first);
    body->setLoc(loc);
    body->setOperands(function.getArguments());
    func::ReturnOp::create(b, loc, body->getResults());
    for (Operation *op : ops) {
      b.setInsertionPoint(op);
      op->replaceAllUsesWith(func::CallOp::create(b, op->getLoc(), function, op->getOperands()));
      op->erase();
    }
  }
}

namespace {
struct ExpandMath : kiln::impl::ExpandMathPassBase<ExpandMath> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    Target target = Target::fromModule(module);
    bool any = false;
    module.walk([&](Operation *op) { any |= needsMathExpansion(op, target); });
    if (!any)
      return;
    outlineRepeated(module, target);
    RewritePatternSet patterns(&getContext());
    populateExpandMathPatterns(patterns, target);
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(module, std::move(patterns), config)))
      return signalPassFailure();
    WalkResult left = module.walk([&](Operation *op) {
      if (!needsMathExpansion(op, target))
        return WalkResult::advance();
      InFlightDiagnostic diagnostic = op->emitOpError("expected an operation the target ")
                                      << target.name << " can do or expand, got " << op->getName() << " on "
                                      << (op->getNumOperands() ? op->getOperand(0).getType() : Type());
      if (auto truncate = dyn_cast<arith::TruncFOp>(op); truncate && truncate.getRoundingmode())
        diagnostic << " rounded " << arith::stringifyRoundingMode(*truncate.getRoundingmode());
      return WalkResult::interrupt();
    });
    if (left.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
