// Writes out the schedule of two chained products: queries, keys and values each have a channel, and in each multiply
// group one step's second product runs under the next step's softmax.
//
//   S = Q K(0); softmax
//   for j = 1 ...: begin S = Q K(j), begin O += P V(j - 1); wait for S; softmax -> P; wait for O; O = O * correction
//   O += P V(last)
#include "compiler/transforms/schedule/Guess.h"
#include "compiler/transforms/schedule/RoleWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

namespace {
enum class Role { Load, Multiply };

/// The channel of one block.
struct Ring {
  Block2D block;
  MemType memory;
  Value map;
  ChannelOp channel;

  CursorType cursorType() { return CursorType::get(channel.getContext(), channel.getType().getSlots()); }
};

/// A role's position in the rings of keys and values, and the values it carries from step to step.
struct State {
  Value keysAt, valuesAt;
  Value step;                 ///< load role: the step whose values are to be fetched next
  SmallVector<Value> carried; ///< multiply role: the loop-carried values; the accumulator is already rescaled
  Value factor;               ///< the second product's left operand
};

class Writer {
public:
  Writer(func::FuncOp kernel, const Schedule &schedule, ChainedProducts chain, std::optional<Guess> guess)
      : kernel(kernel), schedule(schedule), chain(chain), guess(std::move(guess)), loop(chain.loop),
        b(kernel.getLoc(), kernel.getContext()) {}
  void run();

private:
  Ring makeRing(Block2D block, int32_t slots);
  void writeRole(Role role);
  void writeStore(IRMapping &map);
  /// The rotated product loop; afterwards `map` has its results. `cursors`: of queries, keys, values.
  void writeLoop(Role role, IRMapping &map, MutableArrayRef<Value> cursors);
  Value ofProgram(IRMapping &map, Value number);
  State firstStep(Role role, IRMapping &map, Value begin, Value query, ArrayRef<Value> cursors);
  /// Steps from `begin` to `end`; `masked`: whether they take the branch that masks.
  State steps(Role role, IRMapping &map, Value begin, Value end, Value query, const State &from,
              std::optional<bool> masked);
  /// The multiply role's part of a step, with scores and the second product in flight.
  void computeStep(IRMapping &map, State &state, Value scores, Value sums, std::optional<bool> masked);
  /// The same by a guess, which a branch mends where it was not good enough.
  void guessStep(IRMapping &map, State &state, Value query, Value keys, Value scores, Value sums);
  void lastStep(Role role, IRMapping &map, State &state);

  /// The step's ops other than loads and products.
  bool isLoaders(Operation &op, IRMapping &map);
  void cloneScalars(IRMapping &map);
  /// `masked`: whether the step takes the branch that masks; otherwise it keeps the branch.
  void cloneSoftmax(IRMapping &map, std::optional<bool> masked);
  bool mayBeSkipped(Operation &op);
  /// Elements of the accumulator in each thread.
  int64_t sumsPerThread() { return chain.sums.getType().getNumElements() / (128 * schedule.consumers); }
  void cloneEnd(IRMapping &map, Value sum, bool isFirst, State &state);
  /// What the next step begins with: the second product's left operand, and what the loop carries, with that product
  /// still to be added.
  void endStep(scf::ForOp from, tile::DotOp sums, IRMapping &map, State &state);
  void fill(Ring &ring, IRMapping &map, Value &cursor);
  Value receive(Ring &ring, Value cursor);
  Value oriented(Ring &ring, Value memory);
  Value beginScores(Value query, Value keys);
  Value beginSums(const State &state, Value values);
  /// The scores, computed by a warp for itself.
  Value scoresOfWarp(Value query, Value keys);
  Value settle(Value sum, int32_t pending) { return MmaWaitOp::create(b, sum.getType(), sum, pending); }
  Value advance(Value cursor) { return AdvanceOp::create(b, cursor.getType(), cursor); }
  void release(Ring &ring, Value cursor) { ReleaseOp::create(b, ring.channel, cursor, /*when=*/Value()); }
  /// Whether the first step alone masks.
  bool masksFirst() { return chain.masks && isFirst(chain.masks, loop); }
  /// Whether the last steps, those that mask, have a loop of their own.
  bool peelsLast();
  /// The first step that masks, where the last ones do.
  Value firstMasked(IRMapping &map, Value begin, Value second, Value end);

