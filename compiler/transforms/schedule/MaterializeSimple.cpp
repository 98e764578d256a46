// Writes out the schedules `simple` and `lanes`: all threads copy blocks into a ring, some iterations ahead, and
// multiply what has arrived. One role, and one barrier per step (at the receive of a slot), which kiln-wait-by-warp
// turns into one of each warp where `lanes` allows it.
#include "compiler/transforms/schedule/StagedLoop.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

namespace {
class Materializer {
public:
  Materializer(func::FuncOp kernel, StagedLoop staged, int32_t stages, bool warpsApart)
      : kernel(kernel), staged(std::move(staged)), loop(this->staged.loop), stages(stages), warpsApart(warpsApart),
        b(kernel.getLoc(), kernel.getContext()) {}

  void run();

private:
  Value carryCursor();
  void findOwn();
  Operation *firstPlace();
  Value integer(int64_t value) {
    return arith::ConstantOp::create(b, b.getIntegerAttr(loop.getInductionVar().getType(), value));
  }
  /// Makes `read` perform no access if `made` is false.
  void readWhen(tile::LoadOp read, Value made);
  /// Begins the copies of one iteration. `variable` is its induction variable; `state` holds the loop-carried values
  /// that addresses need, and is advanced by one iteration. If `made` is false only the group is closed.
  void fill(Value variable, MutableArrayRef<Value> state, Value made, Value cursor);
  void writeBody(scf::ForOp copy, unsigned carried);

  func::FuncOp kernel;
  StagedLoop staged;
  scf::ForOp loop;
  int32_t stages;
  bool warpsApart;
  ImplicitLocOpBuilder b;
  ChannelOp channel;
  /// The ops of the body and the loop-carried values that the products themselves still need.
  DenseSet<Operation *> own;
  SmallVector<bool> ownCarried;
  SmallVector<Value> ownYields; ///< by carried value; null: used only for addresses
};
} // namespace

/// The cursor persists through the whole kernel: outer loops carry it.
Value Materializer::carryCursor() {
  Value start = CursorOp::create(b, CursorType::get(b.getContext(), stages));
  IRRewriter rewriter(b.getContext());
  for (scf::ForOp &around : staged.around) {
    SmallVector<Value> inits = {start};
    // Its yield operand is set once the ring has been written.
    auto made = cast<scf::ForOp>(*around.replaceWithAdditionalYields(
        rewriter, inits, /*replaceInitOperandUsesInLoop=*/false,
        [](OpBuilder &, Location, ArrayRef<BlockArgument> arguments) { return SmallVector<Value>(arguments); }));
    around = made;
    start = made.getRegionIterArgs().back();
  }
  return start;
}

/// Finds the body's ops that are needed for more than addresses, and the carried values that those need.
void Materializer::findOwn() {
  ownCarried.assign(loop.getNumRegionIterArgs(), false);
  SmallVector<Value> open;
  auto keep = [&](unsigned carried) {
    if (ownCarried[carried])
      return;
    ownCarried[carried] = true;
    open.push_back(loop.getYieldedValues()[carried]);
  };
  auto need = [&](Operation &op) {
    own.insert(&op);
    op.walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  };
  for (unsigned i = 0; i < ownCarried.size(); ++i)
    if (!staged.ahead[i] || !loop.getResult(i).use_empty())
      keep(i);
  auto isLoad = [&](Operation &op) {
    return llvm::any_of(staged.loads, [&](const StagedLoad &load) { return load.op == &op; });
  };
  for (Operation &op : loop.getBody()->without_terminator())
    if (!staged.addresses.contains(&op) && !isLoad(op))
      need(op);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == loop.getBody() && argument != loop.getInductionVar())
      keep(argument.getArgNumber() - 1);
    Operation *op = value.getDefiningOp();
    if (op && staged.addresses.contains(op) && !own.contains(op))
      need(*op);
  }
}

void Materializer::readWhen(tile::LoadOp read, Value made) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(read);
  Value mask = made;
  if (auto tile = dyn_cast<RankedTensorType>(read.getType()))
    mask = tile::SplatOp::create(b, tile.clone(b.getI1Type()), made);
  if (read.getMask())
    mask = arith::AndIOp::create(b, read.getMask(), mask);
  read.getMaskMutable().assign(mask);
}

