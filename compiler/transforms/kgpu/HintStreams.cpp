// kiln-hint-streams: what a large launch reads once has an eviction priority.
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/KgpuAttributes.h"
#include "dialects/kgpu/LaunchFacts.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace kiln {
#define GEN_PASS_DEF_HINTSTREAMSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// How a value varies with the program: the numbers of programs that it is computed from, whole (`tile.program_id`), or
/// by their quotient or remainder, which several programs share.
using Variation = SmallPtrSet<Operation *, 4>;

/// The variations of a kernel's values, but for those that only a loop knows.
class Variations {
public:
  explicit Variations(func::FuncOp kernel) {
    kernel.walk([&](Operation *op) { visit(op); }); // operands first, and regions before the op around them
  }

  const Variation &of(Value value) const {
    static const Variation none;
    auto found = known.find(value);
    return found == known.end() ? none : found->second;
  }

private:
  void visit(Operation *op) {
    Variation found;
    auto take = [&](ValueRange values) {
      for (Value value : values)
        found.insert(of(value).begin(), of(value).end());
    };
    take(op->getOperands());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        take(block.getTerminator()->getOperands());
    if (isa<tile::ProgramIdOp>(op))
      found.insert(op);
    if (!found.empty() && isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op)) {
      found.clear();
      found.insert(op);
    }
    if (found.empty())
      return;
    for (Value result : op->getResults())
      known[result] = found;
  }

  llvm::DenseMap<Value, Variation> known;
};

struct HintStreams : kiln::impl::HintStreamsPassBase<HintStreams> {
  using Base = kiln::impl::HintStreamsPassBase<HintStreams>;
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr("tile.kernel") || kernel.isExternal() || !kgpu::moduleHas(kernel, kgpu::kStreamingAttrName))
      return;
    Variations variations(kernel);
    Variation written;
    kernel.walk([&](tile::StoreOp store) {
      const Variation &where = variations.of(store.getPtr());
      written.insert(where.begin(), where.end());
    });
    if (written.empty())
      return;
    kernel.walk([&](tile::LoadOp load) {
      const Variation &where = variations.of(load.getPtr());
      if (load.getEvict() == tile::Eviction::Normal && !load.getIsVolatile() && isa<RankedTensorType>(load.getType()) &&
          !load->getParentOfType<LoopLikeOpInterface>() &&
          llvm::all_of(written, [&](Operation *number) { return where.contains(number); }))
        load.setEvict(tile::Eviction::Last);
    });
  }
};
} // namespace
