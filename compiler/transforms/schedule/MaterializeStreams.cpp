// Writes out the schedule of several products. Each role is a clone of the kernel, loops included. The load role fills
// a slot where the kernel loads. The multiply role receives it there, begins products where they appear, and waits for
// each where its result is first used. At the end of a loop body all products have been waited for. Where the kernel
// adds a block to memory, the multiply role stores it in a slot, from which the add role has the copy engine add it: so
// nobody in the multiply role waits for the copy engine, or for all of its threads to have stored.
//
// A rotated loop begins the first product of the next step under the last ones of this step:
//
//   begin S of step 0; wait
//   for steps 1 ...: begin dP; P; begin dv; dS; begin dk of the step before; begin S of this step; wait
//   begin dP; P; begin dv; dS; begin dk of the last step
//
// Each group computes a part of dS, and all read all of it for dq. If they waited for each other there, they would do
// scalar work at the same time, and nobody would feed the tensor cores. So dq of a step is made in the next one, behind
// that step's dS, which has a second slot.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/schedule/ChainedProducts.h"
#include "compiler/transforms/schedule/RoleWriter.h"
#include "compiler/transforms/schedule/Streams.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

namespace {
enum class Role { Load, Multiply, Add };

/// The channel of the blocks and vectors that arrive together, or of a block that is added to memory.
struct Ring {
  SmallVector<Type> memories;
  SmallVector<Value> maps;
  ChannelOp channel;

  CursorType cursorType() { return CursorType::get(channel.getContext(), channel.getType().getSlots()); }
};

/// A slot that has been received but not released.
struct Slot {
  unsigned ring;
  Value cursor;
  Block *place;                     ///< where it is loaded
  SmallVector<Operation *> readers; ///< products and vector loads that have not finished reading it
};

class Writer {
public:
  Writer(func::FuncOp kernel, const Schedule &schedule, Streams streams)
      : kernel(kernel), schedule(schedule), streams(std::move(streams)), b(kernel.getLoc(), kernel.getContext()) {}
  void run();

private:
  void makeRings();
  void writeRole(scf::ForOp programs, Role role);
  void writeStore(tile::DescStoreOp store, IRMapping &map);
  /// Begins or ends a turn in the add role. Its end is put off until the next turn's blocks are on their way, by which
  /// time its own are in memory; but not while the next turn is waited for, as that might wait for this one's end.
  /// `last`: whether there is such an end, where it is and what it writes.
  void writeTurn(Operation &op, IRMapping &map, MutableArrayRef<Value> last);
  /// Ends the turn that was put off, if there is one, when all but `later` groups of copies are in memory.
  void endTurn(ArrayRef<Value> last, uint32_t later);
  /// Fills a slot with a block, or has the copy engine add it to memory from there.
  void writeReduction(tile::DescReduceOp op, Role role, IRMapping &map, Value &cursor);
  /// Allocates memory for the whole multiply role.
  Value allocate(MemType memory);
  void cloneBlock(Block &from, Role role, IRMapping &map, MutableArrayRef<Value> cursors);
  void cloneOp(Operation &op, Role role, IRMapping &map, MutableArrayRef<Value> cursors);
  void cloneRotated(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors);
  /// Receives the slot of `step` and begins its first product.
  void beginStep();
  /// The rest of a step. `next`: the step that begins meanwhile, if there is one.
  struct Step;
  void cloneRest(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors, Step *next);
  /// Passes over the block that a loop which puts off a product adds first: there was no step before.
  void skipFirst(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors);
  void cloneLoop(scf::ForOp loop, Role role, IRMapping &map, MutableArrayRef<Value> cursors);
  void fill(const Streams::Group &group, IRMapping &map, Value &cursor);
  void reach(Value value, IRMapping &map);
  /// `again`: the slot is held already.
  void receive(const Streams::Group &group, Value cursor, bool again = false);
  void begin(tile::DotOp dot, IRMapping &map);
  /// Stores a group's part of an operand that groups share.
  void share(Value tile, Value cursor);
  /// Begins the product of such an operand, once all groups have stored their parts.
  void beginShared(tile::DotOp dot, IRMapping &map, Value cursor);
  Value memoryOf(const StreamFactor &factor, IRMapping &map);
  /// Waits for the products begun with this map whose results are among `values`.
  void settleFor(ValueRange values, IRMapping &map);
  /// The value is a loaded vector, perhaps in another shape.
  bool isVector(Value value);
  /// Loads a vector, and gives it its shape.
  void loadVector(Value value, IRMapping &map);
  /// Loads the vectors that `op` uses.
  void loadVectors(Operation *op, IRMapping &map);
  /// Waits for the products whose results `op` uses, and loads the vectors that it uses.
  void settleFor(Operation *op, IRMapping &map);
  /// Waits until at most the last `pending` products begun in this block are in flight.
  void settle(size_t pending);
  void hasRead(Operation *reader, Block *place);
  bool isKnown(Operation &op, IRMapping &map);
  bool streamsIn(Operation *op);

