// The pass kiln-verify-layouts: checks each op against its rule.
#include "compiler/analysis/LayoutRules.h"
#include "compiler/conversion/tile_to_kgpu/TileToKgpu.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/LayoutDialect.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_VERIFYLAYOUTSPASS
#include "compiler/conversion/tile_to_kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using layout::Coord;
using layout::Layout;

namespace {
struct VerifyLayouts : kiln::impl::VerifyLayoutsPassBase<VerifyLayouts> {
  void runOnOperation() override {
    warps = kgpu::moduleNumber(getOperation(), kgpu::kNumWarpsAttrName, warps);
    groups = kgpu::moduleNumber(getOperation(), kgpu::kNumGroupsAttrName, groups);
    ctas = kgpu::moduleNumber(getOperation(), kgpu::kClusterAttrName, ctas);
    WalkResult result = getOperation()->walk([&](Operation *op) {
      return failed(verifyThreads(op)) || failed(verifyRule(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verifyThreads(Operation *op) {
    auto check = [&](Value value) -> LogicalResult {
      auto tile = dyn_cast<RankedTensorType>(value.getType());
      if (!tile)
        return success();
      if (!tile.getEncoding())
        return op->emitOpError() << "expected every tile to have a layout (because layouts are assigned), got " << tile;
      Layout layout = layout::getLayout(tile);
      auto [roles, role] = kgpu::roleAround(op);
      std::tuple<StringRef, int64_t, int64_t> counts[] = {
          {"lanes", layout.size(Coord::Lane), 32},
          {"warps", layout.size(Coord::Warp), roles ? roles.getWarps()[role] : warps},
          {"groups", layout.size(Coord::Group), roles ? roles.getGroups()[role] : groups},
          {"ctas", layout.size(Coord::Cta), ctas}};
      for (auto [what, count, expected] : counts)
        if (count != expected)
          return op->emitOpError() << "expected layouts of " << expected << " " << what << " (because the "
                                   << (roles ? "role" : "kernel") << " has that many), got " << tile;
      return success();
    };
    for (Value value : op->getOperands())
      if (failed(check(value)))
        return failure();
    for (Value value : op->getResults())
      if (failed(check(value)))
        return failure();
    for (Region &region : op->getRegions())
      for (Value argument : region.getArguments())
        if (failed(check(argument)))
          return failure();
    return success();
  }

  LogicalResult verifyRule(Operation *op) {
    auto groups = rules::groupsOf(op);
    if (!groups)
      return op->emitOpError(
          "expected an op whose tiles' layouts follow a rule (because each op is checked against its "
          "rule), got an op with tiles and no rule");
    for (const rules::Group &group : *groups) {
      SmallVector<Type> types;
      for (OpOperand *use : group.uses)
        types.push_back(use->get().getType());
      llvm::append_range(types, ValueRange(group.defs).getTypes());
      Layout expected = layout::getLayout(cast<RankedTensorType>(types.front()));
      for (Type type : types)
        if (layout::getLayout(cast<RankedTensorType>(type)) != expected)
          return op->emitOpError()
                 << "expected tiles of one layout (because each thread operates only on its own elements), got "
                 << types.front() << " and " << type;
    }
    if (!rules::isDerived(op) || groups->size() != 2)
      return success();
    Type from = (*groups)[0].type(), to = (*groups)[1].type();
    Layout operand = layout::getLayout(cast<RankedTensorType>(from)),
           result = layout::getLayout(cast<RankedTensorType>(to));
    if (rules::fits(op, operand, result))
      return success();
    // A reshape whose two layouts cannot match is left to kiln-lower-exchanges.
    bool open =
        isa<tile::ReshapeOp>(op) && !rules::operandFromResult(op, result) && !rules::resultFromOperand(op, operand);
    if (open)
      return success();
    return op->emitOpError() << "expected the operand's layout to follow from the result's (because elements stay in "
                             << "their threads), got " << from << " and " << to;
  }

  int64_t warps = 4, groups = 1, ctas = 1;
};
} // namespace
