// The memory that ops touch, derived from their effects and addresses, and which accesses conflict.
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

bool MemoryAccess::isByOneCopier() const {
  auto copy = dyn_cast<CopyOutOp>(op);
  return copy && !copy.getByGroup();
}

bool MemoryAccess::changesIn(Operation *loop) const {
  return llvm::any_of(address, [&](Value value) { return loop->isAncestor(value.getParentBlock()->getParentOp()); });
}

//===----------------------------------------------------------------------===//
// What an op touches
//===----------------------------------------------------------------------===//

namespace {
/// A part of shared memory: of an allocation, or of a channel; neither if unknown.
struct Place {
  AllocOp alloc;
  ChannelOp received; ///< a slot of it
  unsigned part = 0;
  bool ofChannel = false;
  Value slot;
  int64_t begin = 0;
};
} // namespace

static Place placeOf(Value memory) {
  Place place;
  while (Operation *made = memory.getDefiningOp()) {
    if (auto view = dyn_cast<ViewOp>(made)) {
      place.begin += int64_t(view.getOffset()) * cast<MemType>(memory.getType()).getElementBytes();
      memory = view.getMem();
    } else if (auto slot = dyn_cast<SlotOp>(made)) {
      place.slot = slot.getIndex();
      memory = slot.getMem();
    } else if (auto trans = dyn_cast<TransOp>(made)) {
      memory = trans.getMem();
    } else {
      break;
    }
  }
  place.alloc = memory.getDefiningOp<AllocOp>();
  place.ofChannel = isa_and_nonnull<AcquireOp, ReceiveOp>(memory.getDefiningOp());
  if (auto receive = memory.getDefiningOp<ReceiveOp>()) {
    place.received = receive.getChannel().getDefiningOp<ChannelOp>();
    place.part = cast<OpResult>(memory).getResultNumber();
  }
  return place;
}

/// Adds the effects of `op` on the memory `operand`; returns false if it has none.
static bool effectOn(OpOperand &operand, bool &writes, bool &reads) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(operand.getOwner());
  if (!effects)
    return false;
  SmallVector<MemoryEffects::EffectInstance, 2> found;
  effects.getEffects(found);
  for (const MemoryEffects::EffectInstance &effect : found) {
    if (effect.getValue() != operand.get())
      continue;
    writes |= isa<MemoryEffects::Write>(effect.getEffect());
    reads |= isa<MemoryEffects::Read>(effect.getEffect());
  }
  return reads || writes;
}

/// Whether a role that receives slots of the channel writes to them.
static bool isWrittenByReceivers(ChannelOp channel) {
  for (Operation *user : channel->getUsers())
    if (auto receive = dyn_cast<ReceiveOp>(user))
      for (Value part : receive.getParts())
        for (Value view : viewsOf(part))
          for (OpOperand &use : view.getUses()) {
            bool writes = false, reads = false;
            if (effectOn(use, writes, reads) && writes)
              return true;
          }
  return false;
}

SmallVector<MemoryAccess, 2> kgpu::sharedAccesses(Operation *op) {
  SmallVector<MemoryAccess, 2> accesses;
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemType>(operand.get().getType());
    bool writes = false, reads = false;
    if (!type || !effectOn(operand, writes, reads))
      continue;
    Place place = placeOf(operand.get());
    // Memory with an mbarrier is ordered by what is sent to it, a channel by its own steps: not by barriers.
    bool written = place.received && isWrittenByReceivers(place.received);
    if ((!place.alloc || place.alloc.getMbarrier()) && !written)
      continue;
    MemoryAccess access;
    access.op = op;
    access.alloc = place.alloc;
    access.channel = place.received;
    access.part = place.part;
    access.slot = place.slot;
    access.begin = place.begin;
    access.end = place.begin + type.getBytes();
    access.kind = writes ? MemoryAccess::Write : MemoryAccess::Read;
    access.flight = flightOf(op);
    if (isa<LocalAtomicAddOp>(op))
      access.kind = MemoryAccess::Atomic;
    if (auto store = dyn_cast<LocalStoreOp>(op))
      access.crosses = store.crossesCtas();
    accesses.push_back(access);
  }
  return accesses;
}

LogicalResult kgpu::checkAccesses(func::FuncOp function) {
  if (failed(verifyEffects(function)))
    return failure();
  WalkResult result = function.walk([](Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<MemType>(operand.get().getType()))
        continue;
      bool writes = false, reads = false;
      bool declared = isa<MemoryEffectOpInterface>(op);
      if (declared && !effectOn(operand, writes, reads))
        continue; // only makes a value of it; uses of that value are checked themselves
      Place place = placeOf(operand.get());
      if (declared && (place.alloc || place.ofChannel))
        continue;
      op->emitOpError("expected memory of a kgpu.alloc or of a channel's slot, and declared effects on it (because "
                      "barriers are placed by who reads and writes it), got ")
          << (declared ? "memory from elsewhere" : "an op without declared effects");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static void setArgument(MemoryAccess &access, Value pointer) {
  access.argument = pointerArgument(pointer);
  if (!access.argument)
    return;
  auto kernel = dyn_cast<func::FuncOp>(access.argument.getParentBlock()->getParentOp());
  unsigned number = cast<BlockArgument>(access.argument).getArgNumber();
  access.alone = kernel && kernel.getArgAttr(number, "tile.disjoint");
}

/// The access of an op to global memory, if it makes one.
static std::optional<MemoryAccess> globalAccess(Operation *op) {
  std::optional<GlobalEffect> effect = globalEffect(op);
  if (!effect)
    return std::nullopt;
  MemoryAccess access;
  access.op = op;
  access.flight = flightOf(op);
  access.pointer = effect->pointer;
  if (effect->writes)
    access.kind = effect->isAtomic() && effect->pointer ? MemoryAccess::Atomic : MemoryAccess::Write;
  if (auto copy = dyn_cast<CopyOutOp>(op); copy && copy.getKind())
    access.kind = MemoryAccess::Atomic;
  if (!access.pointer)
    return access;
  setArgument(access, access.pointer);
  access.address.push_back(access.pointer);
  access.tile = dyn_cast<RankedTensorType>(access.pointer.getType());
  if (isa<tile::PtrType>(getElementTypeOrSelf(access.pointer.getType())))
    return access;
  // A block of an array, at offsets.
  for (Value operand : op->getOperands())
    if (operand.getType().isInteger())
      access.address.push_back(operand);
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op->getResults()), SmallVector<Value>(op->getOperands())))
    if (auto tile = dyn_cast<RankedTensorType>(value.getType()); tile && !access.tile)
      access.tile = tile;
  return access;
}

