#include "compiler/transforms/kgpu/SharedAccess.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

SmallVector<SharedAccess, 2> kgpu::sharedAccesses(Operation *op) {
  SmallVector<SharedAccess, 2> accesses;
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return accesses;
  for (Value operand : op->getOperands()) {
    if (!isa<MemType>(operand.getType()) || isa<SlotOp>(op))
      continue;
    SharedAccess access;
    access.op = op;
    Value memory = operand;
    if (auto slot = memory.getDefiningOp<SlotOp>()) {
      access.slot = slot.getIndex();
      memory = slot.getMem();
    }
    access.alloc = memory.getDefiningOp<AllocOp>();
    SmallVector<MemoryEffects::EffectInstance, 2> found;
    effects.getEffectsOnValue(operand, found);
    for (const MemoryEffects::EffectInstance &effect : found)
      if (isa<MemoryEffects::Write>(effect.getEffect()))
        access.kind = SharedAccess::Write;
    if (isa<LocalAtomicAddOp>(op))
      access.kind = SharedAccess::Atomic;
    if (auto store = dyn_cast<LocalStoreOp>(op))
      access.crosses = store.crossesCtas();
    accesses.push_back(access);
  }
  return accesses;
}

bool kgpu::touchSameBytes(const SharedAccess &a, const SharedAccess &b) {
  if (a.kind == SharedAccess::Read && b.kind == SharedAccess::Read)
    return false;
  if (a.kind == SharedAccess::Atomic && b.kind == SharedAccess::Atomic)
    return false;
  AllocOp first = a.alloc, second = b.alloc;
  if (first == second)
    return true;
  if (!first.getOffset() || !second.getOffset())
    return false;
  int64_t begin = *first.getOffset(), otherBegin = *second.getOffset();
  return begin < otherBegin + second.getBytes() && otherBegin < begin + first.getBytes();
}

scf::ForOp kgpu::alternatesIn(Value slot) {
  auto argument = dyn_cast_or_null<BlockArgument>(slot);
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
  if (!loop || argument == loop.getInductionVar())
    return {};
  Value next = loop.getTiedLoopYieldedValue(argument)->get();
  auto flip = next.getDefiningOp<arith::XOrIOp>();
  if (!flip || flip.getLhs() != slot || !matchPattern(flip.getRhs(), m_One()))
    return {};
  return loop;
}
