// tile.gather inside a warp: renamed registers where indices are known, selects between registers and shuffles where
// they are data. kiln-lower-exchanges has sent other gathers through shared memory (kgpu.local_gather).
//
//     %y = tile.gather %x[%i] 0 : tensor<64xf32, blocked [64] vector 2>, tensor<64xi32, ...>
//   becomes, for each index i that a thread holds,
//     %a = shfl.sync.idx(x0, i / 2)     %b = shfl.sync.idx(x1, i / 2)     y = i & 1 ? %b : %a
//   and with the known indices 63, 62, ..., 0 (i ^ 63):
//     y0 = shfl.sync.bfly(x1, 31)       y1 = shfl.sync.bfly(x0, 31)
#include "compiler/conversion/kgpu_to_nvvm/Combine.h"
#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"
#include "dialects/kgpu/GatherLayout.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using kgpu::GatherKind;
using layout::Coord;
using layout::Layout;

namespace {
class Gathering {
public:
  Gathering(Lowering &lowering, tile::GatherOp op)
      : lowering(lowering), b(lowering.b), op(op), source(kgpu::layoutOf(op.getSource().getType())),
        layout(kgpu::layoutOf(op.getIndices().getType())), axis(op.getAxis()), from(lowering.get(op.getSource())) {
    if (auto attr = op->getAttrOfType<DenseI32ArrayAttr>(kgpu::kKnownIndicesAttrName))
      known = attr.asArrayRef();
  }
  LogicalResult run();

private:
  /// The source's registers in the row of a register of the result, each with its place along the axis.
  SmallVector<std::pair<int64_t, int64_t>> rowOf(int64_t reg);
  Value index(int64_t reg);
  Value bitOf(Value index, int64_t step);
  Value choose(ArrayRef<std::pair<int64_t, int64_t>> row, ArrayRef<Value> values, Value index);
  Value flipped(int64_t reg);
  Value shuffled(int64_t reg);

  Lowering &lowering;
  CodeBuilder &b;
  tile::GatherOp op;
  const Layout &source, &layout;
  unsigned axis;
  ArrayRef<Value> from;
  ArrayRef<int32_t> known;
};
} // namespace

SmallVector<std::pair<int64_t, int64_t>> Gathering::rowOf(int64_t reg) {
  layout::Index wanted = layout.at(Coord::Reg, reg);
  SmallVector<std::pair<int64_t, int64_t>> row;
  for (int64_t other : ownerRegisters(source)) {
    layout::Index at = source.at(Coord::Reg, other);
    int64_t place = at[axis];
    at[axis] = wanted[axis];
    if (at == wanted)
      row.push_back({place, other});
  }
  llvm::sort(row);
  return row;
}

/// The index as i32, masked to bits within the axis: an index outside gives some element.
Value Gathering::index(int64_t reg) {
  Value value = lowering.get(op.getIndices())[reg];
  unsigned bits = value.getType().getIntOrFloatBitWidth();
  if (bits > 32)
    return arith::TruncIOp::create(b, b.getI32Type(), value);
  return bits < 32 ? arith::ExtUIOp::create(b, b.getI32Type(), value).getResult() : value;
}

Value Gathering::bitOf(Value index, int64_t step) {
  Value bit = arith::AndIOp::create(b, index, lowering.b.i32(step));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, lowering.b.i32(0));
}

/// The value whose place matches the index's bits along the axis (those that registers hold).
Value Gathering::choose(ArrayRef<std::pair<int64_t, int64_t>> row, ArrayRef<Value> values, Value index) {
  int64_t within = 0;
  for (auto [place, reg] : row)
    within |= place;
  bool bits = llvm::isPowerOf2_64(row.size()) && int64_t(1) << llvm::popcount(uint64_t(within)) == int64_t(row.size());
  if (!bits) {
    // Places along an odd side, in order: one comparison for each but the first.
    Value result = values.front();
    for (auto [entry, value] : llvm::drop_begin(llvm::zip(row, values))) {
      Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, index, lowering.b.i32(entry.first));
      result = arith::SelectOp::create(b, here, value, result);
    }
    return result;
  }
  // Rows are sorted by place: neighbours differ in the lowest remaining bit.
  SmallVector<Value> candidates(values);
  for (int64_t step = 1; candidates.size() > 1; step *= 2) {
    if (!(within & step))
      continue;
    Value set = bitOf(index, step);
    SmallVector<Value> half;
    for (size_t i = 0; i < candidates.size(); i += 2)
      half.push_back(arith::SelectOp::create(b, set, candidates[i + 1], candidates[i]));
    candidates = half;
  }
  return candidates.front();
}

