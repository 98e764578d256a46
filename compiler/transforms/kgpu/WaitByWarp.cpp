// kiln-wait-by-warp: where copies to a ring and loads from it are divided among warps in the same way, no warp waits
// for others.
//
// A layout is XOR-linear (dialects/layout/Layout.h). So if only the digits of a warp's number move certain bits of an
// element's place, and each digit moves bits of its own, these bits say which warp has the element. Copies and loads
// that agree about them give each warp the same elements, in whichever lanes and registers. (The odd factor of a side,
// if it has one, counts multiples of its power of two, so that its digits move no bit below that.)
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln {
#define GEN_PASS_DEF_WAITBYWARPPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

/// The bits of a place, dimension by dimension, that each digit of a warp's number moves.
using WarpBits = SmallVector<layout::Index, 4>;

static layout::Index common(const layout::Index &a, const layout::Index &b) {
  layout::Index bits;
  for (auto [x, y] : llvm::zip_equal(a, b))
    bits.push_back(x & y);
  return bits;
}

static bool isZero(const layout::Index &bits) {
  return llvm::all_of(bits, [](int64_t ofDimension) { return ofDimension == 0; });
}

static layout::Index allOf(const WarpBits &bits, unsigned rank) {
  layout::Index all(rank, 0);
  for (const layout::Index &ofDigit : bits)
    for (auto [into, more] : llvm::zip_equal(all, ofDigit))
      into |= more;
  return all;
}

/// Whether the bits say, by this layout, which warp has an element.
static bool isDividedBy(const Layout &layout, const WarpBits &bits) {
  layout::Index all = allOf(bits, layout.rank());
  ArrayRef<layout::Digit> warps = layout.digits(Coord::Warp);
  if (warps.size() != bits.size() || layout.size(Coord::Group) > 1 || layout.size(Coord::Cta) > 1)
    return false;
  for (auto [digit, own] : llvm::zip_equal(warps, bits))
    if (common(digit.basis, all) != own)
      return false;
  for (Coord coord : {Coord::Reg, Coord::Lane})
    for (const layout::Digit &digit : layout.digits(coord))
      if (!isZero(common(digit.basis, all)))
        return false;
  return true;
}

/// The bits that say which warp copies an element; std::nullopt if none do.
static std::optional<WarpBits> warpBitsOf(const Layout &copied) {
  WarpBits bits;
  for (const layout::Digit &digit : copied.digits(Coord::Warp)) {
    if (digit.replicates() || !isZero(common(digit.basis, allOf(bits, copied.rank()))))
      return std::nullopt;
    bits.push_back(digit.basis);
  }
  return isDividedBy(copied, bits) ? std::optional(bits) : std::nullopt;
}

namespace {
/// One part of a channel's slots: what fills and what reads it.
class Part {
public:
  Part(ChannelOp channel, unsigned index);
  /// Null if each warp reads only what it has copied; otherwise a copy or a read that stands in the way.
  Operation *inTheWay() const;

private:
  struct Read {
    Operation *op;
    SmallVector<int32_t> order; ///< dimension i of what is read is dimension order[i] of the part
  };
  void follow(Value view, ArrayRef<int32_t> order);

  SmallVector<Operation *> copies;
  SmallVector<Read> reads;
};
} // namespace

Part::Part(ChannelOp channel, unsigned index) {
  SmallVector<int32_t> order(channel.getType().getPart(index).getRank());
  llvm::copy(llvm::seq<int32_t>(order.size()), order.begin());
  for (Operation *user : channel->getUsers()) {
    if (auto acquire = dyn_cast<AcquireOp>(user))
      llvm::append_range(copies, acquire.getParts()[index].getUsers());
    if (auto receive = dyn_cast<ReceiveOp>(user))
      follow(receive.getParts()[index], order);
  }
}

void Part::follow(Value view, ArrayRef<int32_t> order) {
  for (Operation *user : view.getUsers()) {
    auto turned = dyn_cast<TransOp>(user);
    if (!turned) {
      reads.push_back({user, SmallVector<int32_t>(order)});
      continue;
    }
    SmallVector<int32_t> then;
    for (int32_t dim : turned.getOrder())
      then.push_back(order[dim]);
    follow(turned, then);
  }
}

Operation *Part::inTheWay() const {
  std::optional<WarpBits> bits;
  for (Operation *op : copies) {
    auto copy = dyn_cast<CopyTileOp>(op);
    auto pointers = copy ? dyn_cast<RankedTensorType>(copy.getPtr().getType()) : RankedTensorType();
    if (!pointers)
      return op;
    if (!bits)
      bits = warpBitsOf(layoutOf(pointers));
    if (!bits || !isDividedBy(layoutOf(pointers), *bits))
      return op;
  }
  for (const Read &read : reads) {
    auto load = dyn_cast<LocalLoadOp>(read.op);
    auto tile = load ? dyn_cast<RankedTensorType>(load.getType()) : RankedTensorType();
    if (!tile || !bits)
      return read.op;
    SmallVector<int32_t> back(read.order.size());
    for (auto [of, from] : llvm::enumerate(read.order))
      back[from] = int32_t(of);
    if (!isDividedBy(layoutOf(tile).transpose(back), *bits))
      return read.op;
  }
  return nullptr;
}

static void decide(ChannelOp channel) {
  for (unsigned index = 0; index < channel.getType().getParts().size(); ++index)
    if (Operation *op = Part(channel, index).inTheWay()) {
      op->emitRemark(
          "schedule lanes: warps wait for each other in each step, because not every warp reads what it alone "
          "has copied here");
      return;
    }
  for (Operation *user : channel->getUsers())
    if (auto receive = dyn_cast<ReceiveOp>(user); receive && !receive.use_empty())
      receive.setByWarp(true);
}

namespace {
struct WaitByWarp : kiln::impl::WaitByWarpPassBase<WaitByWarp> {
  void runOnOperation() override {
    for (auto channel : getOperation().getOps<ChannelOp>())
      if (channel.getWarpsApart())
        decide(channel);
  }
};
} // namespace
