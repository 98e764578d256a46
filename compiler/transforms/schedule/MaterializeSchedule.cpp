// kiln-materialize-schedule: clones the kernel once for each role, each clone keeping its part.
#include "compiler/transforms/schedule/Guess.h"
#include "compiler/transforms/schedule/Passes.h"
#include "compiler/transforms/schedule/RoleWriter.h"
#include "compiler/transforms/schedule/StagedLoop.h"
#include "compiler/transforms/schedule/Streams.h"
#include "compiler/transforms/tile/TakeUnlikely.h"
#include "dialects/kgpu/BarrierUse.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln {
#define GEN_PASS_DEF_MATERIALIZESCHEDULEPASS
#include "compiler/transforms/schedule/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

namespace {
class Materializer {
public:
  Materializer(func::FuncOp kernel, const Schedule &schedule, ProductLoop product)
      : kernel(kernel), schedule(schedule), product(product), b(kernel.getLoc(), kernel.getContext()),
        ctas(clusterSize(kernel)) {}

  void run();

private:
  enum class Role { Load, Multiply };
  /// A role's positions: in the product's ring, in the channels of blocks fetched beside it, and, if groups take turns,
  /// in the channels that hand turns over, two per resource: its own and the other group's.
  using Cursors = SmallVector<Value, 6>;
  /// The resources that groups take turns with: tensor cores, and the memory that results leave through.
  enum Resource : unsigned { TensorCores, ResultMemory, kResources };

  void hoistDescriptors();
  void makeStores();
  /// Writes one role's programs: all of them, or with turns only those of group `turn`.
  void writePrograms(scf::ForOp programs, Role role, MutableArrayRef<Value> cursors);
  void writeTurns(scf::ForOp programs, Role role, unsigned turn, MutableArrayRef<Value> cursors);
  /// Skips the slots of a program that the other group reads.
  void skipProgram(Block &program, IRMapping &map, MutableArrayRef<Value> cursors);
  void stepWhen(Value condition, Value &cursor, llvm::function_ref<void(Value)> steps);
  /// The role's position in a channel that hands a turn over.
  Value &turnCursor(MutableArrayRef<Value> cursors, Resource resource, bool own) {
    return cursors[1 + fetches.size() + 2 * resource + (own ? 0 : 1)];
  }
  void takeTurn(Resource resource, MutableArrayRef<Value> cursors);
  void handOver(Resource resource, MutableArrayRef<Value> cursors);
  void writeStore(tile::DescStoreOp store, IRMapping &map, MutableArrayRef<Value> cursors);
  void copyOut(tile::DescStoreOp store, Value memory, IRMapping &map);
  /// Clones a block for the role, replacing the product's loop. Leaves `cursors` at their positions after the block.
  void cloneBlock(Block &from, Role role, IRMapping &map, MutableArrayRef<Value> cursors);
  void cloneLoop(scf::ForOp loop, Role role, IRMapping &map, MutableArrayRef<Value> cursors);
  void writeFetch(tile::DescLoadOp load, Role role, IRMapping &map, Value &cursor);
  void writeAhead(scf::ForOp loop, IRMapping &map);
  void writePrefetches(IRMapping &map);
  Value writeLoads(IRMapping &map, Value cursor);
  void writeProducts(IRMapping &map, MutableArrayRef<Value> cursors);
  Value addOverCluster(Value sums);
  void cloneScalars(IRMapping &map);
  Value transpose(Value tile);
  Value reshape(Value tile, RankedTensorType type);
  bool isKept(Operation &op, Role role);
  bool isKnown(Operation &op, IRMapping &map);

  func::FuncOp kernel;
  Schedule schedule;
  ProductLoop product;
  ImplicitLocOpBuilder b;
  int64_t ctas;
  MemType lhsMemory, rhsMemory;
  Value lhsMap, rhsMap;
  ChannelOp channel;
  struct Store {
    Value map;
    MemType memory;
  };
  llvm::MapVector<Operation *, Store> stores; ///< stores that the copy engine performs
  struct Fetch {
    Value map;
    MemType memory;
    ChannelOp channel;
    Value part;          ///< received before the turn was handed over, or kept for the result
    Value cursor;        ///< of the part that is kept
    bool reused = false; ///< the result leaves through its memory
  };
  llvm::MapVector<Operation *, Fetch> fetches; ///< other loads that it performs
  std::optional<unsigned> turn;                ///< the group being written, if groups take turns
  /// By resource and group: committed when the group has begun all products of a program, and when its results have
  /// been read from memory.
  ChannelOp turns[kResources][2];
  Value notFirst, follows; ///< the program being written has a predecessor (null: always), and a successor
};
} // namespace

