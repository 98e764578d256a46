// Recognizes two chained products.
#include "compiler/transforms/schedule/ChainedProducts.h"
#include "compiler/analysis/Disjoint.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

bool Block2D::isPart(Operation *op) { return op && (op == load || op == reshape || op == transposition); }

bool ChainedProducts::isPart(Operation *op) {
  return op == scores || op == sums || query.isPart(op) || keys.isPart(op) || values.isPart(op);
}

/// The tile's type without its leading sides of 1; null if the reshape does anything else.
static RankedTensorType withoutUnitSides(RankedTensorType type, RankedTensorType reshaped) {
  ArrayRef<int64_t> sides = type.getShape();
  if (reshaped.getRank() != 2 || sides.size() < 2 || sides.take_back(2) != reshaped.getShape() ||
      llvm::any_of(sides.drop_back(2), [](int64_t side) { return side != 1; }))
    return {};
  return reshaped;
}

/// The block that an operand is made of, loaded in `block` for this product alone.
static std::optional<Block2D> blockOf(Value factor, Block *block, std::string &why) {
  Block2D found;
  bool alone = factor.hasOneUse();
  if (auto trans = factor.getDefiningOp<tile::TransOp>(); trans && trans.getOrder() == ArrayRef<int32_t>{1, 0}) {
    found.transposition = trans;
    factor = trans.getValue();
    alone &= factor.hasOneUse();
  }
  found.type = dyn_cast<RankedTensorType>(factor.getType());
  if (auto reshape = factor.getDefiningOp<tile::ReshapeOp>()) {
    found.reshape = reshape;
    auto whole = cast<RankedTensorType>(reshape.getValue().getType());
    found.type = withoutUnitSides(whole, cast<RankedTensorType>(factor.getType()));
    factor = reshape.getValue();
    alone &= factor.hasOneUse();
  }
  found.load = factor.getDefiningOp<tile::DescLoadOp>();
  if (!found.load || found.load->getBlock() != block || !alone || !found.type || found.type.getRank() != 2) {
    why = "a factor is not a block that is loaded through a descriptor for this product only, keys and values in the "
          "loop, queries in front of it";
    return std::nullopt;
  }
  found.desc = found.load.getDesc().getDefiningOp<tile::MakeDescOp>();
  if (!found.desc || found.desc.getPadding() != tile::Padding::Zero) {
    why = "a factor's descriptor is not known, or does not pad with zeros";
    return std::nullopt;
  }
  return found;
}

DenseSet<Operation *> schedule::dependents(Value from, scf::ForOp loop) {
  DenseSet<Operation *> found;
  SmallVector<Value> open = {from};
  while (!open.empty())
    for (Operation *user : open.pop_back_val().getUsers()) {
      Operation *op = loop.getBody()->findAncestorOpInBlock(*user);
      if (op && !op->hasTrait<OpTrait::IsTerminator>() && found.insert(op).second)
        llvm::append_range(open, op->getResults());
    }
  return found;
}

/// The condition holds from some step on: the induction variable, possibly plus an invariant, exceeds an invariant.
static bool isLate(scf::IfOp branch, scf::ForOp loop) {
  auto compare = branch.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return false;
  using arith::CmpIPredicate;
  bool greater = llvm::is_contained({CmpIPredicate::sgt, CmpIPredicate::sge}, compare.getPredicate());
  bool less = llvm::is_contained({CmpIPredicate::slt, CmpIPredicate::sle}, compare.getPredicate());
  Value step = less ? compare.getRhs() : compare.getLhs(), limit = less ? compare.getLhs() : compare.getRhs();
  if (auto sum = step.getDefiningOp<arith::AddIOp>(); sum && loop.isDefinedOutsideOfLoop(sum.getRhs()))
    step = sum.getLhs();
  return (greater || less) && step == loop.getInductionVar() && loop.isDefinedOutsideOfLoop(limit);
}

bool schedule::isFirst(scf::IfOp branch, scf::ForOp loop) {
  auto compare = branch.getCondition().getDefiningOp<arith::CmpIOp>();
  Value step = loop.getInductionVar();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq ||
      !llvm::is_contained(compare.getOperands(), step))
    return false;
  Value other = compare.getLhs() == step ? compare.getRhs() : compare.getLhs();
  return isEqualConstantIntOrValue(other, loop.getLowerBound());
}

bool schedule::isOfSomeSteps(scf::IfOp branch, scf::ForOp loop) {
  return isFirst(branch, loop) || isLate(branch, loop);
}