  func::FuncOp kernel;
  Schedule schedule;
  ChainedProducts chain;
  std::optional<Guess> guess;
  scf::ForOp loop, programs;
  ImplicitLocOpBuilder b;
  Ring query, keys, values;
  tile::DescStoreOp store; ///< null: stored by threads
  MemType storeMemory;
  Value storeMap;
};
} // namespace

Ring Writer::makeRing(Block2D block, int32_t slots) {
  Ring ring{block, *schedule::storeMemory(block.type, /*ctas=*/1, /*swapped=*/false), Value(), ChannelOp()};
  ring.map = mapOf(b, block.desc, ring.memory, /*pieces=*/1);
  ring.channel = ChannelOp::create(b, ChannelType::get(b.getContext(), slots, {ring.memory}), Completion::Bytes,
                                   /*fillers=*/1, /*readers=*/4 * schedule.consumers, /*offset=*/IntegerAttr());
  return ring;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Acquires a slot, has the copy engine fill it, and advances the cursor.
void Writer::fill(Ring &ring, IRMapping &map, Value &cursor) {
  b.setLoc(ring.block.load.getLoc());
  Value part = AcquireOp::create(b, TypeRange{ring.memory}, ring.channel, cursor).getParts()[0];
  SmallVector<Value> offsets;
  for (Value offset : ring.block.load.getOffsets())
    offsets.push_back(map.lookupOrDefault(offset));
  CopyInOp::create(b, ring.map, offsets, part, ring.channel, cursor, uint32_t(ring.block.load.getEvict()));
  CommitOp::create(b, ring.channel, cursor);
  cursor = advance(cursor);
}

Value Writer::receive(Ring &ring, Value cursor) {
  b.setLoc(ring.block.load.getLoc());
  return ReceiveOp::create(b, TypeRange{ring.memory}, ring.channel, cursor).getParts()[0];
}

Value Writer::oriented(Ring &ring, Value memory) {
  return ring.block.transposition ? TransOp::create(b, memory, ArrayRef<int32_t>{1, 0}).getResult() : memory;
}

/// `query`: a slot, or a tile in registers.
Value Writer::beginScores(Value query, Value keys) {
  b.setLoc(chain.scores.getLoc());
  auto type = chain.scores.getType();
  Value zero = arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type)));
  Value none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value left = isa<RankedTensorType>(query.getType()) ? query : oriented(this->query, query);
  return WarpgroupMmaOp::create(b, type, left, oriented(this->keys, keys), zero, none);
}

Value Writer::scoresOfWarp(Value query, Value keys) {
  b.setLoc(chain.scores.getLoc());
  auto type = chain.scores.getType();
  Value zero = arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type)));
  auto load = [&](Ring &ring, Value block, Value factor) -> Value {
    return isa<RankedTensorType>(block.getType())
               ? block
               : LocalLoadOp::create(b, factor.getType(), oriented(ring, block)).getResult();
  };
  Value left = load(this->query, query, chain.scores.getLhs()), right = load(this->keys, keys, chain.scores.getRhs());
  return WarpMmaOp::create(b, type, left, right, zero);
}

Value Writer::beginSums(const State &state, Value values) {
  b.setLoc(chain.sums.getLoc());
  Value sum = state.carried[chain.accumulator];
  return WarpgroupMmaOp::create(b, sum.getType(), state.factor, oriented(this->values, values), sum,
                                /*accumulate=*/Value());
}

/// The load role computes scalars from scalars that it has, but not from tiles or from memory that the kernel writes.
bool Writer::isLoaders(Operation &op, IRMapping &map) {
  return !chain.isPart(&op) && isScalarOrRead(op, kernel) && llvm::all_of(op.getOperands(), [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return map.contains(operand) || !def || !programs->isProperAncestor(def);
  });
}

void Writer::cloneScalars(IRMapping &map) {
  for (Operation &op : loop.getBody()->without_terminator())
    if (isLoaders(op, map))
      b.clone(op, map);
}

/// Clones everything from the scores to the second product's unrounded operand and to the carried values.
void Writer::cloneSoftmax(IRMapping &map, std::optional<bool> masked) {
  Operation *known = nullptr;
  if (masked) {
    known = chain.masks.getCondition().getDefiningOp();
    map.map(chain.masks.getCondition(), arith::ConstantOp::create(b, b.getBoolAttr(*masked)).getResult());
  }
  for (Operation &op : loop.getBody()->without_terminator())
    if (!chain.isPart(&op) && !chain.rescaling.contains(&op) && &op != chain.rounding && &op != known)
      b.clone(op, map);
}

