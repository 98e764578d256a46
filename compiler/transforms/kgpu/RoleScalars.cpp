// The scalars and cursors of one role in one run, as far as anything depends on them.
#include "compiler/transforms/kgpu/RoleScalars.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

//===----------------------------------------------------------------------===//
// Assumptions
//===----------------------------------------------------------------------===//

// Loops with a constant trip count of up to this are followed exactly.
static constexpr int64_t kMaxKnownTrips = 256;
// The most trips of loops that contain loops: enough to expose a cursor that is not carried on.
static constexpr unsigned kOuterTrips = 3;
static constexpr unsigned kInnerTrips = 8;
// Runs in which all outer loops have the same trip count and all inner ones too, the first one without outer trips, and
// runs in which each loop has its own.
static constexpr unsigned kUniformRuns = 1 + kOuterTrips * kInnerTrips, kMixedRuns = 20;

/// Beyond what conditions may distinguish at both ends of a loop.
static int64_t longest(int64_t slots) { return 2 * Assumptions::window(slots) + 3; }

/// Around multiples of the number of slots.
static int64_t innerTrips(unsigned index, int64_t slots) {
  const int64_t trips[kInnerTrips] = {0, 1, 2, slots - 1, slots, slots + 1, 2 * slots + 1, longest(slots)};
  return trips[index];
}

Assumptions::Assumptions(unsigned run, int64_t slots) : run(run), slots(slots) {}

unsigned Assumptions::runs(bool varies) { return varies ? kUniformRuns + kMixedRuns : 1 + kOuterTrips; }

unsigned Assumptions::keyOf(ArrayRef<uint64_t> parts) {
  return keys.try_emplace(std::vector<uint64_t>(parts.begin(), parts.end()), unsigned(keys.size())).first->second;
}

std::optional<int64_t> Assumptions::find(unsigned key) const {
  auto found = numbers.find(key);
  return found == numbers.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

int64_t Assumptions::choose(unsigned key, int64_t limit) const {
  uint64_t mixed = (uint64_t(key) * 1000003 + run) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ull;
  return int64_t((mixed >> 33) % uint64_t(limit));
}

int64_t Assumptions::trips(unsigned key, bool outer) const {
  unsigned index = run < kUniformRuns ? run : unsigned(choose(key, kUniformRuns));
  if (index == 0)
    return 0;
  unsigned inner = (index - 1) % kInnerTrips, round = (index - 1) / kInnerTrips;
  // The next run has the next count of either kind.
  return outer ? 1 + (inner + round) % kOuterTrips : innerTrips(inner, slots);
}

int64_t Assumptions::shortfall(unsigned key) const { return run < kUniformRuns ? 2 : choose(key, 3); }

int64_t Assumptions::manyTrips(unsigned key) const { return longest(slots) + choose(key, slots + 1); }

//===----------------------------------------------------------------------===//
// The parts of a role that matter
//===----------------------------------------------------------------------===//

bool Role::follows(Operation *op) {
  if (isa<AcquireOp, CommitOp, ReceiveOp, ReleaseOp, CopyInOp, CopyBlockOp, CopyTileOp, CopyOutOp, CopyOutWaitOp,
          FenceAsyncOp, WarpgroupMmaOp, MmaWaitOp>(op))
    return true;
  if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
    return atomic.getSem() != tile::MemSemantic::Relaxed;
  return !isView(op) && llvm::any_of(op->getOperandTypes(), [](Type type) { return isa<MemType>(type); });
}

/// Types of values that a run tracks. Pointers are included since a value read through them may decide something.
static bool isScalar(Type type) { return isa<IntegerType, IndexType, CursorType, tile::PtrType>(type); }

/// Computes the same results from the same operands, in whatever role and at any time.
static bool isFunction(Operation *op) {
  return op->getNumRegions() == 0 &&
         (isMemoryEffectFree(op) || isConstantRead(op->getParentOfType<func::FuncOp>(), op));
}

void Role::need(Value value, SmallVectorImpl<Value> &open) {
  if (value && isScalar(value.getType()) && needed.insert(value).second)
    open.push_back(value);
}

/// If the value is a constant more than another one: that, and the constant.
static std::optional<std::pair<Value, int64_t>> withoutConstant(Value value) {
  Operation *op = value.getDefiningOp();
  APInt constant;
  if (!isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) || !matchPattern(op->getOperand(1), m_ConstantInt(&constant)))
    return std::nullopt;
  return std::pair(op->getOperand(0), (isa<arith::AddIOp>(op) ? 1 : -1) * constant.getSExtValue());
}

