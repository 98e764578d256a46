// One run of one role: tracks its slots and the operations in flight.
#include "compiler/transforms/kgpu/RoleTrace.h"
#include "dialects/kgpu/BarrierUse.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

RoleTrace::RoleTrace(const Role &role, ArrayRef<ChannelOp> channels, ArrayRef<bool> readByMachines,
                     ArrayRef<bool> inTurns, ArrayRef<bool> ofOneReader, Assumptions &assumed)
    : RoleScalars(role, assumed), uses(channels.size()), channels(channels), readByMachines(readByMachines),
      inTurns(inTurns), ofOneReader(ofOneReader) {}

//===----------------------------------------------------------------------===//
// Following the code
//===----------------------------------------------------------------------===//

LogicalResult RoleTrace::run() {
  if (failed(visit(*role.body)))
    return failure();
  return finish();
}

LogicalResult RoleTrace::visit(Block &block) {
  auto found = role.steps.find(&block);
  if (found == role.steps.end())
    return success();
  for (Operation *op : found->second)
    if (failed(visit(op)))
      return failure();
  return success();
}

void RoleTrace::noteDecision(Operation *op, unsigned key) {
  for (Value channel : role.channelsIn.lookup(op))
    if (unsigned index = indexOf(channel); index < channels.size())
      uses[index].decisions.insert({key, op});
}

bool RoleTrace::decideFor(Operation *op, Value condition) {
  bool holds = decide(condition);
  noteDecision(op, scalarOf(condition).key);
  return holds;
}

LogicalResult RoleTrace::visitFor(scf::ForOp loop) {
  Scalar begin = scalarOf(loop.getLowerBound()), width = scalarOf(loop.getStep());
  if (width.value && *width.value < 1 && (!known(width) || known(width) == width.value))
    return loop.emitOpError("expected a step of at least 1 (because what it does is counted), got ") << *width.value;
  Trips trips = tripsOf(loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), role.outerLoops.contains(loop));
  int64_t first = trips.first, step = trips.step;
  Progress at{0, trips.count, trips.assumed};
  noteDecision(loop, trips.key);
  for (auto [argument, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs()))
    bind(argument, init);
  for (; at.iteration < at.trips; ++at.iteration) {
    progress[loop] = at;
    Scalar variable;
    variable.key = assumed.keyOf({Variable, begin.key, width.key, uint64_t(at.iteration)});
    variable.value = first + at.iteration * step;
    variable.loop = loop;
    variable.slope = step;
    scalars[loop.getInductionVar()] = variable;
    if (failed(visit(*loop.getBody())))
      return failure();
    // All at once: one may be yielded as another.
    SmallVector<std::pair<Value, std::optional<int64_t>>> places;
    SmallVector<std::pair<Value, Scalar>> values;
    for (auto [argument, next] : llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues())) {
      if (!role.needed.contains(argument))
        continue;
      if (isa<CursorType>(argument.getType()))
        places.push_back({argument, placeOf(next)});
      else
        values.push_back({argument, carried(scalarOf(next))});
    }
    for (auto &[argument, place] : places)
      setPlace(argument, place);
    for (auto &[argument, scalar] : values)
      set(argument, scalar);
  }
  progress.erase(loop);
  for (auto [result, argument] : llvm::zip(loop.getResults(), loop.getRegionIterArgs()))
    bind(result, argument);
  return success();
}

LogicalResult RoleTrace::visitIf(scf::IfOp branch) {
  bool taken = decideFor(branch, branch.getCondition());
  Region &region = taken ? branch.getThenRegion() : branch.getElseRegion();
  if (!region.empty() && failed(visit(region.front())))
    return failure();
  if (branch.getNumResults())
    for (auto [result, value] : llvm::zip(branch.getResults(), region.front().getTerminator()->getOperands()))
      bind(result, value);
  return success();
}

