// tile.scan whose axis leaves the warp, or is spread over it in another order than registers, lanes, registers.
#include "compiler/transforms/kgpu/Exchange.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

/// Registers, then lanes, then registers along the axis, each digit stepping along it alone by a power of two of its
/// own.
static bool scansInsideWarp(const Layout &layout, unsigned axis) {
  SmallVector<std::pair<int64_t, Coord>> steps;
  for (unsigned c = 0; c < layout::kNumCoords; ++c)
    for (const layout::Digit &digit : layout.digits(Coord(c))) {
      int64_t step = digit.basis[axis];
      if (step == 0)
        continue;
      if ((Coord(c) != Coord::Reg && Coord(c) != Coord::Lane) || !llvm::isPowerOf2_64(step))
        return false;
      for (auto [dim, other] : llvm::enumerate(digit.basis))
        if (dim != axis && other != 0)
          return false;
      for (auto [other, coord] : steps)
        if (other == step && digit.radix == 2)
          return false;
      steps.push_back({step, Coord(c)});
    }
  llvm::stable_sort(steps, [](auto &a, auto &b) { return a.first < b.first; });
  unsigned changes = 0;
  for (unsigned i = 0; i < steps.size(); ++i)
    if (steps[i].second == Coord::Lane && (i == 0 || steps[i - 1].second != Coord::Lane))
      ++changes;
  return changes <= 1;
}

static LogicalResult exchangeScan(Exchanges &exchanges, Operation *op) {
  auto scan = cast<tile::ScanOp>(op);
  const Layout layout = layoutOf(scan.getOperand(0).getType());
  if (scansInsideWarp(layout, scan.getAxis()))
    return success();
  Layout inside = axisInWarp(layout, scan.getAxis(), 4);
  SmallVector<Value> operands;
  SmallVector<Type> types;
  for (Value operand : scan.getOperands()) {
    operands.push_back(exchanges.convert(operand, inside));
    types.push_back(operands.back().getType());
  }
  auto moved = tile::ScanOp::create(exchanges.b, types, operands, scan.getAxis(), scan.getReverse());
  moved.getCombine().takeBody(scan.getCombine());
  SmallVector<Value> results;
  for (auto [result, original] : llvm::zip(moved.getResults(), scan.getResults()))
    results.push_back(exchanges.convert(result, layoutOf(original.getType())));
  exchanges.replace(op, results);
  return success();
}

void kgpu::addScanExchange(ExchangeTable &table) { table[tile::ScanOp::getOperationName()] = exchangeScan; }
