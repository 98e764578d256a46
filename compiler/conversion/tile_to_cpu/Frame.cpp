// Buffers in the worker's frame. Addresses are emitted before their offsets are known: the lifetimes are gathered while
// emitting, and the constants are patched at the end.
#include "compiler/analysis/FramePlan.h"
#include "compiler/conversion/tile_to_cpu/Abi.h"
#include "compiler/conversion/tile_to_cpu/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

int KernelLowering::rootLifetime(int lifetime) const {
  while (lifetimes[lifetime].parent != lifetime)
    lifetime = lifetimes[lifetime].parent;
  return lifetime;
}

int KernelLowering::joinLifetimes(int a, int c) {
  if (a < 0 || c < 0)
    return std::max(a, c);
  a = rootLifetime(a);
  c = rootLifetime(c);
  if (a != c) {
    lifetimes[c].parent = a;
    lifetimes[a].begin = std::min(lifetimes[a].begin, lifetimes[c].begin);
    lifetimes[a].end = std::max(lifetimes[a].end, lifetimes[c].end);
  }
  return a;
}

void KernelLowering::touch(int lifetime) {
  if (lifetime < 0)
    return;
  lifetime = rootLifetime(lifetime);
  lifetimes[lifetime].end = std::max(lifetimes[lifetime].end, now);
  for (LoopScope &scope : loopScopes)
    if (lifetimes[lifetime].begin <= scope.begin)
      scope.touched.push_back(lifetime);
}

void KernelLowering::enterLoop() { loopScopes.push_back({++now, {}}); }

void KernelLowering::leaveLoop() {
  // What came from outside and is used in the loop is needed until its last iteration.
  ++now;
  LoopScope scope = loopScopes.pop_back_val();
  llvm::SmallDenseSet<int> seen;
  for (int lifetime : scope.touched)
    if (seen.insert(rootLifetime(lifetime)).second)
      touch(lifetime);
}

Value KernelLowering::frameBuffer(int64_t bytes, int &lifetime) {
  lifetime = lifetimes.size();
  lifetimes.push_back({lifetime, now, now});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(frameAnchor);
  auto offset = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  buffers.push_back({bytes, lifetime, offset});
  return offsetBy(frame, offset.getResult());
}

Storage KernelLowering::allocate(Type type, Value pointer) {
  auto tile = cast<RankedTensorType>(type);
  Storage storage;
  storage.element = tile.getElementType();
  storage.shape.assign(tile.getShape().begin(), tile.getShape().end());
  storage.pointer = pointer ? pointer : frameBuffer(tileBytes(type), storage.lifetime);
  return storage;
}

Storage KernelLowering::allocateFor(Value value) {
  if (Value old = plan->inPlaceOf(value)) {
    const Storage &storage = storageOf(old);
    Storage mine = allocate(value.getType(), storage.pointer);
    mine.lifetime = storage.lifetime;
    return mine;
  }
  int slot = plan->targetSlot(value);
  if (slot < 0)
    return allocate(value.getType());
  Storage mine = allocate(value.getType(), pool->pointers[slot]);
  mine.lifetime = pool->lifetime;
  touch(mine.lifetime);
  return mine;
}

Storage &KernelLowering::storageOf(Value value) {
  Storage &storage = storages.find(value)->second;
  touch(storage.lifetime);
  return storage;
}

LogicalResult KernelLowering::writeTile(Value tile, const Storage &target) {
  ++now;
  touch(target.lifetime);
  return forEach(chooseWalk(target.shape, -1, lanes()), [&](const Index &at) {
    writeBuffer(target, at, eval(tile, at));
    return success();
  });
}

void KernelLowering::copyBuffer(const Storage &from, const Storage &to) {
  ++now;
  touch(from.lifetime);
  touch(to.lifetime);
  (void)forEach(chooseWalk(to.shape, -1, lanes()), [&](const Index &at) {
    writeBuffer(to, at, readBuffer(from, at));
    return success();
  });
}

void KernelLowering::finish() {
  std::vector<FrameRequest> requests;
  for (const FrameBuffer &buffer : buffers) {
    const Lifetime &lifetime = lifetimes[rootLifetime(buffer.lifetime)];
    requests.push_back({buffer.bytes, kFrameAlign, lifetime.begin, lifetime.end});
  }
  FramePlan frame = planFrame(requests);
  for (auto [buffer, offset] : llvm::zip(buffers, frame.offsets))
    cast<arith::ConstantOp>(buffer.offset).setValueAttr(b.getI64IntegerAttr(offset));
  int64_t bytes = (frame.bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
  entry->setAttr("kiln.frame_bytes", b.getI64IntegerAttr(bytes));
}
