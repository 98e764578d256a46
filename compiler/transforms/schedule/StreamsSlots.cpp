// The slots of the schedule `streams`, and the products and loads of vectors that read them.
#include "compiler/transforms/schedule/StreamsWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

void StreamsWriter::makeRings(bool bySlots) {
  for (const auto &all : streams.rings()) {
    Ring ring;
    bool held = streams.isHeld(all.front().front());
    for (Operation *load : all.front()) {
      MemType memory = *slotMemory(streams.blocks[load]);
      ring.memories.push_back(memory);
      ring.maps.push_back(mapOf(b, streams.blocks[load].desc, memory, /*pieces=*/1));
    }
    auto type = ChannelType::get(b.getContext(), held ? 1 : schedule.stages, ring.memories);
    ring.channel = ChannelOp::create(b, type, Completion::Bytes, /*fillers=*/1, /*readers=*/4 * schedule.consumers,
                                     /*offset=*/IntegerAttr());
    for (const Streams::Group &group : all) {
      ringOf[group.front()] = rings.size();
      groups[group.front()] = group;
    }
    rings.push_back(std::move(ring));
  }
  auto addRing = [&](MemType memory, int64_t slots, int32_t readers) {
    auto type = ChannelType::get(b.getContext(), slots, memory);
    rings.push_back({{memory},
                     {},
                     ChannelOp::create(b, type, Completion::Threads, /*fillers=*/4 * schedule.consumers, readers,
                                       /*offset=*/IntegerAttr())});
    return unsigned(rings.size()) - 1;
  };
  if (bySlots)
    sharedRing = addRing(*streams.factorMemory(streams.sharedType(), schedule.consumers), /*slots=*/2,
                         /*readers=*/4 * schedule.consumers);
  llvm::SmallDenseMap<Type, unsigned> byType;
  for (auto &[op, reduction] : reductions) {
    auto desc = cast<tile::DescReduceOp>(op).getDesc().getDefiningOp<tile::MakeDescOp>();
    MemType memory = reduction.memory;
    reduction.map = mapOf(b, desc, memory, /*pieces=*/1);
    auto [known, fresh] = byType.try_emplace(memory, rings.size());
    reduction.ring = known->second;
    if (fresh)
      addRing(memory, /*slots=*/1, /*readers=*/1);
  }
}

/// Computes a block's position on demand: a slot is filled where its first block is loaded, so the positions of the
/// others must be computed there too.
void StreamsWriter::reach(Value value, IRMapping &map) {
  Operation *def = value.getDefiningOp();
  if (map.contains(value) || !def || !def->getParentOfType<scf::ForOp>() || !isScalarOrRead(*def, kernel))
    return;
  for (Value operand : def->getOperands())
    reach(operand, map);
  b.clone(*def, map);
}

/// Acquires a slot, has the copy engine fill it, and advances the cursor.
void StreamsWriter::fill(const Streams::Group &group, IRMapping &map, Value &cursor) {
  Ring &ring = rings[ringOf[group.front()]];
  auto slot = AcquireOp::create(b, TypeRange(ring.memories), ring.channel, cursor);
  for (auto [op, engine, part] : llvm::zip_equal(group, ring.maps, slot.getParts())) {
    auto load = cast<tile::DescLoadOp>(op);
    SmallVector<Value> offsets;
    for (Value offset : load.getOffsets()) {
      reach(offset, map);
      offsets.push_back(map.lookupOrDefault(offset));
    }
    b.setLoc(load.getLoc());
    CopyInOp::create(b, engine, offsets, part, ring.channel, cursor, uint32_t(load.getEvict()));
  }
  CommitOp::create(b, ring.channel, cursor);
  cursor = AdvanceOp::create(b, cursor.getType(), cursor);
}

void StreamsWriter::receive(const Streams::Group &group, Value cursor, bool again, Value unless) {
  Ring &ring = rings[ringOf[group.front()]];
  auto received = ReceiveOp::create(b, TypeRange(ring.memories), ring.channel, cursor, /*pending=*/0u, again, unless);
  Slot slot{ringOf[group.front()], cursor, group.front()->getBlock(), {}};
  for (auto &[store, load] : throughHeld)
    if (llvm::is_contained(group, load))
      slot.readers.push_back(store);
  for (auto [load, part] : llvm::zip_equal(group, received.getParts())) {
    parts[load] = part;
    if (streams.blocks[load].isRow()) {
      slot.readers.push_back(load);
      continue;
    }
    for (tile::DotOp dot : streams.dots)
      if (streams.factorOf(dot.getLhs()).load == load || streams.factorOf(dot.getRhs()).load == load)
        slot.readers.push_back(dot);
  }
  slots.push_back(std::move(slot));
}

