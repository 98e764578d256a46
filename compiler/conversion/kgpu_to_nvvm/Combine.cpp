#include "compiler/conversion/kgpu_to_nvvm/Combine.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

std::optional<SmallVector<AxisDigit>> nvvm::digitsAlong(const Layout &layout, unsigned axis) {
  SmallVector<AxisDigit> digits;
  for (Coord coord : {Coord::Reg, Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta}) {
    for (auto [index, digit] : llvm::enumerate(layout.digits(coord))) {
      if (digit.basis[axis] == 0)
        continue;
      for (auto [dim, step] : llvm::enumerate(digit.basis))
        if (dim != axis && step != 0)
          return std::nullopt;
      if (coord == Coord::Reg || coord == Coord::Lane)
        digits.push_back({coord, unsigned(index), digit.radix, digit.basis[axis]});
    }
  }
  llvm::sort(digits, [](const AxisDigit &a, const AxisDigit &b) {
    return std::tie(a.step, a.coord, a.index) < std::tie(b.step, b.coord, b.index);
  });
  for (auto [digit, next] : llvm::zip(digits, llvm::drop_begin(digits)))
    if (digit.step == next.step && digit.radix == next.radix)
      return std::nullopt;
  for (const AxisDigit &digit : digits)
    if (!llvm::isPowerOf2_64(digit.step))
      return std::nullopt;
  return digits;
}

static int64_t strideOf(const Layout &layout, unsigned digit) {
  int64_t stride = 1;
  for (unsigned i = 0; i < digit; ++i)
    stride *= layout.digits(Coord::Reg)[i].radix;
  return stride;
}

int64_t nvvm::digitOf(const Layout &layout, int64_t reg, unsigned digit) {
  return reg / strideOf(layout, digit) % layout.digits(Coord::Reg)[digit].radix;
}

int64_t nvvm::withDigit(const Layout &layout, int64_t reg, unsigned digit, int64_t value) {
  return reg + (value - digitOf(layout, reg, digit)) * strideOf(layout, digit);
}

Tuple nvvm::combine(Lowering &lowering, Region &region, const Tuple &a, const Tuple &b) {
  SmallVector<Value> arguments(a.begin(), a.end());
  llvm::append_range(arguments, b);
  return lowering.scalars.applyRegion(region, arguments);
}

Tuple nvvm::select(Lowering &lowering, Value condition, const Tuple &a, const Tuple &b) {
  Tuple result;
  for (auto [x, y] : llvm::zip(a, b))
    result.push_back(x == y ? x : arith::SelectOp::create(lowering.b, condition, x, y).getResult());
  return result;
}

Value nvvm::laneBit(Lowering &lowering, unsigned digit) {
  return lowering.place.atEntry([&]() -> Value {
    Value bit = arith::AndIOp::create(lowering.b, lowering.place.lane(), lowering.b.i32(int64_t(1) << digit));
    return arith::CmpIOp::create(lowering.b, arith::CmpIPredicate::ne, bit, lowering.b.i32(0));
  });
}