  func::FuncOp kernel;
  Schedule schedule;
  Streams streams;
  ImplicitLocOpBuilder b;
  SmallVector<Ring> rings;
  llvm::DenseMap<Operation *, unsigned> ringOf;       ///< by the first load of a group
  llvm::DenseMap<Operation *, Streams::Group> groups; ///< likewise
  llvm::DenseMap<Operation *, Value> parts;           ///< by load: its memory, once received
  SmallVector<Slot> slots;
  struct Begun {
    tile::DotOp dot;
    Value sum;
    IRMapping *map; ///< what its result is for
  };
  struct Store {
    MemType memory;
    Value map;
  };
  llvm::MapVector<Operation *, Store> stores;
  llvm::SmallDenseMap<Type, Value> outlets; ///< memory that results of a type leave through, one after the other
  struct Reduction {
    MemType memory;
    unsigned ring = 0;
    Value map = {};
  };
  llvm::MapVector<Operation *, Reduction> reductions;
  llvm::DenseMap<Type, SmallVector<Value>> factors; ///< memory of computed operands
  /// The block being written.
  struct Inside {
    SmallVector<Begun> begun; ///< in flight, in program order
    /// Operands that were stored, here or in an enclosing block, and where.
    SmallVector<std::pair<Value, Value>> stored;
    bool reduces = false; ///< it has a reduction
  } inside;
  Inside enter(Block &block);
  /// A step of a rotated loop that begins during the one before.
  struct Step {
    RotatedLoop &rotated;
    IRMapping map;
    Value cursor; ///< of its slot
    bool isDue = false, hasBegun = false;
  };
  Step *step = nullptr;           ///< in the block being written
  bool bySlots = false;           ///< see sharesBySlots
  std::optional<unsigned> shared; ///< the ring of the operand that groups share
  /// The product of the step before that the step being written makes.
  struct Deferred {
    tile::DotOp dot;
    IRMapping map; ///< what its result is for
  };
  Deferred *deferred = nullptr;
  llvm::MapVector<Operation *, Operation *> throughHeld; ///< see storesThroughHeld
  bool loadsLate = false;                                ///< vectors are loaded where they are used
  Block *multiply = nullptr;
};
} // namespace

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

void Writer::makeRings() {
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
  int32_t warps = 4 * schedule.consumers;
  if (bySlots) {
    MemType memory = *streams.factorMemory(streams.sharedType(), schedule.consumers);
    auto type = ChannelType::get(b.getContext(), /*slots=*/2, memory);
    shared = rings.size();
    rings.push_back({{memory},
                     {},
                     ChannelOp::create(b, type, Completion::Threads, /*fillers=*/warps, /*readers=*/warps,
                                       /*offset=*/IntegerAttr())});
  }
  llvm::SmallDenseMap<Type, unsigned> byType;
  for (auto &[op, reduction] : reductions) {
    auto desc = cast<tile::DescReduceOp>(op).getDesc().getDefiningOp<tile::MakeDescOp>();
    MemType memory = reduction.memory;
    reduction.map = mapOf(b, desc, memory, /*pieces=*/1);
    auto [known, fresh] = byType.try_emplace(memory, rings.size());
    reduction.ring = known->second;
    if (!fresh)
      continue;
    auto type = ChannelType::get(b.getContext(), /*slots=*/1, memory);
    rings.push_back({{memory},
                     {},
                     ChannelOp::create(b, type, Completion::Threads, /*fillers=*/warps, /*readers=*/1,
                                       /*offset=*/IntegerAttr())});
  }
}

