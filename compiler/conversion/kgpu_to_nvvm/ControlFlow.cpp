// for, if and while: what they carry becomes one scalar per register. LLVM removes registers that nothing reads.
#include "compiler/conversion/kgpu_to_nvvm/Words.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static Registers allOf(Lowering &lowering, ValueRange values) {
  Registers list;
  for (Value value : values)
    llvm::append_range(list, lowering.get(value));
  return list;
}

static SmallVector<Type> typesOf(Lowering &lowering, TypeRange types) {
  SmallVector<Type> list;
  for (Type type : types)
    llvm::append_range(list, registerTypes(type));
  return list;
}

/// Binds each of `values` to its scalars, in order: its registers, or words of two of them each.
static void share(
    Lowering &lowering, ValueRange values, ValueRange scalars,
    llvm::function_ref<bool(unsigned)> inWords = [](unsigned) { return false; }) {
  unsigned next = 0;
  for (auto [index, value] : llvm::enumerate(values)) {
    bool words = inWords(index);
    unsigned count = registerCount(value.getType()) / (words ? 2 : 1);
    Registers own(scalars.slice(next, count));
    lowering.set(value, words ? unpackWords(lowering, own, elementOf(value)) : own);
    next += count;
  }
}

static void eraseTerminator(Block *block) {
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    block->back().erase();
}

/// True if the value is an accumulator whose products are still in flight where the loop ends.
static bool isInFlight(Value value) {
  if (auto wait = value.getDefiningOp<kgpu::MmaWaitOp>())
    return int32_t(wait.getPending()) > 0;
  if (auto loop = value.getDefiningOp<scf::ForOp>())
    return isInFlight(loop.getYieldedValues()[cast<OpResult>(value).getResultNumber()]);
  return isa_and_nonnull<kgpu::WarpgroupMmaOp>(value.getDefiningOp());
}

/// True if products read the value from registers, perhaps in another shape, and nothing else reads it.
static bool isFactor(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto product = dyn_cast<kgpu::WarpgroupMmaOp>(user))
      return &use == &product.getLhsMutable();
    if (auto product = dyn_cast<kgpu::WarpMmaOp>(user))
      return &use != &product.getAccMutable();
    return isa<tile::ReshapeOp, tile::TransOp, kgpu::ConvertOp>(user) && isFactor(user->getResult(0));
  });
}

/// A loop carries elements of 16 bits packed in words, as products use them, if they are in flight at its end
/// (unpacking and repacking them would read them), or if only products read them.
static bool isCarriedInWords(scf::ForOp op, unsigned index) {
  Value yielded = op.getYieldedValues()[index];
  return isa<RankedTensorType>(yielded.getType()) && elementOf(yielded).isIntOrFloat() &&
         elementOf(yielded).getIntOrFloatBitWidth() == 16 &&
         (isInFlight(yielded) || isFactor(op.getRegionIterArg(index)));
}

/// The registers of values that a loop carries, as it carries them.
static Registers allCarried(Lowering &lowering, scf::ForOp op, ValueRange values) {
  Registers list;
  for (auto [index, value] : llvm::enumerate(values)) {
    ArrayRef<Value> registers = lowering.get(value);
    llvm::append_range(list, isCarriedInWords(op, index) ? packWords(lowering, registers) : Registers(registers));
  }
  return list;
}

/// Binds each of `values`, which a loop carries, to its scalars.
static void shareCarried(Lowering &lowering, scf::ForOp op, ValueRange values, ValueRange scalars) {
  share(lowering, values, scalars, [&](unsigned index) { return isCarriedInWords(op, index); });
}

/// Emits the loop itself and sets its results. Fails if something in it cannot be emitted.
static LogicalResult makeFor(Lowering &lowering, scf::ForOp op) {
  CodeBuilder &b = lowering.b;
  Registers inits = allCarried(lowering, op, op.getInitArgs());
  auto loop = scf::ForOp::create(b, lowering.scalar(op.getLowerBound()), lowering.scalar(op.getUpperBound()),
                                 lowering.scalar(op.getStep()), inits, /*bodyBuilder=*/nullptr, op.getUnsignedCmp());
  eraseTerminator(loop.getBody());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    lowering.set(op.getInductionVar(), {loop.getInductionVar()});
    shareCarried(lowering, op, op.getRegionIterArgs(), loop.getRegionIterArgs());
    if (failed(lowering.emitBlock(*op.getBody())))
      return failure();
    b.setLoc(op.getBody()->getTerminator()->getLoc());
    Registers yields = allCarried(lowering, op, op.getYieldedValues());
    scf::YieldOp::create(b, yields);
  }
  shareCarried(lowering, op, op.getResults(), loop.getResults());
  return success();
}