/// Multiplies each row of the accumulator by a factor, which is 1 where the row's maximum has not changed, and each
/// thread performs enough multiplications to make a vote worthwhile.
bool Writer::mayBeSkipped(Operation &op) {
  constexpr int64_t worth = 64; // measured: half as many cost less than a vote
  return isa<arith::MulFOp>(op) && op.getOperand(1).getDefiningOp<tile::BroadcastOp>() && sumsPerThread() >= worth;
}

/// After the wait for the second product: its operand registers are free, and its sum can be rescaled.
void Writer::cloneEnd(IRMapping &map, Value sum, bool isFirst, State &state) {
  map.map(loop.getRegionIterArgs()[chain.accumulator], sum);
  for (Operation &op : loop.getBody()->without_terminator()) {
    bool rescales = chain.rescaling.contains(&op);
    if (rescales && !isFirst && mayBeSkipped(op))
      map.map(op.getResult(0), RescaleOp::create(b, op.getResult(0).getType(), map.lookup(op.getOperand(0)),
                                                 map.lookup(op.getOperand(1))));
    else if (rescales || &op == chain.rounding)
      b.clone(op, map);
  }
  endStep(loop, chain.sums, map, state);
}

void Writer::endStep(scf::ForOp from, tile::DotOp sums, IRMapping &map, State &state) {
  state.factor = map.lookup(sums.getLhs());
  state.carried.clear();
  for (auto [i, value] : llvm::enumerate(from.getYieldedValues()))
    state.carried.push_back(map.lookupOrDefault(i == chain.accumulator ? sums.getAcc() : value));
}

/// The same number, but not one that programs are known to have in common: what is computed from it for each element of
/// a mask would be kept from program to program, and there are no registers for it.
Value Writer::ofProgram(IRMapping &map, Value number) {
  Value program = map.lookup(programs.getInductionVar());
  return tile::InlineAsmOp::create(b, TypeRange{number.getType()}, ValueRange{number, program}, "mov.b32 $0, $1;",
                                   "=r,r,r", /*isPure=*/true)
      .getResult(0);
}

State Writer::firstStep(Role role, IRMapping &map, Value begin, Value query, ArrayRef<Value> cursors) {
  State state{cursors[0], cursors[1], begin, {}, Value()};
  map.map(loop.getInductionVar(), role == Role::Multiply && masksFirst() ? ofProgram(map, begin) : begin);
  if (role == Role::Load) {
    cloneScalars(map);
    fill(keys, map, state.keysAt);
    return state;
  }
  for (auto [argument, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs()))
    map.map(argument, map.lookupOrDefault(init));
  Value scores = beginScores(query, receive(keys, state.keysAt));
  map.map(chain.scores.getResult(), settle(scores, 0));
  release(keys, state.keysAt);
  state.keysAt = advance(state.keysAt);
  cloneSoftmax(map, masksFirst() ? std::optional(true) : std::nullopt);
  cloneEnd(map, map.lookup(loop.getRegionIterArgs()[chain.accumulator]), /*isFirst=*/true, state);
  return state;
}

