// A schedule's attribute, and the memory it takes.
#include "compiler/transforms/schedule/Schedule.h"
#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/layout/Builder.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;

DictionaryAttr Schedule::toAttr(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> entries = {b.getNamedAttr("name", b.getStringAttr(name)),
                                         b.getNamedAttr("stages", b.getI32IntegerAttr(stages))};
  if (consumers)
    entries.push_back(b.getNamedAttr("consumers", b.getI32IntegerAttr(consumers)));
  if (queries > 1)
    entries.push_back(b.getNamedAttr("queries", b.getI32IntegerAttr(queries)));
  if (heldQueries)
    entries.push_back(b.getNamedAttr("held_queries", b.getUnitAttr()));
  if (swapped)
    entries.push_back(b.getNamedAttr("swapped", b.getUnitAttr()));
  if (stagedStore)
    entries.push_back(b.getNamedAttr("staged_store", b.getUnitAttr()));
  if (split)
    entries.push_back(b.getNamedAttr("split", b.getUnitAttr()));
  if (fetched)
    entries.push_back(b.getNamedAttr("fetched", b.getUnitAttr()));
  if (reused)
    entries.push_back(b.getNamedAttr("reused", b.getUnitAttr()));
  if (ordered)
    entries.push_back(b.getNamedAttr("ordered", b.getUnitAttr()));
  if (rotated)
    entries.push_back(b.getNamedAttr("rotated", b.getUnitAttr()));
  if (apart)
    entries.push_back(b.getNamedAttr("apart", b.getUnitAttr()));
  return b.getDictionaryAttr(entries);
}

std::optional<Schedule> Schedule::ofKernel(func::FuncOp kernel) {
  auto attr = kernel->getAttrOfType<DictionaryAttr>(kgpu::kScheduleAttrName);
  if (!attr)
    return std::nullopt;
  Schedule schedule;
  schedule.name = attr.getAs<StringAttr>("name").getValue();
  auto groups = attr.getAs<IntegerAttr>("consumers");
  schedule.consumers = groups ? groups.getInt() : 0;
  schedule.stages = attr.getAs<IntegerAttr>("stages").getInt();
  if (auto queries = attr.getAs<IntegerAttr>("queries"))
    schedule.queries = queries.getInt();
  schedule.heldQueries = attr.contains("held_queries");
  schedule.swapped = attr.contains("swapped");
  schedule.stagedStore = attr.contains("staged_store");
  schedule.split = attr.contains("split");
  schedule.fetched = attr.contains("fetched");
  schedule.reused = attr.contains("reused");
  schedule.ordered = attr.contains("ordered");
  schedule.rotated = attr.contains("rotated");
  schedule.apart = attr.contains("apart");
  return schedule;
}

/// Swizzled over the bytes of a row, up to `most`.
static std::optional<kgpu::MemType> swizzledMemory(RankedTensorType tile, int64_t ctas, std::optional<unsigned> split,
                                                   int64_t most = 128) {
  int64_t bytes = tile::memoryBytes(tile.getElementType());
  SmallVector<int64_t> piece(tile.getShape());
  if (split) {
    if (piece[*split] % ctas)
      return std::nullopt;
    piece[*split] /= ctas;
  }
  for (int64_t swizzle = most; swizzle >= 32; swizzle /= 2) {
    SmallVector<int32_t> order = {1, 0};
    auto layout = layout::swizzled(piece, order, bytes, swizzle);
    if (layout && ctas > 1)
      layout = layout::inCluster(*layout, ctas, split);
    if (!layout)
      continue;
    auto type =
        kgpu::MemType::get(tile.getShape(), tile.getElementType(), layout::MapAttr::get(tile.getContext(), *layout));
    if (kgpu::planBoxes(type, split ? 1 : ctas))
      return type;
  }
  return std::nullopt;
}

std::optional<kgpu::MemType> schedule::slotMemory(Factor &factor, int64_t ctas, std::optional<unsigned> cut) {
  RankedTensorType block = factor.block();
  if (block.getRank() != 2)
    return std::nullopt;
  return swizzledMemory(block, ctas, cut);
}

std::optional<kgpu::MemType> schedule::storeMemory(RankedTensorType tile, int64_t ctas, bool cutsColumns) {
  tile = asMatrix(tile);
  if (tile.getRank() != 2)
    return std::nullopt;
  return swizzledMemory(tile, ctas, ctas > 1 ? std::optional<unsigned>(cutsColumns ? 1 : 0) : std::nullopt);
}

bool schedule::mayStoreApart(RankedTensorType tile, int64_t ctas, int64_t groups) {
  auto memory = storeMemory(tile, ctas, /*cutsColumns=*/false);
  return groups > 1 && memory &&
         kgpu::planBoxes(*memory, /*pieces=*/1, asMatrix(tile).getDimSize(0) / ctas / groups).has_value();
}

