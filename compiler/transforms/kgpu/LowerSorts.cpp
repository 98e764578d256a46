// kiln-lower-sorts: lowers tile.sort and tile.topk to steps of a bitonic network. Elements become integers with the
// same order; a row is padded to a power of two with values that sort last. Steps stay inside a warp: a long row is
// spread over warps, and for strides between warps a conversion swaps warp digits with register digits. For the first k
// of a row, runs of k are sorted in alternating order, and pairs of runs are reduced to the first k of both until one
// run is left.
#include "compiler/transforms/kgpu/Exchange.h"
#include "compiler/transforms/kgpu/Passes.h"
#include "dialects/kgpu/PartialLayout.h"
#include "dialects/layout/Builder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln {
#define GEN_PASS_DEF_LOWERSORTSPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Digit;
using layout::Layout;

// A row of up to this many bits stays in one warp, even if other warps only replicate it: an exchange costs as much as
// the steps it saves.
static constexpr unsigned kWarpBits = 7;
// With up to this many register bits along a row, lanes are not taken from other rows for it.
static constexpr unsigned kRowRegisterBits = 4;

/// All strides below `side` along the rows stay inside a warp.
static bool comparesInWarp(const Layout &layout, int64_t side) {
  return stepsInWarp(layout, layout.rank() - 1, 1, side - 1);
}

static bool hasIdleWarps(const Layout &layout) {
  return llvm::any_of(layout.digits(Coord::Warp), [](const Digit &digit) { return digit.replicates(); });
}

/// A layout of rows over the threads of `like`: other dimensions go to ctas and warps first. The low bits of a row are
/// registers (most steps compare them), then lanes, then the warps that other dimensions leave idle, if the row is long
/// enough.
static Layout rowsLayout(ArrayRef<int64_t> shape, const Layout &like) {
  unsigned rank = shape.size(), axis = rank - 1;
  layout::LayoutBuilder result(shape);
  SmallVector<std::pair<unsigned, int64_t>> rows; // dimension and step of the bits of other dimensions, fastest first
  for (unsigned dim = axis; dim-- > 0;)
    for (int64_t step = 1; step < layout::splitSide(shape[dim])->power; step *= 2)
      rows.push_back({dim, step});
  unsigned length = llvm::Log2_64(shape[axis]);
  unsigned lanes = llvm::Log2_64(like.size(Coord::Lane)), warps = llvm::Log2_64(like.size(Coord::Warp));
  auto takeRows = [&](Coord coord, unsigned count) {
    for (; count > 0 && !rows.empty(); --count) {
      result.push(coord, 2, rows.back().first, rows.back().second);
      rows.pop_back();
    }
    return count;
  };
  auto replicate = [&](Coord coord, unsigned count) { result.replicate(coord, int64_t(1) << count); };
  replicate(Coord::Cta, takeRows(Coord::Cta, llvm::Log2_64(like.size(Coord::Cta))));
  for (const Digit &digit : like.digits(Coord::Group))
    result.replicate(Coord::Group, digit.radix);
  unsigned idle = takeRows(Coord::Warp, warps);
  unsigned between = std::min(idle, length > kWarpBits ? length - kWarpBits : 0);
  unsigned inWarp = length - between;
  unsigned forRows = std::min<unsigned>({unsigned(rows.size()), lanes, kRowRegisterBits});
  unsigned forRow = std::min(inWarp, lanes - forRows);
  // Rows with too many registers per lane get more lanes.
  while (inWarp - forRow > kRowRegisterBits && forRow < lanes)
    ++forRow;
  int64_t step = 1;
  for (unsigned i = 0; i < inWarp - forRow; ++i, step *= 2)
    result.push(Coord::Reg, 2, axis, step);
  for (unsigned i = 0; i < forRow; ++i, step *= 2)
    result.push(Coord::Lane, 2, axis, step);
  replicate(Coord::Lane, takeRows(Coord::Lane, lanes - forRow));
  for (unsigned i = 0; i < between; ++i, step *= 2)
    result.push(Coord::Warp, 2, axis, step);
  replicate(Coord::Warp, idle - between);
  takeRows(Coord::Reg, rows.size());
  for (unsigned dim = 0; dim < axis; ++dim)
    if (layout::Side side = *layout::splitSide(shape[dim]); side.odd > 1)
      result.push(Coord::Reg, side.odd, dim, side.power);
  return *result.finish();
}

