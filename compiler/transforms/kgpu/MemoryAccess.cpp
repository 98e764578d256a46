// What ops touch, read off their effects and addresses, and what conflicts.
#include "compiler/transforms/kgpu/MemoryAccess.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/Meeting.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

bool Access::changesIn(Operation *loop) const {
  return llvm::any_of(address, [&](Value value) { return loop->isAncestor(value.getParentBlock()->getParentOp()); });
}

//===----------------------------------------------------------------------===//
// What an op touches
//===----------------------------------------------------------------------===//

SmallVector<Access, 2> kgpu::sharedAccesses(Operation *op) {
  SmallVector<Access, 2> accesses;
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return accesses;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<MemType>(operand.getType());
    if (!type || isa<SlotOp, ViewOp>(op))
      continue;
    Access access;
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
    // Ordered by what is sent, not by barriers.
    if (access.alloc && access.alloc.getMailbox())
      continue;
    SmallVector<MemoryEffects::EffectInstance, 2> found;
    effects.getEffectsOnValue(operand, found);
    for (const MemoryEffects::EffectInstance &effect : found)
      if (isa<MemoryEffects::Write>(effect.getEffect()))
        access.kind = Access::Write;
    if (isa<LocalAtomicAddOp>(op))
      access.kind = Access::Atomic;
    if (auto store = dyn_cast<LocalStoreOp>(op))
      access.crosses = store.crossesCtas();
    accesses.push_back(access);
  }
  return accesses;
}

/// The access of a tile op to global memory, if it is one.
static std::optional<Access> globalAccess(Operation *op) {
  Value pointer = accessedPointer(op);
  if (!pointer)
    return std::nullopt;
  Access access;
  access.op = op;
  Type data;
  if (isa<tile::LoadOp, tile::DescLoadOp>(op)) {
    data = op->getResult(0).getType();
  } else {
    access.kind = isa<tile::AtomicRMWOp, tile::AtomicCASOp>(op) ? Access::Atomic : Access::Write;
    data = isa<tile::DescStoreOp>(op) ? cast<tile::DescStoreOp>(op).getValue().getType() : pointer.getType();
  }
  access.argument = pointerArgument(pointer);
  if (access.argument) {
    auto kernel = dyn_cast<func::FuncOp>(access.argument.getParentBlock()->getParentOp());
    unsigned number = cast<BlockArgument>(access.argument).getArgNumber();
    access.alone = kernel && kernel.getArgAttr(number, "tile.disjoint");
  }
  access.address.push_back(pointer);
  if (auto load = dyn_cast<tile::DescLoadOp>(op))
    llvm::append_range(access.address, load.getOffsets());
  if (auto store = dyn_cast<tile::DescStoreOp>(op))
    llvm::append_range(access.address, store.getOffsets());
  if (auto tensor = dyn_cast<RankedTensorType>(data)) {
    using layout::Coord;
    const layout::Layout &layout = layoutOf(tensor);
    access.owned = llvm::none_of(ArrayRef{Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta},
                                 [&](Coord coord) { return layout.isReplicated(coord); });
  }
  return access;
}

MemoryAccesses::MemoryAccesses(func::FuncOp function) {
  bool manyCtas = clusterSize(function) > 1;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    SmallVector<Access, 2> accesses = sharedAccesses(op);
    if (std::optional<Access> access = globalAccess(op)) {
      access->crosses = manyCtas;
      accesses.push_back(*access);
    }
    for (const Access &access : accesses) {
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

static bool touchSameShared(const Access &a, const Access &b) {
  // Where a slot lies is not known: any of them.
  auto range = [](const Access &access, bool relative) -> std::pair<int64_t, int64_t> {
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

/// Read-modify-writes of one kind that nobody asks what was there: the order does not show.
static bool commute(const Access &a, const Access &b) {
  if (a.kind != Access::Atomic || b.kind != Access::Atomic)
    return false;
  if (a.isShared())
    return true;
  auto one = dyn_cast<tile::AtomicRMWOp>(a.op), other = dyn_cast<tile::AtomicRMWOp>(b.op);
  return one && other && one.getKind() == other.getKind() && one.getKind() != tile::RMWKind::Xchg &&
         one.getResult().use_empty() && other.getResult().use_empty();
}

bool kgpu::conflict(const Access &a, const Access &b, bool sameRun) {
  if ((a.kind == Access::Read && b.kind == Access::Read) || a.isShared() != b.isShared() || commute(a, b))
    return false;
  if (a.isShared())
    return touchSameShared(a, b);
  if (a.argument && b.argument && a.argument != b.argument && (a.alone || b.alone))
    return false;
  // One thread's accesses are in order: the owner of an element writes it, but whoever holds it reads it.
  bool ordered = (a.owned && b.owned) || (a.kind != Access::Read && b.kind != Access::Read);
  return !(sameRun && ordered && a.address == b.address);
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
