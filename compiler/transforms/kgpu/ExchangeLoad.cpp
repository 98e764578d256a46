// Scalars that are read from memory and steer control flow. Every thread reads for itself; if the memory may be written
// meanwhile, two of them may read different values and diverge for good. So one thread's value is stored and all
// threads load that. In a loop that waits for another instance the read is repeated each time.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/kgpu/Exchange.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

/// Whether a use of a value steers control flow; if not, `next` gets the values that depend on it.
static bool follow(OpOperand &use, SmallVectorImpl<Value> &next) {
  Operation *user = use.getOwner();
  unsigned number = use.getOperandNumber();
  // If an assertion fails, the program ends, or continues, as a whole.
  if (isa<scf::IfOp, tile::AssertOp>(user))
    return true;
  if (auto loop = dyn_cast<scf::ForOp>(user)) {
    if (number < loop.getNumControlOperands())
      return true;
    next.push_back(loop.getRegionIterArg(number - loop.getNumControlOperands()));
    next.push_back(loop.getResult(number - loop.getNumControlOperands()));
    return false;
  }
  if (auto loop = dyn_cast<scf::WhileOp>(user)) {
    next.push_back(loop.getBeforeArguments()[number]);
    return false;
  }
  if (isa<scf::ConditionOp>(user)) {
    if (number == 0)
      return true;
    auto loop = cast<scf::WhileOp>(user->getParentOp());
    next.push_back(loop.getAfterArguments()[number - 1]);
    next.push_back(loop.getResult(number - 1));
    return false;
  }
  if (isa<scf::YieldOp>(user)) {
    Operation *parent = user->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      next.push_back(loop.getRegionIterArg(number));
    if (auto loop = dyn_cast<scf::WhileOp>(parent))
      next.push_back(loop.getBeforeArguments()[number]);
    else
      next.push_back(parent->getResult(number));
    return false;
  }
  llvm::append_range(next, user->getResults());
  return false;
}

static bool decidesControl(Value value) {
  SmallVector<Value> open{value};
  DenseSet<Value> seen;
  while (!open.empty()) {
    Value one = open.pop_back_val();
    if (!seen.insert(one).second)
      continue;
    for (OpOperand &use : one.getUses())
      if (follow(use, open))
        return true;
  }
  return false;
}

static LogicalResult exchangeLoad(Exchanges &exchanges, Operation *op) {
  auto load = cast<tile::LoadOp>(op);
  Value result = load.getResult();
  if (isa<RankedTensorType>(result.getType()) || !decidesControl(result))
    return success();
  // A loop that polls expects somebody to write, if only another launch.
  if (op->getParentOfType<scf::WhileOp>())
    load.setIsVolatile(true);
  else if (isConstantRead(op->getParentOfType<func::FuncOp>(), op))
    return success();
  exchanges.b.setInsertionPointAfter(op);
  Value place = exchanges.allocate(result.getType(), exchanges.wholeInEachCta({1}));
  auto store = LocalStoreOp::create(exchanges.b, result, place, /*byOwner=*/true);
  Value known = exchanges.load(place, result.getType());
  result.replaceAllUsesExcept(known, store);
  return success();
}

void kgpu::addLoadExchange(ExchangeTable &table) { table[tile::LoadOp::getOperationName()] = exchangeLoad; }
