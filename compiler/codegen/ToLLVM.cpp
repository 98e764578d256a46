// kiln-to-llvm: converts what the target lowering and the math expansion have left to the LLVM dialect.
#include "compiler/codegen/Passes.h"
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
