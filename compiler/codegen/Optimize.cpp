// The target machine and LLVM's optimisation pipeline.
#include "compiler/codegen/Unit.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace kiln;
using namespace kiln::codegen;

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> kiln::codegen::createTargetMachine(const Target &target,
                                                                                        int64_t ptxVersion) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
  llvm::Triple triple(target.triple);
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return llvm::createStringError("no LLVM back end for " + target.triple + ": " + error);
  llvm::TargetOptions options;
  // Fusing is decided by a flag per operation, see kiln-allow-contraction.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.MCOptions.AsmVerbose = false;
  std::string features = target.features;
  if (target.isGpu()) // By default LLVM would write the oldest PTX that knows the machine.
    features += (features.empty() ? "+ptx" : ",+ptx") + std::to_string(ptxVersion ? ptxVersion : kNewestPtx);
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(triple, target.cpu, features, options,
                                                                            llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                            llvm::CodeGenOptLevel::Default));
  if (!machine)
    return llvm::createStringError("LLVM cannot generate code for " + target.cpu);
  return std::move(machine);
}

/// Turns a masked store of one known lane into a plain store of that element. LLVM 22's X86 back end does so itself,
/// but where the stored vector was narrowed it stores the wide element, over its neighbours (llvm/llvm-project#179489).
static void storeSingleLanes(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *store = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!store || store->getIntrinsicID() != llvm::Intrinsic::masked_store)
      continue;
    auto *mask = llvm::dyn_cast<llvm::Constant>(store->getArgOperand(2));
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(store->getArgOperand(0)->getType());
    if (!mask || !type)
      continue;
    llvm::SmallVector<unsigned> lanes;
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane)
      if (llvm::Constant *bit = mask->getAggregateElement(lane); !bit || !bit->isNullValue())
        lanes.push_back(lane);
    if (lanes.size() != 1)
      continue;
    llvm::IRBuilder<> builder(store);
    llvm::Type *element = type->getElementType();
    llvm::Value *address = builder.CreateConstInBoundsGEP1_64(element, store->getArgOperand(1), lanes[0]);
    llvm::Value *value = builder.CreateExtractElement(store->getArgOperand(0), lanes[0]);
    llvm::Align known = store->getParamAlign(1).valueOrOne();
    uint64_t bytes = element->getScalarSizeInBits() / 8;
    builder.CreateAlignedStore(value, address, llvm::commonAlignment(known, lanes[0] * bytes));
    store->eraseFromParent();
  }
}

llvm::Error kiln::codegen::optimize(Unit &unit, llvm::TargetMachine &machine, const std::atomic<bool> *cancelled) {
  llvm::PipelineTuningOptions tuning;
  // The code is already vectorised and blocked for the registers; unrolling triples the time and gains nothing.
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.CallGraphProfile = false;

  struct Analyses {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager graphs;
    llvm::ModuleAnalysisManager modules;
  };
  std::unique_ptr<Analyses, UnlessFatal> analyses(new Analyses);
  auto &[loops, functions, graphs, modules] = *analyses;
  llvm::PassInstrumentationCallbacks callbacks;
  if (cancelled)
    callbacks.registerShouldRunOptionalPassCallback([=](llvm::StringRef, llvm::Any) { return !*cancelled; });
  llvm::PassBuilder builder(&machine, tuning, std::nullopt, &callbacks);
  // There are no library functions where the code runs, so no idiom may become a call.
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  analyses->functions.registerPass([&library] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager passes = builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  passes.run(*unit.module, modules);
  bool cpu = machine.getTargetTriple().isX86();
  for (llvm::Function &function : *unit.module) {
    storeSingleLanes(function);
    if (cpu && function.hasExternalLinkage() && !function.isDeclaration() && isEntry(function))
      insertSafepoints(function, functions);
  }
  return diagnosticsOf(unit);
}