Value Gathering::shuffled(int64_t reg) {
  Value wanted = index(reg), lane = lowering.place.lane();
  int64_t mask = 0;
  Value asked;
  for (auto [digit, step] : kgpu::gatherDigits(source, axis).lanes) {
    mask |= int64_t(1) << digit;
    int64_t shift = int64_t(llvm::Log2_64(step)) - digit;
    Value bit = arith::AndIOp::create(b, wanted, lowering.b.i32(step));
    if (shift > 0)
      bit = arith::ShRUIOp::create(b, bit, lowering.b.i32(shift));
    else if (shift < 0)
      bit = arith::ShLIOp::create(b, bit, lowering.b.i32(-shift));
    asked = asked ? arith::OrIOp::create(b, asked, bit).getResult() : bit;
  }
  if (mask != 31)
    asked = arith::OrIOp::create(b, asked, arith::AndIOp::create(b, lane, lowering.b.i32(31 & ~mask)));
  auto row = rowOf(reg);
  Registers sent;
  for (auto [place, other] : row)
    sent.push_back(from[other]);
  return choose(row, shuffleFrom(lowering, sent, asked), wanted);
}

/// If source and indices have one layout: the register that differs from `reg` in the flipped bits that registers hold.
Value Gathering::flipped(int64_t reg) {
  int64_t flip = known.front(), other = reg;
  for (auto [digit, step] : kgpu::gatherDigits(source, axis).registers)
    if (flip & step)
      other = withDigit(source, other, digit, 1 - digitOf(source, other, digit));
  return from[other];
}

LogicalResult Gathering::run() {
  GatherKind kind = kgpu::gatherKind(source, layout, axis, known);
  if (kind == GatherKind::Memory)
    return op.emitOpError("expected an axis within one warp (because kiln-lower-exchanges takes others through shared "
                          "memory), got ")
           << op.getSource().getType();
  // If the result's lanes do not differ along the axis, known indices determine registers.
  bool named = !known.empty() && kgpu::gatherDigits(layout, axis).lanes.empty();
  Registers values;
  for (int64_t reg : ownerRegisters(layout)) {
    if (kind == GatherKind::Flip) {
      values.push_back(flipped(reg));
      continue;
    }
    if (kind == GatherKind::Shuffle) {
      values.push_back(shuffled(reg));
      continue;
    }
    auto row = rowOf(reg);
    if (named) {
      int64_t wanted = known[layout.at(Coord::Reg, reg)[axis]];
      values.push_back(from[llvm::find_if(row, [&](auto &entry) { return entry.first == wanted; })->second]);
      continue;
    }
    Registers choices;
    for (auto [place, other] : row)
      choices.push_back(from[other]);
    values.push_back(choose(row, choices, index(reg)));
  }
  if (kind == GatherKind::Flip) {
    int64_t distance = 0;
    for (auto [digit, step] : kgpu::gatherDigits(source, axis).lanes)
      distance |= known.front() & step ? int64_t(1) << digit : 0;
    if (distance)
      values = shuffleXor(lowering, values, distance);
  }
  lowering.set(op.getResult(), fromOwners(layout, values));
  return success();
}

static LogicalResult emitGather(Lowering &lowering, tile::GatherOp op) { return Gathering(lowering, op).run(); }

void nvvm::addGather(EmitTable &table) { table.add<tile::GatherOp, emitGather>(); }
