// The pass kiln-verify-vectors: checks that no vector larger than the register tile reaches LLVM.
#include "compiler/conversion/tile_to_cpu/TileToCpu.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kiln {
#define GEN_PASS_DEF_VERIFYVECTORSPASS
#include "compiler/conversion/tile_to_cpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {
struct VerifyVectors : kiln::impl::VerifyVectorsPassBase<VerifyVectors> {
  void runOnOperation() override {
    int64_t limit = Target::fromModule(getOperation()).maxVectorBytes();
    auto bits = [](Type element) -> int64_t {
      return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64; // a pointer or an index
    };
    WalkResult result = getOperation().walk([&](Operation *op) {
      for (Type type : op->getResultTypes()) {
        auto vector = dyn_cast<VectorType>(type);
        if (!vector)
          continue;
        int64_t bytes = vector.getNumElements() * bits(vector.getElementType()) / 8;
        if (vector.getRank() == 1 && bytes <= limit)
          continue;
        op->emitOpError("expected vectors of rank 1 and at most ")
            << limit << " bytes (because that is the register tile of this target), got " << type;
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
