// LLVM dialect (or LLVM IR text) -> LLVM IR with the target's attributes on every function.
#include "compiler/codegen/Unit.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "runtime/launch/Abi.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace kiln;
using namespace kiln::codegen;

bool Unit::Collector::handleDiagnostics(const llvm::DiagnosticInfo &info) {
  if (info.getSeverity() == llvm::DS_Error) {
    llvm::raw_string_ostream stream(errors);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    if (!errors.empty())
      stream << "; ";
    info.print(printer);
  }
  return true; // Handled: LLVM prints nothing, and an error does not end the process.
}

Unit::Unit() : ownedContext(std::make_unique<llvm::LLVMContext>()) {
  auto handler = std::make_unique<Collector>();
  collector = handler.get();
  ownedContext->setDiagnosticHandler(std::move(handler));
}
Unit::Unit(Unit &&) = default;
Unit::~Unit() {
  UnlessFatal()(module.release());
  UnlessFatal()(ownedContext.release());
}

std::string Unit::print() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

llvm::Error kiln::codegen::diagnosticsOf(Unit &unit) {
  std::string errors = std::move(unit.collector->errors);
  unit.collector->errors.clear();
  return errors.empty() ? llvm::Error::success() : llvm::createStringError(errors);
}

bool kiln::codegen::isEntry(const llvm::Function &function) {
  llvm::FunctionType *type = function.getFunctionType();
  return type->getReturnType()->isVoidTy() && type->getNumParams() == 4 && type->getParamType(0)->isPointerTy() &&
         type->getParamType(1)->isPointerTy() && type->getParamType(2)->isIntegerTy(64) &&
         type->getParamType(3)->isIntegerTy(64);
}

// The argument block and the launch record are never written during a launch, so values loaded from them may stay in
// registers across the kernel's stores. The record does escape: hooks receive it.
static void describeEntry(llvm::Function &function) {
  for (unsigned i : {0u, 1u}) {
    function.addParamAttr(i, llvm::Attribute::NoAlias);
    function.addParamAttr(i, llvm::Attribute::NonNull);
    function.addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  llvm::LLVMContext &context = function.getContext();
  function.addParamAttr(1, llvm::Attribute::getWithDereferenceableBytes(context, sizeof(KilnLaunch)));
  function.addParamAttr(1, llvm::Attribute::getWithAlignment(context, llvm::Align(alignof(KilnLaunch))));
}

static void describe(llvm::Function &function, const Target &target) {
  // Instances are abandoned by longjmp or the end of a thread, never by unwinding.
  function.setDoesNotThrow();
  if (target.isGpu()) {
    // All kernels of a module share one subtarget: attributes would only prevent library code from being inlined.
    if (function.getCallingConv() != llvm::CallingConv::PTX_Kernel)
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
    return;
  }
  function.addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty())
    function.addFnAttr("target-features", target.features);
  function.addFnAttr("prefer-vector-width", std::to_string(target.vectorBytes * 8));
  if (isEntry(function) && function.hasExternalLinkage())
    describeEntry(function);
  else
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
}

/// Inline PTX may be a barrier or a shuffle, so it must be neither duplicated onto several paths nor moved into one.
/// LLVM knows that for intrinsics and has to be told for inline assembly.
static void keepTogether(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::instructions(function))
    if (auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction); call && call->isInlineAsm())
      call->setConvergent();
}

static llvm::Error prepare(Unit &unit, const Target &target) {
  llvm::Module &module = *unit.module;
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      describe(function, target);
      if (target.isGpu())
        keepTogether(function);
    }
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream))
    return llvm::createStringError("the LLVM IR is not valid: " + problems);
  return diagnosticsOf(unit);
}

llvm::Expected<Unit> kiln::codegen::translate(mlir::ModuleOp source, const Target &target) {
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
  source.getContext()->appendDialectRegistry(registry);
  Unit unit;
  unit.module = mlir::translateModuleToLLVMIR(source, unit.context(), "kiln", /*disableVerification=*/true);
  if (!unit.module)
    return llvm::createStringError("the module has no translation to LLVM IR");
  if (llvm::Error error = prepare(unit, target))
    return std::move(error);
  return std::move(unit);
}

llvm::Expected<Unit> kiln::codegen::parse(llvm::StringRef text, const Target &target) {
  Unit unit;
  llvm::SMDiagnostic problem;
  unit.module = llvm::parseAssemblyString(text, problem, unit.context());
  if (!unit.module)
    return llvm::createStringError("line " + llvm::Twine(problem.getLineNo()) + ": " + problem.getMessage());
  if (llvm::Error error = prepare(unit, target))
    return std::move(error);
  return std::move(unit);
}