/// A value as another one, which no constant is added to, and a constant.
static std::pair<Value, int64_t> withoutConstants(Value value) {
  int64_t sum = 0;
  while (auto step = withoutConstant(value)) {
    value = step->first;
    sum += step->second;
  }
  return {value, sum};
}

void Role::keep(Operation *op, SmallVectorImpl<Value> &open) {
  for (; op && op->getBlock() && relevant.insert(op).second; op = op->getParentOp()) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
        need(bound, open);
      ends.try_emplace(loop.getUpperBound(), loop);
      starts[loop.getLowerBound()].push_back(loop);
      if (Value number = withoutConstants(loop.getLowerBound()).first; number != loop.getLowerBound())
        starts[number].push_back(loop);
      if (loop.getStep() != loop.getLowerBound())
        starts[loop.getStep()].push_back(loop);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      need(branch.getCondition(), open);
    } else if (!isa<scf::WhileOp>(op)) { // nothing is tracked from one iteration of a while loop to the next
      for (Value operand : op->getOperands())
        need(operand, open);
    }
    if (op->getBlock() == body)
      return;
  }
}

Role::Role(StringRef name, Block &body, int64_t warps) : name(name), body(&body), warps(warps) {
  SmallVector<Value> open;
  for (Operation &op : body)
    op.walk<WalkOrder::PreOrder>([&](Operation *inner) {
      if (isa<RolesOp>(inner))
        return WalkResult::skip();
      if (follows(inner))
        keep(inner, open);
      if (isa<AcquireOp, CommitOp, ReceiveOp, ReleaseOp>(inner))
        for (Operation *around = inner; around != body.getParentOp(); around = around->getParentOp())
          if (auto &list = channelsIn[around]; !llvm::is_contained(list, inner->getOperand(0)))
            list.push_back(inner->getOperand(0));
      return WalkResult::advance();
    });
  while (!open.empty()) {
    Value value = open.pop_back_val();
    auto argument = dyn_cast<BlockArgument>(value);
    Operation *op = argument ? argument.getOwner()->getParentOp() : value.getDefiningOp();
    if (!body.getParentOp()->isProperAncestor(op))
      continue;
    keep(op, open);
    auto loop = dyn_cast<scf::ForOp>(op);
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      need(branch.thenYield().getOperand(number), open);
      need(branch.elseYield().getOperand(number), open);
    } else if (loop && value != loop.getInductionVar()) {
      BlockArgument carried = argument ? argument : loop.getTiedLoopRegionIterArg(cast<OpResult>(value));
      need(carried, open);
      need(loop.getTiedLoopInit(carried)->get(), open);
      need(loop.getTiedLoopYieldedValue(carried)->get(), open);
    }
  }
  // In program order, by block.
  for (Operation &op : body)
    op.walk<WalkOrder::PreOrder>([&](Operation *inner) {
      if (isa<RolesOp>(inner))
        return WalkResult::skip();
      if (relevant.contains(inner)) {
        steps[inner->getBlock()].push_back(inner);
        if (isa<scf::ForOp>(inner))
          for (Operation *around = inner->getParentOp(); around != body.getParentOp(); around = around->getParentOp())
            outerLoops.insert(around);
      }
      return WalkResult::advance();
    });
}