void Materializer::hoistDescriptors() {
  SmallVector<tile::MakeDescOp> descs = {product.lhs.desc, product.rhs.desc};
  for (auto &[store, unused] : stores)
    descs.push_back(cast<tile::DescStoreOp>(store).getDesc().getDefiningOp<tile::MakeDescOp>());
  for (auto &[load, unused] : fetches)
    descs.push_back(cast<tile::DescLoadOp>(load).getDesc().getDefiningOp<tile::MakeDescOp>());
  schedule::hoistDescriptors(kernel, descs, b);
}

/// The load role keeps scalar ops without effects; the multiply role keeps everything.
bool Materializer::isKept(Operation &op, Role role) { return role == Role::Multiply || isScalarOp(op); }

/// Every operand exists in this role, or is defined before the loop over programs.
bool Materializer::isKnown(Operation &op, IRMapping &map) {
  return llvm::all_of(op.getOperands(), [&](Value operand) {
    Operation *def = operand.getDefiningOp();
    return map.contains(operand) || !def || !def->getParentOfType<scf::ForOp>();
  });
}

/// A block other than the product's operands: fetched by one role, received by the other, in a channel with one slot.
void Materializer::writeFetch(tile::DescLoadOp load, Role role, IRMapping &map, Value &cursor) {
  Fetch &fetch = fetches[load];
  if (role == Role::Load) {
    Value part = AcquireOp::create(b, TypeRange{fetch.memory}, fetch.channel, cursor).getParts()[0];
    SmallVector<Value> offsets;
    for (Value offset : load.getOffsets())
      offsets.push_back(map.lookupOrDefault(offset));
    CopyInOp::create(b, fetch.map, offsets, part, fetch.channel, cursor, uint32_t(load.getEvict()));
    CommitOp::create(b, fetch.channel, cursor);
  } else {
    Value part = std::exchange(fetch.part, Value());
    if (!part)
      part = ReceiveOp::create(b, TypeRange{fetch.memory}, fetch.channel, cursor).getParts()[0];
    map.map(load.getResult(), reshape(LocalLoadOp::create(b, asMatrix(load.getType()), part), load.getType()));
    if (fetch.reused) {
      fetch.part = part;
      fetch.cursor = cursor;
    } else {
      ReleaseOp::create(b, fetch.channel, cursor, /*when=*/Value());
    }
  }
  cursor = AdvanceOp::create(b, cursor.getType(), cursor);
}

void Materializer::cloneBlock(Block &from, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  for (Operation &op : from.without_terminator()) {
    b.setLoc(op.getLoc());
    if (&op == product.loop) {
      if (role == Role::Load)
        cursors[0] = writeLoads(map, cursors[0]);
      else
        writeProducts(map, cursors);
      continue;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op); loop && loop->isProperAncestor(product.loop)) {
      cloneLoop(loop, role, map, cursors);
      continue;
    }
    if (auto fetch = fetches.find(&op); fetch != fetches.end()) {
      writeFetch(cast<tile::DescLoadOp>(op), role, map, cursors[1 + (fetch - fetches.begin())]);
      continue;
    }
    // Also drop ops that depend on dropped ones, such as the result of an atomic or a branch.
    if (!isKept(op, role) || !isKnown(op, map))
      continue;
    auto store = stores.find(&op);
    if (store == stores.end()) {
      b.clone(op, map);
      continue;
    }
    writeStore(cast<tile::DescStoreOp>(op), map, cursors);
  }
}

/// Writes a tile to memory, and has the copy engine store it.
void Materializer::copyOut(tile::DescStoreOp store, Value memory, IRMapping &map) {
  Value tile = map.lookup(store.getValue());
  LocalStoreOp::create(b, reshape(tile, asMatrix(cast<RankedTensorType>(tile.getType()))), memory);
  SmallVector<Value> offsets;
  for (Value offset : store.getOffsets())
    offsets.push_back(map.lookupOrDefault(offset));
  CopyOutOp::create(b, memory, stores[store].map, offsets, /*kind=*/StringAttr(), schedule.apart);
}