State Writer::steps(Role role, IRMapping &outer, Value begin, Value end, Value query, const State &from,
                    std::optional<bool> masked) {
  IRMapping map = outer;
  SmallVector<Value> inits = {from.keysAt, from.valuesAt};
  if (role == Role::Load) {
    inits.push_back(from.step);
  } else {
    inits.push_back(from.factor);
    llvm::append_range(inits, from.carried);
  }
  b.setLoc(loop.getLoc());
  auto copy = scf::ForOp::create(b, begin, end, outer.lookupOrDefault(loop.getStep()), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(copy.getBody());
  ValueRange inside = copy.getRegionIterArgs();
  State state{inside[0], inside[1], inside[2], SmallVector<Value>(inside.drop_front(3)), inside[2]};
  map.map(loop.getInductionVar(), copy.getInductionVar());
  SmallVector<Value> yielded;
  if (role == Role::Load) {
    cloneScalars(map);
    fill(keys, map, state.keysAt);
    IRMapping before = outer;
    before.map(loop.getInductionVar(), state.step);
    cloneScalars(before);
    fill(values, before, state.valuesAt);
    yielded = {state.keysAt, state.valuesAt, copy.getInductionVar()};
  } else {
    Value block = receive(keys, state.keysAt);
    if (schedule.ordered)
      BeginTurnOp::create(b);
    Value scores = beginScores(query, block);
    Value sums = beginSums(state, receive(values, state.valuesAt));
    if (schedule.ordered)
      EndTurnOp::create(b);
    if (guess && !masked.value_or(false))
      guessStep(map, state, query, block, scores, sums);
    else
      computeStep(map, state, scores, sums, masked);
    yielded = {advance(state.keysAt), advance(state.valuesAt), state.factor};
    llvm::append_range(yielded, state.carried);
  }
  scf::YieldOp::create(b, yielded);
  ValueRange results = copy.getResults();
  return {results[0], results[1], results[2], SmallVector<Value>(results.drop_front(3)), results[2]};
}

void Writer::computeStep(IRMapping &map, State &state, Value scores, Value sums, std::optional<bool> masked) {
  // The second product is still in flight.
  map.map(chain.scores.getResult(), settle(scores, 1));
  release(keys, state.keysAt);
  for (auto [argument, value] : llvm::zip(loop.getRegionIterArgs(), state.carried))
    map.map(argument, value);
  cloneSoftmax(map, masked);
  sums = settle(sums, 0);
  release(values, state.valuesAt);
  cloneEnd(map, sums, /*isFirst=*/false, state);
}

void Writer::guessStep(IRMapping &map, State &state, Value query, Value keys, Value scores, Value sums) {
  scf::ForOp from = *guess->loop;
  Value before = from.getRegionIterArgs()[chain.accumulator];
  map.map(from.getInductionVar(), map.lookup(loop.getInductionVar()));
  map.map(guess->scores.getResult(), settle(scores, 1));
  for (auto [argument, value] : llvm::zip(from.getRegionIterArgs(), state.carried))
    map.map(argument, value);
  if (guess->masks)
    map.map(guess->masks, arith::ConstantOp::create(b, b.getBoolAttr(false)).getResult());
  for (Operation &op : from.getBody()->without_terminator()) {
    b.setLoc(op.getLoc());
    if (&op == guess->question)
      map.map(guess->question.getResult(),
              AnyOp::create(b, b.getI1Type(), map.lookup(guess->question.getCondition())).getResult());
    else if (&op != guess->remedy && !guess->parts.contains(&op) && !guess->behind.contains(&op))
      b.clone(op, map);
  }
  // No product is in flight where the branch is. Each warp takes it or not, so all of it is done by warps: the guess
  // has taken the scores' registers, so they are computed once more, from the same slots.
  sums = settle(sums, 0);
  release(values, state.valuesAt);
  map.map(before, sums);
  b.setLoc(guess->remedy.getLoc());
  // Weights are rounded in both branches, so that only half as many registers have to be the same ones.
  auto weights = guess->rounding ? cast<OpResult>(guess->rounding->getOperand(0)) : OpResult();
  SmallVector<Type> types(guess->remedy.getResultTypes());
  if (weights)
    types[weights.getResultNumber()] = guess->rounding->getResult(0).getType();
  auto branch = scf::IfOp::create(b, types, map.lookup(guess->question.getResult()), /*withElseRegion=*/true);
  for (Region *region : {&guess->remedy.getThenRegion(), &guess->remedy.getElseRegion()}) {
    OpBuilder::InsertionGuard guard(b);
    bool mends = region == &guess->remedy.getThenRegion();
    b.setInsertionPointToStart(mends ? branch.thenBlock() : branch.elseBlock());
    IRMapping inside = map;
    if (mends) {
      inside.map(guess->scores.getResult(), scoresOfWarp(query, keys));
      for (Operation *op : guess->again) {
        // A region's arguments are cloned only where the map does not have them from the first time.
        op->walk([&](Block *block) {
          for (BlockArgument argument : block->getArguments())
            inside.erase(argument);
        });
        b.clone(*op, inside);
      }
    }
    for (Operation &op : region->front().without_terminator())
      b.clone(op, inside);
    Operation *end = region->front().getTerminator();
    if (weights) {
      Value exact = end->getOperand(weights.getResultNumber());
      inside.map(weights, inside.lookupOrDefault(exact));
      Value rounded = b.clone(*guess->rounding, inside)->getResult(0);
      inside.map(exact, rounded);
    }
    b.clone(*end, inside);
  }
  map.map(guess->remedy.getResults(), branch.getResults());
  if (weights)
    map.map(guess->rounding->getResult(0), branch.getResult(weights.getResultNumber()));
  b.setLoc(loop.getLoc());
  release(this->keys, state.keysAt);
  for (Operation &op : from.getBody()->without_terminator())
    if (guess->behind.contains(&op) && &op != guess->rounding)
      b.clone(op, map);
  endStep(from, guess->sums, map, state);
}

void Writer::lastStep(Role role, IRMapping &map, State &state) {
  if (role == Role::Load) {
    IRMapping last = map;
    last.map(loop.getInductionVar(), state.step);
    cloneScalars(last);
    fill(values, last, state.valuesAt);
    return;
  }
  state.carried[chain.accumulator] = settle(beginSums(state, receive(values, state.valuesAt)), 0);
  release(values, state.valuesAt);
  state.valuesAt = advance(state.valuesAt);
}

/// Where sums are wide, a step is mostly products and corrections: a branch around the mask then costs no time, and one
/// loop is a copy of the step less. Steps that guess lose 2 to 7 % by it, and narrower ones spill.
bool Writer::peelsLast() {
  constexpr int64_t wide = 128;
  return chain.masks && (guess || sumsPerThread() < wide);
}

Value Writer::firstMasked(IRMapping &map, Value begin, Value second, Value end) {
  auto compare = chain.masks.getCondition().getDefiningOp<arith::CmpIOp>();
  using arith::CmpIPredicate;
  bool less = llvm::is_contained({CmpIPredicate::slt, CmpIPredicate::sle}, compare.getPredicate());
  bool orEqual = llvm::is_contained({CmpIPredicate::sge, CmpIPredicate::sle}, compare.getPredicate());
  Value at = less ? compare.getRhs() : compare.getLhs(), limit = less ? compare.getLhs() : compare.getRhs();
  Value width = map.lookupOrDefault(loop.getStep());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(width.getType(), value));
  };
  // Distance from the first step to the limit, in steps; no step before that masks.
  Value rest = arith::SubIOp::create(b, map.lookupOrDefault(limit), begin);
  if (auto sum = at.getDefiningOp<arith::AddIOp>(); sum && at != loop.getInductionVar())
    rest = arith::SubIOp::create(b, rest, map.lookupOrDefault(sum.getRhs()));
  if (orEqual)
    rest = arith::SubIOp::create(b, rest, constant(1));
  rest = arith::MaxSIOp::create(b, arith::AddIOp::create(b, rest, width), constant(0));
  Value early = arith::MulIOp::create(b, arith::DivSIOp::create(b, rest, width), width);
  Value first = arith::AddIOp::create(b, begin, early);
  return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, first, second), end);
}