/// Contains no channel step (Role::check): up to two iterations show what one leaves behind for the next.
LogicalResult RoleTrace::visitWhile(scf::WhileOp loop) {
  int64_t trips = assumed.choose(assumed.keyOf({Unique, uint64_t(uintptr_t(loop.getOperation())), uint64_t(clock)}), 3);
  assumed.varies = true;
  for (int64_t i = 0;; ++i) {
    forget(loop.getBeforeArguments(), clock);
    if (failed(visit(*loop.getBeforeBody())))
      return failure();
    if (i == trips)
      break;
    forget(loop.getAfterArguments(), clock);
    if (failed(visit(*loop.getAfterBody())))
      return failure();
  }
  forget(loop.getResults(), clock);
  return success();
}

LogicalResult RoleTrace::visit(Operation *op) {
  ++clock;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return visitFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visitIf(branch);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return visitWhile(loop);
  if (auto acquire = dyn_cast<AcquireOp>(op))
    return visitAcquire(acquire);
  if (auto commit = dyn_cast<CommitOp>(op))
    return visitCommit(commit);
  if (auto receive = dyn_cast<ReceiveOp>(op))
    return visitReceive(receive);
  if (auto release = dyn_cast<ReleaseOp>(op))
    return visitRelease(release);
  if (auto product = dyn_cast<WarpgroupMmaOp>(op))
    return visitProduct(product);
  if (auto wait = dyn_cast<MmaWaitOp>(op)) {
    settle(op, products, int32_t(wait.getPending()));
    return success();
  }
  if (auto wait = dyn_cast<CopyOutWaitOp>(op)) {
    settle(op, copies, int32_t(wait.getPending()));
    while (!wait.getRead() && unwritten.size() > size_t(int32_t(wait.getPending())))
      unwritten.pop_front();
    return success();
  }
  if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
    return visitAtomic(atomic);
  if (isa<FenceAsyncOp>(op)) {
    unfenced.clear();
    return success();
  }
  if (Role::follows(op))
    return visitAccesses(op);
  followScalars(op, clock);
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

unsigned RoleTrace::indexOf(Value channel) {
  return unsigned(llvm::find(channels, channel.getDefiningOp<ChannelOp>()) - channels.begin());
}

FailureOr<std::pair<unsigned, int64_t>> RoleTrace::stepAt(Operation *op, Value channel, Value cursor, int64_t expected,
                                                          StringRef before) {
  unsigned index = indexOf(channel);
  if (index == channels.size()) {
    op->emitOpError("expected the result of a kgpu.channel (because producers and consumers are matched through it), "
                    "got a channel from elsewhere");
    return failure();
  }
  std::optional<int64_t> place = placeOf(cursor);
  if (!place) {
    op->emitOpError("expected a cursor that starts at a kgpu.cursor of its role (because each role advances through "
                    "the ring independently), got another cursor");
    return failure();
  }
  // A consumer that takes turns skips the slots that others read.
  bool skips = isa<ReceiveOp>(op) && inTurns[index];
  if (skips ? *place < expected : *place != expected) {
    op->emitOpError() << "expected the cursor at place " << expected << (skips ? " or a later one" : "")
                      << " (because a role " << before << " each slot of the ring once, in order), got place "
                      << *place;
    return failure();
  }
  ChannelUse &use = uses[index];
  if (!use.first)
    use.first = op;
  return std::pair(index, *place);
}

LogicalResult RoleTrace::visitAcquire(AcquireOp op) {
  unsigned index = indexOf(op.getChannel());
  int64_t place = index < channels.size() ? uses[index].acquired : 0;
  if (failed(stepAt(op, op.getChannel(), op.getCursor(), place, "acquires")))
    return failure();
  ++uses[index].acquired;
  int64_t before = place - at(index).getType().getSlots();
  if (at(index).getCompletion() == Completion::Groups && before >= 0) {
    // This completion has no empty barrier: the barriers of receives keep the role's threads together, or those of each
    // warp if no warp reads what another fills (VerifyWarpReads.h).
    auto released = releaseAt.find({index, before});
    if (released == releaseAt.end() || lastReceive.lookup(index) < released->second)
      return op.emitOpError("expected a receive after the release of the slot's previous content (because the barrier "
                            "of that receive orders reads before the copies of other threads), got none");
  }
  for (auto [number, part] : llvm::enumerate(op.getParts()))
    memories[part] = {nullptr, index, unsigned(number), place, true};
  fills[{index, place}].assign(op.getParts().size(), 0);
  steps.push_back({ChannelStep::Acquire, index, place, op});
  return success();
}

LogicalResult RoleTrace::visitCommit(CommitOp op) {
  unsigned index = indexOf(op.getChannel());
  int64_t place = index < channels.size() ? uses[index].committed : 0;
  if (failed(stepAt(op, op.getChannel(), op.getCursor(), place, "commits")))
    return failure();
  if (place >= uses[index].acquired)
    return op.emitOpError(
        "expected an acquire of the slot first (because consumers may still be reading it), got none");
  ++uses[index].committed;
  bool byBytes = at(index).getCompletion() == Completion::Bytes;
  for (auto [part, count] : llvm::enumerate(fills[{index, place}]))
    if (byBytes ? count != 1 : count < 1)
      return op.emitOpError()
             << "expected part #" << part << " of the slot to be filled first, "
             << (byBytes ? "by exactly one copy (because the mbarrier expects the bytes of one copy of each part)"
                         : "at least once (because a consumer reads it)")
             << ", got " << count;
  if (readByMachines[index] &&
      failed(checkFenced(op, {nullptr, index, 0, place},
                         "expected a kgpu.fence_async between the stores to this slot and its commit (because products "
                         "and copies read through the async proxy, which does not see unfenced stores), got none")))
    return failure();
  fills.erase({index, place});
  if (at(index).getCompletion() == Completion::Groups)
    groups.push_back({index, place});
  steps.push_back({ChannelStep::Commit, index, place, op});
  return success();
}

LogicalResult RoleTrace::checkLanded(ReceiveOp op, unsigned channel, int64_t place) {
  size_t group = size_t(llvm::find(groups, std::pair(channel, place)) - groups.begin());
  if (group == groups.size())
    return op.emitOpError("expected a commit of the slot first (because a thread can only wait for copy groups that it "
                          "has committed), got none");
  size_t pending = size_t(int32_t(op.getPending())), later = groups.size() - 1 - group;
  if (pending <= later)
    return success();
  return op.emitOpError()
         << "expected at most " << later
         << " pending groups (because only that many were committed after the group that fills this slot), got "
         << pending;
}

LogicalResult RoleTrace::checkRead(ReleaseOp op, unsigned channel, int64_t place) {
  for (unsigned part = 0; part < at(channel).getType().getParts().size(); ++part)
    if (copied.erase({channel, place, part}) && !read.count({channel, place, part}))
      return op.emitOpError() << "expected part #" << part
                              << " of the slot to be read if it was copied (because a copy that nothing reads may "
                                 "access memory out of bounds), got it released unread";
  return success();
}

LogicalResult RoleTrace::visitReceivedAgain(ReceiveOp op) {
  unsigned index = indexOf(op.getChannel());
  std::optional<int64_t> place = placeOf(op.getCursor());
  if (index < channels.size() && place) {
    // What this role has not released, no producer can have touched.
    ArrayRef<int64_t> held = ArrayRef(uses[index].received).drop_front(uses[index].released);
    if (llvm::is_contained(held, *place)) {
      for (auto [number, part] : llvm::enumerate(op.getParts()))
        memories[part] = {nullptr, index, unsigned(number), *place, false};
      return success();
    }
  }
  InFlightDiagnostic error = op.emitOpError("expected a slot that the role has received and not released (because "
                                            "`again` waits for nothing), got ");
  if (index < channels.size() && place)
    return error << "place " << *place;
  return error << "one of an unknown channel or place";
}

LogicalResult RoleTrace::visitReceive(ReceiveOp op) {
  if (op.getAgain() && !(op.getUnless() && decideFor(op, op.getUnless())))
    return visitReceivedAgain(op);
  unsigned index = indexOf(op.getChannel());
  int64_t next = index < channels.size() && !uses[index].received.empty() ? uses[index].received.back() + 1 : 0;
  auto step = stepAt(op, op.getChannel(), op.getCursor(), next, "receives");
  if (failed(step))
    return failure();
  if (at(index).getCompletion() == Completion::Groups && failed(checkLanded(op, index, step->second)))
    return failure();
  int64_t place = step->second;
  uses[index].received.push_back(place);
  lastReceive[index] = clock;
  for (auto [number, part] : llvm::enumerate(op.getParts()))
    memories[part] = {nullptr, index, unsigned(number), place, false};
  steps.push_back({ChannelStep::Receive, index, place, op});
  return success();
}

LogicalResult RoleTrace::checkIdle(Operation *op, unsigned channel, int64_t place) {
  for (const std::deque<UnderWay> *queue : {&products, &copies})
    for (const UnderWay &reader : *queue)
      if (llvm::is_contained(reader.reads, Memory{nullptr, channel, 0, place})) {
        bool product = queue == &products;
        InFlightDiagnostic error = op->emitOpError() << "expected a wait for the " << (product ? "product" : "copy")
                                                     << " that reads this slot first (because the release lets the "
                                                        "producer overwrite it), got one still in flight";
        error.attachNote(reader.op->getLoc()) << "what reads it";
        return error;
      }
  return success();
}

LogicalResult RoleTrace::visitRelease(ReleaseOp op) {
  if (op.getWhen() && !decideFor(op, op.getWhen()))
    return success();
  unsigned index = indexOf(op.getChannel());
  int64_t place = index < channels.size() ? uses[index].nextRelease() : 0;
  if (failed(stepAt(op, op.getChannel(), op.getCursor(), place, "releases")))
    return failure();
  if (uses[index].released >= uses[index].received.size())
    return op.emitOpError("expected a receive of the slot first (because a release without one lets the producer "
                          "overwrite unread data), got none");
  if (failed(checkIdle(op, index, place)) || failed(checkRead(op, index, place)))
    return failure();
  // Fences are placed only after memory is planned.
  if (at(index).getCompletion() == Completion::Bytes && at(index).getOffset() &&
      failed(checkFenced(op, {nullptr, index, 0, place},
                         "expected a kgpu.fence_async between a store to this slot and its release (because the copy "
                         "engine fills it next, through the async proxy), got none")))
    return failure();
  ++uses[index].released;
  releaseAt[{index, place}] = clock;
  steps.push_back({ChannelStep::Release, index, place, op});
  return success();
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

void RoleTrace::settle(Operation *wait, std::deque<UnderWay> &readers, int32_t pending) {
  while (readers.size() > size_t(pending)) {
    for (const Memory &memory : readers.front().reads)
      noteUse(wait, memory);
    readers.pop_front();
  }
}

void RoleTrace::noteUse(Operation *op, const Memory &memory) {
  if (auto alloc = cast_or_null<AllocOp>(memory.alloc); alloc && alloc.turnNumber())
    steps.push_back({ChannelStep::Use, unsigned(*alloc.turnNumber()), 0, op});
}

FailureOr<RoleTrace::Memory> RoleTrace::memoryOf(Operation *op, Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isView(def))
      break;
    value = def->getOperand(0);
  }
  auto found = memories.find(value);
  if (found != memories.end())
    return found->second;
  if (auto alloc = value.getDefiningOp<AllocOp>())
    return Memory{alloc};
  op->emitOpError("expected memory from a kgpu.alloc, or from an acquire or receive in its role (because its fills and "
                  "reads are tracked from there), got memory from elsewhere");
  return failure();
}