/// A result leaves through shared memory; kiln-insert-barriers adds the barriers and fences. Groups that take turns use
/// the same memory: a group waits for the other's results to be read from it, and hands it over once its own have been.
/// A result that replaces an addend in its slot gives the slot back once it has been read.
void Materializer::writeStore(tile::DescStoreOp store, IRMapping &map, MutableArrayRef<Value> cursors) {
  for (auto &[load, fetch] : fetches)
    if (fetch.reused) {
      copyOut(store, std::exchange(fetch.part, Value()), map);
      CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
      ReleaseOp::create(b, fetch.channel, fetch.cursor, /*when=*/Value());
      return;
    }
  if (turn && store == stores.front().first)
    takeTurn(ResultMemory, cursors);
  AllocOp memory = AllocOp::create(b, stores[store].memory, /*offset=*/IntegerAttr());
  if (turn)
    memory.setTurn(int32_t(stores.find(store) - stores.begin()));
  else
    CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
  copyOut(store, memory, map);
  if (turn && store == stores.back().first) {
    CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
    handOver(ResultMemory, cursors);
  }
}

void Materializer::cloneLoop(scf::ForOp loop, Role role, IRMapping &map, MutableArrayRef<Value> cursors) {
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  SmallVector<Value> inits;
  for (Value init : loop.getInitArgs())
    inits.push_back(of(init));
  llvm::append_range(inits, cursors);
  auto copy = scf::ForOp::create(b, of(loop.getLowerBound()), of(loop.getUpperBound()), of(loop.getStep()), inits);
  map.map(loop.getInductionVar(), copy.getInductionVar());
  for (auto [old, made] : llvm::zip(loop.getRegionIterArgs(), copy.getRegionIterArgs()))
    map.map(old, made);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(copy.getBody());
  SmallVector<Value> inside(copy.getRegionIterArgs().take_back(cursors.size()));
  cloneBlock(*loop.getBody(), role, map, inside);
  SmallVector<Value> yielded;
  for (Value value : loop.getYieldedValues())
    yielded.push_back(of(value));
  llvm::append_range(yielded, inside);
  scf::YieldOp::create(b, yielded);
  for (auto [old, made] : llvm::zip(loop.getResults(), copy.getResults()))
    map.map(old, made);
  llvm::copy(copy.getResults().take_back(cursors.size()), cursors.begin());
}

/// Groups that take turns run two programs per round, one each. The second program of a round may not exist.
///
///     for p = first to count step 2 * step {  program p;  if p + step < count { program p + step } }
///
/// The load role does both; a group clones its own program and skips the other's. It takes its turn when everything is
/// ready for its products, and hands the turn over once all have begun, if another program follows.
void Materializer::writeTurns(scf::ForOp programs, Role role, unsigned own, MutableArrayRef<Value> cursors) {
  Value first = programs.getLowerBound(), count = programs.getUpperBound(), step = programs.getStep();
  Value twice = arith::AddIOp::create(b, step, step);
  auto rounds = scf::ForOp::create(b, first, count, twice, ValueRange(cursors));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rounds.getBody());
  Cursors inside(rounds.getRegionIterArgs().begin(), rounds.getRegionIterArgs().end());
  auto write = [&](unsigned which, Value program, MutableArrayRef<Value> at) {
    IRMapping map;
    map.map(programs.getInductionVar(), program);
    if (role == Role::Multiply && which != own)
      return skipProgram(*programs.getBody(), map, at);
    cloneBlock(*programs.getBody(), role, map, at);
  };
  Value even = rounds.getInductionVar(), odd = arith::AddIOp::create(b, even, step);
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, odd, count);
  notFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, even, first);
  follows = isThere;
  write(0, even, inside);
  auto branch = scf::IfOp::create(b, ValueRange(inside).getTypes(), isThere, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard inBranch(b);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, inside);
    b.setInsertionPointToStart(branch.thenBlock());
    notFirst = Value();
    Value next = arith::AddIOp::create(b, odd, step);
    follows = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, next, count);
    write(1, odd, inside);
    scf::YieldOp::create(b, inside);
  }
  scf::YieldOp::create(b, branch.getResults());
  llvm::copy(rounds.getResults(), cursors.begin());
}

