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
    auto type = dyn_cast<MemType>(operand.getType());
    if (!type || isa<SlotOp, ViewOp>(op))
      continue;
    SharedAccess access;
    access.op = op;
    access.end = type.getBytes();
    Value memory = operand;
    if (auto view = memory.getDefiningOp<ViewOp>()) {
      access.begin = int64_t(view.getOffset()) * type.getElementBytes();
      access.end += access.begin;
      memory = view.getMem();
    }
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
  // Where a slot lies is not known: any of them.
  auto range = [](const SharedAccess &access, bool relative) -> std::pair<int64_t, int64_t> {
    AllocOp alloc = access.alloc;
    int64_t start = relative ? 0 : int64_t(*alloc.getOffset());
    if (access.slot)
      return {start, start + alloc.getBytes()};
    return {start + access.begin, start + access.end};
  };
  AllocOp first = a.alloc, second = b.alloc;
  bool same = first == second;
  if (!same && (!first.getOffset() || !second.getOffset()))
    return false;
  if (same && a.slot && a.slot == b.slot)
    return a.begin < b.end && b.begin < a.end;
  auto [begin, end] = range(a, same);
  auto [otherBegin, otherEnd] = range(b, same);
  return begin < otherEnd && otherBegin < end;
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