void Writer::writeLoop(Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  b.setLoc(loop.getLoc());
  Value begin = map.lookupOrDefault(loop.getLowerBound()), end = map.lookupOrDefault(loop.getUpperBound());
  Value queries;
  if (role == Role::Multiply)
    queries = receive(query, cursors[0]);
  b.setLoc(loop.getLoc());
  Value runs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, begin, end);
  SmallVector<Type> types = {cursors[1].getType(), cursors[2].getType()};
  if (role == Role::Multiply)
    llvm::append_range(types, loop.getResultTypes());
  auto branch = scf::IfOp::create(b, types, runs, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.elseBlock());
    SmallVector<Value> yielded(cursors.drop_front());
    if (role == Role::Multiply) {
      release(query, cursors[0]);
      for (Value init : loop.getInitArgs())
        yielded.push_back(map.lookupOrDefault(init));
    }
    scf::YieldOp::create(b, yielded);

    b.setInsertionPointToStart(branch.thenBlock());
    IRMapping inside = map;
    // The next program's queries may be fetched once these are in registers, or after the last step that reads them.
    if (role == Role::Multiply && schedule.heldQueries) {
      queries = LocalLoadOp::create(b, chain.scores.getLhs().getType(), queries);
      release(query, cursors[0]);
    }
    State state = firstStep(role, inside, begin, queries, cursors.drop_front());
    b.setLoc(loop.getLoc());
    Value second = arith::AddIOp::create(b, begin, map.lookupOrDefault(loop.getStep()));
    if (masksFirst()) {
      state = steps(role, map, second, end, queries, state, /*masked=*/false);
    } else if (peelsLast()) {
      Value between = firstMasked(map, begin, second, end);
      state = steps(role, map, second, between, queries, state, /*masked=*/false);
      state = steps(role, map, between, end, queries, state, /*masked=*/true);
    } else {
      state = steps(role, map, second, end, queries, state, std::nullopt);
    }
    if (role == Role::Multiply && !schedule.heldQueries)
      release(query, cursors[0]);
    lastStep(role, map, state);
    yielded = {state.keysAt, state.valuesAt};
    if (role == Role::Multiply)
      llvm::append_range(yielded, state.carried);
    b.setLoc(loop.getLoc());
    scf::YieldOp::create(b, yielded);
  }
  cursors[1] = branch.getResult(0);
  cursors[2] = branch.getResult(1);
  if (role == Role::Load)
    return;
  cursors[0] = advance(cursors[0]);
  for (auto [old, made] : llvm::zip(loop.getResults(), branch.getResults().drop_front(2)))
    map.map(old, made);
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Stores through shared memory; kiln-insert-barriers adds the barriers and fences.
void Writer::writeStore(IRMapping &map) {
  Value memory = AllocOp::create(b, storeMemory, /*offset=*/IntegerAttr());
  CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
  LocalStoreOp::create(b, map.lookup(storedTile(store.getValue())), memory);
  SmallVector<Value> offsets;
  for (Value offset : store.getOffsets())
    offsets.push_back(map.lookupOrDefault(offset));
  CopyOutOp::create(b, memory, storeMap, offsets, /*kind=*/StringAttr(), schedule.apart);
}

