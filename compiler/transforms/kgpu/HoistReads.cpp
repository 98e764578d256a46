// kiln-hoist-reads: moves reads of tiles that are needed only after a reduction ahead of it, where registers allow.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "compiler/transforms/kgpu/ReadRuns.h"
#include "dialects/kgpu/KgpuAttributes.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Layout.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_HOISTREADSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Registers per thread that waiting tiles may take so that enough blocks share a multiprocessor, by block size. In the
/// largest blocks a thread has only 64 registers in all. Warps that reduce by themselves wait for no other warp, so
/// fewer blocks are enough.
constexpr int64_t kRegisters = 48, kRegistersOfLargeBlock = 40, kRegistersOfOneWarp = 56;
constexpr int64_t kLargeBlockWarps = 17;
/// Small blocks of 16-bit rows may take this many: having fewer blocks in flight costs less than a second wait.
constexpr int64_t kSmallBlockWarps = 8, kRegistersOfSmallBlock = 160;
/// Long masked rows with more than one further tile spill in large blocks, and in small blocks reading them early is
/// slower (LayerNorm of 4096x18944 and 4096x14000 on an H200, clusters of 4 blocks of 128 threads: by 10 and 30 %).
constexpr int64_t kLongRow = 8192;

int64_t registersOf(Value value) {
  auto tile = cast<RankedTensorType>(value.getType());
  int64_t bits = tile.getElementType().getIntOrFloatBitWidth();
  return (kgpu::layoutOf(tile).registers() * bits + 31) / 32;
}

bool isTileRead(Operation *op) {
  auto tile = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : nullptr;
  return tile && tile.getElementType().isIntOrFloat() && isGlobalRead(op);
}

bool isMasked(Operation *read) {
  auto load = dyn_cast<tile::LoadOp>(read);
  return !load || load.getMask();
}

/// Where threads cooperate: everything after it waits for it.
bool isReduction(Operation *op) { return isa<tile::ReduceOp, tile::ScanOp, kgpu::LocalLoadOp>(op); }

/// Reads may move past it: it computes, reads, or is part of an exchange. Reads may not pass ops that the program
/// orders explicitly, or that may end the program.
bool mayPass(Operation *op) {
  if (isa<kgpu::AllocOp, kgpu::SlotOp, kgpu::LocalStoreOp, kgpu::LocalLoadOp, kgpu::AwaitOp>(op))
    return true;
  if (isa<RegionBranchOpInterface, LoopLikeOpInterface, kgpu::RolesOp>(op))
    return false;
  if (auto load = dyn_cast<tile::LoadOp>(op); load && load.getIsVolatile())
    return false;
  if (std::optional<GlobalEffect> effect = globalEffect(op))
    return !effect->isAtomic() && effect->pointer;
  return isMemoryEffectFree(op) || isa<tile::AssumeOp>(op);
}

/// The part of a kernel's block from the end of its first run of reads to the first op that no read may pass.
class Stretch {
public:
  explicit Stretch(func::FuncOp kernel) : kernel(kernel) {}

  void run() {
    if (!findRun() || !findReads() || !fits())
      return;
    for (Operation *op : moved) {
      op->moveAfter(last);
      last = op;
    }
  }

private:
  /// Finds the last read of the run, and the op that ends it.
  bool findRun() {
    kgpu::ReadRuns runs(kernel);
    for (Operation &op : kernel.front().without_terminator()) {
      runs.take(&op);
      if (isTileRead(&op))
        last = &op;
      if (runs.ends() && runs.size() > 0) {
        end = &op;
        return last != nullptr;
      }
      if (!mayPass(&op) && !isa<tile::LaunchDependentsOp, tile::WaitForGridOp>(op))
        return false;
    }
    return false;
  }

  /// Finds the reads that could join the run, with the ops that their addresses and masks depend on.
  bool findReads() {
    SmallVector<Operation *> writes;
    for (Operation *op = end; op && !op->hasTrait<OpTrait::IsTerminator>() && mayPass(op); op = op->getNextNode()) {
      if (!cut && isReduction(op))
        cut = op;
      if (writesGlobal(op))
        writes.push_back(op);
      if (cut && isTileRead(op) && llvm::all_of(writes, [&](Operation *write) { return areDisjoint(write, op); }) &&
          takeOperands(op)) {
        moved.insert(op);
        reads.push_back(op);
      }
    }
    return !reads.empty();
  }

  /// Adds the ops after the run that `op` depends on; returns false and adds nothing if one of them has to stay.
  bool takeOperands(Operation *op) {
    llvm::SetVector<Operation *> taken;
    if (!collect(op, taken))
      return false;
    moved.insert_range(taken);
    return true;
  }

  bool collect(Operation *op, llvm::SetVector<Operation *> &taken) {
    for (Value operand : op->getOperands()) {
      Operation *made = operand.getDefiningOp();
      if (!made || moved.contains(made) || taken.contains(made) || made == last || made->isBeforeInBlock(last))
        continue;
      if (!isPure(made) || made->getNumRegions() != 0 || isReduction(made) || !collect(made, taken))
        return false;
      taken.insert(made);
    }
    return true;
  }

  /// Registers of the tiles that are computed before the reduction and needed after it.
  int64_t waiting() {
    int64_t registers = 0;
    for (Operation &op : llvm::make_range(kernel.front().begin(), cut->getIterator()))
      for (Value result : op.getResults()) {
        auto tile = dyn_cast<RankedTensorType>(result.getType());
        bool isNumber = tile && (isTileRead(&op) || isa<FloatType>(tile.getElementType()));
        bool isMade = !isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, arith::ConstantOp>(op);
        if (isNumber && isMade && llvm::any_of(result.getUsers(), [&](Operation *user) {
              Operation *place = kernel.front().findAncestorOpInBlock(*user);
              return place != cut && cut->isBeforeInBlock(place);
            }))
          registers += registersOf(result);
      }
    return registers;
  }

  bool fits() {
    int64_t warps = kgpu::moduleNumber(kernel, kgpu::kNumWarpsAttrName, 4), registers = waiting();
    for (Operation *read : reads)
      registers += registersOf(read->getResult(0));
    auto tile = cast<RankedTensorType>(last->getResult(0).getType());
    bool narrow = tile.getElementTypeBitWidth() <= 16;
    bool exchanges = llvm::any_of(llvm::make_range(cut->getIterator(), reads.back()->getIterator()),
                                  [](Operation &op) { return isa<kgpu::LocalLoadOp>(op); });
    int64_t limit = !exchanges ? kRegistersOfOneWarp : warps >= kLargeBlockWarps ? kRegistersOfLargeBlock : kRegisters;
    if (narrow && warps <= kSmallBlockWarps)
      limit = kRegistersOfSmallBlock;
    if (reads.size() > 1 && tile.getNumElements() > kLongRow && llvm::any_of(reads, isMasked))
      return false;
    return registers <= limit;
  }

  func::FuncOp kernel;
  Operation *last = nullptr; ///< last read of the run
  Operation *end = nullptr;  ///< the op that ends the run
  Operation *cut = nullptr;  ///< the first reduction after the run
  llvm::SetVector<Operation *> moved;
  SmallVector<Operation *> reads;
};

struct HoistReads : kiln::impl::HoistReadsPassBase<HoistReads> {
  using Base = kiln::impl::HoistReadsPassBase<HoistReads>;
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (kernel->hasAttr("tile.kernel") && !kernel.isExternal())
      Stretch(kernel).run();
  }
};
} // namespace