LogicalResult RoleTrace::checkReading(Operation *op, const Memory &memory) {
  if (!memory.alloc && skipped.count({memory.channel, memory.place, memory.part}))
    return op->emitOpError("expected to read a slot that was filled (because it still holds stale data otherwise), got "
                           "one whose copies were skipped");
  if (!memory.alloc)
    read.insert({memory.channel, memory.place, memory.part});
  if (memory.alloc || (!memory.filling && memory.place >= uses[memory.channel].nextRelease()))
    return success();
  return op->emitOpError("expected to read a slot between its receive and its release (because the producer may write "
                         "it at any other time), got it ")
         << (memory.filling ? "while the slot is being filled" : "after its release");
}

/// Begins an asynchronous read.
LogicalResult RoleTrace::readsOf(Operation *op, Value value, SmallVectorImpl<Memory> &reads) {
  FailureOr<Memory> memory = memoryOf(op, value);
  if (failed(memory) || failed(checkReading(op, *memory)))
    return failure();
  noteUse(op, *memory);
  reads.push_back(*memory);
  auto alloc = cast_or_null<AllocOp>(memory->alloc);
  // Fences are placed only after memory is planned.
  if (alloc ? !alloc.getOffset() : !at(memory->channel).getOffset())
    return success();
  return checkFenced(op, *memory,
                     "expected a kgpu.fence_async between a store to this memory and this (because products and "
                     "copies read through the async proxy, which does not see unfenced stores), got none");
}