/// A product, or a load of a vector, no longer reads what is loaded in `place`; the last reader releases the slot.
void StreamsWriter::hasRead(Operation *reader, Block *place) {
  // In each ring, of two steps under way, the earlier one.
  llvm::SmallDenseSet<unsigned> found;
  for (Slot &slot : slots)
    if (slot.place == place && llvm::is_contained(slot.readers, reader) && found.insert(slot.ring).second)
      llvm::erase(slot.readers, reader);
  for (Slot &slot : slots) {
    if (slot.readers.empty())
      ReleaseOp::create(b, rings[slot.ring].channel, slot.cursor, /*when=*/Value());
  }
  llvm::erase_if(slots, [](const Slot &slot) { return slot.readers.empty(); });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Where a product reads an operand: in its slot, or in the memory it is stored to after it was computed.
Value StreamsWriter::memoryOf(const StreamFactor &factor, IRMapping &map) {
  Value memory;
  if (factor.load) {
    memory = parts[factor.load];
  } else {
    auto known = llvm::find_if(inside.stored, [&](auto &entry) { return entry.first == factor.tile; });
    if (known == inside.stored.end()) {
      auto type = cast<RankedTensorType>(factor.tile.getType());
      size_t used = llvm::count_if(inside.stored, [&](auto &entry) { return entry.first.getType() == type; });
      SmallVector<Value> &places = factors[type];
      if (used == places.size())
        places.push_back(allocate(*streams.factorMemory(type, schedule.consumers)));
      LocalStoreOp::create(b, map.lookup(factor.tile), places[used]);
      inside.stored.push_back({factor.tile, places[used]});
      known = std::prev(inside.stored.end());
    }
    memory = known->second;
  }
  return factor.transposed ? TransOp::create(b, memory, ArrayRef<int32_t>{1, 0}).getResult() : memory;
}

void StreamsWriter::begin(tile::DotOp dot, IRMapping &map) {
  StreamFactor left = streams.factorOf(dot.getLhs()), right = streams.factorOf(dot.getRhs());
  Value lhs = left.load || left.transposed ? memoryOf(left, map) : map.lookup(left.tile);
  Value rhs = memoryOf(right, map), none;
  if (matchPattern(dot.getAcc(), m_AnyZeroFloat()))
    none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value sum = WarpgroupMmaOp::create(b, dot.getType(), lhs, rhs, map.lookupOrDefault(dot.getAcc()), none);
  map.map(dot.getResult(), sum);
  inside.begun.push_back({dot, sum, &map});
}

void StreamsWriter::share(Value tile, Value cursor) {
  Ring &ring = rings[*sharedRing];
  auto slot = AcquireOp::create(b, TypeRange(ring.memories), ring.channel, cursor);
  LocalStoreOp::create(b, tile, slot.getParts().front());
  FenceAsyncOp::create(b);
  CommitOp::create(b, ring.channel, cursor);
}

void StreamsWriter::beginShared(tile::DotOp dot, IRMapping &map, Value cursor) {
  Ring &ring = rings[*sharedRing];
  auto slot = ReceiveOp::create(b, TypeRange(ring.memories), ring.channel, cursor);
  slots.push_back({*sharedRing, cursor, dot->getBlock(), {dot}});
  inside.stored.push_back({streams.sharedTile(dot), slot.getParts().front()});
  begin(dot, map);
  inside.stored.pop_back();
}

void StreamsWriter::settle(size_t pending) {
  size_t done = inside.begun.size() - pending;
  for (Begun &product : ArrayRef(inside.begun).take_front(done).vec()) {
    b.setLoc(product.dot.getLoc());
    product.map->map(product.dot.getResult(),
                     MmaWaitOp::create(b, product.sum.getType(), product.sum, uint32_t(pending)).getResult());
  }
  for (Begun &product : ArrayRef(inside.begun).take_front(done).vec())
    hasRead(product.dot, product.dot->getBlock());
  inside.begun.erase(inside.begun.begin(), inside.begun.begin() + done);
}

void StreamsWriter::settleFor(ValueRange values, IRMapping &map) {
  size_t needed = 0;
  for (auto [i, product] : llvm::enumerate(inside.begun))
    if (product.map == &map && llvm::is_contained(values, product.dot.getResult()))
      needed = i + 1;
  if (needed)
    settle(inside.begun.size() - needed);
}

bool StreamsWriter::isVector(Value value) {
  while (isa_and_nonnull<tile::ExpandDimsOp, tile::BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return llvm::any_of(streams.blocks,
                      [&](auto &entry) { return entry.second.isRow() && entry.second.value() == value; });
}

void StreamsWriter::loadVector(Value value, IRMapping &map) {
  if (map.contains(value))
    return;
  for (auto &[load, stream] : streams.blocks)
    if (stream.isRow() && stream.value() == value) {
      map.map(value, LocalLoadOp::create(b, value.getType(), parts[load]).getResult());
      return hasRead(load, load->getBlock());
    }
  Operation *shape = value.getDefiningOp();
  loadVector(shape->getOperand(0), map);
  b.setLoc(shape->getLoc());
  b.clone(*shape, map);
}

void StreamsWriter::loadVectors(ValueRange values, IRMapping &map) {
  for (Value value : values)
    if (isVector(value))
      loadVector(value, map);
}

void StreamsWriter::settleFor(Operation *op, IRMapping &map) {
  SmallVector<Value> used;
  op->walk([&](Operation *inner) { llvm::append_range(used, inner->getOperands()); });
  settleFor(used, map);
  loadVectors(used, map);
  b.setLoc(op->getLoc());
}