void Materializer::writePrograms(scf::ForOp programs, Role role, MutableArrayRef<Value> cursors) {
  if (schedule.inTurns())
    return writeTurns(programs, role, turn.value_or(0), cursors);
  IRMapping map;
  cloneLoop(programs, role, map, cursors);
}

/// Emits steps that execute only if `condition` holds (null: always), and advance the cursor.
void Materializer::stepWhen(Value condition, Value &cursor, llvm::function_ref<void(Value)> steps) {
  auto advance = [&]() -> Value { return AdvanceOp::create(b, cursor.getType(), cursor); };
  if (!condition) {
    steps(cursor);
    cursor = advance();
    return;
  }
  auto branch = scf::IfOp::create(b, cursor.getType(), condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, cursor);
  b.setInsertionPointToStart(branch.thenBlock());
  steps(cursor);
  scf::YieldOp::create(b, advance());
  cursor = branch.getResult(0);
}

/// Waits until the other group has handed the resource over in the previous program, if there is one.
void Materializer::takeTurn(Resource resource, MutableArrayRef<Value> cursors) {
  ChannelOp handing = turns[resource][1 - *turn];
  stepWhen(notFirst, turnCursor(cursors, resource, /*own=*/false), [&](Value at) {
    ReceiveOp::create(b, TypeRange(), handing, at);
    ReleaseOp::create(b, handing, at, /*when=*/Value());
  });
}

/// The next program may use the resource, if there is one. Before tensor cores are handed over, this program's addends
/// are received, so that the other group cannot mistake them for its own.
void Materializer::handOver(Resource resource, MutableArrayRef<Value> cursors) {
  ChannelOp handing = turns[resource][*turn];
  if (resource == TensorCores)
    for (auto [entry, at] : llvm::zip_equal(fetches, cursors.slice(1, fetches.size())))
      entry.second.part = ReceiveOp::create(b, TypeRange{entry.second.memory}, entry.second.channel, at).getParts()[0];
  stepWhen(follows, turnCursor(cursors, resource, /*own=*/true), [&](Value at) {
    AcquireOp::create(b, TypeRange(), handing, at);
    CommitOp::create(b, handing, at);
  });
}

void Materializer::skipProgram(Block &program, IRMapping &map, MutableArrayRef<Value> cursors) {
  for (Operation &op : program.without_terminator())
    if (isKept(op, Role::Load) && isKnown(op, map))
      b.clone(op, map);
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  b.setLoc(product.loop.getLoc());
  cursors[0] = SkipOp::create(b, cursors[0].getType(), cursors[0], of(product.loop.getLowerBound()),
                              of(product.loop.getUpperBound()), of(product.loop.getStep()));
  for (Value &cursor : cursors.slice(1, fetches.size()))
    cursor = AdvanceOp::create(b, cursor.getType(), cursor);
}

/// Clones the loop's scalar ops.
void Materializer::cloneScalars(IRMapping &map) {
  for (Operation &op : product.loop.getBody()->without_terminator())
    if (!product.isPart(&op))
      b.clone(op, map);
}

/// Each CTA has a partial sum, stacked one below the other. It sends every CTA the columns that CTA owns, and adds up
/// the parts received for its own, in CTA order. No barrier is needed, since received bytes are counted.
Value Materializer::addOverCluster(Value sums) {
  auto stacked = cast<RankedTensorType>(sums.getType());
  int64_t rows = stacked.getDimSize(0) / ctas;
  auto one = RankedTensorType::get({rows, stacked.getDimSize(1)}, stacked.getElementType());
  auto memory = AllocOp::create(b, *sumMemory(stacked, ctas), /*offset=*/IntegerAttr());
  memory.setMbarrier(true);
  LocalStoreOp::create(b, sums, memory);
  AwaitOp::create(b, memory);
  MemType part = *sumMemory(one, ctas);
  Value total;
  for (int64_t cta = 0; cta < ctas; ++cta) {
    Value from = ViewOp::create(b, part, memory, cta * one.getNumElements() / ctas);
    Value added = LocalLoadOp::create(b, one, from);
    if (!total)
      total = added;
    else if (isa<FloatType>(one.getElementType()))
      total = arith::AddFOp::create(b, total, added);
    else
      total = arith::AddIOp::create(b, total, added);
  }
  return total;
}