LogicalResult RoleTrace::checkFenced(Operation *op, const Memory &memory, StringRef error) {
  for (const Unfenced &store : unfenced)
    if (store.memory == memory) {
      InFlightDiagnostic diagnostic = op->emitOpError(error);
      diagnostic.attachNote(store.op->getLoc()) << "the store";
      return diagnostic;
    }
  return success();
}

/// Threads of the only role that receives a slot may replace its contents until they release it.
LogicalResult RoleTrace::checkReplacing(Operation *op, const Memory &memory, bool byCopy) {
  StringRef got;
  if (byCopy)
    got = "a copy";
  else if (!ofOneReader[memory.channel])
    got = "a slot that the same role fills, or that several receive";
  else if (memory.place < uses[memory.channel].nextRelease())
    got = "one after its release";
  if (got.empty())
    return success();
  return op->emitOpError("expected a received slot to be written to only by stores, before its release, in a role that "
                         "alone receives it and does not fill it (because nothing orders the store before other "
                         "roles' accesses to the slot), got ")
         << got;
}

LogicalResult RoleTrace::visitProduct(WarpgroupMmaOp op) {
  UnderWay product{op, {}};
  for (Value factor : {op.getLhs(), Value(op.getRhs())})
    if (isa<MemType>(factor.getType()) && failed(readsOf(op, factor, product.reads)))
      return failure();
  products.push_back(product);
  return success();
}

