// kiln-take-unlikely: a branch that is right whenever it is taken is taken where asking would cost more.
#include "compiler/transforms/tile/TakeUnlikely.h"
#include "compiler/transforms/tile/Passes.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln {
#define GEN_PASS_DEF_TAKEUNLIKELYPASS
#include "compiler/transforms/tile/Passes.h.inc"
} // namespace kiln

using namespace mlir;

/// Moves what the branch does in front of it, and removes it.
static void take(scf::IfOp branch) {
  Block *body = branch.thenBlock();
  Operation *yield = body->getTerminator();
  branch->replaceAllUsesWith(yield->getOperands());
  yield->erase();
  branch->getBlock()->getOperations().splice(branch->getIterator(), body->getOperations());
  branch->erase();
}

void kiln::takeUnlikely(Operation *root) {
  // Inner branches first, as the walk finds them: an outer one removes its second region, and questions in it.
  SmallVector<scf::IfOp> branches;
  root->walk([&](scf::IfOp branch) {
    if (branch.getCondition().getDefiningOp<tile::UnlikelyOp>())
      branches.push_back(branch);
  });
  for (scf::IfOp branch : branches)
    take(branch);
  root->walk([](tile::UnlikelyOp question) {
    OpBuilder b(question);
    if (!question->use_empty())
      question.replaceAllUsesWith(arith::ConstantOp::create(b, question.getLoc(), b.getBoolAttr(true)).getResult());
    question.erase();
  });
}

namespace {
struct TakeUnlikely : kiln::impl::TakeUnlikelyPassBase<TakeUnlikely> {
  void runOnOperation() override { kiln::takeUnlikely(getOperation()); }
};
} // namespace
