// Decides whether the values that a load returns beyond the end of an array ever affect a result. Programs fold rows
// beyond the end back into the array so that they need no mask, multiply them like others, and mask them off when they
// store.
#include "compiler/transforms/describe/Box.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::describe;

namespace {
/// Follows such elements from value to value: which values contain any, and along which dimension.
class Follower {
public:
  Follower(const BoxDim &end, Polynomials &polynomials, std::string &why)
      : end(end), polynomials(polynomials), why(why) {}

  bool follow(Value value, int64_t dim) {
    reach(value, dim);
    while (!open.empty()) {
      auto [next, along] = open.pop_back_val();
      for (OpOperand &use : next.getUses())
        if (!visit(use, along)) {
          if (why.empty())
            why = ("rows past the end of the array, which are folded back into it, reach '" +
                   use.getOwner()->getName().getStringRef() + "'")
                      .str();
          return false;
        }
    }
    return true;
  }

private:
  bool reach(Value value, int64_t dim) {
    if (seen.insert({value, dim}).second)
      open.push_back({value, dim});
    return true;
  }
  bool visit(OpOperand &use, int64_t dim);
  bool visitProduct(tile::DotOp dot, unsigned operand, int64_t dim);
  bool visitYield(scf::YieldOp yield, unsigned index, int64_t dim);
  bool isBehindMask(Value mask, int64_t dim);
  bool isOutsideOf(tile::DescStoreOp store, int64_t dim);

  const BoxDim &end;
  Polynomials &polynomials;
  std::string &why;
  SmallVector<std::pair<Value, int64_t>> open;
  llvm::DenseSet<std::pair<Value, int64_t>> seen;
};
} // namespace

/// A row of the product depends only on that row of the left operand, a column only on that of the right one.
bool Follower::visitProduct(tile::DotOp dot, unsigned operand, int64_t dim) {
  int64_t rank = cast<RankedTensorType>(dot.getType()).getRank();
  bool summed = (operand == 0 && dim == rank - 1) || (operand == 1 && dim == rank - 2);
  return !summed && operand < 3 && reach(dot.getResult(), dim);
}

bool Follower::visitYield(scf::YieldOp yield, unsigned index, int64_t dim) {
  if (auto loop = dyn_cast<scf::ForOp>(yield->getParentOp()))
    return reach(loop.getRegionIterArg(index), dim) && reach(loop.getResult(index), dim);
  auto branch = dyn_cast<scf::IfOp>(yield->getParentOp());
  return branch && reach(branch.getResult(index), dim);
}

/// One of the mask's conditions is that the element lies before the end.
bool Follower::isBehindMask(Value mask, int64_t dim) {
  std::string ignored;
  auto conditions = polynomials.conditionsOf(mask, ignored);
  auto inside = add(end.start, symbol(polynomials.index(unsigned(dim))));
  inside = inside ? add(*inside, end.extent, -1) : std::nullopt;
  return conditions && inside && llvm::is_contained(*conditions, *inside);
}

bool Follower::isOutsideOf(tile::DescStoreOp store, int64_t dim) {
  auto desc = store.getDesc().getDefiningOp<tile::MakeDescOp>();
  bool checked = !store.getBoundary() || llvm::is_contained(*store.getBoundary(), int32_t(dim));
  if (!desc || !checked)
    return false;
  std::string ignored;
  return polynomials.of(store.getOffsets()[dim], ignored) == end.start &&
         polynomials.of(desc.getShape()[dim], ignored) == end.extent;
}

bool Follower::visit(OpOperand &use, int64_t dim) {
  Operation *op = use.getOwner();
  unsigned operand = use.getOperandNumber();
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return visitProduct(dot, operand, dim);
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    if (use.get() != store.getValue() || use.get() == store.getMask())
      return false;
    if (isBehindMask(store.getMask(), dim))
      return true;
    why = "rows past the end of the array, which are folded back into it, are stored";
    return false;
  }
  if (auto store = dyn_cast<tile::DescStoreOp>(op)) {
    if (isOutsideOf(store, dim))
      return true;
    why = "rows past the end of the array, which are folded back into it, are stored";
    return false;
  }
  if (auto yield = dyn_cast<scf::YieldOp>(op))
    return visitYield(yield, operand, dim);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    unsigned index = operand - loop.getNumControlOperands();
    return operand >= loop.getNumControlOperands() && reach(loop.getRegionIterArg(index), dim) &&
           reach(loop.getResult(index), dim);
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    int64_t axis = reduce.getAxis();
    bool harmless = llvm::all_of(reduce.getCombine().front(), [](Operation &inner) { return isSpeculatable(&inner); });
    return harmless && axis != dim && llvm::all_of(op->getResults(), [&](Value result) {
             return !isa<RankedTensorType>(result.getType()) || reach(result, dim - (axis < dim));
           });
  }
  if (auto trans = dyn_cast<tile::TransOp>(op)) {
    auto to = llvm::find(trans.getOrder(), int32_t(dim));
    return reach(trans.getResult(), to - trans.getOrder().begin());
  }
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return reach(expand.getResult(), dim + (dim >= int64_t(expand.getAxis())));
  if (isa<tile::BroadcastOp>(op))
    return reach(op->getResult(0), dim);
  // Elementwise, and defined for any element value: a divisor that became zero would be a different program.
  if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumRegions() || !isMemoryEffectFree(op) ||
      !isSpeculatable(op))
    return false;
  return llvm::all_of(op->getResults(), [&](Value result) { return reach(result, dim); });
}

bool describe::isMaskedOff(Value load, const BoxDim &dim, Polynomials &polynomials, std::string &why) {
  return Follower(dim, polynomials, why).follow(load, int64_t(*dim.dim));
}
