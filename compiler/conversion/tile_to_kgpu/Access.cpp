// Derives the facts about an access from the alignment analysis.
#include "compiler/conversion/tile_to_kgpu/Access.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::assign;

// Bytes of the widest copy that bypasses registers.
static constexpr int64_t kWidestCopy = 16;

unsigned AccessShape::fastest() const { return order().front(); }

llvm::SmallVector<int32_t> AccessShape::order() const {
  SmallVector<int32_t> result = llvm::to_vector(llvm::seq<int32_t>(dims.size()));
  llvm::sort(result, [&](int32_t a, int32_t b) { return std::pair(dims[a].run, a) > std::pair(dims[b].run, b); });
  return result;
}

static int64_t powerOfTwoUpTo(int64_t value) { return value < 1 ? 1 : int64_t(llvm::bit_floor(uint64_t(value))); }

/// True if the value differs between programs or iterations, or was read from memory.
static bool varies(Value value, llvm::SmallDenseSet<Value, 16> &seen) {
  if (!seen.insert(value).second)
    return false;
  Operation *op = value.getDefiningOp();
  if (!op)
    return !isa<func::FuncOp>(value.getParentBlock()->getParentOp());
  if (isa<tile::ProgramIdOp>(op) || op->getNumRegions() > 0 || !isMemoryEffectFree(op))
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) { return varies(operand, seen); });
}

static bool anyVaries(ValueRange values) {
  llvm::SmallDenseSet<Value, 16> seen;
  return llvm::any_of(values, [&](Value value) { return varies(value, seen); });
}

static AccessShape pointerAccess(Value pointers, Value mask, const AlignmentAnalysis &analysis, int64_t widest) {
  auto type = cast<RankedTensorType>(pointers.getType());
  AccessShape access;
  access.bytes = tile::memoryBytes(cast<tile::PtrType>(type.getElementType()).getPointee());
  access.streams = anyVaries({pointers});
  const AxisInfo &info = analysis.get(pointers);
  for (auto [dim, side] : llvm::enumerate(type.getShape())) {
    AccessDim known;
    known.run = analysis.contiguousElements(pointers, dim);
    known.same = info.constancy(dim);
    int64_t aligned = analysis.alignmentInBytes(pointers, dim) / access.bytes;
    known.vector = powerOfTwoUpTo(
        std::min({known.run, aligned, analysis.maskConstancy(mask, dim, side), widest / access.bytes, side & -side}));
    access.dims.push_back(known);
  }
  return access;
}

/// The access to a block of a described array: rows are contiguous where the last stride is provably one.
static AccessShape boxAccess(tile::MakeDescOp desc, ValueRange offsets, std::optional<ArrayRef<int32_t>> boundary,
                             RankedTensorType block, const AlignmentAnalysis &analysis, int64_t widest) {
  AccessShape access;
  access.bytes = tile::memoryBytes(block.getElementType());
  access.dims.resize(block.getRank());
  if (!desc)
    return access;
  SmallVector<Value> sources(offsets);
  llvm::append_range(sources, desc->getOperands());
  access.streams = anyVaries(sources);
  auto divisor = [&](Value value) { return analysis.get(value).everyElement(); };
  for (auto [dim, side] : llvm::enumerate(block.getShape())) {
    AxisInfo stride = analysis.get(desc.getStrides()[dim]);
    AccessDim &known = access.dims[dim];
    if (stride.constant == 0)
      known.same = side;
    if (stride.constant != 1)
      continue;
    known.run = side;
    // First the bytes that divide the address of element 0 of every row, then the elements that are in or out together.
    int64_t bytes = divisor(desc.getBase());
    for (auto [other, value] : llvm::enumerate(desc.getStrides())) {
      int64_t step = other == dim ? divisor(offsets[dim]) : divisor(value);
      bytes = std::min(bytes, std::min<int64_t>(step, widest) * access.bytes);
    }
    bool checked = !boundary || llvm::is_contained(*boundary, int32_t(dim));
    int64_t together = checked ? std::min(divisor(desc.getShape()[dim]), divisor(offsets[dim])) : side;
    known.vector = powerOfTwoUpTo(std::min({bytes / access.bytes, together, widest / access.bytes, side & -side}));
  }
  return access;
}

std::optional<AccessShape> assign::accessOf(Operation *op, const AlignmentAnalysis &analysis, int64_t widest) {
  auto descOf = [](Value value) { return value.getDefiningOp<tile::MakeDescOp>(); };
  return llvm::TypeSwitch<Operation *, std::optional<AccessShape>>(op)
      .Case<tile::LoadOp, tile::StoreOp, tile::PrefetchOp>([&](auto access) -> std::optional<AccessShape> {
        if (!isa<RankedTensorType>(access.getPtr().getType()))
          return std::nullopt;
        AccessShape result = pointerAccess(access.getPtr(), access.getMask(), analysis, widest);
        result.stores = isa<tile::StoreOp>(op);
        return result;
      })
      .Case<tile::AtomicRMWOp, tile::AtomicCASOp>([&](auto atomic) -> std::optional<AccessShape> {
        if (!isa<RankedTensorType>(atomic.getPtr().getType()))
          return std::nullopt;
        AccessShape result = pointerAccess(atomic.getPtr(), nullptr, analysis, widest);
        result.stores = result.atomic = true;
        for (AccessDim &dim : result.dims)
          dim.vector = 1;
        return result;
      })
      .Case([&](tile::DescLoadOp load) {
        return boxAccess(descOf(load.getDesc()), load.getOffsets(), load.getBoundary(),
                         load.getDesc().getType().getBlock(), analysis, widest);
      })
      .Case([&](tile::DescStoreOp store) {
        AccessShape result = boxAccess(descOf(store.getDesc()), store.getOffsets(), store.getBoundary(),
                                       store.getDesc().getType().getBlock(), analysis, widest);
        result.stores = true;
        return result;
      })
      .Case([&](kgpu::CopyTileOp copy) -> std::optional<AccessShape> {
        AccessShape result =
            pointerAccess(copy.getPtr(), copy.getMask(), analysis, std::min<int64_t>(widest, kWidestCopy));
        result.copies = true;
        auto channel = copy.getChannel().getDefiningOp<kgpu::ChannelOp>();
        result.warpsApart = channel && channel.getWarpsApart();
        return result;
      })
      .Default([](Operation *) { return std::nullopt; });
}