LogicalResult Role::check() const {
  for (const auto &[block, ops] : steps)
    for (Operation *op : ops) {
      if (!follows(op))
        continue;
      // No other role has to know how often an access to the role's own memory happens.
      bool counted = isa<AcquireOp, CommitOp, ReceiveOp, ReleaseOp, CopyInOp>(op);
      for (Operation *around = op->getParentOp(); around != body->getParentOp(); around = around->getParentOp())
        if (!isa<scf::ForOp, scf::IfOp>(around) && (counted || !isa<scf::WhileOp>(around)))
          return op->emitOpError("expected this only in counted loops and branches (because how often it runs is "
                                 "matched with the other roles), got it inside ")
                 << around->getName();
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

std::optional<int64_t> RoleScalars::known(const Scalar &scalar) const {
  std::optional<int64_t> number = assumed.find(scalar.key);
  return number ? number : scalar.value;
}

int64_t RoleScalars::numberOf(Value value) {
  Scalar scalar = scalarOf(value);
  if (std::optional<int64_t> number = known(scalar))
    return *number;
  int64_t number = assumed.choose(scalar.key, assumed.window() + 3);
  assumed.assume(scalar.key, number);
  return number;
}

bool RoleScalars::decide(Value condition) {
  Scalar scalar = scalarOf(condition);
  if (!known(scalar)) {
    assumed.assume(scalar.key, assumed.choose(scalar.key, 2));
    assumed.varies = true;
  }
  return *known(scalar) != 0;
}

void RoleScalars::set(Value value, const Scalar &scalar) {
  scalars[value] = scalar;
  if (auto loop = role.ends.lookup(value))
    foresee(loop);
  if (auto loops = role.starts.find(value); loops != role.starts.end())
    for (scf::ForOp loop : loops->second)
      foresee(loop);
}

/// Conditions in front of the loop use its end too, and where it begins. If it begins where another loop ends, they may
/// do so before that is known: then the other loop is assumed to run as often as any. Likewise if it begins a constant
/// behind a number that is known: the steps before it may be in front of the loop, in a branch.
void RoleScalars::foresee(scf::ForOp loop) {
  auto isAt = [&](Value bound) { return scalars.contains(bound) || matchPattern(bound, m_Constant()); };
  scf::ForOp before;
  if (!isAt(loop.getLowerBound()))
    before = role.ends.lookup(loop.getLowerBound());
  scf::ForOp first = before ? before : loop;
  auto [number, more] = std::pair(first.getLowerBound(), int64_t(0));
  if (!isAt(number))
    std::tie(number, more) = withoutConstants(number);
  if (!llvm::all_of(ValueRange{number, first.getStep(), loop.getUpperBound(), loop.getStep()}, isAt))
    return;
  int64_t step = stepOf(loop.getStep()), begin = numberOf(number) + more;
  Scalar end = scalarOf(loop.getUpperBound());
  if (known(end))
    return;
  if (before)
    begin += stepOf(before.getStep()) * assumed.trips(assumed.keyOf({Loop, end.key}), role.outerLoops.contains(before));
  assumeEnd(loop.getLowerBound(), begin, loop.getUpperBound(), role.outerLoops.contains(loop), step);
}

void RoleScalars::assumeEnd(Value lowerBound, int64_t begin, Value end, bool outer, int64_t step) {
  unsigned key = scalarOf(end).key;
  // A loop from x to x + 256 runs equally often whatever x is, and conditions in it may be folded on that ground.
  auto [from, before] = withoutConstants(lowerBound);
  auto [to, behind] = withoutConstants(end);
  if (from == to) {
    int64_t trips = std::max<int64_t>(0, llvm::divideCeilSigned(behind - before, step));
    // A very large count stands for any count beyond the windows at both ends.
    assumed.assume(key, trips <= kMaxKnownTrips ? begin + behind - before : begin + assumed.manyTrips(key) * step);
    return;
  }
  assumed.varies |= !outer;
  int64_t trips = assumed.trips(key, outer);
  // The last iteration need not be a whole step. A loop without any may end before it begins: behind a peeled step it
  // begins a step later than what the kernel counts.
  int64_t number = begin + trips * step - (trips ? assumed.choose(key, step) : step * assumed.shortfall(key));
  assumed.assume(key, number);
  // Conditions may use the value it was computed from instead: `i < n - 128` in a loop to n - 32.
  for (Value value = end; auto step = withoutConstant(value); value = step->first) {
    Scalar source = scalarOf(step->first);
    if (known(source))
      return;
    number -= step->second;
    assumed.assume(source.key, number);
  }
}

int64_t RoleScalars::stepOf(Value step) {
  Scalar width = scalarOf(step);
  if (!known(width))
    assumed.assume(width.key, 1 + assumed.choose(width.key, 3));
  // An earlier assumption may have made the step 0 (no programs in the launch). All roles clamp it alike, and such a
  // launch never runs this code.
  return std::max<int64_t>(1, *known(width));
}

RoleScalars::Trips RoleScalars::tripsOf(Value lowerBound, Value upperBound, Value step, bool outer) {
  Scalar begin = scalarOf(lowerBound), width = scalarOf(step);
  Trips trips;
  trips.first = numberOf(lowerBound);
  trips.step = stepOf(step);
  Scalar end = scalarOf(upperBound);
  auto countTo = [&](int64_t last) {
    return std::max<int64_t>(0, llvm::divideCeilSigned(last - trips.first, trips.step));
  };
  // All bounds are constants: nothing was assumed.
  bool constant = known(begin) == begin.value && end.value && known(end) == end.value && !end.loop;
  bool exact = constant && countTo(*end.value) <= kMaxKnownTrips;
  if (constant && !exact) // a very large count stands for any count beyond the windows at both ends
    assumed.assume(end.key, trips.first + assumed.manyTrips(end.key) * trips.step);
  else if (!known(end) || countTo(*known(end)) > kMaxKnownTrips)
    assumeEnd(lowerBound, trips.first, upperBound, outer, trips.step);
  trips.count = countTo(*known(end));
  trips.assumed = !exact;
  trips.key = assumed.keyOf({Loop, begin.key, end.key, width.key});
  return trips;
}

Scalar RoleScalars::scalarOf(Value value) {
  auto found = scalars.find(value);
  if (found != scalars.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  Scalar scalar;
  if (op && !role.body->getParentOp()->isProperAncestor(op) && isFunction(op))
    scalar = compute(op, cast<OpResult>(value).getResultNumber());
  else if (op && matchPattern(value, m_Constant()))
    scalar = compute(op, 0);
  else
    scalar = opaque(assumed.keyOf({Root, uint64_t(value.getAsOpaquePointer())}));
  // The next program of a block is at least one further on; twice the step is two programs on.
  if (isa_and_nonnull<ProgramStepOp>(op) && !known(scalar))
    assumed.assume(scalar.key, 1 + assumed.choose(scalar.key, 3));
  set(value, scalar);
  return scalar;
}

/// a + sign * b.
static Scalar sum(const Scalar &a, const Scalar &b, std::optional<int64_t> x, std::optional<int64_t> y, int64_t sign) {
  Scalar result;
  if (!x || !y || (a.loop && b.loop && a.loop != b.loop))
    return result;
  result.value = *x + sign * *y;
  result.slope = a.slope + sign * b.slope;
  result.loop = result.slope ? (a.loop ? a.loop : b.loop) : nullptr;
  return result;
}

Scalar RoleScalars::compute(Operation *op, unsigned number) {
  APInt constant;
  if (matchPattern(op, m_ConstantInt(&constant))) {
    int64_t value = constant.getBitWidth() == 1 ? int64_t(constant.getZExtValue()) : constant.getSExtValue();
    return {assumed.keyOf({Constant, uint64_t(value)}), value};
  }
  if (isa<arith::ExtSIOp, arith::IndexCastOp, tile::HintOp>(op))
    if (!op->getOperand(0).getType().isInteger(1))
      return scalarOf(op->getOperand(0));
  if (auto choice = dyn_cast<arith::SelectOp>(op))
    return scalarOf(decide(choice.getCondition()) ? choice.getTrueValue() : choice.getFalseValue());
  // Computed alike from the same things: the op, its attributes, its operands.
  SmallVector<uint64_t, 8> parts = {Computed, uint64_t(op->getName().getAsOpaquePointer()),
                                    uint64_t(op->getAttrDictionary().getAsOpaquePointer()), number};
  SmallVector<Scalar, 2> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(scalarOf(operand));
    parts.push_back(operands.back().key);
  }
  Scalar result;
  if (isa<arith::CmpIOp>(op))
    return compare(op, assumed.keyOf(parts));
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    result = sum(operands[0], operands[1], known(operands[0]), known(operands[1]), isa<arith::AddIOp>(op) ? 1 : -1);
  } else if (isa<arith::MulIOp>(op)) {
    std::optional<int64_t> x = known(operands[0]), y = known(operands[1]);
    if (x && y && !(operands[0].loop && operands[1].loop)) {
      result.value = *x * *y;
      result.loop = operands[0].loop ? operands[0].loop : operands[1].loop;
      result.slope = operands[0].slope * *y + operands[1].slope * *x;
    }
  } else if (op->getResult(0).getType().isInteger(1) && isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op)) {
    bool x = decide(op->getOperand(0)), y = decide(op->getOperand(1));
    result.value = isa<arith::AndIOp>(op) ? x && y : isa<arith::OrIOp>(op) ? x || y : x != y;
  }
  result.key = assumed.keyOf(parts);
  return result;
}