static LogicalResult emitFor(Lowering &lowering, scf::ForOp op) {
  CodeBuilder &b = lowering.b;
  if (llvm::none_of(op.getYieldedValues(), isInFlight))
    return makeFor(lowering, op);
  // ptxas serialises products if their registers may come from elsewhere before the wait, here: if the loop may be
  // skipped. So the loop gets a branch around it, and a wait of its own before the two paths join.
  auto order = op.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  Value runs =
      arith::CmpIOp::create(b, order, lowering.scalar(op.getLowerBound()), lowering.scalar(op.getUpperBound()));
  auto branch = scf::IfOp::create(b, typesOf(lowering, op.getResultTypes()), runs, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  for (bool isElse : {false, true}) {
    Block *block = isElse ? branch.elseBlock() : branch.thenBlock();
    eraseTerminator(block);
    b.setInsertionPointToEnd(block);
    if (isElse) {
      scf::YieldOp::create(b, allOf(lowering, op.getInitArgs()));
      continue;
    }
    if (failed(makeFor(lowering, op)))
      return failure();
    Registers yields;
    for (auto [result, yielded] : llvm::zip(op.getResults(), op.getYieldedValues()))
      llvm::append_range(yields, isInFlight(yielded)
                                     ? waitForProducts(lowering, lowering.get(result), elementOf(result), /*pending=*/0)
                                     : Registers(lowering.get(result)));
    scf::YieldOp::create(b, yields);
  }
  share(lowering, op.getResults(), branch.getResults());
  return success();
}

/// Elements of 16 bits leave a branch packed in words if a loop carries them on as words.
static bool isJoinedInWords(Value result) {
  return !result.use_empty() && llvm::all_of(result.getUses(), [](OpOperand &use) {
    auto loop = dyn_cast<scf::ForOp>(use.getOwner()->getParentOp());
    return loop && isa<scf::YieldOp>(use.getOwner()) && isCarriedInWords(loop, use.getOperandNumber());
  });
}

static LogicalResult emitIf(Lowering &lowering, scf::IfOp op) {
  CodeBuilder &b = lowering.b;
  SmallVector<bool> inWords =
      llvm::map_to_vector(op.getResults(), [](Value result) { return isJoinedInWords(result); });
  SmallVector<Type> types;
  for (auto [result, words] : llvm::zip(op.getResults(), inWords)) {
    SmallVector<Type> registers = typesOf(lowering, result.getType());
    if (words)
      registers.assign(registers.size() / 2, b.getI32Type());
    llvm::append_range(types, registers);
  }
  bool hasElse = op.elseBlock() != nullptr;
  auto branch = scf::IfOp::create(b, types, lowering.scalar(op.getCondition()), hasElse);
  for (bool isElse : {false, true}) {
    Block *from = isElse ? op.elseBlock() : op.thenBlock();
    if (!from)
      continue;
    OpBuilder::InsertionGuard guard(b);
    Block *to = isElse ? branch.elseBlock() : branch.thenBlock();
    eraseTerminator(to);
    b.setInsertionPointToEnd(to);
    FailureOr<Registers> yields = lowering.emitBody(*from);
    if (failed(yields))
      return failure();
    Registers joined;
    ArrayRef<Value> rest = *yields;
    for (auto [result, words] : llvm::zip(op.getResults(), inWords)) {
      ArrayRef<Value> own = rest.take_front(registerCount(result.getType()));
      rest = rest.drop_front(own.size());
      if (!words) {
        llvm::append_range(joined, own);
        continue;
      }
      // LLVM would join the elements before they were rounded, in twice as many registers, if it knew that both
      // branches round last.
      for (Value word : packWords(lowering, own))
        joined.push_back(isElse ? word
                                : b.ptx("mov.b32 $0, $1;", "=r,r", b.getI32Type(), {word}, /*pure=*/true).front());
    }
    scf::YieldOp::create(b, joined);
  }
  share(lowering, op.getResults(), branch.getResults(), [&](unsigned index) { return inWords[index]; });
  return success();
}

static LogicalResult emitWhile(Lowering &lowering, scf::WhileOp op) {
  CodeBuilder &b = lowering.b;
  Registers inits = allOf(lowering, op.getInits());
  auto loop = scf::WhileOp::create(b, typesOf(lowering, op.getResultTypes()), inits);
  OpBuilder::InsertionGuard guard(b);

  Block &before = loop.getBefore().emplaceBlock();
  for (Type type : typesOf(lowering, ValueRange(op.getBeforeArguments()).getTypes()))
    before.addArgument(type, b.getLoc());
  share(lowering, op.getBeforeArguments(), before.getArguments());
  b.setInsertionPointToEnd(&before);
  if (failed(lowering.emitBlock(*op.getBeforeBody())))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  b.setLoc(condition.getLoc());
  Registers passed = allOf(lowering, condition.getArgs());
  scf::ConditionOp::create(b, lowering.scalar(condition.getCondition()), passed);

  Block &after = loop.getAfter().emplaceBlock();
  for (Type type : typesOf(lowering, ValueRange(op.getAfterArguments()).getTypes()))
    after.addArgument(type, b.getLoc());
  share(lowering, op.getAfterArguments(), after.getArguments());
  b.setInsertionPointToEnd(&after);
  FailureOr<Registers> yields = lowering.emitBody(*op.getAfterBody());
  if (failed(yields))
    return failure();
  scf::YieldOp::create(b, *yields);
  share(lowering, op.getResults(), loop.getResults());
  return success();
}

void nvvm::addControlFlow(EmitTable &table) {
  table.add<scf::ForOp, emitFor>();
  table.add<scf::IfOp, emitIf>();
  table.add<scf::WhileOp, emitWhile>();
}
