// Recognizes a guess in a loop of chained products.
#include "compiler/transforms/schedule/Guess.h"
#include "compiler/transforms/tile/TakeUnlikely.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

/// The op and what it is computed from by views and loads of the loop.
static void addOperand(Value factor, scf::ForOp loop, DenseSet<Operation *> &parts) {
  Operation *def = factor.getDefiningOp();
  if (!def || def->getBlock() != loop.getBody())
    return;
  parts.insert(def);
  if (isa<tile::TransOp, tile::ReshapeOp>(def))
    addOperand(def->getOperand(0), loop, parts);
}

/// The loop's ops that depend on the scores and that `region` needs, in order.
static SmallVector<Operation *> neededAgain(Region &region, tile::DotOp scores, scf::ForOp loop) {
  DenseSet<Operation *> behindScores = dependents(scores, loop), needed;
  auto needOperands = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && behindScores.contains(def))
        needed.insert(def);
  };
  region.walk(needOperands);
  // From the last op to the first, each is seen after its users.
  SmallVector<Operation *> order;
  for (Operation &op : llvm::reverse(*loop.getBody()))
    if (needed.contains(&op)) {
      order.push_back(&op);
      op.walk(needOperands);
    }
  return llvm::to_vector(llvm::reverse(order));
}

/// Whether a warp that has whole rows of the operands has whole rows of the results, without asking others.
static bool staysInRows(Operation &op) {
  if (isa<scf::IfOp, scf::YieldOp, tile::YieldOp, tile::BroadcastOp, tile::SplatOp, tile::InlineAsmOp>(op))
    return true;
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return expand.getAxis() != 0;
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return reduce.getAxis() != 0;
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    return cast<RankedTensorType>(reshape.getValue().getType()).getDimSize(0) ==
           cast<RankedTensorType>(reshape.getResult().getType()).getDimSize(0);
  bool isScalar = isMemoryEffectFree(&op) && llvm::none_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>);
  return isScalar || OpTrait::hasElementwiseMappableTraits(&op) || op.hasTrait<OpTrait::ConstantLike>();
}

/// The same of all that an op contains, except what only steps with a mask do: those do not guess.
static bool isMendedByRows(Operation &op, Value masks) {
  auto branch = dyn_cast<scf::IfOp>(op);
  return staysInRows(op) && llvm::all_of(op.getRegions(), [&](Region &region) {
           bool isMask = branch && branch.getCondition() == masks && &region == &branch.getThenRegion();
           return isMask ||
                  llvm::all_of(region.getOps(), [&](Operation &inner) { return isMendedByRows(inner, masks); });
         });
}

/// Fills in everything but the loop; fails if the loop contains anything else.
static bool understand(scf::ForOp loop, Guess &guess) {
  SmallVector<tile::DotOp> dots(loop.getBody()->getOps<tile::DotOp>());
  if (dots.size() != 2)
    return false;
  guess.scores = dots[0];
  guess.sums = dots[1];
  for (Operation &op : loop.getBody()->without_terminator()) {
    auto branch = dyn_cast<scf::IfOp>(op);
    if (branch && branch.getCondition() == guess.question.getResult()) {
      if (guess.remedy)
        return false;
      guess.remedy = branch;
    } else if (branch && isOfSomeSteps(branch, loop)) {
      guess.masks = branch.getCondition();
    }
  }
  // The remedy alone may change sums before the second product adds to them.
  auto sum = guess.sums.getAcc().getDefiningOp<scf::IfOp>();
  if (!guess.remedy || sum != guess.remedy || !guess.sums->hasOneUse())
    return false;
  Value before = loop.getRegionIterArgs()[guess.sums.getResult().use_begin()->getOperandNumber()];
  unsigned number = cast<OpResult>(guess.sums.getAcc()).getResultNumber();
  bool alone = guess.remedy.elseYield().getOperand(number) == before &&
               llvm::all_of(before.getUsers(), [&](Operation *user) { return guess.remedy->isProperAncestor(user); });
  if (!alone || !guess.remedy.getResult(number).hasOneUse())
    return false;
  guess.parts = {guess.scores, guess.sums};
  for (Value factor : {guess.scores.getRhs(), guess.sums.getRhs()})
    addOperand(factor, loop, guess.parts);
  if (guess.masks)
    guess.parts.insert(guess.masks.getDefiningOp());
  for (Value result : guess.remedy.getResults())
    for (Operation *op : dependents(result, loop))
      if (op != guess.sums)
        guess.behind.insert(op);
  auto rounding = guess.sums.getLhs().getDefiningOp<arith::TruncFOp>();
  if (rounding && rounding->hasOneUse() && rounding.getIn().hasOneUse() &&
      rounding.getIn().getDefiningOp() == guess.remedy)
    guess.rounding = rounding;
  guess.again = neededAgain(guess.remedy.getThenRegion(), guess.scores, loop);
  // Each warp mends its own rows.
  auto isMended = [&](Operation &op) { return isMendedByRows(op, guess.masks); };
  return llvm::all_of(llvm::make_pointee_range(guess.again), isMended) &&
         llvm::all_of(guess.remedy.getThenRegion().front(), isMended);
}

std::optional<Guess> schedule::setGuessAside(func::FuncOp kernel) {
  SmallVector<tile::UnlikelyOp> questions;
  kernel.walk([&](tile::UnlikelyOp op) { questions.push_back(op); });
  auto loop = questions.size() == 1 ? dyn_cast<scf::ForOp>(questions[0]->getParentOp()) : scf::ForOp();
  Guess guess;
  if (loop && isa<RankedTensorType>(questions[0].getCondition().getType())) {
    guess.question = questions[0];
    if (understand(loop, guess)) {
      OpBuilder b(loop);
      auto taken = cast<scf::ForOp>(b.clone(*loop));
      loop->replaceAllUsesWith(taken);
      loop->remove();
      guess.loop = loop;
      // Queries have one user, as far as the kernel goes.
      guess.scores->setOperand(0, guess.scores.getAcc());
    }
  }
  takeUnlikely(kernel);
  return guess.loop ? std::optional<Guess>(std::move(guess)) : std::nullopt;
}
