// The target machine and LLVM's optimisation pipeline.
#include "compiler/codegen/Unit.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Local.h"
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

/// Loads and moves elements of bfloat16 as bits. On machines without the type LLVM moves some of them, and keeps those
/// of other blocks, by way of float32, and calls a function to get back.
static void moveNarrowFloatsAsBits(llvm::Function &function) {
  auto typeOfBits = [](llvm::Type *type) -> llvm::Type * {
    llvm::Type *bits = llvm::Type::getInt16Ty(type->getContext());
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector ? llvm::FixedVectorType::get(bits, vector->getNumElements()) : bits;
  };
  llvm::SmallVector<llvm::Instruction *> moves;
  for (llvm::BasicBlock *block : llvm::ReversePostOrderTraversal<llvm::Function *>(&function))
    for (llvm::Instruction &instruction : *block) {
      auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
      if (instruction.getType()->getScalarType()->isBFloatTy() &&
          ((load && load->isSimple()) || llvm::isa<llvm::ShuffleVectorInst, llvm::InsertElementInst>(instruction)))
        moves.push_back(&instruction);
    }
  llvm::DenseMap<llvm::Value *, llvm::Value *> bits;
  for (llvm::Instruction *move : moves) {
    llvm::IRBuilder<> builder(move);
    auto operand = [&](unsigned index) {
      llvm::Value *value = move->getOperand(index);
      llvm::Value *known = bits.lookup(value);
      return known ? known : builder.CreateBitCast(value, typeOfBits(value->getType()));
    };
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(move))
      bits[move] = builder.CreateAlignedLoad(typeOfBits(load->getType()), load->getPointerOperand(), load->getAlign());
    else if (auto *shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(move))
      bits[move] = builder.CreateShuffleVector(operand(0), operand(1), shuffle->getShuffleMask());
    else
      bits[move] = builder.CreateInsertElement(operand(0), operand(1), move->getOperand(2));
  }
  for (llvm::Instruction *move : llvm::reverse(moves)) {
    llvm::Value *moved = bits.lookup(move);
    for (llvm::Use &use : llvm::make_early_inc_range(move->uses())) {
      auto *user = llvm::cast<llvm::Instruction>(use.getUser());
      auto *cast = llvm::dyn_cast<llvm::BitCastInst>(user);
      if (cast && cast->getType() == moved->getType()) {
        cast->replaceAllUsesWith(moved);
        cast->eraseFromParent();
        continue;
      }
      auto *phi = llvm::dyn_cast<llvm::PHINode>(user);
      llvm::IRBuilder<> builder(phi ? phi->getIncomingBlock(use)->getTerminator() : user);
      use.set(builder.CreateBitCast(moved, move->getType()));
    }
    move->eraseFromParent();
  }
}

/// Whether a value is a sum of a loop's counter and something else that changes in the loop, but not by steps.
static bool isUneven(const llvm::SCEV *value, const llvm::Loop &loop, llvm::ScalarEvolution &evolution) {
  auto *sum = llvm::dyn_cast<llvm::SCEVAddExpr>(value);
  return sum && llvm::any_of(sum->operands(), llvm::IsaPred<llvm::SCEVAddRecExpr>) &&
         !evolution.hasComputableLoopEvolution(sum, &loop);
}

/// Whether a number grows by the same step in each turn of a loop and is only converted to floating point or compared.
/// (Addresses are left to loop strength reduction, which folds constants into them.)
static bool isDistance(const llvm::Instruction &sum, const llvm::SCEV *value, const llvm::Loop &loop) {
  auto *advancing = llvm::dyn_cast<llvm::SCEVAddRecExpr>(value);
  return advancing && advancing->getLoop() == &loop && !sum.use_empty() &&
         llvm::all_of(sum.users(), llvm::IsaPred<llvm::SIToFPInst, llvm::ICmpInst>);
}

