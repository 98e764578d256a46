// Buffers in the worker's frame, and access to their elements; see Frame.h.
#include "compiler/conversion/tile_to_cpu/Frame.h"
#include "compiler/analysis/FramePlan.h"
#include "compiler/conversion/tile_to_cpu/Abi.h"
#include "compiler/conversion/tile_to_cpu/Plan.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

void Frame::begin(Value begins, Operation *before) {
  pointer = begins;
  anchor = before;
}

int Frame::root(int lifetime) const {
  while (lifetimes[lifetime].parent != lifetime)
    lifetime = lifetimes[lifetime].parent;
  return lifetime;
}

int Frame::join(int a, int c) {
  if (a < 0 || c < 0)
    return std::max(a, c);
  a = root(a);
  c = root(c);
  if (a != c) {
    lifetimes[c].parent = a;
    lifetimes[a].begin = std::min(lifetimes[a].begin, lifetimes[c].begin);
    lifetimes[a].end = std::max(lifetimes[a].end, lifetimes[c].end);
  }
  return a;
}

void Frame::touch(int lifetime) {
  if (lifetime < 0)
    return;
  lifetime = root(lifetime);
  lifetimes[lifetime].end = std::max(lifetimes[lifetime].end, now);
  for (LoopScope &scope : loopScopes)
    if (lifetimes[lifetime].begin <= scope.begin)
      scope.touched.push_back(lifetime);
}

void Frame::enterLoop() { loopScopes.push_back({++now, {}}); }

void Frame::leaveLoop() {
  // A buffer from outside that the loop uses is needed until the loop's last iteration.
  ++now;
  LoopScope scope = loopScopes.pop_back_val();
  llvm::SmallDenseSet<int> seen;
  for (int lifetime : scope.touched)
    if (seen.insert(root(lifetime)).second)
      touch(lifetime);
}

Value Frame::buffer(int64_t bytes, int &lifetime) {
  lifetime = lifetimes.size();
  lifetimes.push_back({lifetime, now, now});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(anchor);
  auto offset = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  buffers.push_back({bytes, lifetime, offset});
  return b.offsetBy(pointer, offset.getResult());
}

Storage Frame::allocate(Type type, Value given) {
  auto tile = cast<RankedTensorType>(type);
  Storage storage;
  storage.element = tile.getElementType();
  storage.shape.assign(tile.getShape().begin(), tile.getShape().end());
  storage.pointer = given ? given : buffer(tileBytes(type), storage.lifetime);
  return storage;
}

Storage &Frame::storageOf(Value value) {
  Storage &storage = storages.find(value)->second;
  touch(storage.lifetime);
  return storage;
}

int64_t Frame::finish() {
  std::vector<FrameRequest> requests;
  for (const Buffer &buffer : buffers) {
    const Lifetime &lifetime = lifetimes[root(buffer.lifetime)];
    requests.push_back({buffer.bytes, kFrameAlign, lifetime.begin, lifetime.end});
  }
  FramePlan frame = planFrame(requests);
  for (auto [buffer, offset] : llvm::zip(buffers, frame.offsets))
    cast<arith::ConstantOp>(buffer.offset).setValueAttr(b.getI64IntegerAttr(offset));
  return (frame.bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value Buffers::address(const Storage &storage, const Index &at) {
  // Terms are grouped by loop depth, so that each is added at the level where it becomes known.
  int64_t bytes = memoryBytes(storage.element), stride = bytes, constant = 0;
  SmallVector<std::pair<int, std::pair<Value, int64_t>>> terms;
  for (int dim = storage.shape.size() - 1; dim >= 0; --dim) {
    const Coord &coord = at.at[dim];
    constant += coord.constant * stride;
    if (coord.value) {
      terms.push_back({nests.levelOf(coord), {coord.value, stride}});
    }
    stride *= storage.shape[dim];
  }
  // Within a level they are sorted by stride; strides differ, so the order is deterministic.
  llvm::sort(terms, [](const auto &x, const auto &y) {
    return std::make_pair(x.first, x.second.second) < std::make_pair(y.first, y.second.second);
  });
  Value address = storage.pointer;
  OpBuilder::InsertionGuard guard(b);
  for (auto &[level, term] : terms) {
    nests.insertAt(level);
    address = b.offsetBy(address, arith::MulIOp::create(b, term.first, b.i64(term.second)).getResult());
  }
  if (!terms.empty() || constant == 0)
    return b.offsetBy(address, constant);
  nests.insertAt(0);
  return b.offsetBy(address, constant);
}

Value Buffers::read(const Storage &storage, const Index &at) {
  Value address = this->address(storage, at);
  if (!at.isVector())
    return b.loadFrom(address, storage.element, 1);
  int64_t stride = 1;
  for (int64_t side : ArrayRef<int64_t>(storage.shape).drop_front(at.vectorDim + 1))
    stride *= side;
  if (stride == 1)
    return b.loadFrom(address, storage.element, at.width);
  Value step = b.i64(stride * memoryBytes(storage.element));
  return b.gather(b.laneAddresses(address, step, at.width), {}, {}, storage.element, at.width);
}

void Buffers::write(const Storage &storage, const Index &at, Value value) {
  Value address = this->address(storage, at);
  if (!at.isVector()) {
    b.storeTo(address, value, storage.element);
    return;
  }
  int64_t stride = 1;
  for (int64_t side : ArrayRef<int64_t>(storage.shape).drop_front(at.vectorDim + 1))
    stride *= side;
  value = b.toVector(value, at.width);
  if (stride == 1) {
    b.storeTo(address, value, storage.element);
    return;
  }
  Value step = b.i64(stride * memoryBytes(storage.element));
  b.scatter(b.laneAddresses(address, step, at.width), {}, value, storage.element);
}