/// `layout` with the warp digits along the rows swapped with digits inside the warp along the rows: register digits
/// from the slowest, then lane digits.
static Layout swapWarps(const Layout &layout) {
  unsigned axis = layout.rank() - 1;
  layout::LayoutBuilder result(layout);
  SmallVector<Digit *> inside;
  for (Coord coord : {Coord::Reg, Coord::Lane})
    for (Digit &digit : llvm::reverse(result[coord]))
      if (digit.basis[axis] != 0)
        inside.push_back(&digit);
  unsigned next = 0;
  for (Digit &digit : result[Coord::Warp])
    if (digit.basis[axis] != 0 && next < inside.size())
      std::swap(digit, *inside[next++]);
  return *result.finish();
}

namespace {
/// One sort or selection; most functions work on tiles of keys.
class Rows {
public:
  Rows(Exchanges &exchanges, Operation *op, bool descending, bool isUnsigned)
      : exchanges(exchanges), b(exchanges.b), op(op), descending(descending),
        type(cast<RankedTensorType>(op->getOperand(0).getType())), element(type.getElementType()),
        isUnsigned(isUnsigned || element.isInteger(1)) {
    unsigned bits = element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
    key = b.getIntegerType(bits);
  }
  void run();

private:
  unsigned axis() const { return type.getRank() - 1; }
  Value splat(Value like, const APInt &value) {
    auto tile = cast<RankedTensorType>(like.getType());
    return arith::ConstantOp::create(b, DenseElementsAttr::get(tile, value));
  }
  Value turnNegative(Value bits);
  Value toKeys(Value value);
  Value fromKeys(Value keys);
  Value place(Value keys, const Layout &layout);
  Value padded(Value keys, const Layout &layout);
  Value firstOf(Value keys, int64_t count, const Layout &layout);
  Value compare(Value keys, int64_t from, int64_t to, int64_t run);
  Value sorted(Value keys, int64_t upTo);
  Value selected(Value keys, int64_t block);
  Value reshaped(Value tile, ArrayRef<int64_t> shape);

  Exchanges &exchanges;
  ImplicitLocOpBuilder &b;
  Operation *op;
  bool descending;
  RankedTensorType type;
  Type element;
  bool isUnsigned;
  IntegerType key;
};
} // namespace

/// Maps a float's bits (sign and magnitude) to an integer of the same order. Its own inverse.
Value Rows::turnNegative(Value bits) {
  unsigned width = key.getWidth();
  Value sign = arith::ShRSIOp::create(b, bits, splat(bits, APInt(width, width - 1)));
  return arith::XOrIOp::create(b, bits, arith::AndIOp::create(b, sign, splat(bits, APInt::getSignedMaxValue(width))));
}

/// Every NaN becomes a positive one, the largest of all, as on the CPU.
Value Rows::toKeys(Value value) {
  auto keys = cast<RankedTensorType>(value.getType()).clone(key);
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, keys, value);
  auto floating = dyn_cast<FloatType>(element);
  if (!floating)
    return value;
  Value bits = arith::BitcastOp::create(b, keys, value);
  const llvm::fltSemantics &semantics = floating.getFloatSemantics();
  APInt largest = (APFloat::semanticsHasInf(semantics) ? APFloat::getInf(semantics) : APFloat::getLargest(semantics))
                      .bitcastToAPInt();
  Value magnitude = arith::AndIOp::create(b, bits, splat(bits, APInt::getSignedMaxValue(key.getWidth())));
  Value isNaN = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, magnitude, splat(bits, largest));
  return arith::SelectOp::create(b, isNaN, magnitude, turnNegative(bits));
}