void Materializer::fill(Value variable, MutableArrayRef<Value> state, Value made, Value cursor) {
  IRMapping map;
  map.map(loop.getInductionVar(), variable);
  unsigned next = 0;
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (staged.ahead[i])
      map.map(argument, state[next++]);
  for (Operation *op : staged.addresses) {
    Operation *copy = b.clone(*op, map);
    if (auto read = dyn_cast<tile::LoadOp>(copy))
      readWhen(read, made);
  }
  auto slot = AcquireOp::create(b, channel.getType().getParts(), channel, cursor);
  for (auto [load, part] : llvm::zip_equal(staged.loads, slot.getParts())) {
    b.setLoc(load.op->getLoc());
    if (auto access = dyn_cast<tile::DescLoadOp>(load.op)) {
      SmallVector<Value> offsets;
      for (Value offset : access.getOffsets())
        offsets.push_back(map.lookupOrDefault(offset));
      CopyBlockOp::create(b, map.lookupOrDefault(access.getDesc()), offsets, made, part, channel, cursor,
                          access.getBoundaryAttr(), uint32_t(access.getEvict()));
    } else {
      auto read = cast<tile::LoadOp>(load.op);
      Value mask = read.getMask() ? map.lookupOrDefault(read.getMask()) : Value();
      CopyTileOp::create(b, map.lookupOrDefault(read.getPtr()), mask, made, part, channel, cursor,
                         uint32_t(read.getEvict()));
    }
  }
  b.setLoc(loop.getLoc());
  CommitOp::create(b, channel, cursor);
  next = 0;
  for (auto [i, yielded] : llvm::enumerate(loop.getYieldedValues()))
    if (staged.ahead[i])
      state[next++] = map.lookupOrDefault(yielded);
}

/// Writes the products of one iteration, on the slot that has arrived.
void Materializer::writeBody(scf::ForOp copy, unsigned carried) {
  IRMapping map;
  map.map(loop.getInductionVar(), copy.getInductionVar());
  unsigned next = 0;
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (ownCarried[i])
      map.map(argument, copy.getRegionIterArg(next++));
  SmallVector<Value> ahead(copy.getRegionIterArgs().drop_front(next).drop_back(2));
  Value reading = copy.getRegionIterArg(carried), writing = copy.getRegionIterArg(carried + 1);
  // All copies but the last have arrived, and all threads are done with the slot to be filled next.
  auto slot = ReceiveOp::create(b, channel.getType().getParts(), channel, reading, /*pending=*/uint32_t(stages - 2));
  Value distance = arith::MulIOp::create(b, loop.getStep(), integer(stages - 1));
  Value variable = arith::AddIOp::create(b, copy.getInductionVar(), distance);
  Value limit = arith::SubIOp::create(b, loop.getUpperBound(), distance);
  Value comes = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, copy.getInductionVar(), limit);
  fill(variable, ahead, comes, writing);
  auto partOf = [&](Operation *op) -> Value {
    for (auto [load, part] : llvm::zip_equal(staged.loads, slot.getParts()))
      if (load.op == op)
        return part;
    return {};
  };
  for (Operation &op : loop.getBody()->without_terminator()) {
    b.setLoc(op.getLoc());
    if (Value part = partOf(&op)) {
      auto other = [](Operation *user) {
        auto turned = dyn_cast<tile::TransOp>(user);
        return !turned || turned.getOrder() != ArrayRef<int32_t>{1, 0};
      };
      if (llvm::any_of(op.getUsers(), other))
        map.map(op.getResult(0), LocalLoadOp::create(b, op.getResult(0).getType(), part).getResult());
      continue;
    }
    // Reading memory in transposed order is free.
    auto turned = dyn_cast<tile::TransOp>(op);
    if (Value part = turned ? partOf(turned.getValue().getDefiningOp()) : Value();
        part && turned.getOrder() == ArrayRef<int32_t>{1, 0}) {
      Value view = kgpu::TransOp::create(b, part, turned.getOrder());
      map.map(turned.getResult(), LocalLoadOp::create(b, turned.getType(), view).getResult());
      continue;
    }
    if (own.contains(&op))
      b.clone(op, map);
  }
  b.setLoc(loop.getLoc());
  ReleaseOp::create(b, channel, reading, /*when=*/Value());
  SmallVector<Value> yielded;
  for (auto [i, value] : llvm::enumerate(loop.getYieldedValues()))
    if (ownCarried[i])
      yielded.push_back(map.lookupOrDefault(value));
  llvm::append_range(yielded, ahead);
  for (Value cursor : {reading, writing})
    yielded.push_back(AdvanceOp::create(b, cursor.getType(), cursor));
  scf::YieldOp::create(b, yielded);
}

