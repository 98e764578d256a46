// kiln-hint-streams: gives eviction priorities to data that a large launch reads once, and to data that is read again.
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

/// How a value varies with the program: the ops whose results distinguish programs and that the value depends on,
/// either a `tile.program_id`, or a quotient or remainder of one, which several programs share.
using Variation = SmallPtrSet<Operation *, 4>;

/// The variations of a kernel's values, except loop-carried ones.
class Variations {
public:
  explicit Variations(func::FuncOp kernel) {
    kernel.walk([&](Operation *op) { visit(op); }); // operands first, and regions before the enclosing op
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

/// Which values two loops over the same range compute alike.
class Alike {
public:
  Alike(scf::ForOp first, scf::ForOp second) : first(first), second(second) {}

  /// `a` in the first loop equals `b` in the second in the same iteration: both are computed alike from values defined
  /// outside both loops and from the loops' induction variables.
  bool areSame(Value a, Value b) {
    auto [found, added] = known.try_emplace({a, b}, false);
    if (!added)
      return found->second;
    bool same = compare(a, b);
    return known[{a, b}] = same; // the recursion may have invalidated `found`
  }

private:
  bool compare(Value a, Value b) {
    if (a == b)
      return first.isDefinedOutsideOfLoop(a);
    if (a == first.getInductionVar())
      return b == second.getInductionVar();
    Operation *one = a.getDefiningOp(), *other = b.getDefiningOp();
    return one && other && one->getNumResults() == 1 && !one->getNumRegions() && isMemoryEffectFree(one) &&
           OperationEquivalence::isEquivalentTo(
               one, other, [&](Value left, Value right) { return success(areSame(left, right)); },
               /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
  }

  scf::ForOp first, second;
  llvm::DenseMap<std::pair<Value, Value>, bool> known;
};

bool haveSameRange(scf::ForOp first, scf::ForOp second) {
  return first.getLowerBound() == second.getLowerBound() && first.getUpperBound() == second.getUpperBound() &&
         first.getStep() == second.getStep();
}

/// Data that one loop reads and a later loop reads again is kept until then, and marked to be evicted first after that.
void hintSecondReads(Block &block, llvm::function_ref<bool(tile::LoadOp)> isStream) {
  SmallVector<std::pair<scf::ForOp, SmallVector<tile::LoadOp>>> loops;
  for (auto loop : block.getOps<scf::ForOp>())
    loops.emplace_back(loop, llvm::make_filter_range(loop.getBody()->getOps<tile::LoadOp>(), isStream));
  for (size_t i = 0; i < loops.size(); ++i)
    for (size_t j = i + 1; j < loops.size(); ++j) {
      auto &[first, reads] = loops[i];
      auto &[second, later] = loops[j];
      if (!haveSameRange(first, second))
        continue;
      Alike alike(first, second);
      for (tile::LoadOp read : reads)
        for (tile::LoadOp again : later)
          if (alike.areSame(read.getPtr(), again.getPtr())) {
            read.setEvict(tile::Eviction::Last);
            again.setEvict(tile::Eviction::First);
          }
    }
}

struct HintStreams : kiln::impl::HintStreamsPassBase<HintStreams> {
  using Base = kiln::impl::HintStreamsPassBase<HintStreams>;
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    if (!kernel->hasAttr("tile.kernel") || kernel.isExternal())
      return;
    Variations variations(kernel);
    Variation written;
    kernel.walk([&](tile::StoreOp store) {
      const Variation &where = variations.of(store.getPtr());
      written.insert(where.begin(), where.end());
    });
    if (written.empty())
      return;
    auto isStream = [&](tile::LoadOp load) {
      const Variation &where = variations.of(load.getPtr());
      return load.getEvict() == tile::Eviction::Normal && !load.getIsVolatile() &&
             isa<RankedTensorType>(load.getType()) &&
             llvm::all_of(written, [&](Operation *number) { return where.contains(number); });
    };
    hintSecondReads(kernel.front(), isStream);
    if (!kgpu::moduleHas(kernel, kgpu::kStreamingAttrName))
      return;
    kernel.walk([&](tile::LoadOp load) {
      if (isStream(load) && !load->getParentOfType<LoopLikeOpInterface>())
        load.setEvict(tile::Eviction::Last);
    });
  }
};
} // namespace
