// The pass kiln-assign-layouts: build the graph, decide, rewrite.
#include "compiler/conversion/tile_to_kgpu/Graph.h"
#include "compiler/conversion/tile_to_kgpu/TileToKgpu.h"
#include "compiler/target/Target.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/layout/LayoutDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "compiler/conversion/tile_to_kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

static int64_t moduleNumber(Operation *op, StringRef name, int64_t otherwise) {
  auto module = op->getParentOfType<ModuleOp>();
  auto attribute = module ? module->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  return attribute ? attribute.getInt() : otherwise;
}

namespace {
struct AssignLayouts : kiln::impl::AssignLayoutsPassBase<AssignLayouts> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    assign::Machine machine;
    layout::Threads &threads = machine.threads;
    threads.warps = moduleNumber(func, "kgpu.num_warps", 4);
    threads.ctas = moduleNumber(func, "kgpu.cluster", 1);
    // Hand-written IR may be without a target.
    auto module = func->getParentOfType<ModuleOp>();
    if (Target target = module ? Target::fromModule(module) : Target(); target.isGpu()) {
      machine.sharedBytes = target.gpu.maxSharedBytes;
      machine.accessBytes = target.vectorBytes;
    }
    for (auto [what, number] : {std::pair("kgpu.num_warps", threads.warps), std::pair("kgpu.cluster", threads.ctas)})
      if (number < 1 || !llvm::isPowerOf2_64(number)) {
        func.emitOpError() << "expected " << what << " to be a power of two (because layouts are made of bits), got "
                           << number;
        return signalPassFailure();
      }
    auto hasLayout = [](Type type) {
      auto tile = dyn_cast<RankedTensorType>(type);
      return tile && tile.getEncoding();
    };
    WalkResult fresh = func.walk([&](Operation *op) {
      if (llvm::none_of(op->getResultTypes(), hasLayout) && llvm::none_of(op->getOperandTypes(), hasLayout))
        return WalkResult::advance();
      op->emitOpError("expected tiles without layouts (because this pass assigns them, once)");
      return WalkResult::interrupt();
    });
    if (fresh.wasInterrupted())
      return signalPassFailure();
    FailureOr<assign::Graph> graph = assign::Graph::build(func, machine);
    if (failed(graph))
      return signalPassFailure();
    assign::solve(*graph);
    assign::rewrite(func, *graph);
  }
};
} // namespace