/// Programs take turns by a number in memory: whoever acquires it next expects what this program has added in its turn.
/// The turn that a release ends began no later than the last acquire, since a role may begin its next turn's copies
/// before that.
LogicalResult RoleTrace::visitAtomic(tile::AtomicRMWOp op) {
  BarrierUses uses = barriersOf(op); // before it releases, after it has acquired
  auto early = llvm::find_if(unwritten, [&](auto &copy) { return copy.first.getKind() && copy.second < lastAcquired; });
  if (uses.before && early != unwritten.end()) {
    InFlightDiagnostic error = op.emitOpError(
        "expected a kgpu.copy_out_wait for copies before the last acquire (because whoever acquires what "
        "this releases expects them in global memory), got one that may not be there");
    error.attachNote(early->first.getLoc()) << "the copy";
    return error;
  }
  if (uses.before && op->hasAttr(kPassesTurnAttrName))
    lastPassed = unwritten.empty() ? nullptr : op.getOperation();
  if (uses.after)
    lastAcquired = clock;
  followScalars(op, clock);
  return success();
}

bool RoleTrace::isMade(Operation *copy) {
  Value when = isa<CopyBlockOp>(copy) ? cast<CopyBlockOp>(copy).getWhen() : cast<CopyTileOp>(copy).getWhen();
  return !when || decide(when);
}

