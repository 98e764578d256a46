// Records which warp copies each element of a slot and looks up every element that a warp reads. Shares nothing with
// kiln-wait-by-warp, which compares digits of layouts.
#include "compiler/transforms/kgpu/VerifyWarpReads.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

namespace {
/// The warps that copy one part of a channel's slots.
class PartCopies {
public:
  PartCopies(MemType memory, unsigned index)
      : memory(memory), index(index), warps(ShapedType::getNumElements(memory.getShape()), -1),
        copies(warps.size(), nullptr) {}
  /// Fails if an element has two copiers, or if it is not known who copies what.
  LogicalResult add(Operation *op);
  /// Fails if a warp reads what it has not copied. Dimension i of `view` is dimension order[i] of the part.
  LogicalResult checkReads(Value view, ArrayRef<int32_t> order) const;

private:
  LogicalResult checkRead(Operation *op, ArrayRef<int32_t> order) const;
  int64_t numberOf(ArrayRef<int64_t> place) const {
    int64_t number = 0;
    for (auto [at, side] : llvm::zip_equal(place, memory.getShape()))
      number = number * side + at;
    return number;
  }

  MemType memory;
  unsigned index;
  SmallVector<int32_t> warps;      ///< by element; -1: none
  SmallVector<Operation *> copies; ///< by element
  SmallVector<Type, 2> seen;       ///< the tiles of pointers whose copies have been added
};
} // namespace

/// Calls `visit` with each warp's number, counted over groups and ctas, and each element that it has, until that fails.
static LogicalResult forEachHeld(const Layout &layout,
                                 llvm::function_ref<LogicalResult(int64_t warp, const layout::Index &element)> visit) {
  int64_t groups = layout.size(Coord::Group), warps = layout.size(Coord::Warp);
  for (int64_t number = 0; number < layout.size(Coord::Cta) * groups * warps; ++number) {
    layout::Index part =
        layout.combine(layout.at(Coord::Warp, number % warps), layout.at(Coord::Group, number / warps % groups));
    part = layout.combine(part, layout.at(Coord::Cta, number / warps / groups));
    for (int64_t lane = 0; lane < layout.size(Coord::Lane); ++lane) {
      layout::Index thread = layout.combine(part, layout.at(Coord::Lane, lane));
      for (int64_t reg = 0; reg < layout.registers(); ++reg)
        if (failed(visit(number, layout.combine(thread, layout.at(Coord::Reg, reg)))))
          return failure();
    }
  }
  return success();
}

static std::string listed(ArrayRef<int64_t> place) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  llvm::interleaveComma(place, stream);
  stream << "]";
  return text;
}

/// The tile, if it has a layout.
static RankedTensorType laidOut(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && tile.getEncoding() ? tile : RankedTensorType();
}

LogicalResult PartCopies::add(Operation *op) {
  auto copy = dyn_cast<CopyTileOp>(op);
  RankedTensorType tile = copy ? laidOut(copy.getPtr().getType()) : RankedTensorType();
  if (!tile)
    return op->emitOpError("expected a kgpu.copy_tile with a layout to fill slots that are received by_warp (because "
                           "the layout says which warp copies what), got another op or no layout");
  if (llvm::is_contained(seen, tile))
    return success();
  seen.push_back(tile);
  return forEachHeld(layoutOf(tile), [&](int64_t warp, const layout::Index &element) -> LogicalResult {
    int64_t number = numberOf(element);
    if (warps[number] >= 0 && warps[number] != warp) {
      InFlightDiagnostic error = op->emitOpError()
                                 << "expected one warp to copy each element (because its slot is received by_warp), "
                                    "got warps "
                                 << warps[number] << " and " << warp << " copying element " << listed(element)
                                 << " of part #" << index;
      if (copies[number] != op)
        error.attachNote(copies[number]->getLoc()) << "the other copy";
      return error;
    }
    warps[number] = int32_t(warp);
    copies[number] = op;
    return success();
  });
}

LogicalResult PartCopies::checkRead(Operation *op, ArrayRef<int32_t> order) const {
  auto load = dyn_cast<LocalLoadOp>(op);
  RankedTensorType tile = load ? laidOut(load.getType()) : RankedTensorType();
  if (!tile)
    return op->emitOpError("expected slots that are received by_warp to be read by a kgpu.local_load with a layout "
                           "(because the layout says which warp reads what), got another op or no layout");
  return forEachHeld(layoutOf(tile), [&](int64_t warp, const layout::Index &element) -> LogicalResult {
    layout::Index place(element.size(), 0);
    for (auto [dim, at] : llvm::zip_equal(order, element))
      place[dim] = at;
    int64_t number = numberOf(place);
    if (warps[number] == warp)
      return success();
    InFlightDiagnostic error =
        op->emitOpError() << "expected each warp to read only what it has copied (because the slot is received "
                             "by_warp, so no warp waits for the copies of others), got warp "
                          << warp << " reading element " << listed(place) << " of part #" << index << ", which "
                          << (warps[number] < 0 ? "none copies" : "warp " + std::to_string(warps[number]) + " copies");
    if (copies[number])
      error.attachNote(copies[number]->getLoc()) << "the copy";
    return error;
  });
}

LogicalResult PartCopies::checkReads(Value view, ArrayRef<int32_t> order) const {
  for (Operation *user : view.getUsers()) {
    auto turned = dyn_cast<TransOp>(user);
    SmallVector<int32_t> then;
    if (turned)
      for (int32_t dim : turned.getOrder())
        then.push_back(order[dim]);
    if (failed(turned ? checkReads(turned, then) : checkRead(user, order)))
      return failure();
  }
  return success();
}

LogicalResult kgpu::verifyWarpReads(ChannelOp channel) {
  SmallVector<AcquireOp> acquires;
  SmallVector<ReceiveOp> receives;
  for (Operation *user : channel->getUsers()) {
    if (auto acquire = dyn_cast<AcquireOp>(user))
      acquires.push_back(acquire);
    if (auto receive = dyn_cast<ReceiveOp>(user))
      receives.push_back(receive);
  }
  if (llvm::none_of(receives, [](ReceiveOp receive) { return receive.getByWarp(); }))
    return success();
  for (auto [index, part] : llvm::enumerate(channel.getType().getParts())) {
    auto memory = cast<MemType>(part);
    PartCopies copies(memory, index);
    for (AcquireOp acquire : acquires)
      for (Operation *user : acquire.getParts()[index].getUsers())
        if (failed(copies.add(user)))
          return failure();
    auto order = llvm::to_vector(llvm::seq<int32_t>(memory.getRank()));
    for (ReceiveOp receive : receives)
      if (failed(copies.checkReads(receive.getParts()[index], order)))
        return failure();
  }
  return success();
}
