// The pass kiln-assign-layouts: builds the graphs, solves them, rewrites the IR.
#include "compiler/conversion/tile_to_kgpu/Graph.h"
#include "compiler/conversion/tile_to_kgpu/TileToKgpu.h"
#include "compiler/target/Target.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/LayoutDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln {
#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "compiler/conversion/tile_to_kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Gives layouts to tiles in signatures too (of hand-written functions).
static void updateSignature(func::FuncOp func) {
  if (func.isDeclaration())
    return;
  SmallVector<Type> results;
  for (Block &block : func.getBody())
    if (auto end = dyn_cast<func::ReturnOp>(block.getTerminator()))
      results.assign(end.getOperandTypes().begin(), end.getOperandTypes().end());
  func.setType(FunctionType::get(
      func.getContext(), func.getArgumentTypes().empty() ? TypeRange() : TypeRange(func.getBody().getArgumentTypes()),
      results));
}

namespace {
struct AssignLayouts : kiln::impl::AssignLayoutsPassBase<AssignLayouts> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    assign::Machine machine;
    layout::Threads &threads = machine.threads;
    threads.warps = kgpu::moduleNumber(func, kgpu::kNumWarpsAttrName, 4);
    threads.groups = kgpu::moduleNumber(func, kgpu::kNumGroupsAttrName, 1);
    threads.ctas = kgpu::moduleNumber(func, kgpu::kClusterAttrName, 1);
    // Hand-written IR may lack a target.
    auto module = func->getParentOfType<ModuleOp>();
    if (Target target = module ? Target::fromModule(module) : Target(); target.isGpu()) {
      machine.sharedBytes = target.gpu.maxSharedBytes;
      machine.accessBytes = target.vectorBytes;
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
    // One graph for the kernel without its roles, and one for each role with the threads that run it. All are built
    // before any is rewritten, because they use the same analysis.
    AlignmentAnalysis analysis(func);
    SmallVector<assign::Graph, 1> graphs;
    auto build = [&](Region &scope) {
      FailureOr<assign::Graph> graph = assign::Graph::build(scope, machine, analysis);
      if (succeeded(graph))
        graphs.push_back(std::move(*graph));
      return graph;
    };
    if (!func.isDeclaration() && failed(build(func.getBody())))
      return signalPassFailure();
    for (auto roles : func.getOps<kgpu::RolesOp>())
      for (auto [index, body] : llvm::enumerate(roles.getBodies())) {
        threads.warps = roles.getWarps()[index];
        threads.groups = roles.getGroups()[index];
        if (failed(build(body)))
          return signalPassFailure();
      }
    for (assign::Graph &graph : graphs) {
      assign::solve(graph);
      assign::rewrite(graph);
    }
    updateSignature(func);
  }
};
} // namespace