Value Rows::fromKeys(Value keys) {
  auto values = cast<RankedTensorType>(keys.getType()).clone(element);
  if (element.isInteger(1))
    return arith::TruncIOp::create(b, values, keys);
  return isa<FloatType>(element) ? arith::BitcastOp::create(b, values, turnNegative(keys)).getResult() : keys;
}

/// Whether each element's position in its row is less than the row's original length.
Value Rows::place(Value keys, const Layout &layout) {
  int64_t length = type.getShape()[axis()];
  Layout around = layout;
  for (unsigned dim = 0; dim < axis(); ++dim)
    around = around.collapse(dim);
  around = around.withoutReplicatedRegisters();
  SmallVector<Layout, 4> steps = {around};
  while (steps.back().rank() > 1)
    steps.push_back(steps.back().slice(0));
  Value where = tile::MakeRangeOp::create(b, tileType(b.getI32Type(), steps.back()), 0, int32_t(layout.shape().back()));
  auto limit = DenseElementsAttr::get(cast<RankedTensorType>(where.getType()), APInt(32, uint64_t(length)));
  Value before =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, where, arith::ConstantOp::create(b, limit).getResult());
  for (const Layout &step : llvm::drop_begin(llvm::reverse(steps)))
    before = tile::ExpandDimsOp::create(b, tileType(b.getI1Type(), step), before, 0);
  auto whole = tileType(b.getI1Type(), layout);
  return before.getType() == whole ? before : tile::BroadcastOp::create(b, whole, before).getResult();
}

/// Pads rows to a power of two with keys that sort last, through memory whose slowest dimension is the row, so that the
/// existing part is a view.
Value Rows::padded(Value keys, const Layout &layout) {
  auto whole = exchanges.wholeInEachCta(layout.shape(), {}, axis());
  Value memory = exchanges.allocate(key, whole);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(keys.getType()).getShape();
  exchanges.store(keys, exchanges.view(memory, 0, exchanges.wholeInEachCta(shape, {}, axis())));
  Value loaded = exchanges.load(memory, layout);
  unsigned bits = key.getWidth();
  APInt last = isUnsigned ? (descending ? APInt::getZero(bits) : APInt::getMaxValue(bits))
                          : (descending ? APInt::getSignedMinValue(bits) : APInt::getSignedMaxValue(bits));
  return arith::SelectOp::create(b, place(loaded, layout), loaded, splat(loaded, last));
}

/// The first `count` of each row, in the same way.
Value Rows::firstOf(Value keys, int64_t count, const Layout &layout) {
  auto from = cast<RankedTensorType>(keys.getType());
  if (from.getShape()[axis()] == count)
    return exchanges.convert(keys, layout);
  Value memory = exchanges.allocate(key, exchanges.wholeInEachCta(from.getShape(), {}, axis()));
  exchanges.store(keys, memory);
  return exchanges.load(exchanges.view(memory, 0, exchanges.wholeInEachCta(layout.shape(), {}, axis())), layout);
}

Value Rows::compare(Value keys, int64_t from, int64_t to, int64_t run) {
  return CompareOp::create(b, keys.getType(), keys, int32_t(from), int32_t(to), int32_t(run), descending, isUnsigned);
}

/// Sorts runs of `upTo` elements in alternating order, the first run in the requested order.
Value Rows::sorted(Value keys, int64_t upTo) {
  const Layout home = layoutOf(keys.getType());
  int64_t between = upTo; // the smallest stride between warps
  for (const Digit &digit : home.digits(Coord::Warp))
    if (digit.basis[axis()] != 0)
      between = std::min(between, digit.basis[axis()]);
  std::optional<Layout> swapped;
  if (between < upTo)
    swapped = swapWarps(home);
  for (int64_t run = 2; run <= upTo; run *= 2) {
    if (run > between) {
      keys = exchanges.convert(keys, *swapped);
      keys = compare(keys, run / 2, between, run);
      keys = exchanges.convert(keys, home);
    }
    int64_t from = std::min(run, between) / 2;
    if (from > 0)
      keys = compare(keys, from, 1, run);
  }
  return keys;
}

