// Arrivals at the cluster barrier and waits for it must pair up. The hardware has one such barrier: a thread that
// arrives twice, or waits without having arrived, has undefined behaviour, and one that exits in between leaves the
// others waiting.
//
// The state followed through the structured control flow is the arrival that has not been waited for. If two paths join
// with different states, one of them fails later, so the error is reported at the join.
//
// Warps take the same path as long as scalars are the same in all of them, which they are unless a warp's own vote
// (kgpu.any) decides them. What warps do together comes after none of those.
#include "compiler/transforms/kgpu/VerifyBarrierOrder.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

namespace {
/// The arrival that has not been waited for; null if there is none.
using Open = Operation *;

class BarrierOrderVerifier {
public:
  /// The state at the end of the block, given the state `open` at its start.
  FailureOr<Open> visit(Block &block, Open open);

private:
  FailureOr<Open> visit(Operation *op, Open open);
  FailureOr<Open> passBarrier(Operation *op, const BarrierUse &use, Open open);
  FailureOr<Open> visitBranch(scf::IfOp branch, Open open);
  FailureOr<Open> visitWhile(scf::WhileOp loop, Open open);
  LogicalResult checkRepeats(Operation *loop, Open begin, Open end);
};
} // namespace

static LogicalResult withArrival(InFlightDiagnostic &error, Open arrival) {
  error.attachNote(arrival->getLoc()) << "the arrival";
  return failure();
}

FailureOr<Open> BarrierOrderVerifier::passBarrier(Operation *op, const BarrierUse &use, Open open) {
  if (!use.isCluster())
    return open;
  if (use.arrives && open) {
    InFlightDiagnostic error = op->emitOpError()
                               << "expected a wait before this arrives at the barrier of the cluster (because a thread "
                                  "may arrive only once per phase), got a second arrival";
    return withArrival(error, open);
  }
  if (!use.arrives && !open) {
    return op->emitOpError("expected an arrival at the barrier of the cluster on every path to this wait (because the "
                           "barrier never completes without this thread's arrival), got a path without one");
  }
  return use.waits ? Open() : op;
}

FailureOr<Open> BarrierOrderVerifier::visitBranch(scf::IfOp branch, Open open) {
  FailureOr<Open> taken = visit(branch.getThenRegion().front(), open), otherwise = open;
  if (!branch.getElseRegion().empty())
    otherwise = visit(branch.getElseRegion().front(), open);
  if (failed(taken) || failed(otherwise))
    return failure();
  if (bool(*taken) == bool(*otherwise))
    return taken;
  InFlightDiagnostic error = branch.emitOpError()
                             << "expected both branches to leave the same number of pending arrivals at the barrier of "
                                "the cluster (because the code after them is the same for both), got only one that "
                             << (open ? "waits" : "arrives") << " alone";
  return withArrival(error, *taken ? *taken : *otherwise);
}

LogicalResult BarrierOrderVerifier::checkRepeats(Operation *loop, Open begin, Open end) {
  if (bool(begin) == bool(end))
    return success();
  InFlightDiagnostic error = loop->emitOpError()
                             << "expected each iteration to wait for exactly its own arrivals at the barrier of the "
                                "cluster (because all iterations run the same code), got "
                             << (begin ? "a wait for an arrival from before the loop" : "an arrival without a wait");
  return withArrival(error, begin ? begin : end);
}

FailureOr<Open> BarrierOrderVerifier::visitWhile(scf::WhileOp loop, Open open) {
  FailureOr<Open> left = visit(*loop.getBeforeBody(), open);
  if (failed(left))
    return failure();
  FailureOr<Open> again = visit(*loop.getAfterBody(), *left);
  if (failed(again) || failed(checkRepeats(loop, open, *again)))
    return failure();
  return left;
}