LogicalResult RoleTrace::visitAccesses(Operation *op) {
  if (auto copy = dyn_cast<CopyOutOp>(op)) {
    UnderWay out{op, {}};
    if (failed(readsOf(op, copy.getMem(), out.reads)))
      return failure();
    copies.push_back(out);
    unwritten.push_back({copy, clock});
    return success();
  }
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  for (Value operand : op->getOperands()) {
    if (!isa<MemType>(operand.getType()))
      continue;
    FailureOr<Memory> memory = memoryOf(op, operand);
    if (failed(memory))
      return failure();
    noteUse(op, *memory);
    if (!effects)
      return op->emitOpError("expected an op that declares whether it reads or writes memory (because each is allowed "
                             "only in certain phases of a slot), got one without declared effects");
    if (effects.getEffectOnValue<MemoryEffects::Read>(operand) && failed(checkReading(op, *memory)))
      return failure();
    if (!effects.getEffectOnValue<MemoryEffects::Write>(operand))
      continue;
    for (const UnderWay &product : products)
      if (llvm::is_contained(product.reads, *memory)) {
        InFlightDiagnostic error =
            op->emitOpError("expected a kgpu.mma_wait before memory that a product reads is written (because the "
                            "product may not have read it yet), got the product still in flight");
        error.attachNote(product.op->getLoc()) << "the product";
        return error;
      }
    bool byThreads = isa<CopyBlockOp, CopyTileOp>(op), byCopy = byThreads || isa<CopyInOp>(op);
    if (!memory->alloc && !memory->filling) {
      if (failed(checkReplacing(op, *memory, byCopy)))
        return failure();
    } else if (!memory->alloc) {
      if (memory->place < uses[memory->channel].committed)
        return op->emitOpError("expected to fill a slot between its acquire and its commit (because consumers may read "
                               "it at any other time), got it after its commit");
      if (!byCopy && at(memory->channel).getCompletion() == Completion::Bytes)
        return op->emitOpError("expected a copy to fill this slot (because its mbarrier waits for the bytes that "
                               "copies deliver), got a store");
      ++fills[{memory->channel, memory->place}][memory->part];
      if (byThreads)
        (isMade(op) ? copied : skipped).insert({memory->channel, memory->place, memory->part});
    }
    if (!byCopy)
      unfenced.push_back({*memory, op});
  }
  return success();
}

LogicalResult RoleTrace::finish() {
  for (auto [index, use] : llvm::enumerate(uses)) {
    ChannelOp channel = channels[index];
    if (use.acquired != use.committed)
      return channel.emitOpError()
             << "expected role @" << role.name
             << " to commit each slot that it acquires (because its consumers would wait forever), got "
             << use.committed << " of " << use.acquired;
    if (use.received.size() != use.released)
      return channel.emitOpError()
             << "expected role @" << role.name
             << " to release each slot that it receives (because its producer would wait forever), got " << use.released
             << " of " << use.received.size();
  }
  if (lastPassed)
    return lastPassed->emitOpError("expected a kgpu.copy_out_wait for all copies before the role's last turn ends "
                                   "(because no other turn may have begun), got one that may not be there");
  if (!products.empty())
    return products.front().op->emitOpError("expected a kgpu.mma_wait for this before its role ends (because the "
                                            "product may still be reading its memory), got none");
  if (!copies.empty())
    return copies.front().op->emitOpError("expected a kgpu.copy_out_wait for this before its role ends (because the "
                                          "copy may still be reading its memory), got none");
  return success();
}
