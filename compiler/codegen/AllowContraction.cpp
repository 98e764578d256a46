// kiln-allow-contraction: lets the user's products and sums fuse; see Passes.td for why it sets a flag per operation
// and not the code generator's global switch.
#include "compiler/codegen/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln {
#define GEN_PASS_DEF_ALLOWCONTRACTIONPASS
#include "compiler/codegen/Passes.h.inc"
} // namespace kiln

using namespace mlir;

namespace {
struct AllowContraction : kiln::impl::AllowContractionPassBase<AllowContraction> {
  using AllowContractionPassBase::AllowContractionPassBase;

  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      if (isa<arith::MulFOp, arith::AddFOp, arith::SubFOp>(op)) {
        auto flags = cast<arith::ArithFastMathInterface>(op).getFastMathFlagsAttr();
        op->setAttr("fastmath",
                    arith::FastMathFlagsAttr::get(op->getContext(), flags.getValue() | arith::FastMathFlags::contract));
      }
    });
  }
};
} // namespace
