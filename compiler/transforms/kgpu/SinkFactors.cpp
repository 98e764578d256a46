// kiln-sink-factors: converts operands of warp products right before they are multiplied.
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_SINKFACTORSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {
struct SinkFactors : kiln::impl::SinkFactorsPassBase<SinkFactors> {
  void runOnOperation() override {
    getOperation().walk([](kgpu::WarpMmaOp product) {
      for (Value factor : {product.getLhs(), product.getRhs()})
        if (auto convert = factor.getDefiningOp<kgpu::ConvertOp>())
          if (convert->hasOneUse() && convert->getBlock() == product->getBlock())
            convert->moveBefore(product);
    });
  }
};
} // namespace
