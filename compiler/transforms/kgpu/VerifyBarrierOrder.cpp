// Arrivals at the cluster barrier and waits for it must pair up. The hardware has one such barrier: a thread that
// arrives twice, or waits without having arrived, has undefined behaviour, and one that exits in between leaves the
// others waiting.
//
// The state followed through the structured control flow is the arrival that has not been waited for. If two paths join
// with different states, one of them fails later, so the error is reported at the join.
#include "compiler/transforms/kgpu/VerifyBarrierOrder.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
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
  if (result.wasInterrupted())
    return failure();
  return BarrierOrderVerifier().visit(function.getBody().front(), nullptr);
}
