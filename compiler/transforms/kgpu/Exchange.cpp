// Allocations, stores, loads and conversions for the rewrites of the ops.
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/layout/Builder.h"
#include "dialects/layout/Memory.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Digit;
using layout::Layout;

Exchanges::Exchanges(func::FuncOp function) : b(function.getLoc(), function.getContext()) {
  machine = Target::fromModule(function->getParentOfType<ModuleOp>());
  ctas = clusterSize(function);
}

Value Exchanges::view(Value memory, int64_t offset, const Layout &layout) {
  Type element = cast<MemType>(memory.getType()).getElementType();
  auto type = MemType::get(layout.shape(), element, layout::MapAttr::get(b.getContext(), layout));
  return offset == 0 && type == memory.getType() ? memory : ViewOp::create(b, type, memory, offset).getResult();
}

Layout Exchanges::wholeInEachCta(ArrayRef<int64_t> shape, std::optional<unsigned> fastest,
                                 std::optional<unsigned> slowest) const {
  SmallVector<int32_t> order;
  if (fastest)
    order.push_back(*fastest);
  for (int32_t dim = int32_t(shape.size()) - 1; dim >= 0; --dim)
    if (!(fastest && dim == int32_t(*fastest)) && !(slowest && dim == int32_t(*slowest)))
      order.push_back(dim);
  if (slowest)
    order.push_back(*slowest);
  return *layout::inCluster(layout::rowMajor(shape, order), ctas, /*split=*/std::nullopt);
}

Value Exchanges::allocate(Type element, const Layout &memory, bool mbarrier) {
  auto type = MemType::get(b.getContext(), memory.shape(), element, layout::MapAttr::get(b.getContext(), memory));
  auto alloc = AllocOp::create(b, type, /*offset=*/IntegerAttr());
  alloc.setMbarrier(mbarrier);
  return alloc;
}

void Exchanges::store(Value tile, Value memory) { LocalStoreOp::create(b, tile, memory); }
Value Exchanges::load(Value memory, Type type) { return LocalLoadOp::create(b, type, memory); }
Value Exchanges::load(Value memory, const Layout &layout) {
  return load(memory, tileType(cast<MemType>(memory.getType()).getElementType(), layout));
}

Value Exchanges::throughMemory(Value tile, const Layout &memory, const Layout &layout) {
  Value place = allocate(cast<RankedTensorType>(tile.getType()).getElementType(), memory);
  store(tile, place);
  return load(place, layout);
}

Value Exchanges::convert(Value tile, const Layout &layout) {
  const Layout &from = layoutOf(tile.getType());
  if (from == layout)
    return tile;
  Type element = cast<RankedTensorType>(tile.getType()).getElementType();
  int64_t bytes = tile::memoryBytes(element);
  layout::Conversion plan = planConversion(from, layout, bytes);
  if (plan.kind != layout::ConversionKind::Shared)
    return ConvertOp::create(b, tileType(element, layout), tile);
  layout::MatrixUse matrices{machine.has(Feature::MatrixStore), machine.has(Feature::MatrixLoad)};
  if (plan.crossesCtas)
    return throughMemory(tile, wholeInEachCta(layout.shape()), layout);
  return throughMemory(tile, layout::chooseMemory(from, layout, bytes, matrices), layout);
}

void Exchanges::copyCombine(Region &from, Region &to) {
  IRMapping map;
  from.cloneInto(&to, map);
  Operation *end = to.front().getTerminator();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(end);
  YieldOp::create(b, end->getLoc(), end->getOperands());
  end->erase();
}

void Exchanges::replace(Operation *op, ValueRange values) {
  op->replaceAllUsesWith(values);
  op->erase();
}

Layout kgpu::axisInWarp(const Layout &like, unsigned axis, int64_t vector) {
  unsigned rank = like.rank();
  layout::LayoutBuilder result(like.shape());
  SmallVector<int64_t> taken(rank, 0); // bits that groups and ctas occupy
  SmallVector<bool> oddTaken(rank, false);
  for (Coord coord : {Coord::Group, Coord::Cta})
    for (const Digit &digit : like.digits(coord)) {
      Digit kept{digit.radix, layout::Index(rank, 0)};
      int moves = 0, dim = 0;
      for (unsigned d = 0; d < rank; ++d)
        if (digit.basis[d] != 0) {
          ++moves;
          dim = d;
        }
      bool own = moves == 1 && dim != int(axis) && llvm::isPowerOf2_64(digit.basis[dim]);
      if (own && digit.radix == 2 && !(taken[dim] & digit.basis[dim])) {
        kept.basis = digit.basis;
        taken[dim] |= digit.basis[dim];
      } else if (own && digit.radix != 2 && !oddTaken[dim]) {
        kept.basis = digit.basis;
        oddTaken[dim] = true;
      }
      result[coord].push_back(kept);
    }
  // The bits of each dimension that remain to be placed.
  SmallVector<SmallVector<int64_t>> bits(rank);
  for (unsigned d = 0; d < rank; ++d)
    for (int64_t bit = 1; bit < layout::splitSide(like.shape()[d])->power; bit *= 2)
      if (!(taken[d] & bit))
        bits[d].push_back(bit);
  auto take = [&](Coord coord, unsigned dim, unsigned count) {
    for (unsigned i = 0; i < count && !bits[dim].empty(); ++i) {
      result.push(coord, 2, dim, bits[dim].front());
      bits[dim].erase(bits[dim].begin());
    }
  };
  auto fill = [&](Coord coord, bool withAxis) {
    unsigned wanted = llvm::Log2_64(like.size(coord));
    if (withAxis)
      take(coord, axis, wanted);
    for (unsigned d = rank; d-- > 0;)
      if (d != axis)
        take(coord, d, wanted - result[coord].size());
    result.replicate(coord, int64_t(1) << (wanted - result[coord].size()));
  };
  unsigned lanes = llvm::Log2_64(like.size(Coord::Lane)), onAxis = bits[axis].size();
  // Adjacent registers only if the remaining bits still fill all lanes.
  take(Coord::Reg, axis, onAxis > lanes ? std::min<unsigned>(llvm::Log2_64(vector), onAxis - lanes) : 0);
  fill(Coord::Lane, /*withAxis=*/true);
  fill(Coord::Warp, /*withAxis=*/false);
  for (unsigned d = rank; d-- > 0;) {
    take(Coord::Reg, d, bits[d].size());
    layout::Side side = *layout::splitSide(like.shape()[d]);
    if (side.odd > 1 && !oddTaken[d])
      result.push(Coord::Reg, side.odd, d, side.power);
  }
  return *result.finish();
}