MemoryAccesses::MemoryAccesses(func::FuncOp function) {
  bool manyCtas = clusterSize(function) > 1;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    SmallVector<MemoryAccess, 2> accesses = sharedAccesses(op);
    async |= llvm::any_of(accesses, [](const MemoryAccess &access) { return access.isAsync(); });
    if (std::optional<MemoryAccess> access = globalAccess(op)) {
      access->crosses = manyCtas;
      accesses.push_back(*access);
    }
    for (const MemoryAccess &access : accesses) {
      clusters |= access.crosses;
      list.push_back(access);
    }
    if (!accesses.empty())
      byOp[op] = accesses;
  });
}

//===----------------------------------------------------------------------===//
// Conflicts
//===----------------------------------------------------------------------===//

static bool touchSameShared(const MemoryAccess &a, const MemoryAccess &b) {
  // No allocation shares bytes with a channel, except after the ring's last barrier.
  if (ChannelOp channel = a.channel; channel || ChannelOp(b.channel))
    return channel == ChannelOp(b.channel) && a.part == b.part && a.begin < b.end && b.begin < a.end;
  // It is not known which slot: assume any of them.
  auto range = [](const MemoryAccess &access, bool relative) -> std::pair<int64_t, int64_t> {
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

/// How an op combines with global memory, if it does and its result is unused.
static std::optional<tile::RMWKind> reductionOf(Operation *op) {
  if (auto copy = dyn_cast<CopyOutOp>(op))
    return copy.reduction();
  auto atomic = dyn_cast<tile::AtomicRMWOp>(op);
  bool reduces = atomic && atomic.getKind() != tile::RMWKind::Xchg && atomic.getResult().use_empty();
  return reduces ? std::optional(atomic.getKind()) : std::nullopt;
}

/// Read-modify-writes of the same kind whose results are unused: their order is not observable.
static bool commute(const MemoryAccess &a, const MemoryAccess &b) {
  if (a.kind != MemoryAccess::Atomic || b.kind != MemoryAccess::Atomic)
    return false;
  if (a.isShared())
    return true;
  std::optional<tile::RMWKind> one = reductionOf(a.op), other = reductionOf(b.op);
  return one && one == other;
}

bool kgpu::mayConflict(const MemoryAccess &a, const MemoryAccess &b) {
  if ((a.kind == MemoryAccess::Read && b.kind == MemoryAccess::Read) || a.isShared() != b.isShared() || commute(a, b))
    return false;
  if (a.isShared())
    return touchSameShared(a, b);
  return !a.argument || !b.argument || a.argument == b.argument || !(a.alone || b.alone);
}

/// The distance from one program of a block to its next, in a loop that takes two at a time.
static Value stepOfPairs(scf::ForOp loop) {
  auto twice = loop.getStep().getDefiningOp<arith::AddIOp>();
  bool pairs = twice && twice.getLhs() == twice.getRhs() && twice.getLhs().getDefiningOp<ProgramStepOp>();
  return pairs ? twice.getLhs() : Value();
}

bool kgpu::isOverPrograms(Operation *loop) {
  auto counted = dyn_cast<scf::ForOp>(loop);
  return counted && counted.getLowerBound().getDefiningOp<FirstProgramOp>() &&
         (counted.getStep().getDefiningOp<ProgramStepOp>() || stepOfPairs(counted));
}

std::optional<unsigned> kgpu::programOfPair(Operation *op) {
  bool second = false;
  for (Operation *around = op->getParentOp(); around; around = around->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(around);
    if (loop && isOverPrograms(loop) && stepOfPairs(loop))
      return second;
    // `if p + step < count`, where p is the induction variable.
    auto branch = dyn_cast<scf::IfOp>(around);
    auto condition = branch ? branch.getCondition().getDefiningOp<arith::CmpIOp>() : arith::CmpIOp();
    auto next = condition ? condition.getLhs().getDefiningOp<arith::AddIOp>() : arith::AddIOp();
    auto pairs = branch ? dyn_cast<scf::ForOp>(branch->getParentOp()) : scf::ForOp();
    second |= next && pairs && condition.getPredicate() == arith::CmpIPredicate::slt &&
              condition.getRhs() == pairs.getUpperBound() && next.getLhs() == pairs.getInductionVar() &&
              next.getRhs() == stepOfPairs(pairs) && branch.getThenRegion().isAncestor(op->getParentRegion());
  }
  return std::nullopt;
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