static bool holds(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  using arith::CmpIPredicate;
  switch (predicate) {
  case CmpIPredicate::eq:
    return a == b;
  case CmpIPredicate::ne:
    return a != b;
  case CmpIPredicate::slt:
  case CmpIPredicate::ult:
    return a < b;
  case CmpIPredicate::sle:
  case CmpIPredicate::ule:
    return a <= b;
  case CmpIPredicate::sgt:
  case CmpIPredicate::ugt:
    return a > b;
  case CmpIPredicate::sge:
  case CmpIPredicate::uge:
    return a >= b;
  }
  llvm_unreachable("all predicates");
}

Scalar RoleScalars::compare(Operation *op, unsigned key) {
  Scalar a = scalarOf(op->getOperand(0)), b = scalarOf(op->getOperand(1)), result;
  result.key = key;
  if (a.loop && b.loop && a.loop != b.loop)
    return result;
  assumed.varies |= !known(a) || !known(b);
  int64_t x = numberOf(op->getOperand(0)), y = numberOf(op->getOperand(1)), slope = a.slope - b.slope;
  if (slope) {
    // The iteration in which both are equal must be near one of the ends, or the answer could be anything.
    const Progress &at = progress.lookup(a.loop ? a.loop : b.loop);
    double crossing = double(at.iteration) - double(x - y) / double(slope);
    auto isNear = [&](int64_t end) { return std::abs(crossing - double(end)) <= double(assumed.window()); };
    if (at.assumed && !isNear(0) && !isNear(at.trips))
      return result;
  }
  result.value = holds(cast<arith::CmpIOp>(op).getPredicate(), x, y);
  return result;
}

