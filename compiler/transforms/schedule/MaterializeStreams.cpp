// Writes out the schedule of several products. Each role is a clone of the kernel, loops included. The load role fills
// a slot where the kernel loads. The multiply role receives it there, begins products where they appear, and waits for
// each where its result is first used. At the end of a loop body all products have been waited for. Where the kernel
// adds a block to memory, the multiply role stores it in a slot, from which the add role has the copy engine add it: so
// nobody in the multiply role waits for the copy engine, or for all of its threads to have stored.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/schedule/ChainedProducts.h"
#include "compiler/transforms/schedule/StreamsWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

bool StreamsWriter::streamsIn(Operation *op) {
  auto contains = [op](Operation *other) { return op->isProperAncestor(other); };
  return llvm::any_of(llvm::make_first_range(streams.blocks), contains) || llvm::any_of(streams.dots, contains) ||
         llvm::any_of(llvm::make_first_range(reductions), contains);
}

/// Every operand exists in this role, or is defined before the loop over programs.
bool StreamsWriter::isKnown(Operation &op, IRMapping &map) {
  return llvm::all_of(op.getOperands(), [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return map.contains(operand) || (def && !def->getParentOfType<scf::ForOp>()) ||
           (!def && cast<BlockArgument>(operand).getOwner()->getParentOp() == kernel);
  });
}

void StreamsWriter::cloneLoop(scf::ForOp loop, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  if (auto rotated = schedule.rotated && role != Role::Load ? streams.rotated(loop) : std::nullopt) {
    if (role == Role::Multiply)
      return cloneRotated(*rotated, map, cursors);
    if (rotated->deferred)
      skipFirst(*rotated, map, cursors);
  }
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

void StreamsWriter::prepareFor(scf::ForOp loop, IRMapping &map) {
  SmallVector<Value> used;
  bool shares = false;
  loop->walk([&](Operation *inner) {
    llvm::copy_if(inner->getOperands(), std::back_inserter(used),
                  [&](Value operand) { return loop.isDefinedOutsideOfLoop(operand); });
    auto dot = dyn_cast<tile::DotOp>(inner);
    shares |= dot && streams.sharedIn(dot->getBlock()) == dot;
  });
  settleFor(used, map);
  // Slots of a ring are released in order.
  if (sharedRing && shares)
    settle(0);
  loadVectors(used, map);
  b.setLoc(loop.getLoc());
}

StreamsWriter::Inside StreamsWriter::enter(Block &block) {
  Inside outer = std::exchange(inside, Inside());
  inside.stored = outer.stored;
  inside.reduces = llvm::any_of(block, [&](Operation &op) { return reductions.contains(&op); });
  return outer;
}

void StreamsWriter::cloneBlock(Block &from, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  Inside outer = enter(from);
  Step *around = std::exchange(step, nullptr);
  for (Operation &op : from.without_terminator())
    cloneOp(op, role, map, cursors);
  if (role == Role::Multiply)
    loadVectors(from.getTerminator()->getOperands(), map);
  settle(0);
  step = around;
  inside = std::move(outer);
}

void StreamsWriter::cloneOp(Operation &op, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
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
    if (role == Role::Multiply)
      prepareFor(loop, map);
    cloneLoop(loop, role, map, cursors);
  } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
    if (role == Role::Multiply && sharedRing && streams.sharedIn(dot->getBlock()) == dot) {
      Value &cursor = cursors[*sharedRing], next = AdvanceOp::create(b, cursor.getType(), cursor);
      bool ofStepBefore = stepBefore && stepBefore->dot == dot;
      share(map.lookup(streams.sharedTile(dot)), ofStepBefore ? next : cursor);
      beginShared(dot, ofStepBefore ? stepBefore->map : map, cursor);
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
// Results
//===----------------------------------------------------------------------===//

/// Stores through shared memory once the previous result has left it; kiln-insert-barriers adds barriers and fences.
void StreamsWriter::writeStore(tile::DescStoreOp store, IRMapping &map) {
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

Value StreamsWriter::allocate(MemType memory) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(multiply);
  return AllocOp::create(b, memory, /*offset=*/IntegerAttr());
}

/// Products begun after the one that makes the block stay in flight.
void StreamsWriter::writeReduction(tile::DescReduceOp op, Role role, IRMapping &map, Value &cursor) {
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

void StreamsWriter::endTurn(ArrayRef<Value> last, uint32_t later) {
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

void StreamsWriter::writeTurn(Operation &op, IRMapping &map, MutableArrayRef<Value> last) {
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

void StreamsWriter::writeRole(scf::ForOp programs, Role role) {
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

void StreamsWriter::run() {
  SmallVector<tile::MakeDescOp> descs;
  for (auto &[op, stream] : streams.blocks)
    if (!llvm::is_contained(descs, stream.desc))
      descs.push_back(stream.desc);
  AlignmentAnalysis alignment(kernel);
  bool bySlots = sharesBySlots(kernel, streams, alignment);
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
  makeRings(bySlots);
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
  StreamsWriter(kernel, schedule, std::move(streams)).run();
}