/// Computes a block's position on demand: a slot is filled where its first block is loaded, so the positions of the
/// others must be computed there too.
void Writer::reach(Value value, IRMapping &map) {
  Operation *def = value.getDefiningOp();
  if (map.contains(value) || !def || !def->getParentOfType<scf::ForOp>() || !isScalarOrRead(*def, kernel))
    return;
  for (Value operand : def->getOperands())
    reach(operand, map);
  b.clone(*def, map);
}

/// Acquires a slot, has the copy engine fill it, and advances the cursor.
void Writer::fill(const Streams::Group &group, IRMapping &map, Value &cursor) {
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

void Writer::receive(const Streams::Group &group, Value cursor, bool again) {
  Ring &ring = rings[ringOf[group.front()]];
  auto received = ReceiveOp::create(b, TypeRange(ring.memories), ring.channel, cursor, /*pending=*/0u, again);
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
void Writer::hasRead(Operation *reader, Block *place) {
  // Of two steps under way, the earlier one.
  auto found = llvm::find_if(
      slots, [&](const Slot &slot) { return slot.place == place && llvm::is_contained(slot.readers, reader); });
  if (found != slots.end())
    llvm::erase(found->readers, reader);
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
Value Writer::memoryOf(const StreamFactor &factor, IRMapping &map) {
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

void Writer::begin(tile::DotOp dot, IRMapping &map) {
  StreamFactor left = streams.factorOf(dot.getLhs()), right = streams.factorOf(dot.getRhs());
  Value lhs = left.load || left.transposed ? memoryOf(left, map) : map.lookup(left.tile);
  Value rhs = memoryOf(right, map), none;
  if (matchPattern(dot.getAcc(), m_AnyZeroFloat()))
    none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value sum = WarpgroupMmaOp::create(b, dot.getType(), lhs, rhs, map.lookupOrDefault(dot.getAcc()), none);
  map.map(dot.getResult(), sum);
  inside.begun.push_back({dot, sum, &map});
}

void Writer::share(Value tile, Value cursor) {
  Ring &ring = rings[*shared];
  auto slot = AcquireOp::create(b, TypeRange(ring.memories), ring.channel, cursor);
  LocalStoreOp::create(b, tile, slot.getParts().front());
  FenceAsyncOp::create(b);
  CommitOp::create(b, ring.channel, cursor);
}

void Writer::beginShared(tile::DotOp dot, IRMapping &map, Value cursor) {
  Ring &ring = rings[*shared];
  auto slot = ReceiveOp::create(b, TypeRange(ring.memories), ring.channel, cursor, /*pending=*/0u, /*again=*/false);
  slots.push_back({*shared, cursor, dot->getBlock(), {dot}});
  inside.stored.push_back({streams.sharedTile(dot), slot.getParts().front()});
  begin(dot, map);
  inside.stored.pop_back();
}

void Writer::settle(size_t pending) {
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

void Writer::settleFor(ValueRange values, IRMapping &map) {
  size_t needed = 0;
  for (auto [i, product] : llvm::enumerate(inside.begun))
    if (product.map == &map && llvm::is_contained(values, product.dot.getResult()))
      needed = i + 1;
  if (needed)
    settle(inside.begun.size() - needed);
}

bool Writer::isVector(Value value) {
  while (isa_and_nonnull<tile::ExpandDimsOp, tile::BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return llvm::any_of(streams.blocks,
                      [&](auto &entry) { return entry.second.isRow() && entry.second.value() == value; });
}

void Writer::loadVector(Value value, IRMapping &map) {
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

void Writer::loadVectors(Operation *op, IRMapping &map) {
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (isVector(operand))
        loadVector(operand, map);
  });
  b.setLoc(op->getLoc());
}

void Writer::settleFor(Operation *op, IRMapping &map) {
  SmallVector<Value> used;
  op->walk([&](Operation *inner) { llvm::append_range(used, inner->getOperands()); });
  settleFor(used, map);
  loadVectors(op, map);
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

bool Writer::streamsIn(Operation *op) {
  auto contains = [op](Operation *other) { return op->isProperAncestor(other); };
  return llvm::any_of(llvm::make_first_range(streams.blocks), contains) || llvm::any_of(streams.dots, contains) ||
         llvm::any_of(llvm::make_first_range(reductions), contains);
}

/// Every operand exists in this role, or is defined before the loop over programs.
bool Writer::isKnown(Operation &op, IRMapping &map) {
  return llvm::all_of(op.getOperands(), [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return map.contains(operand) || (def && !def->getParentOfType<scf::ForOp>()) ||
           (!def && cast<BlockArgument>(operand).getOwner()->getParentOp() == kernel);
  });
}

void Writer::skipFirst(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors) {
  scf::ForOp loop = rotated.loop;
  unsigned ring = reductions[rotated.uses.back()].ring;
  Value &cursor = cursors[ring];
  b.setLoc(rotated.uses.back()->getLoc());
  Value runs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, map.lookupOrDefault(loop.getLowerBound()),
                                     map.lookupOrDefault(loop.getUpperBound()));
  auto branch = scf::IfOp::create(b, TypeRange{cursor.getType()}, runs, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, cursor);
  b.setInsertionPointToStart(branch.thenBlock());
  ReceiveOp::create(b, TypeRange(rings[ring].memories), rings[ring].channel, cursor, /*pending=*/0u, /*again=*/false);
  ReleaseOp::create(b, rings[ring].channel, cursor, /*when=*/Value());
  scf::YieldOp::create(b, AdvanceOp::create(b, cursor.getType(), cursor).getResult());
  cursor = branch.getResult(0);
}

void Writer::cloneLoop(scf::ForOp loop, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  if (role == Role::Multiply && schedule.rotated)
    if (auto rotated = streams.rotated(loop))
      return cloneRotated(*rotated, map, cursors);
  if (role == Role::Add && schedule.rotated)
    if (auto rotated = streams.rotated(loop); rotated && rotated->deferred)
      skipFirst(*rotated, map, cursors);
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  auto isKept = [&](Value value) { return role == Role::Multiply || !isa<RankedTensorType>(value.getType()); };
  SmallVector<Value> inits;
  for (Value init : loop.getInitArgs())
    if (isKept(init))
      inits.push_back(of(init));
  llvm::append_range(inits, cursors);
  b.setLoc(loop.getLoc());
  auto copy = scf::ForOp::create(b, of(loop.getLowerBound()), of(loop.getUpperBound()), of(loop.getStep()), inits);
  map.map(loop.getInductionVar(), copy.getInductionVar());
  unsigned next = 0;
  for (Value argument : loop.getRegionIterArgs())
    if (isKept(argument))
      map.map(argument, copy.getRegionIterArg(next++));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(copy.getBody());
  SmallVector<Value> inside(copy.getRegionIterArgs().take_back(cursors.size()));
  cloneBlock(*loop.getBody(), role, map, inside);
  SmallVector<Value> yielded;
  for (Value value : loop.getYieldedValues())
    if (isKept(value))
      yielded.push_back(of(value));
  llvm::append_range(yielded, inside);
  b.setLoc(loop.getLoc());
  scf::YieldOp::create(b, yielded);
  next = 0;
  for (Value result : loop.getResults())
    if (isKept(result))
      map.map(result, copy.getResult(next++));
  llvm::copy(copy.getResults().take_back(cursors.size()), cursors.begin());
}

Writer::Inside Writer::enter(Block &block) {
  Inside outer = std::exchange(inside, Inside());
  inside.stored = outer.stored;
  inside.reduces = llvm::any_of(block, [&](Operation &op) { return reductions.contains(&op); });
  return outer;
}

void Writer::cloneBlock(Block &from, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  Inside outer = enter(from);
  for (Operation &op : from.without_terminator())
    cloneOp(op, role, map, cursors);
  if (role == Role::Multiply)
    loadVectors(from.getTerminator(), map);
  settle(0);
  inside = std::move(outer);
}

void Writer::cloneOp(Operation &op, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  b.setLoc(op.getLoc());
  if (auto group = groups.find(&op); group != groups.end()) {
    Value &cursor = cursors[ringOf[&op]];
    if (role == Role::Load) {
      fill(group->second, map, cursor);
    } else if (role == Role::Multiply) {
      receive(group->second, cursor);
      cursor = AdvanceOp::create(b, cursor.getType(), cursor);
    }
  } else if (auto reduction = reductions.find(&op); reduction != reductions.end()) {
    if (role != Role::Load)
      writeReduction(cast<tile::DescReduceOp>(op), role, map, cursors[reduction->second.ring]);
  } else if (isOrdering(streams.turns, &op)) {
    if (role == Role::Add)
      writeTurn(op, map, cursors.drop_front(rings.size()));
  } else if (auto loop = dyn_cast<scf::ForOp>(op); loop && streamsIn(loop)) {
    settleFor(loop.getInitArgs(), map);
    cloneLoop(loop, role, map, cursors);
  } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
    if (role == Role::Multiply && shared && streams.sharedIn(dot->getBlock()) == dot) {
      Value &cursor = cursors[*shared], next = AdvanceOp::create(b, cursor.getType(), cursor);
      bool isLate = deferred && deferred->dot == dot;
      share(map.lookup(streams.sharedTile(dot)), isLate ? next : cursor);
      beginShared(dot, isLate ? deferred->map : map, cursor);
      cursor = next;
    } else if (role == Role::Multiply) {
      begin(dot, map);
    }
  } else if (streams.parts.contains(&op)) {
    return;
  } else if (loadsLate && isa<tile::ExpandDimsOp, tile::BroadcastOp>(op) && isVector(op.getResult(0))) {
    return;
  } else if (role == Role::Multiply) {
    settleFor(&op, map);
    if (stores.contains(&op))
      writeStore(cast<tile::DescStoreOp>(op), map);
    else
      b.clone(op, map);
  } else if (isScalarOrRead(op, kernel) && isKnown(op, map)) {
    b.clone(op, map);
  }
  // Held blocks are free once the loop of their last product has ended.
  if (role == Role::Multiply && isa<scf::ForOp>(op))
    for (tile::DotOp dot : streams.dots)
      if (op.isProperAncestor(dot))
        hasRead(dot, op.getBlock());
}

//===----------------------------------------------------------------------===//
// Rotated loops
//===----------------------------------------------------------------------===//

void Writer::beginStep() {
  step->hasBegun = true;
  llvm::DenseMap<Operation *, Value> ofThisStep = parts;
  b.setLoc(step->rotated.group.front()->getLoc());
  receive(step->rotated.group, step->cursor);
  b.setLoc(step->rotated.lead.getLoc());
  begin(step->rotated.lead, step->map);
  parts = std::move(ofThisStep);
}

void Writer::cloneRest(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors, Step *next) {
  b.setLoc(rotated.group.front()->getLoc());
  receive(rotated.group, cursors[ringOf[rotated.group.front()]], /*again=*/true);
  llvm::erase(slots.back().readers, rotated.lead);
  size_t storedOutside = inside.stored.size();
  Step *outer = std::exchange(step, next);
  Deferred own{rotated.deferred, map}, earlier = own;
  Deferred *around = std::exchange(deferred, rotated.deferred ? &earlier : nullptr);
  tile::DotOp last = llvm::to_vector(rotated.loop.getBody()->getOps<tile::DotOp>()).back();
  for (Operation &op : rotated.loop.getBody()->without_terminator()) {
    if (groups.contains(&op) || &op == rotated.lead)
      continue;
    cloneOp(op, Role::Multiply, rotated.uses.contains(&op) ? earlier.map : map, cursors);
    if (step && &op == last) {
      // A part that leaves has its registers until it is stored.
      step->isDue = true;
      if (!inside.reduces)
        beginStep();
    }
  }
  if (step && !step->hasBegun)
    beginStep();
  loadVectors(rotated.loop.getBody()->getTerminator(), map);
  deferred = around;
  if (rotated.deferred && !next) {
    b.setLoc(rotated.deferred.getLoc());
    Value &cursor = cursors[*shared];
    beginShared(rotated.deferred, own.map, cursor);
    cursor = AdvanceOp::create(b, cursor.getType(), cursor);
    for (Operation *use : rotated.uses)
      cloneOp(*use, Role::Multiply, own.map, cursors);
  }
  settle(0);
  step = outer;
  inside.stored.truncate(storedOutside);
}

void Writer::cloneRotated(RotatedLoop &rotated, IRMapping &map, MutableArrayRef<Value> cursors) {
  scf::ForOp loop = rotated.loop;
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  auto yields = [&](IRMapping &inner, ArrayRef<Value> at) {
    auto yielded =
        llvm::map_to_vector(loop.getYieldedValues(), [&](Value value) { return inner.lookupOrDefault(value); });
    llvm::append_range(yielded, at);
    return yielded;
  };
  unsigned own = ringOf[rotated.group.front()], count = loop.getNumResults();
  SmallVector<Value> inits = llvm::map_to_vector(loop.getInitArgs(), of);
  llvm::append_range(inits, cursors);
  b.setLoc(loop.getLoc());
  Value first = of(loop.getLowerBound()), end = of(loop.getUpperBound()), width = of(loop.getStep());
  Value runs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, first, end);
  SmallVector<Type> types(ValueRange(inits).getTypes());
  auto branch = scf::IfOp::create(b, types, runs, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, inits);

    b.setInsertionPointToStart(branch.thenBlock());
    Inside outer = enter(*loop.getBody());
    if (rotated.deferred) {
      // The first step makes the product of a step before it, too: of zeros, and for a block that is not added.
      b.setLoc(rotated.deferred.getLoc());
      share(arith::ConstantOp::create(b, b.getZeroAttr(streams.sharedType())), cursors[*shared]);
    }
    Step opening{rotated, map, cursors[own]};
    Step *around = std::exchange(step, &opening);
    beginStep();
    settle(0);
    step = around;
    slots.pop_back(); // the first iteration goes on with it
    b.setLoc(loop.getLoc());
    // Followed by the step that is under way and its first product; its slot is where the cursor is.
    inits.append({first, opening.map.lookup(rotated.lead.getResult())});
    Value second = arith::AddIOp::create(b, first, width);
    auto copy = scf::ForOp::create(b, second, end, width, inits);
    auto entered = [&](ValueRange values) {
      IRMapping inner = map;
      inner.map(loop.getRegionIterArgs(), values.take_front(count));
      inner.map(loop.getInductionVar(), values.drop_back().back());
      inner.map(rotated.lead.getResult(), values.back());
      return std::pair(inner, SmallVector<Value>(values.slice(count, cursors.size())));
    };
    {
      OpBuilder::InsertionGuard inBody(b);
      b.setInsertionPointToStart(copy.getBody());
      auto [inner, at] = entered(copy.getRegionIterArgs());
      Step next{rotated, map, AdvanceOp::create(b, at[own].getType(), at[own])};
      cloneRest(rotated, inner, at, &next);
      slots.pop_back();
      at[own] = next.cursor;
      SmallVector<Value> yielded = yields(inner, at);
      yielded.append({copy.getInductionVar(), next.map.lookup(rotated.lead.getResult())});
      b.setLoc(loop.getLoc());
      scf::YieldOp::create(b, yielded);
    }
    auto [inner, at] = entered(copy.getResults());
    cloneRest(rotated, inner, at, /*next=*/nullptr);
    b.setLoc(loop.getLoc());
    at[own] = AdvanceOp::create(b, at[own].getType(), at[own]);
    scf::YieldOp::create(b, yields(inner, at));
    inside = std::move(outer);
  }
  map.map(loop.getResults(), branch.getResults().take_front(count));
  llvm::copy(branch.getResults().drop_front(count), cursors.begin());
}

/// Stores through shared memory once the previous result has left it; kiln-insert-barriers adds barriers and fences.
void Writer::writeStore(tile::DescStoreOp store, IRMapping &map) {
  Store &found = stores[store];
  Operation *held = throughHeld.lookup(store);
  Value &memory = held ? parts[held] : outlets[found.memory];
  if (!memory)
    memory = AllocOp::create(b, found.memory, /*offset=*/IntegerAttr());
  if (!held)
    CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
  LocalStoreOp::create(b, map.lookup(storedTile(store.getValue())), memory);
  SmallVector<Value> offsets;
  for (Value offset : store.getOffsets())
    offsets.push_back(map.lookupOrDefault(offset));
  CopyOutOp::create(b, memory, found.map, offsets, /*kind=*/StringAttr());
  if (throughHeld.empty() || store != throughHeld.back().first)
    return;
  CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
  for (auto &[left, load] : throughHeld)
    hasRead(left, load->getBlock());
}

Value Writer::allocate(MemType memory) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(multiply);
  return AllocOp::create(b, memory, /*offset=*/IntegerAttr());
}

/// Products begun after the one that makes the block stay in flight.
void Writer::writeReduction(tile::DescReduceOp op, Role role, IRMapping &map, Value &cursor) {
  Reduction &found = reductions[op];
  ChannelOp channel = rings[found.ring].channel;
  if (role == Role::Multiply) {
    settleFor(op, map);
    auto slot = AcquireOp::create(b, TypeRange{found.memory}, channel, cursor);
    LocalStoreOp::create(b, map.lookup(storedTile(op.getValue())), slot.getParts().front());
    if (step && step->isDue && !step->hasBegun)
      beginStep();
    b.setLoc(op.getLoc());
    FenceAsyncOp::create(b);
    CommitOp::create(b, channel, cursor);
  } else {
    auto slot = ReceiveOp::create(b, TypeRange{found.memory}, channel, cursor);
    auto offsets = llvm::map_to_vector(op.getOffsets(), [&](Value offset) { return map.lookupOrDefault(offset); });
    CopyOutOp::create(b, slot.getParts().front(), found.map, offsets,
                      b.getStringAttr(tile::stringifyRMWKind(op.getKind())));
    CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
    ReleaseOp::create(b, channel, cursor, /*when=*/Value());
  }
  cursor = AdvanceOp::create(b, cursor.getType(), cursor);
}

void Writer::endTurn(ArrayRef<Value> last, uint32_t later) {
  auto branch = scf::IfOp::create(b, last[0], /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  CopyOutWaitOp::create(b, /*read=*/false, later);
  tile::AtomicRMWOp end = streams.turns.front().end;
  IRMapping map;
  map.map(end.getPtr(), last[1]);
  map.map(end.getValue(), last[2]);
  b.clone(*end, map)->setAttr(kPassesTurnAttrName, b.getUnitAttr());
}

void Writer::writeTurn(Operation &op, IRMapping &map, MutableArrayRef<Value> last) {
  if (auto end = dyn_cast<tile::AtomicRMWOp>(op)) {
    const Turn &turn = *llvm::find_if(streams.turns, [&](const Turn &one) { return one.orders(end); });
    endTurn(last, uint32_t(turn.reductions.size()));
    last[0] = arith::ConstantOp::create(b, b.getBoolAttr(true));
    last[1] = map.lookupOrDefault(end.getPtr());
    last[2] = map.lookupOrDefault(end.getValue());
    return;
  }
  auto loop = cast<scf::WhileOp>(op);
  IRMapping once = map;
  for (Operation &inner : loop.getBeforeBody()->without_terminator())
    b.clone(inner, once);
  Value waits = once.lookupOrDefault(loop.getConditionOp().getCondition());
  auto branch = scf::IfOp::create(b, waits, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    endTurn(last, /*later=*/0);
    b.clone(op, map);
  }
  Value none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  last[0] = arith::SelectOp::create(b, waits, none, last[0]);
}

void Writer::writeRole(scf::ForOp programs, Role role) {
  IRMapping map;
  SmallVector<Value> inits;
  for (Ring &ring : rings)
    inits.push_back(CursorOp::create(b, ring.cursorType()));
  bool inTurns = role == Role::Add && !streams.turns.empty();
  if (inTurns) {
    tile::AtomicRMWOp end = streams.turns.front().end;
    inits.push_back(arith::ConstantOp::create(b, b.getBoolAttr(false)));
    inits.push_back(pointerArgument(end.getPtr()));
    inits.push_back(arith::ConstantOp::create(b, b.getZeroAttr(end.getValue().getType())));
  }
  cloneLoop(programs, role, map, inits);
  if (inTurns)
    endTurn(ArrayRef(inits).drop_front(rings.size()), /*later=*/0);
  if (role == Role::Multiply && !stores.empty() && throughHeld.empty())
    CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
  EndRoleOp::create(b);
}

void Writer::run() {
  SmallVector<tile::MakeDescOp> descs;
  for (auto &[op, stream] : streams.blocks)
    if (!llvm::is_contained(descs, stream.desc))
      descs.push_back(stream.desc);
  AlignmentAnalysis alignment(kernel);
  bySlots = sharesBySlots(kernel, streams, alignment);
  loadsLate = loadsVectorsLate(streams, schedule.consumers, bySlots);
  if (schedule.reused)
    throughHeld = storesThroughHeld(kernel, streams, alignment);
  if (schedule.stagedStore)
    for (tile::DescStoreOp store : copyableStores(kernel, alignment)) {
      auto tile = cast<RankedTensorType>(storedTile(store.getValue()).getType());
      stores[store] = {*storeMemory(tile, /*ctas=*/1, /*swapped=*/false), Value()};
      descs.push_back(store.getDesc().getDefiningOp<tile::MakeDescOp>());
    }
  for (tile::DescReduceOp op : copyableReductions(kernel, streams.turns, alignment)) {
    reductions[op] = {*reductionMemory(op, streams.turns, alignment)};
    descs.push_back(op.getDesc().getDefiningOp<tile::MakeDescOp>());
  }
  hoistDescriptors(kernel, descs, b);
  for (auto &[op, store] : stores)
    store.map =
        mapOf(b, cast<tile::DescStoreOp>(op).getDesc().getDefiningOp<tile::MakeDescOp>(), store.memory, /*pieces=*/1);
  makeRings();
  // Where blocks are added to memory, programs may differ in length and wait for each other: the hardware then begins
  // them in order, one where another has ended. A persistent kernel's blocks could wait for one that has no place.
  scf::ForOp programs = reductions.empty() ? makePersistent(kernel, b) : makeSingle(b);
  b.setInsertionPoint(programs);
  b.setLoc(programs.getLoc());
  // Two groups have 192 registers of accumulators and products: the rest of 232 would not hold their ring positions.
  RoleBodies bodies = makeRoles(b, schedule.consumers, /*inTurns=*/false, /*moved=*/schedule.consumers == 2 ? 8 : 0,
                                /*adds=*/!reductions.empty());
  multiply = bodies.multiply;
  b.setInsertionPointToStart(bodies.load);
  writeRole(programs, Role::Load);
  b.setInsertionPointToStart(bodies.multiply);
  writeRole(programs, Role::Multiply);
  if (bodies.add) {
    b.setInsertionPointToStart(bodies.add);
    writeRole(programs, Role::Add);
  }
  programs.erase();
  kernel->removeAttr(kgpu::kScheduleAttrName);
}

void schedule::materializeStreams(func::FuncOp kernel, const Schedule &schedule, Streams streams) {
  Writer(kernel, schedule, std::move(streams)).run();
}
