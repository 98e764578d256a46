// tile.load, tile.store and tile.prefetch: the widest accesses that layout, contiguity, alignment and mask allow.
#include "compiler/conversion/kgpu_to_nvvm/Access.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

static LogicalResult emitLoad(Lowering &lowering, tile::LoadOp op) {
  Value pointers = op.getPtr(), mask = op.getMask(), other = op.getOther();
  if (lowering.alignment.alwaysTrue(mask))
    mask = Value();
  VectorAccess access;
  access.element = cast<tile::PtrType>(elementOf(pointers)).getPointee();
  access.cache = op.getCache();
  access.evict = op.getEvict();
  access.isVolatile = op.getIsVolatile();
  access.isReadOnly = lowering.global.isReadOnly(pointers);
  access.mayFollowStore = lowering.global.mayFollowStore(op);
  const Layout *layout = layoutOf(pointers.getType());
  access.isOrdered = layout != nullptr;
  Grouping grouping{1, memoryBytes(access.element)};
  if (layout)
    grouping = groupPointers(lowering.alignment, pointers, mask, lowering.target.vectorBytes);
  access.count = grouping.count;
  access.alignment = grouping.alignment;

  ArrayRef<Value> addresses = lowering.get(pointers);
  ArrayRef<Value> masks = mask ? lowering.get(mask) : ArrayRef<Value>();
  ArrayRef<Value> others = mask && other ? lowering.get(other) : ArrayRef<Value>();
  Registers result(addresses.size());
  for (unsigned reg = 0; reg < addresses.size(); reg += access.count) {
    // A register that repeats an element of this thread is not loaded again.
    int64_t first = layout ? ownerRegister(*layout, reg) : reg;
    if (first < reg) {
      for (int64_t i = 0; i < access.count; ++i)
        result[reg + i] = result[first + i];
      continue;
    }
    Value here = mask ? masks[reg] : Value();
    if (layout)
      here = lowering.log.unlessFailed(here);
    Registers loaded =
        loadVector(lowering, access, addresses[reg], here, others.empty() ? others : others.slice(reg, access.count));
    for (int64_t i = 0; i < access.count; ++i)
      result[reg + i] = loaded[i];
  }
  lowering.set(op.getResult(), std::move(result));
  return success();
}

/// Calls `one(register, predicate)` for every run of `count` elements that this thread owns. A null predicate holds.
static void forOwned(Lowering &lowering, Value pointers, Value mask, Value owner, int64_t count,
                     llvm::function_ref<void(unsigned, Value)> one) {
  const Layout *layout = layoutOf(pointers.getType());
  ArrayRef<Value> masks = mask ? lowering.get(mask) : ArrayRef<Value>();
  DenseMap<Value, Value> combined; // owner and mask, per mask
  for (unsigned reg = 0; reg < registerCount(pointers.getType()); reg += count) {
    if (layout && !isOwnerRegister(*layout, reg))
      continue;
    Value here = mask ? masks[reg] : owner;
    if (mask && owner) {
      Value &both = combined[here];
      if (!both)
        both = arith::AndIOp::create(lowering.b, owner, here);
      here = both;
    }
    one(reg, here);
  }
}

static LogicalResult emitStore(Lowering &lowering, tile::StoreOp op) {
  Value pointers = op.getPtr(), mask = op.getMask();
  if (lowering.alignment.alwaysTrue(mask))
    mask = Value();
  VectorAccess access;
  access.element = cast<tile::PtrType>(elementOf(pointers)).getPointee();
  access.cache = op.getCache();
  access.evict = op.getEvict();
  const Layout *layout = layoutOf(pointers.getType());
  Grouping grouping{1, memoryBytes(access.element)};
  if (layout)
    grouping = groupPointers(lowering.alignment, pointers, mask, lowering.target.vectorBytes);
  access.count = grouping.count;
  access.alignment = grouping.alignment;

  ArrayRef<Value> addresses = lowering.get(pointers), values = lowering.get(op.getValue());
  Value owner =
      layout ? lowering.log.unlessFailed(lowering.coordinates.isOwner(*layout)) : lowering.place.isFirstThread();
  forOwned(lowering, pointers, mask, owner, access.count, [&](unsigned reg, Value here) {
    storeVector(lowering, access, addresses[reg], here, values.slice(reg, access.count));
  });
  return success();
}

/// One instruction for each run of elements that a load would read with one.
static LogicalResult emitPrefetch(Lowering &lowering, tile::PrefetchOp op) {
  CodeBuilder &b = lowering.b;
  Value pointers = op.getPtr(), mask = op.getMask();
  if (lowering.alignment.alwaysTrue(mask))
    mask = Value();
  const Layout *layout = layoutOf(pointers.getType());
  int64_t count = layout ? groupPointers(lowering.alignment, pointers, mask, lowering.target.vectorBytes).count : 1;
  ArrayRef<Value> addresses = lowering.get(pointers);
  Value owner = layout ? lowering.coordinates.isOwner(*layout) : lowering.place.isFirstThread();
  forOwned(lowering, pointers, mask, owner, count, [&](unsigned reg, Value here) {
    SmallVector<Value> operands{addresses[reg]};
    if (here)
      operands.push_back(here);
    b.ptx(here ? "@$1 prefetch.global.L2 [$0];" : "prefetch.global.L2 [$0];", here ? "l,b" : "l", {}, operands);
  });
  return success();
}

void nvvm::addMemory(EmitTable &table) {
  table.add<tile::LoadOp, emitLoad>();
  table.add<tile::StoreOp, emitStore>();
  table.add<tile::PrefetchOp, emitPrefetch>();
}