Value Rows::reshaped(Value tile, ArrayRef<int64_t> shape) {
  const Layout &from = layoutOf(tile.getType());
  if (from.shape() == shape)
    return tile;
  return tile::ReshapeOp::create(b, tileType(key, *from.reshape(shape)), tile);
}

/// The first `block` of each row, sorted, from runs of `block`: of two runs in opposite order, the elementwise firsts
/// are the first `block` of both runs, and form a bitonic sequence.
Value Rows::selected(Value keys, int64_t block) {
  while (true) {
    SmallVector<int64_t> shape(layoutOf(keys.getType()).shape());
    int64_t side = shape.pop_back_val();
    if (side == block)
      return keys;
    SmallVector<int64_t> halves(shape), rows(shape);
    halves.append({side / (2 * block), 2, block});
    rows.push_back(side / 2);
    Value pairs = reshaped(keys, halves);
    unsigned between = halves.size() - 2;
    Layout left = layoutOf(pairs.getType()).slice(between);
    Type result = tileType(key, left);
    auto reduce = tile::ReduceOp::create(b, TypeRange(result), ValueRange(pairs), between);
    {
      OpBuilder::InsertionGuard guard(b);
      Block *body = b.createBlock(&reduce.getCombine(), {}, {key, key}, {b.getLoc(), b.getLoc()});
      Value x = body->getArgument(0), y = body->getArgument(1), first;
      if (isUnsigned)
        first = descending ? arith::MaxUIOp::create(b, x, y).getResult() : arith::MinUIOp::create(b, x, y).getResult();
      else
        first = descending ? arith::MaxSIOp::create(b, x, y).getResult() : arith::MinSIOp::create(b, x, y).getResult();
      tile::YieldOp::create(b, first);
    }
    keys = reshaped(reduce.getResult(0), rows);
    if (block > 1)
      keys = compare(keys, block / 2, 1, block);
  }
}

void Rows::run() {
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  int64_t length = type.getShape()[axis()], wanted = result.getShape()[axis()];
  int64_t side = llvm::PowerOf2Ceil(length), block = llvm::PowerOf2Ceil(wanted);
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = side;
  const Layout &given = layoutOf(type);
  Value keys = toKeys(op->getOperand(0));
  // Selecting only compares runs of `block`: the layout of the rest of a row does not matter to it.
  bool stays =
      side == length && comparesInWarp(given, block) && (side <= int64_t(1) << kWarpBits || !hasIdleWarps(given));
  Layout home = stays ? given : rowsLayout(shape, given);
  if (!stays && block < side && !comparesInWarp(home, block))
    block = side;
  keys = side == length ? exchanges.convert(keys, home) : padded(keys, home);
  keys = sorted(keys, block);
  keys = block < side ? selected(keys, block) : keys;
  exchanges.replace(op, fromKeys(firstOf(keys, wanted, layoutOf(result))));
}

namespace {
struct LowerSorts : kiln::impl::LowerSortsPassBase<LowerSorts> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    Exchanges exchanges(function);
    SmallVector<Operation *> found;
    function.walk([&](Operation *op) {
      if (isa<tile::SortOp, tile::TopkOp>(op))
        found.push_back(op);
    });
    for (Operation *op : found) {
      exchanges.b.setInsertionPoint(op);
      exchanges.b.setLoc(op->getLoc());
      if (auto sort = dyn_cast<tile::SortOp>(op))
        Rows(exchanges, op, sort.getDescending(), sort.getIsUnsigned()).run();
      else if (auto topk = dyn_cast<tile::TopkOp>(op))
        Rows(exchanges, op, !topk.getAscending(), topk.getIsUnsigned()).run();
    }
  }
};
} // namespace
