// Values that are read from memory and steer control flow. Every thread reads for itself; if the memory may be written
// meanwhile, two threads may read different values and diverge for good. So one thread's value is stored and all
// threads load that. This applies to scalars, and to tiles whose elements several threads hold, which may be reduced
// without an exchange. In a loop that waits for another instance the read is repeated each time.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/kgpu/Exchange.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;

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

/// Whether several threads hold what is read.
static bool isReplicated(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return !tile || llvm::any_of(ArrayRef{Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta},
                               [&](Coord coord) { return layoutOf(tile).isReplicated(coord); });
}

/// A loop that reads the same place repeatedly expects another program to write it, if only one of another launch. If a
/// tile's place moves, the loop searches memory instead.
static bool isAwaited(Operation *op) {
  auto loop = op->getParentOfType<scf::WhileOp>();
  if (!loop || !isa<RankedTensorType>(op->getResult(0).getType()))
    return bool(loop);
  Value pointer = accessedPointer(op);
  return !pointer || !loop->isAncestor(pointer.getParentBlock()->getParentOp());
}

static LogicalResult exchangeLoad(Exchanges &exchanges, Operation *op) {
  Value result = op->getResult(0);
  if (!decidesControl(result))
    return success();
  if (isAwaited(op)) {
    if (auto load = dyn_cast<tile::LoadOp>(op))
      load.setIsVolatile(true);
  } else if (isConstantRead(op->getParentOfType<func::FuncOp>(), op)) {
    return success();
  }
  if (!isReplicated(result.getType()))
    return success();
  auto tile = dyn_cast<RankedTensorType>(result.getType());
  exchanges.b.setInsertionPointAfter(op);
  SmallVector<int64_t> shape(tile ? tile.getShape() : ArrayRef<int64_t>{1});
  Value place = exchanges.allocate(getElementTypeOrSelf(result.getType()), exchanges.wholeInEachCta(shape));
  auto store = LocalStoreOp::create(exchanges.b, result, place, /*byOwner=*/true);
  Value known = exchanges.load(place, result.getType());
  result.replaceAllUsesExcept(known, store);
  return success();
}

void kgpu::addLoadExchange(ExchangeTable &table) {
  table[tile::LoadOp::getOperationName()] = exchangeLoad;
  table[tile::DescLoadOp::getOperationName()] = exchangeLoad;
}