FailureOr<Open> BarrierOrderVerifier::visit(Operation *op, Open open) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return visitBranch(branch, open);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return visitWhile(loop, open);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    FailureOr<Open> end = visit(*loop.getBody(), open);
    if (failed(end) || failed(checkRepeats(loop, open, *end)))
      return failure();
    return end;
  }
  if (isa<func::ReturnOp>(op) && open) {
    InFlightDiagnostic error = open->emitOpError()
                               << "expected a wait for this arrival on every path (because a thread may not exit with "
                                  "an arrival at the barrier of the cluster pending), got a return";
    error.attachNote(op->getLoc()) << "the return";
    return failure();
  }
  BarrierUses uses = barriersOf(op);
  for (const std::optional<BarrierUse> &use : {uses.before, uses.after}) {
    if (!use)
      continue;
    FailureOr<Open> next = passBarrier(op, *use, open);
    if (failed(next))
      return failure();
    open = *next;
  }
  return open;
}

FailureOr<Open> BarrierOrderVerifier::visit(Block &block, Open open) {
  for (Operation &op : block) {
    FailureOr<Open> next = visit(&op, open);
    if (failed(next))
      return failure();
    open = *next;
  }
  return open;
}

//===----------------------------------------------------------------------===//
// What each warp decides for itself
//===----------------------------------------------------------------------===//

namespace {
/// The values that a vote of each warp decides: computed from it, or results of a branch or loop that it decides. (All
/// that is done together in such a branch or loop is an error anyway.) Memory is not followed: what is loaded from one
/// address is the same for all.
class Votes {
public:
  explicit Votes(func::FuncOp function);
  bool empty() const { return votes.empty(); }
  /// The vote that decides the value; null if none does.
  AnyOp behind(Value value) const { return votes.lookup(value); }
  /// The vote that decides whether, or how often, the branch or loop runs its regions; null if none does.
  AnyOp deciding(Operation *op) const;

private:
  void add(ValueRange values, AnyOp vote);
  void follow(OpOperand &use, AnyOp vote);

  DenseMap<Value, AnyOp> votes;
  SmallVector<Value> open;
};
} // namespace

Votes::Votes(func::FuncOp function) {
  function.walk([&](AnyOp vote) { add(vote.getResult(), vote); });
  while (!open.empty()) {
    Value value = open.pop_back_val();
    for (OpOperand &use : value.getUses())
      follow(use, behind(value));
  }
}

void Votes::add(ValueRange values, AnyOp vote) {
  for (Value value : values)
    if (votes.try_emplace(value, vote).second)
      open.push_back(value);
}

void Votes::follow(OpOperand &use, AnyOp vote) {
  Operation *user = use.getOwner(), *around = user->getParentOp();
  unsigned number = use.getOperandNumber();
  if (auto loop = dyn_cast<scf::ForOp>(user)) {
    if (BlockArgument carried = loop.getTiedLoopRegionIterArg(&use))
      return add({carried, loop.getTiedLoopResult(&use)}, vote);
  } else if (auto loop = dyn_cast<scf::WhileOp>(user)) {
    return add(loop.getBeforeArguments()[number], vote);
  } else if (isa<scf::ConditionOp>(user)) {
    auto loop = cast<scf::WhileOp>(around);
    if (number > 0)
      return add({loop.getAfterArguments()[number - 1], loop.getResult(number - 1)}, vote);
    return add(loop.getResults(), vote);
  } else if (isa<scf::YieldOp>(user)) {
    if (auto loop = dyn_cast<scf::WhileOp>(around))
      return add(loop.getBeforeArguments()[number], vote);
    if (auto loop = dyn_cast<scf::ForOp>(around))
      add(loop.getRegionIterArg(number), vote);
    return add(around->getResult(number), vote);
  }
  add(user->getResults(), vote);
}

AnyOp Votes::deciding(Operation *op) const {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return behind(branch.getCondition());
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return behind(loop.getConditionOp().getCondition());
  if (auto loop = dyn_cast<scf::ForOp>(op))
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
      if (AnyOp vote = behind(bound))
        return vote;
  return nullptr;
}

/// True if other warps wait for what this warp does here, or it for them, or a single one acts for all. (A turn ends in
/// the block in which it begins, and memory with an mbarrier is awaited in the block in which it is stored to.)
static bool isDoneTogether(Operation *op) {
  BarrierUses uses = barriersOf(op);
  auto store = dyn_cast<LocalStoreOp>(op);
  return uses.before || uses.after || flightOf(op) || waitOf(op) || (store && mbarrierOf(store.getMem())) ||
         isa<AcquireOp, CommitOp, ReceiveOp, ReleaseOp, BeginTurnOp>(op);
}