Value Materializer::transpose(Value tile) {
  auto type = cast<RankedTensorType>(tile.getType());
  auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
  return tile::TransOp::create(b, turned, tile, ArrayRef<int32_t>{1, 0});
}

Value Materializer::reshape(Value tile, RankedTensorType type) {
  return tile.getType() == type ? tile : tile::ReshapeOp::create(b, type, tile).getResult();
}

Value Materializer::writeLoads(IRMapping &map, Value cursor) {
  scf::ForOp loop = product.loop;
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  SmallVector<Value> inits;
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs()))
    if (i != product.accumulator)
      inits.push_back(of(init));
  inits.push_back(cursor);
  auto copy = scf::ForOp::create(b, of(loop.getLowerBound()), of(loop.getUpperBound()), of(loop.getStep()), inits);
  map.map(loop.getInductionVar(), copy.getInductionVar());
  unsigned next = 0;
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (i != product.accumulator)
      map.map(argument, copy.getRegionIterArg(next++));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(copy.getBody());
  Value place = copy.getRegionIterArgs().back();
  auto slot = AcquireOp::create(b, TypeRange{lhsMemory, rhsMemory}, channel, place);
  cloneScalars(map);
  auto fill = [&](Factor &factor, Value engine, Value memory) {
    SmallVector<Value> offsets;
    for (Value offset : factor.load.getOffsets())
      offsets.push_back(of(offset));
    CopyInOp::create(b, engine, offsets, memory, channel, place, uint32_t(factor.load.getEvict()));
  };
  b.setLoc(product.lhs.load.getLoc());
  fill(product.lhs, lhsMap, slot.getParts()[0]);
  b.setLoc(product.rhs.load.getLoc());
  fill(product.rhs, rhsMap, slot.getParts()[1]);
  CommitOp::create(b, channel, place);
  SmallVector<Value> yielded;
  for (auto [i, value] : llvm::enumerate(loop.getYieldedValues()))
    if (i != product.accumulator)
      yielded.push_back(of(value));
  yielded.push_back(AdvanceOp::create(b, place.getType(), place));
  scf::YieldOp::create(b, yielded);
  next = 0;
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    if (i != product.accumulator)
      map.map(result, copy.getResult(next++));
  return copy.getResults().back();
}

/// If launches overlap: prefetches the ring's first contents before waiting for the previous launch. `loop` encloses
/// the product's loop; only its first iteration matters.
void Materializer::writeAhead(scf::ForOp loop, IRMapping &map) {
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  Value begin = of(loop.getLowerBound());
  Value runs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, begin, of(loop.getUpperBound()));
  b.setInsertionPointToStart(scf::IfOp::create(b, runs, /*withElseRegion=*/false).thenBlock());
  map.map(loop.getInductionVar(), begin);
  for (auto [argument, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs()))
    map.map(argument, of(init));
  for (Operation &op : loop.getBody()->without_terminator()) {
    b.setLoc(op.getLoc());
    if (&op == product.loop)
      return writePrefetches(map);
    if (auto inner = dyn_cast<scf::ForOp>(op); inner && inner->isProperAncestor(product.loop))
      return writeAhead(inner, map);
    if (isKept(op, Role::Load) && isKnown(op, map))
      b.clone(op, map);
  }
}