std::optional<ChainedProducts> schedule::findChainedProducts(func::FuncOp kernel, std::string &why) {
  SmallVector<tile::DotOp> dots;
  kernel.walk([&](tile::DotOp dot) { dots.push_back(dot); });
  ChainedProducts chain;
  if (dots.size() != 2 || dots[0]->getBlock() != dots[1]->getBlock()) {
    why = "there are several products";
    return std::nullopt;
  }
  chain.scores = dots[0];
  chain.sums = dots[1];
  chain.loop = dyn_cast<scf::ForOp>(chain.scores->getParentOp());
  if (!chain.loop || chain.loop->getParentOp() != kernel) {
    why = "the products are not in a loop directly in the kernel";
    return std::nullopt;
  }
  Block *body = chain.loop.getBody();
  DenseSet<Operation *> behindScores = dependents(chain.scores, chain.loop);
  Operation *left = chain.sums.getLhs().getDefiningOp();
  if (!left || !behindScores.contains(left) || !matchPattern(chain.scores.getAcc(), m_AnyZeroFloat())) {
    why = "the second product's left factor is not computed from the first product";
    return std::nullopt;
  }
  if (!chain.sums.getResult().hasOneUse() || *chain.sums->user_begin() != body->getTerminator()) {
    why = "the second product is not added to an accumulator that the loop carries";
    return std::nullopt;
  }
  chain.accumulator = chain.sums.getResult().use_begin()->getOperandNumber();
  auto query = blockOf(chain.scores.getLhs(), chain.loop->getBlock(), why);
  auto keys = query ? blockOf(chain.scores.getRhs(), body, why) : std::nullopt;
  auto values = keys ? blockOf(chain.sums.getRhs(), body, why) : std::nullopt;
  if (!values)
    return std::nullopt;
  chain.query = *query;
  chain.keys = *keys;
  chain.values = *values;
  for (Value init : chain.loop.getInitArgs())
    if (!isTile(init)) {
      why = "the loop carries scalars";
      return std::nullopt;
    }
  // The accumulator is only scaled before the second product, and used for nothing else.
  chain.rescaling = dependents(chain.loop.getRegionIterArgs()[chain.accumulator], chain.loop);
  chain.rescaling.erase(chain.sums);
  for (Operation *op : chain.rescaling)
    if (chain.isPart(op) || op == left || llvm::any_of(op->getUsers(), [&](Operation *user) {
          return user != chain.sums && !chain.rescaling.contains(body->findAncestorOpInBlock(*user));
        })) {
      why = "the second product's accumulator has other uses";
      return std::nullopt;
    }
  for (Operation &op : body->without_terminator()) {
    if (chain.isPart(&op))
      continue;
    bool changes = op.walk([&](Operation *inner) {
                       bool alone =
                           inner->getNumRegions() != 0 || isMemoryEffectFree(inner) || isa<tile::AssumeOp>(inner);
                       return alone || isConstantRead(kernel, inner) ? WalkResult::advance() : WalkResult::interrupt();
                     }).wasInterrupted();
    if (changes) {
      why = "the loop does more than load, multiply and compute";
      return std::nullopt;
    }
    auto branch = dyn_cast<scf::IfOp>(op);
    if (branch && !chain.masks && isOfSomeSteps(branch, chain.loop)) {
      chain.masks = branch;
    } else if (branch && chain.masks && branch.getCondition() == chain.masks.getCondition()) {
      // Taken in the same steps.
    } else if (isa<scf::IfOp, scf::ForOp, scf::WhileOp>(op)) {
      why = "the loop contains a loop, or a branch that is not taken only by its first iteration or its last ones";
      return std::nullopt;
    }
  }
  if (isa<arith::TruncFOp>(left) && left->hasOneUse())
    chain.rounding = left;
  SmallVector<Value> steered(chain.loop.getOperands().take_front(3));
  for (Block2D *block : {&chain.query, &chain.keys, &chain.values})
    llvm::append_range(steered, block->load.getOffsets());
  if (chain.masks)
    steered.push_back(chain.masks.getCondition());
  if (!isScalarWork(steered, kernel, /*reads=*/true)) {
    why = "the position or number of the loads depends on tiles or on memory";
    return std::nullopt;
  }
  return chain;
}

Value schedule::storedTile(Value tile) {
  auto reshape = tile.getDefiningOp<tile::ReshapeOp>();
  bool same = reshape && withoutUnitSides(cast<RankedTensorType>(tile.getType()),
                                          cast<RankedTensorType>(reshape.getValue().getType()));
  return same ? reshape.getValue() : tile;
}

tile::DescStoreOp schedule::copyableStore(ChainedProducts &chain, const AlignmentAnalysis &alignment) {
  for (auto store : chain.loop->getBlock()->getOps<tile::DescStoreOp>()) {
    std::string why;
    auto tile = cast<RankedTensorType>(storedTile(store.getValue()).getType());
    if (chain.loop->isBeforeInBlock(store) && mayCopyOut(store, alignment, why) &&
        tile.getShape() == chain.sums.getType().getShape())
      return store;
  }
  return {};
}