std::optional<kgpu::MemType> schedule::sumMemory(RankedTensorType sums, int64_t ctas) {
  int64_t rows = sums.getDimSize(0), columns = sums.getDimSize(1) / ctas;
  if (sums.getDimSize(1) % ctas || columns % 8 || !llvm::isPowerOf2_64(columns) || rows % 8 ||
      !llvm::isPowerOf2_64(rows))
    return std::nullopt;
  layout::LayoutBuilder piece({rows, columns});
  auto walk = [&](unsigned dim, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; step *= 2)
      piece.push(layout::Coord::Offset, 2, dim, step);
  };
  walk(1, 1, 8);
  walk(0, 1, 8);
  walk(1, 8, columns);
  walk(0, 8, rows);
  std::optional<layout::Layout> block = piece.finish();
  std::optional<layout::Layout> whole = block ? layout::inCluster(*block, ctas, /*split=*/1) : std::nullopt;
  if (!whole)
    return std::nullopt;
  return kgpu::MemType::get(sums.getShape(), sums.getElementType(), layout::MapAttr::get(sums.getContext(), *whole));
}

std::optional<kgpu::MemType> schedule::panelMemory(RankedTensorType tile, int64_t columns) {
  int64_t bytes = columns * tile::memoryBytes(tile.getElementType());
  return bytes < 32
             ? std::nullopt
             : swizzledMemory(tile, /*ctas=*/1, std::nullopt, std::min<int64_t>(llvm::bit_floor(uint64_t(bytes)), 128));
}

SmallVector<tile::DescStoreOp> schedule::copyableStores(func::FuncOp kernel, ProductLoop &product,
                                                        const AlignmentAnalysis &alignment) {
  SmallVector<tile::DescStoreOp> stores;
  kernel.walk([&](tile::DescStoreOp store) {
    std::string why;
    auto tile = asMatrix(cast<RankedTensorType>(store.getValue().getType()));
    if (store->getBlock() == product.loop->getBlock() && product.loop->isBeforeInBlock(store) &&
        mayCopyOut(store, alignment, why) && tile.getShape() == product.dot.getType().getShape())
      stores.push_back(store);
  });
  return stores;
}

SmallVector<tile::DescLoadOp> schedule::fetchableLoads(func::FuncOp kernel, ProductLoop &product,
                                                       const AlignmentAnalysis &alignment) {
  SmallVector<Operation *> stores;
  kernel.walk([&](Operation *op) {
    if (writesGlobal(op))
      stores.push_back(op);
  });
  SmallVector<tile::DescLoadOp> loads;
  for (auto load : product.loop->getBlock()->getOps<tile::DescLoadOp>()) {
    auto desc = load.getDesc().getDefiningOp<tile::MakeDescOp>();
    std::string why;
    bool alone = llvm::all_of(stores, [&](Operation *store) { return areDisjoint(load, store); });
    if (alone && desc && desc.getPadding() == tile::Padding::Zero && mayFetch(load, alignment, why) &&
        asMatrix(load.getType()).getShape() == product.dot.getType().getShape() &&
        isScalarWork(load.getOffsets(), kernel))
      loads.push_back(load);
  }
  return loads;
}

tile::DescLoadOp schedule::replaceableLoad(const ProductLoop &product, tile::DescStoreOp store,
                                           ArrayRef<tile::DescLoadOp> loads) {
  Operation *loop = product.loop, *end = store;
  if (end->getBlock() != loop->getBlock())
    return {};
  auto type = asMatrix(cast<RankedTensorType>(store.getValue().getType()));
  for (tile::DescLoadOp load : loads)
    if (asMatrix(load.getType()) == type && loop->isBeforeInBlock(load) && load->isBeforeInBlock(end))
      return load;
  return {};
}

/// Only reductions of the same kind may touch what `op` reduces into, and nothing in the kernel but turns may order
/// accesses: the copy engine may perform the reduction at any time until the turn or the kernel ends.
static bool isAlone(tile::DescReduceOp op, ArrayRef<Turn> turns) {
  auto kernel = op->getParentOfType<func::FuncOp>();
  return !kernel
              .walk([&](Operation *other) {
                auto alike = dyn_cast<tile::DescReduceOp>(other);
                if (alike && alike.getKind() == op.getKind())
                  return WalkResult::advance();
                // Memory order that the engine would have to respect.
                kgpu::BarrierUses uses = kgpu::barriersOf(other);
                bool orders = isa<tile::AtomicRMWOp, tile::AtomicCASOp>(other) && (uses.before || uses.after) &&
                              !isOrdering(turns, other);
                bool touches = globalEffect(other) && !areDisjoint(other, op);
                return orders || touches ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

std::optional<kgpu::MemType> schedule::reductionMemory(tile::DescReduceOp op, ArrayRef<Turn> turns,
                                                       const AlignmentAnalysis &alignment) {
  std::string why;
  RankedTensorType tile = asMatrix(cast<RankedTensorType>(op.getValue().getType()));
  if (!kgpu::CopyOutOp::canReduce(op.getKind(), tile.getElementType()) || !mayCopyOut(op, alignment, why) ||
      !isAlone(op, turns))
    return std::nullopt;
  return storeMemory(tile, /*ctas=*/1, /*swapped=*/false);
}