void Materializer::writePrefetches(IRMapping &map) {
  scf::ForOp loop = product.loop;
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  Value begin = of(loop.getLowerBound()), end = of(loop.getUpperBound()), step = of(loop.getStep());
  Value slots = arith::ConstantOp::create(b, b.getIntegerAttr(step.getType(), schedule.stages));
  Value reach = arith::AddIOp::create(b, begin, arith::MulIOp::create(b, step, slots));
  SmallVector<Value> inits;
  for (auto [i, init] : llvm::enumerate(loop.getInitArgs()))
    if (i != product.accumulator)
      inits.push_back(of(init));
  auto copy = scf::ForOp::create(b, begin, arith::MinSIOp::create(b, end, reach), step, inits);
  map.map(loop.getInductionVar(), copy.getInductionVar());
  unsigned next = 0;
  for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
    if (i != product.accumulator)
      map.map(argument, copy.getRegionIterArg(next++));
  b.setInsertionPointToStart(copy.getBody());
  cloneScalars(map);
  for (auto [factor, engine, memory] :
       {std::tuple(&product.lhs, lhsMap, lhsMemory), {&product.rhs, rhsMap, rhsMemory}}) {
    SmallVector<Value> offsets;
    for (Value offset : factor->load.getOffsets())
      offsets.push_back(of(offset));
    PrefetchOp::create(b, engine, offsets, memory);
  }
  SmallVector<Value> yielded;
  for (auto [i, value] : llvm::enumerate(loop.getYieldedValues()))
    if (i != product.accumulator)
      yielded.push_back(of(value));
  if (!yielded.empty())
    scf::YieldOp::create(b, yielded);
}

void Materializer::writeProducts(IRMapping &map, MutableArrayRef<Value> cursors) {
  scf::ForOp loop = product.loop;
  auto of = [&](Value value) { return map.lookupOrDefault(value); };
  // Carried in addition to the program's own values: the slot being read, and the previous one, whose products are
  // still running. Separately accumulated products are waited for at once: other groups' products run while this group
  // adds.
  bool apart = product.isSummedApart();
  SmallVector<Value> inits;
  for (Value init : loop.getInitArgs())
    inits.push_back(of(init));
  if (schedule.split) // each CTA's partial sum begins at zero
    inits[product.accumulator] =
        arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(product.stackedSums(schedule.swapped, ctas))));
  else if (schedule.swapped)
    inits[product.accumulator] = transpose(inits[product.accumulator]);
  inits.append(apart ? 1 : 2, cursors[0]);
  Value begin = of(loop.getLowerBound()), end = of(loop.getUpperBound());
  if (turn)
    takeTurn(TensorCores, cursors);
  auto copy = scf::ForOp::create(b, begin, end, of(loop.getStep()), inits);
  map.map(loop.getInductionVar(), copy.getInductionVar());
  unsigned count = loop.getNumRegionIterArgs();
  for (unsigned i = 0; i < count; ++i)
    map.map(loop.getRegionIterArg(i), copy.getRegionIterArg(i));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(copy.getBody());
    Value place = copy.getRegionIterArg(count);
    cloneScalars(map);
    b.setLoc(product.dot.getLoc());
    auto slot = ReceiveOp::create(b, TypeRange{lhsMemory, rhsMemory}, channel, place);
    // The instruction's left operand is M by K, its right one K by N.
    auto factor = [&](Factor &of, Value memory, unsigned across) -> Value {
      return of.across == across ? memory : TransOp::create(b, memory, ArrayRef<int32_t>{1, 0}).getResult();
    };
    Value lhs = factor(product.lhs, slot.getParts()[0], schedule.swapped ? 1 : 0);
    Value rhs = factor(product.rhs, slot.getParts()[1], schedule.swapped ? 0 : 1);
    if (schedule.swapped)
      std::swap(lhs, rhs);
    Value acc = copy.getRegionIterArg(product.accumulator), sum;
    if (apart) {
      Value zero = arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(acc.getType())));
      Value adds = arith::ConstantOp::create(b, b.getBoolAttr(false));
      // As many products per element as may be accumulated inexactly, in whole instructions.
      auto element = [](Factor &factor) { return factor.block().getElementType(); };
      int64_t step = product.dot.getLhs().getType().getShape().back() / (schedule.split ? ctas : 1);
      int64_t depth = productDepth(element(product.lhs), element(product.rhs),
                                   cast<RankedTensorType>(acc.getType()).getElementType(), /*warpgroup=*/true);
      int64_t most = std::max<int64_t>(1, int64_t(product.dot.getMaxImpreciseAcc()) / depth) * depth;
      sum = acc;
      for (int64_t first = 0; first < step; first += most) {
        int64_t end = std::min(step, first + most);
        Value own = WarpgroupMmaOp::create(b, acc.getType(), lhs, rhs, zero, adds, ArrayRef{first, end});
        own = MmaWaitOp::create(b, acc.getType(), own, /*pending=*/0);
        if (end == step)
          ReleaseOp::create(b, channel, place, /*when=*/Value());
        sum = arith::AddFOp::create(b, sum, own);
      }
    } else {
      sum = WarpgroupMmaOp::create(b, acc.getType(), lhs, rhs, acc, /*accumulate=*/Value());
      sum = MmaWaitOp::create(b, acc.getType(), sum, /*pending=*/1);
      // One product, which reads this slot, is still in flight; the previous slot is free.
      Value again = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, copy.getInductionVar(), begin);
      ReleaseOp::create(b, channel, copy.getRegionIterArg(count + 1), again);
    }
    SmallVector<Value> yielded;
    for (auto [i, value] : llvm::enumerate(loop.getYieldedValues()))
      yielded.push_back(i == product.accumulator ? sum : of(value));
    yielded.push_back(AdvanceOp::create(b, place.getType(), place));
    if (!apart)
      yielded.push_back(place);
    scf::YieldOp::create(b, yielded);
  }
  if (turn)
    handOver(TensorCores, cursors);
  Value settled = copy.getResult(product.accumulator);
  if (!apart) {
    Value ran = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, begin, end);
    settled = MmaWaitOp::create(b, settled.getType(), settled, /*pending=*/0);
    ReleaseOp::create(b, channel, copy.getResult(count + 1), ran);
  }
  if (schedule.split)
    settled = addOverCluster(settled);
  if (schedule.swapped)
    settled = transpose(settled);
  for (unsigned i = 0; i < count; ++i)
    map.map(loop.getResult(i), i == product.accumulator ? settled : copy.getResult(i));
  cursors[0] = copy.getResult(count);
}

