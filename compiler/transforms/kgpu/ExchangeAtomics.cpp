// Atomics whose result is used: only the owner of an element performs the atomic, so only it has the old value. A
// result that other threads hold too (for a scalar, all of them) is stored by the owners and loaded by all threads.
//
//     %old = tile.atomic_rmw add relaxed gpu %p, %one : !tile.ptr<i32>, i32
//   becomes, if %old is used,
//     %0 = tile.atomic_rmw add relaxed gpu %p, %one : !tile.ptr<i32>, i32
//     %m = kgpu.alloc : <1xi32>
//     kgpu.local_store %0, %m {byOwner}
//     %old = kgpu.local_load %m
#include "compiler/transforms/kgpu/Exchange.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;

static LogicalResult exchangeAtomic(Exchanges &exchanges, Operation *op) {
  Value result = op->getResult(0);
  if (result.use_empty())
    return success();
  auto tensor = dyn_cast<RankedTensorType>(result.getType());
  bool shared = !tensor;
  if (tensor)
    for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta})
      shared |= layoutOf(tensor).isReplicated(coord);
  if (!shared)
    return success();
  exchanges.b.setInsertionPointAfter(op);
  SmallVector<int64_t> shape(tensor ? tensor.getShape() : ArrayRef<int64_t>{1});
  Value place =
      exchanges.allocate(tensor ? tensor.getElementType() : result.getType(), exchanges.wholeInEachCta(shape));
  auto store = LocalStoreOp::create(exchanges.b, result, place, /*byOwner=*/true);
  Value known = exchanges.load(place, result.getType());
  result.replaceAllUsesExcept(known, store);
  return success();
}

void kgpu::addAtomicExchanges(ExchangeTable &table) {
  table[tile::AtomicRMWOp::getOperationName()] = exchangeAtomic;
  table[tile::AtomicCASOp::getOperationName()] = exchangeAtomic;
}
