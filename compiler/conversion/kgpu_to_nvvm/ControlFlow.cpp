// for, if and while: what they carry becomes one scalar per register. Registers that nothing reads disappear in LLVM.
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

/// Gives each of `values` its share of `scalars`, in order.
static void share(Lowering &lowering, ValueRange values, ValueRange scalars) {
  unsigned next = 0;
  for (Value value : values) {
    unsigned count = registerCount(value.getType());
    lowering.set(value, Registers(scalars.slice(next, count)));
    next += count;
  }
}

static void eraseTerminator(Block *block) {
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    block->back().erase();
}

/// The loop ends with products under way that the value is the sum of.
static bool isInFlight(Value value) {
  if (auto wait = value.getDefiningOp<kgpu::MmaWaitOp>())
    return int32_t(wait.getPending()) > 0;
  if (auto loop = value.getDefiningOp<scf::ForOp>())
    return isInFlight(loop.getYieldedValues()[cast<OpResult>(value).getResultNumber()]);
  return isa_and_nonnull<kgpu::WarpgroupMmaOp>(value.getDefiningOp());
}

/// A product reads the value from registers, and nothing else reads it.
static bool isFactor(BlockArgument value) {
  return !value.use_empty() && llvm::all_of(value.getUses(), [](OpOperand &use) {
    auto product = dyn_cast<kgpu::WarpgroupMmaOp>(use.getOwner());
    return product && &use == &product.getLhsMutable();
  });
}

/// A loop carries elements of 16 bits as the words that products have them in, where it ends with them in flight, since
/// taking those apart and putting them together again would be reading them; and where products alone read them.
static bool isCarriedInWords(scf::ForOp op, unsigned index) {
  Value yielded = op.getYieldedValues()[index];
  return isa<RankedTensorType>(yielded.getType()) && elementOf(yielded).isIntOrFloat() &&
         elementOf(yielded).getIntOrFloatBitWidth() == 16 &&
         (isInFlight(yielded) || isFactor(op.getRegionIterArg(index)));
}

/// Registers as a loop carries them.
static Registers allCarried(Lowering &lowering, scf::ForOp op, ValueRange values) {
  Registers list;
  for (auto [index, value] : llvm::enumerate(values)) {
    ArrayRef<Value> registers = lowering.get(value);
    llvm::append_range(list, isCarriedInWords(op, index) ? packWords(lowering, registers) : Registers(registers));
  }
  return list;
}

/// Gives each of `values` its share of `scalars`, which a loop carries.
static void shareCarried(Lowering &lowering, scf::ForOp op, ValueRange values, ValueRange scalars) {
  unsigned next = 0;
  for (auto [index, value] : llvm::enumerate(values)) {
    bool words = isCarriedInWords(op, index);
    unsigned count = registerCount(value.getType()) / (words ? 2 : 1);
    Registers own(scalars.slice(next, count));
    lowering.set(value, words ? unpackWords(lowering, own, elementOf(value)) : own);
    next += count;
  }
}

/// The loop itself; its results are set. Fails where something in it cannot be emitted.
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
  // ptxas runs products one by one where their registers may also come from elsewhere before the wait: around the loop,
  // if it has no iteration. So that way joins behind a wait of the loop's own.
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

static LogicalResult emitIf(Lowering &lowering, scf::IfOp op) {
  CodeBuilder &b = lowering.b;
  SmallVector<Type> types = typesOf(lowering, op.getResultTypes());
  bool hasElse = op.elseBlock() != nullptr;
  auto branch = scf::IfOp::create(b, types, lowering.scalar(op.getCondition()), hasElse);
  OpBuilder::InsertionGuard guard(b);
  for (bool isElse : {false, true}) {
    Block *from = isElse ? op.elseBlock() : op.thenBlock();
    if (!from)
      continue;
    Block *to = isElse ? branch.elseBlock() : branch.thenBlock();
    eraseTerminator(to);
    b.setInsertionPointToEnd(to);
    FailureOr<Registers> yields = lowering.emitBody(*from);
    if (failed(yields))
      return failure();
    scf::YieldOp::create(b, *yields);
  }
  share(lowering, op.getResults(), branch.getResults());
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
