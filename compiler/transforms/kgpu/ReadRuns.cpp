#include "compiler/transforms/kgpu/ReadRuns.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

/// A volatile read stays where the kernel has it, so it joins no others.
static bool isTileRead(Operation *op) {
  auto load = dyn_cast<tile::LoadOp>(op);
  return isGlobalRead(op) && isa<RankedTensorType>(op->getResult(0).getType()) && !(load && load.getIsVolatile());
}

/// True if reads of tiles follow `op` in its block before threads cooperate in any way.
static bool readsFollow(Operation *op) {
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    if (isTileRead(next))
      return true;
    if (next->getNumRegions() != 0 || isa<KgpuDialect>(next->getDialect()) || writesGlobal(next))
      return false;
  }
  return false;
}

bool kgpu::fillsRing(Operation *op) {
  bool copies = false, waits = false;
  op->walk([&](Operation *inner) {
    copies |= isa<CopyTileOp, CopyBlockOp, CommitOp>(inner);
    waits |= isa<ReceiveOp>(inner);
  });
  return copies && !waits;
}

ReadRuns::ReadRuns(func::FuncOp kernel, bool endAtCopies)
    : endAtCopies(endAtCopies), pdl(kernel->getParentOfType<ModuleOp>()->hasAttr(kPdlAttrName)),
      behindWrites(readsBehindWrites(kernel)) {}

void ReadRuns::take(Operation *op) {
  isRead = isTileRead(op);
  isEnd = isHold = isAheadOfCopies = false;
  if (isRead) {
    if (!behindWrites.contains(op))
      open.insert(op->getResult(0));
    return;
  }
  // Once one read is needed the run is needed: the next op after its last read ends it.
  isNeeded |= llvm::any_of(op->getOperands(), [&](Value operand) { return open.contains(operand); });
  isAheadOfCopies = endAtCopies && !open.empty() && fillsRing(op);
  isHold = pdl && isa<tile::LaunchDependentsOp, tile::WaitForGridOp>(op);
  isEnd = isAheadOfCopies || ((isNeeded || isHold) && !readsFollow(op));
}

void ReadRuns::close() {
  open.clear();
  isNeeded = false;
}