/// True for a write of what several warps hold: only the owner's threads write.
static bool isDoneByOwner(Operation *op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return false;
  SmallVector<MemoryEffects::EffectInstance, 2> found;
  effects.getEffects(found);
  bool writes = llvm::any_of(found, [](const MemoryEffects::EffectInstance &effect) {
    return isa<MemoryEffects::Write>(effect.getEffect()) && effect.getValue() &&
           isa<tile::GlobalMemory, SharedMemory>(effect.getResource());
  });
  bool ofTile = false, replicated = false;
  for (Type type : op->getOperandTypes()) {
    auto tile = dyn_cast<RankedTensorType>(type);
    if (!tile || !tile.getEncoding())
      continue;
    ofTile = true;
    for (layout::Coord coord : {layout::Coord::Warp, layout::Coord::Group, layout::Coord::Cta})
      replicated |= layoutOf(tile).isReplicated(coord);
  }
  return writes && (!ofTile || replicated);
}

/// What warps do together they all get to, with the same scalars.
static LogicalResult verifyTogether(func::FuncOp function) {
  Votes votes(function);
  if (votes.empty())
    return success();
  auto withVote = [](InFlightDiagnostic &error, AnyOp vote) {
    error.attachNote(vote.getLoc()) << "what decides";
    return WalkResult::interrupt();
  };
  WalkResult result = function.walk([&](Operation *op) {
    bool together = isDoneTogether(op), byOwner = isDoneByOwner(op);
    for (Operation *around = op->getParentOp(); around != function && (together || byOwner);
         around = around->getParentOp()) {
      AnyOp vote = votes.deciding(around);
      if (!vote)
        continue;
      InFlightDiagnostic error = op->emitOpError()
                                 << (together ? "expected all warps to get here (because they do this together)"
                                              : "expected elements that only one warp holds (because the owner writes "
                                                "them for the others)")
                                 << ", got a branch or loop that each warp decides for itself";
      return withVote(error, vote);
    }
    for (Value operand : op->getOperands()) {
      AnyOp vote = together && !isa<RankedTensorType>(operand.getType()) ? votes.behind(operand) : AnyOp();
      if (!vote)
        continue;
      InFlightDiagnostic error = op->emitOpError("expected scalars that all warps agree on (because they do this "
                                                 "together), got one that each warp decides for itself");
      return withVote(error, vote);
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult kgpu::verifyBarrierOrder(func::FuncOp function) {
  // Scalars are the same in every thread, so all threads of an instance take the same path through structured control
  // flow. Other regions are executed by some threads only, or once per element.
  WalkResult result = function.walk([&](Operation *op) {
    BarrierUses uses = barriersOf(op);
    if (!uses.before && !uses.after)
      return WalkResult::advance();
    Operation *around = op->getParentOp();
    while (isa<scf::ForOp, scf::IfOp, scf::WhileOp, RolesOp>(around))
      around = around->getParentOp();
    bool inRole = roleAround(op).first;
    for (const std::optional<BarrierUse> &use : {uses.before, uses.after}) {
      if (!use || (use->scope <= Scope::Role) == inRole)
        continue;
      op->emitOpError() << (inRole ? "expected a barrier of the role's own threads inside a role (because threads of "
                                     "other roles never reach it), got one of the "
                                   : "expected a barrier of the cta or the cluster outside roles (because no role's "
                                     "threads are defined there), got one of the ")
                        << stringifyScope(use->scope);
      return WalkResult::interrupt();
    }
    if (around == function)
      return WalkResult::advance();
    op->emitOpError("expected barriers only in branches and loops (because a barrier waits for all threads, and other "
                    "regions may run on some of them only), got one inside ")
        << around->getName();
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted() || failed(verifyTogether(function)))
    return failure();
  return BarrierOrderVerifier().visit(function.getBody().front(), nullptr);
}