void Writer::writeRole(Role role) {
  IRMapping map;
  SmallVector<Value> inits;
  for (Ring *ring : {&query, &keys, &values})
    inits.push_back(CursorOp::create(b, ring->cursorType()));
  auto copy = scf::ForOp::create(b, programs.getLowerBound(), programs.getUpperBound(), programs.getStep(), inits);
  map.map(programs.getInductionVar(), copy.getInductionVar());
  b.setInsertionPointToStart(copy.getBody());
  SmallVector<Value> cursors(copy.getRegionIterArgs());
  for (Operation &op : programs.getBody()->without_terminator()) {
    b.setLoc(op.getLoc());
    if (&op == loop)
      writeLoop(role, map, cursors);
    else if (&op == query.block.load && role == Role::Load)
      fill(query, map, cursors[0]);
    else if (&op == store && role == Role::Multiply)
      writeStore(map);
    else if (role == Role::Multiply ? !chain.isPart(&op) : isLoaders(op, map))
      b.clone(op, map);
  }
  b.setLoc(programs.getLoc());
  scf::YieldOp::create(b, cursors);
  b.setInsertionPointAfter(copy);
  if (role == Role::Multiply && store)
    CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
  EndRoleOp::create(b);
}

void Writer::run() {
  if (schedule.stagedStore)
    store = copyableStore(chain, AlignmentAnalysis(kernel));
  SmallVector<tile::MakeDescOp> descs = {chain.query.desc, chain.keys.desc, chain.values.desc};
  auto target = store ? store.getDesc().getDefiningOp<tile::MakeDescOp>() : tile::MakeDescOp();
  if (store)
    descs.push_back(target);
  hoistDescriptors(kernel, descs, b);
  if (store) {
    auto tile = cast<RankedTensorType>(storedTile(store.getValue()).getType());
    storeMemory = *schedule::storeMemory(tile, /*ctas=*/1, /*swapped=*/false);
    storeMap = mapOf(b, target, storeMemory, /*pieces=*/1, schedule.rowsOfBoxes(chain.sums.getType().getDimSize(0)));
  }
  query = makeRing(chain.query, schedule.queries);
  keys = makeRing(chain.keys, schedule.stages);
  values = makeRing(chain.values, schedule.stages);
  programs = makePersistent(kernel, b);
  b.setInsertionPoint(programs);
  b.setLoc(programs.getLoc());
  RoleBodies bodies = makeRoles(b, schedule.consumers);
  b.setInsertionPointToStart(bodies.load);
  writeRole(Role::Load);
  b.setInsertionPointToStart(bodies.multiply);
  writeRole(Role::Multiply);
  guess.reset();
  programs.erase();
  kernel->removeAttr(kgpu::kScheduleAttrName);
  kernel->setAttr(kgpu::kAttendsAttrName, b.getUnitAttr());
}

void schedule::materializeAttention(func::FuncOp kernel, const Schedule &schedule, ChainedProducts chain,
                                    std::optional<Guess> guess) {
  Writer(kernel, schedule, chain, std::move(guess)).run();
}