/// Loop-carried values change in ways that are not tracked, except that they may become constants.
Scalar RoleScalars::carried(const Scalar &scalar) {
  if (scalar.value && scalar.key == assumed.keyOf({Constant, uint64_t(*scalar.value)}))
    return scalar;
  return opaque(scalar.key);
}

std::optional<int64_t> RoleScalars::placeOf(Value cursor) {
  auto found = cursors.find(cursor);
  return found == cursors.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

void RoleScalars::setPlace(Value cursor, std::optional<int64_t> place) {
  cursors.erase(cursor);
  if (place)
    cursors[cursor] = *place;
}

void RoleScalars::bind(Value to, Value from) {
  if (!role.needed.contains(to))
    return;
  if (isa<CursorType>(to.getType()))
    setPlace(to, placeOf(from));
  else
    set(to, carried(scalarOf(from)));
}

void RoleScalars::forget(ValueRange values, int64_t time) {
  for (auto [number, value] : llvm::enumerate(values))
    if (role.needed.contains(value)) {
      setPlace(value, std::nullopt);
      set(value,
          opaque(assumed.keyOf({Unique, uint64_t(uintptr_t(value.getAsOpaquePointer())), uint64_t(time), number})));
    }
}

void RoleScalars::followScalars(Operation *op, int64_t time) {
  if (auto cursor = dyn_cast<CursorOp>(op)) {
    cursors[cursor] = 0;
    return;
  }
  if (auto advance = dyn_cast<AdvanceOp>(op)) {
    std::optional<int64_t> place = placeOf(advance.getCursor());
    setPlace(advance, place ? std::optional<int64_t>(*place + 1) : std::nullopt);
    return;
  }
  if (auto skip = dyn_cast<SkipOp>(op)) {
    Trips trips = tripsOf(skip.getLowerBound(), skip.getUpperBound(), skip.getStep(), /*outer=*/false);
    std::optional<int64_t> place = placeOf(skip.getCursor());
    setPlace(skip, place ? std::optional<int64_t>(*place + trips.count) : std::nullopt);
    return;
  }
  if (auto choice = dyn_cast<arith::SelectOp>(op); choice && isa<CursorType>(choice.getType())) {
    bind(choice, decide(choice.getCondition()) ? choice.getTrueValue() : choice.getFalseValue());
    return;
  }
  for (OpResult result : op->getResults()) {
    if (!role.needed.contains(result))
      continue;
    if (isFunction(op))
      set(result, compute(op, result.getResultNumber()));
    else // a read in another role, or a repeated read, may return another value
      set(result, opaque(assumed.keyOf({Unique, uint64_t(uintptr_t(op)), uint64_t(time), result.getResultNumber()})));
  }
}
