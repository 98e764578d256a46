// CPU code checks its launch's safepoint word (runtime/launch/Abi.h) in every loop that may take long, and returns if
// it is told to. So a launch can be interrupted, even in an endless loop.
//
// The checks are inserted after all optimisation, so that exits in the middle of loops do not block code motion or
// merging. Loops with few enough steps get none: the time between two checks is a few milliseconds at most.
#include "compiler/codegen/Unit.h"
#include "runtime/launch/Abi.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <cstddef>

using namespace kiln;
using namespace kiln::codegen;

// In instructions: about a millisecond.
static constexpr uint64_t kLongWork = uint64_t(1) << 21;

namespace {
class Poller {
public:
  Poller(llvm::Function &function, llvm::FunctionAnalysisManager &analyses)
      : function(function), loops(analyses.getResult<llvm::LoopAnalysis>(function)),
        dominators(analyses.getResult<llvm::DominatorTreeAnalysis>(function)),
        evolution(analyses.getResult<llvm::ScalarEvolutionAnalysis>(function)) {}

  void run() {
    for (llvm::Loop *loop : loops)
      measure(loop);
    if (chosen.empty())
      return;
    forgetEffects();
    llvm::IRBuilder<> b(&*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    llvm::Value *launch = function.getArg(1);
    safepoint = b.CreateAlignedLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), launch, kSafepoint),
                                    llvm::Align(8), "safepoint");
    llvm::BasicBlock *leave = llvm::BasicBlock::Create(function.getContext(), "leave", &function);
    llvm::ReturnInst::Create(function.getContext(), leave);
    // Everything is measured before anything is changed.
    for (auto [header, waits] : chosen)
      poll(header, waits, leave);
  }

private:
  /// Drops inferred attributes: the function that is called may do anything, except unwind.
  void forgetEffects() {
    for (llvm::Attribute::AttrKind kind : {llvm::Attribute::Memory, llvm::Attribute::NoFree, llvm::Attribute::NoRecurse,
                                           llvm::Attribute::NoSync, llvm::Attribute::WillReturn})
      function.removeFnAttr(kind);
    function.getArg(1)->removeAttr(llvm::Attribute::Captures);
  }

  static constexpr uint64_t kSafepoint = offsetof(KilnLaunch, safepoint),
                            kAtSafepoint = offsetof(KilnLaunch, atSafepoint);

  /// The instructions that the loop executes until it checks, or until it ends.
  uint64_t measure(llvm::Loop *loop) {
    uint64_t work = 0;
    for (llvm::Loop *inner : *loop)
      work = llvm::SaturatingAdd(work, measure(inner));
    for (llvm::BasicBlock *block : loop->blocks())
      if (loops.getLoopFor(block) == loop)
        work += block->size();
    // 0 if no count is known.
    uint64_t count = evolution.getSmallConstantMaxTripCount(loop);
    uint64_t whole = llvm::SaturatingMultiply(work, count);
    if (count && whole <= kLongWork)
      return whole;
    chosen.push_back({loop->getHeader(), onlyWaits(*loop)});
    return work;
  }

  /// True if the loop reads what other threads write and changes memory only by atomic operations. Indirect calls are
  /// hooks, such as a check's before each access.
  static bool onlyWaits(const llvm::Loop &loop) {
    bool reads = false;
    for (llvm::BasicBlock *block : loop.blocks())
      for (llvm::Instruction &instruction : *block) {
        if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(instruction)) {
          reads = true;
        } else if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
          reads |= !load->isUnordered();
        } else if (auto *call = llvm::dyn_cast<llvm::CallBase>(&instruction); call && call->isIndirectCall()) {
          continue;
        } else if (instruction.mayWriteToMemory()) {
          return false;
        }
      }
    return reads;
  }

  void poll(llvm::BasicBlock *header, bool waits, llvm::BasicBlock *leave) {
    llvm::BasicBlock *body = llvm::SplitBlock(header, header->getFirstNonPHIOrDbg(), &dominators, &loops);
    llvm::BasicBlock *called = llvm::BasicBlock::Create(function.getContext(), "atSafepoint", &function, leave);
    llvm::IRBuilder<> b(header->getTerminator());
    llvm::MDNode *unlikely = llvm::MDBuilder(function.getContext()).createUnlikelyBranchWeights();
    llvm::Value *word = b.CreateAlignedLoad(b.getInt32Ty(), safepoint, llvm::Align(4), /*isVolatile=*/true);
    b.CreateCondBr(b.CreateIsNotNull(word), called, body, unlikely);
    header->getTerminator()->eraseFromParent();

    b.SetInsertPoint(called);
    llvm::Value *launch = function.getArg(1);
    llvm::Value *callee = b.CreateAlignedLoad(
        b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), launch, kAtSafepoint), llvm::Align(8));
    auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getInt32Ty()}, false);
    llvm::CallInst *call = b.CreateCall(type, callee, {launch, b.getInt32(waits)});
    call->setDoesNotThrow();
    b.CreateCondBr(b.CreateIsNotNull(call), leave, body, unlikely);
  }

  llvm::Function &function;
  llvm::LoopInfo &loops;
  llvm::DominatorTree &dominators;
  llvm::ScalarEvolution &evolution;
  llvm::Value *safepoint = nullptr;
  llvm::SmallVector<std::pair<llvm::BasicBlock *, bool>> chosen;
};
} // namespace

void kiln::codegen::insertSafepoints(llvm::Function &function, llvm::FunctionAnalysisManager &analyses) {
  Poller(function, analyses).run();
  analyses.invalidate(function, llvm::PreservedAnalyses::none());
}