void Materializer::run() {
  AlignmentAnalysis alignment(kernel);
  lhsMemory = *slotMemory(product.lhs, ctas, schedule.cutOf(product.lhs, /*isLeft=*/true));
  rhsMemory = *slotMemory(product.rhs, ctas, schedule.cutOf(product.rhs, /*isLeft=*/false));
  if (schedule.stagedStore)
    for (tile::DescStoreOp store : copyableStores(kernel, product, alignment))
      if (auto memory = storeMemory(cast<RankedTensorType>(store.getValue().getType()), ctas, schedule.cutsColumns()))
        stores[store] = {Value(), *memory};
  if (schedule.fetched)
    for (tile::DescLoadOp load : fetchableLoads(kernel, product, alignment))
      if (auto memory = storeMemory(load.getType(), ctas, schedule.cutsColumns()))
        fetches[load] = {Value(), *memory, ChannelOp(), Value(), Value(), /*reused=*/false};
  if (schedule.reused) {
    SmallVector<tile::DescLoadOp> loads;
    for (auto &[load, unused] : fetches)
      loads.push_back(cast<tile::DescLoadOp>(load));
    fetches[replaceableLoad(product, cast<tile::DescStoreOp>(stores.front().first), loads)].reused = true;
  }
  hoistDescriptors();
  auto pieces = [&](const Factor &factor, bool isLeft) { return schedule.cutOf(factor, isLeft) ? 1 : ctas; };
  lhsMap = mapOf(b, product.lhs.desc, lhsMemory, pieces(product.lhs, /*isLeft=*/true));
  rhsMap = mapOf(b, product.rhs.desc, rhsMemory, pieces(product.rhs, /*isLeft=*/false));
  int64_t rows = product.dot.getType().getDimSize(0) / ctas;
  for (auto &[op, store] : stores)
    store.map = mapOf(b, cast<tile::DescStoreOp>(op).getDesc().getDefiningOp<tile::MakeDescOp>(), store.memory, 1,
                      schedule.rowsOfBoxes(rows));
  // With turns, each slot is read by one group only.
  int32_t consumers = schedule.consumers, together = schedule.inTurns() ? 1 : consumers;
  auto channelOf = [&](int32_t slots, ArrayRef<Type> parts, Completion completion, int32_t fillers) {
    return ChannelOp::create(b, ChannelType::get(b.getContext(), slots, parts), completion, fillers,
                             /*readers=*/4 * together, /*offset=*/IntegerAttr());
  };
  channel = channelOf(schedule.stages, {lhsMemory, rhsMemory}, Completion::Bytes, /*fillers=*/1);
  for (auto &[op, fetch] : fetches) {
    fetch.map = mapOf(b, cast<tile::DescLoadOp>(op).getDesc().getDefiningOp<tile::MakeDescOp>(), fetch.memory, 1);
    fetch.channel = channelOf(1, {fetch.memory}, Completion::Bytes, /*fillers=*/1);
  }
  if (schedule.inTurns())
    for (unsigned resource = 0; resource < (stores.empty() ? unsigned(ResultMemory) : unsigned(kResources)); ++resource)
      for (ChannelOp &handing : turns[resource])
        handing = channelOf(1, {}, Completion::Threads, /*fillers=*/4);
  scf::ForOp programs = makePersistent(kernel, b);

  b.setInsertionPoint(programs);
  b.setLoc(programs.getLoc());
  RoleBodies bodies = makeRoles(b, consumers, schedule.inTurns());
  struct Part {
    Role role;
    Block *body;
    std::optional<unsigned> turn;
  };
  SmallVector<Part, 3> parts = {{Role::Load, bodies.load, {}}, {Role::Multiply, bodies.multiply, {}}};
  if (schedule.inTurns()) {
    parts[1].turn = 0;
    parts.push_back({Role::Multiply, bodies.odd, 1});
  }
  for (const Part &part : parts) {
    b.setInsertionPointToStart(part.body);
    turn = part.turn;
    auto start = [&](int32_t slots) -> Value { return CursorOp::create(b, CursorType::get(b.getContext(), slots)); };
    Cursors cursors = {start(schedule.stages)};
    for (size_t i = 0; i < fetches.size() + (turn ? 2 * kResources : 0); ++i)
      cursors.push_back(start(1));
    if (part.role == Role::Load && kgpu::moduleHas(kernel, kgpu::kPdlAttrName)) {
      OpBuilder::InsertionGuard guard(b);
      IRMapping ahead;
      writeAhead(programs, ahead);
    }
    b.setInsertionPointToEnd(part.body);
    writePrograms(programs, part.role, cursors);
    if (part.role == Role::Multiply && !stores.empty() && !turn && !schedule.reused)
      CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
    EndRoleOp::create(b);
  }
  programs.erase();
  kernel->removeAttr(kgpu::kScheduleAttrName);
}