/// Where the first copies begin: right behind the first tile that is loaded next to them, if only pure computation of
/// their addresses stands in between, which then moves in front of it. Behind many copies that load would be late, and
/// the products with it; what waits for it sinks behind the copies (kiln-sink-factors).
Operation *Materializer::firstPlace() {
  Block *block = loop->getBlock();
  SmallVector<Value> open = {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()};
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs()))
    if (staged.ahead[i])
      open.push_back(init);
  for (const StagedLoad &load : staged.loads)
    llvm::append_range(open, load.op->getOperands());
  for (Operation *op : staged.addresses)
    llvm::append_range(open, op->getOperands());
  DenseSet<Operation *> needed;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && op->getBlock() == block && needed.insert(op).second)
      op->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  auto isBeside = [&](Operation &op) {
    return isa<tile::LoadOp, tile::DescLoadOp>(op) && isa<RankedTensorType>(op.getResult(0).getType()) &&
           !needed.contains(&op);
  };
  // Not before a wait for the launch that may write what is copied.
  Block::iterator begin = block->begin();
  for (auto wait : block->getOps<tile::WaitForGridOp>())
    if (wait->isBeforeInBlock(loop))
      begin = std::next(wait->getIterator());
  auto before = llvm::make_range(begin, Block::iterator(loop));
  auto first = llvm::find_if(before, isBeside);
  if (first == before.end() || !staged.around.empty())
    return loop;
  SmallVector<Operation *> moved;
  for (Operation &op : llvm::make_range(first, before.end()))
    if (needed.contains(&op))
      moved.push_back(&op);
  if (!llvm::all_of(moved, [](Operation *op) { return isMemoryEffectFree(op); }))
    return loop;
  for (Operation *op : moved)
    op->moveBefore(&*first);
  return first->getNextNode();
}

void Materializer::run() {
  b.setInsertionPointToStart(&kernel.front());
  SmallVector<Type> parts;
  for (const StagedLoad &load : staged.loads)
    parts.push_back(load.memory);
  int64_t count = moduleNumber(kernel, kNumWarpsAttrName, 4);
  channel =
      ChannelOp::create(b, ChannelType::get(b.getContext(), stages, parts), Completion::Groups,
                        /*fillers=*/uint32_t(count), /*readers=*/uint32_t(count), /*offset=*/IntegerAttr(), warpsApart);
  Value cursor = carryCursor();
  findOwn();

  // Fill ahead by one iteration fewer than there are slots.
  b.setInsertionPoint(firstPlace());
  b.setLoc(loop.getLoc());
  SmallVector<Value> carried;
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs()))
    if (staged.ahead[i])
      carried.push_back(init);
  carried.push_back(cursor);
  auto before = scf::ForOp::create(b, integer(0), integer(stages - 1), integer(1), carried);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(before.getBody());
    SmallVector<Value> state(before.getRegionIterArgs().drop_back());
    Value distance = arith::MulIOp::create(b, before.getInductionVar(), loop.getStep());
    Value variable = arith::AddIOp::create(b, loop.getLowerBound(), distance);
    Value comes = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, variable, loop.getUpperBound());
    Value place = before.getRegionIterArgs().back();
    fill(variable, state, comes, place);
    state.push_back(AdvanceOp::create(b, place.getType(), place));
    scf::YieldOp::create(b, state);
  }

  b.setInsertionPoint(loop);
  SmallVector<Value> inits;
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs()))
    if (ownCarried[i])
      inits.push_back(init);
  llvm::append_range(inits, before.getResults().drop_back());
  unsigned places = inits.size();
  inits.append({cursor, before.getResults().back()});
  auto copy = scf::ForOp::create(b, loop.getLowerBound(), loop.getUpperBound(), loop.getStep(), inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.getBody());
    writeBody(copy, places);
  }
  unsigned next = 0;
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    if (ownCarried[i])
      result.replaceAllUsesWith(copy.getResult(next++));

  // Drain the groups that were closed for iterations that never happened.
  Value place = copy.getResult(places);
  for (int32_t i = 0; i + 1 < stages; ++i) {
    ReceiveOp::create(b, parts, channel, place, /*pending=*/uint32_t(0));
    ReleaseOp::create(b, channel, place, /*when=*/Value());
    place = AdvanceOp::create(b, place.getType(), place);
  }
  for (scf::ForOp around : llvm::reverse(staged.around)) {
    Operation *yield = around.getBody()->getTerminator();
    yield->setOperand(yield->getNumOperands() - 1, place);
    place = around.getResults().back();
  }
  loop.erase();
}

void schedule::materializeSimple(func::FuncOp kernel, StagedLoop staged, int32_t stages, bool warpsApart) {
  Materializer(kernel, std::move(staged), stages, warpsApart).run();
}
