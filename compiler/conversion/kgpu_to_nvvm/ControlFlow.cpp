// for, if and while: what they carry becomes one scalar per register. Registers that nothing reads disappear in LLVM.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

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
    llvm::append_range(list, lowering.registerTypes(type));
  return list;
}

/// Gives each of `values` its share of `scalars`, in order.
static void share(Lowering &lowering, ValueRange values, ValueRange scalars) {
  unsigned next = 0;
  for (Value value : values) {
    unsigned count = lowering.registerCount(value.getType());
    lowering.set(value, Registers(scalars.slice(next, count)));
    next += count;
  }
}

static void eraseTerminator(Block *block) {
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    block->back().erase();
}

static LogicalResult emitFor(Lowering &lowering, scf::ForOp op) {
  ImplicitLocOpBuilder &b = lowering.b;
  Registers inits = allOf(lowering, op.getInitArgs());
  auto loop = scf::ForOp::create(b, lowering.scalar(op.getLowerBound()), lowering.scalar(op.getUpperBound()),
                                 lowering.scalar(op.getStep()), inits, /*bodyBuilder=*/nullptr, op.getUnsignedCmp());
  eraseTerminator(loop.getBody());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  lowering.set(op.getInductionVar(), {loop.getInductionVar()});
  share(lowering, op.getRegionIterArgs(), loop.getRegionIterArgs());
  FailureOr<Registers> yields = lowering.emitBody(*op.getBody());
  if (failed(yields))
    return failure();
  scf::YieldOp::create(b, *yields);
  share(lowering, op.getResults(), loop.getResults());
  return success();
}

static LogicalResult emitIf(Lowering &lowering, scf::IfOp op) {
  ImplicitLocOpBuilder &b = lowering.b;
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
  ImplicitLocOpBuilder &b = lowering.b;
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