/// Such sums of a block that differ only by constants, as the distances of a thread's keys from its queries, become one
/// sum plus each constant. Loop strength reduction arrives at the same code, but tries all combinations of their terms
/// first, which takes 0.2 s for 64 distances; it does not look beyond a frozen value.
static void shareSums(llvm::Function &function, llvm::FunctionAnalysisManager &functions) {
  constexpr unsigned kFewest = 16;
  struct Group {
    const llvm::SCEV *first;
    llvm::SmallVector<std::pair<llvm::WeakVH, llvm::APInt>> members;
  };
  if (function.isDeclaration())
    return;
  auto &evolution = functions.getResult<llvm::ScalarEvolutionAnalysis>(function);
  llvm::SmallVector<Group> groups;
  for (llvm::Loop *loop : functions.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder())
    for (llvm::BasicBlock *block : loop->isInnermost() ? loop->blocks() : llvm::ArrayRef<llvm::BasicBlock *>()) {
      size_t before = groups.size();
      for (llvm::Instruction &instruction : *block) {
        bool sum =
            instruction.getOpcode() == llvm::Instruction::Add || instruction.getOpcode() == llvm::Instruction::Sub;
        if (!sum || !instruction.getType()->isIntegerTy(32))
          continue;
        const llvm::SCEV *value = evolution.getSCEV(&instruction);
        if (!isUneven(value, *loop, evolution) && !isDistance(instruction, value, *loop))
          continue;
        std::optional<llvm::APInt> more;
        auto own = std::find_if(groups.begin() + before, groups.end(), [&](const Group &group) {
          more = evolution.computeConstantDifference(value, group.first);
          return more.has_value();
        });
        if (own == groups.end())
          groups.push_back({value, {{&instruction, llvm::APInt(32, 0)}}});
        else
          own->members.push_back({&instruction, *more});
      }
    }
  bool changed = false;
  // The last ones first: afterwards the sums that they consisted of are no longer used, and stay as they are.
  for (Group &group : llvm::reverse(groups)) {
    llvm::erase_if(group.members, [](const auto &member) { return !member.first; });
    if (group.members.size() < kFewest)
      continue;
    auto *first = llvm::cast<llvm::Instruction>(group.members.front().first);
    llvm::APInt start = group.members.front().second;
    llvm::IRBuilder<> builder(first->getNextNode());
    llvm::Value *base = builder.CreateFreeze(first);
    first->replaceUsesWithIf(base, [&](llvm::Use &use) { return use.getUser() != base; });
    llvm::SmallVector<llvm::WeakTrackingVH> dead;
    for (auto &[member, more] : llvm::drop_begin(group.members)) {
      auto *sum = llvm::cast<llvm::Instruction>(member);
      builder.SetInsertPoint(sum);
      sum->replaceAllUsesWith(more == start ? base : builder.CreateAdd(base, builder.getInt(more - start)));
      dead.push_back(sum);
    }
    llvm::RecursivelyDeleteTriviallyDeadInstructions(dead);
    changed = true;
  }
  if (changed)
    functions.invalidate(function, llvm::PreservedAnalyses::none());
}

/// Whether a pointer is only read by copies to shared memory.
static bool isCopied(const llvm::GetElementPtrInst &pointer) {
  auto isCopy = [](const llvm::User *user) {
    auto *call = llvm::dyn_cast<llvm::CallInst>(user);
    auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    return text && text->getAsmString().find("cp.async") != std::string::npos;
  };
  return !pointer.use_empty() && llvm::all_of(pointer.users(), isCopy);
}

/// Such pointers of a block that differ only by constants become one pointer plus each constant, which an instruction
/// has room for. LLVM finds constants in sums, but not in the multiples of sums that a thread's places in a tile are.
static void shareCopied(llvm::Function &function, llvm::FunctionAnalysisManager &functions) {
  constexpr unsigned kBits = 24; // of an offset in a machine instruction
  struct First {
    llvm::GetElementPtrInst *pointer;
    const llvm::SCEV *index;
  };
  if (function.isDeclaration())
    return;
  auto &evolution = functions.getResult<llvm::ScalarEvolutionAnalysis>(function);
  const llvm::DataLayout &layout = function.getDataLayout();
  bool changed = false;
  for (llvm::BasicBlock &block : function) {
    llvm::SmallVector<First> firsts;
    llvm::SmallVector<llvm::WeakTrackingVH> dead;
    for (llvm::Instruction &instruction : block) {
      auto *pointer = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
      if (!pointer || !isCopied(*pointer) || pointer->getNumIndices() != 1)
        continue;
      // Numbers of 31 bits differ by what their last 32 bits differ by, as a signed number.
      auto *wide = llvm::dyn_cast<llvm::ZExtInst>(pointer->getOperand(1));
      if (!wide || !wide->hasNonNeg() || !wide->getSrcTy()->isIntegerTy(32))
        continue;
      const llvm::SCEV *index = evolution.getSCEV(wide->getOperand(0));
      int64_t bytes = layout.getTypeAllocSize(pointer->getSourceElementType()).getFixedValue(), offset = 0;
      auto own = llvm::find_if(firsts, [&](const First &first) {
        if (first.pointer->getPointerOperand() != pointer->getPointerOperand() ||
            first.pointer->getSourceElementType() != pointer->getSourceElementType())
          return false;
        std::optional<llvm::APInt> more = evolution.computeConstantDifference(index, first.index);
        offset = more ? more->getSExtValue() * bytes : 0;
        return more && llvm::isIntN(kBits, offset);
      });
      if (own == firsts.end()) {
        firsts.push_back({pointer, index});
        continue;
      }
      llvm::IRBuilder<> builder(pointer);
      pointer->replaceAllUsesWith(builder.CreatePtrAdd(own->pointer, builder.getInt64(offset)));
      dead.push_back(pointer);
    }
    changed |= !dead.empty();
    llvm::RecursivelyDeleteTriviallyDeadInstructions(dead);
  }
  if (changed)
    functions.invalidate(function, llvm::PreservedAnalyses::none());
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
    if (cpu && !function.isDeclaration())
      moveNarrowFloatsAsBits(function);
    if (!cpu) {
      shareSums(function, functions);
      shareCopied(function, functions);
    }
    if (cpu && function.hasExternalLinkage() && !function.isDeclaration() && isEntry(function))
      insertSafepoints(function, functions);
  }
  return diagnosticsOf(unit);
}