namespace {
struct MaterializeSchedule : kiln::impl::MaterializeSchedulePassBase<MaterializeSchedule> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    std::optional<Schedule> schedule = Schedule::ofKernel(kernel);
    if (!schedule)
      return;
    // No other schedule asks, and what is set aside must not outlive the ops that it uses.
    std::optional<Guess> guess;
    if (schedule->name == kAttention)
      guess = setGuessAside(kernel);
    else
      takeUnlikely(kernel);
    std::string why;
    if (schedule->name == kSimple || schedule->name == kLanes) {
      AlignmentAnalysis alignment(kernel);
      std::optional<StagedLoop> staged = findStagedLoop(kernel, alignment, why);
      kernel->removeAttr(kgpu::kScheduleAttrName);
      if (staged)
        return materializeSimple(kernel, *staged, schedule->stages, schedule->name == kLanes);
      kernel.emitOpError() << "expected a loop that multiplies what it loads (because the kernel has the schedule "
                           << schedule->name << "), got none: " << why;
      return signalPassFailure();
    }
    if (schedule->name == kAttention) {
      std::optional<ChainedProducts> chain = findChainedProducts(kernel, why);
      if (!chain) {
        kernel.emitOpError()
            << "expected two chained products (because the kernel has the schedule attention), got none: " << why;
        return signalPassFailure();
      }
      return materializeAttention(kernel, *schedule, *chain, std::move(guess));
    }
    if (schedule->name == kStreams) {
      std::optional<Streams> streams = findStreams(kernel, why);
      if (!streams) {
        kernel.emitOpError() << "expected products in loops (because the kernel has the schedule streams), got none: "
                             << why;
        return signalPassFailure();
      }
      return materializeStreams(kernel, *schedule, std::move(*streams));
    }
    std::optional<ProductLoop> product = findProductLoop(kernel, why);
    if (!product) {
      kernel.emitOpError() << "expected a product loop (because the kernel has a schedule), got none: " << why;
      return signalPassFailure();
    }
    Materializer(kernel, *schedule, *product).run();
  }
};
} // namespace
