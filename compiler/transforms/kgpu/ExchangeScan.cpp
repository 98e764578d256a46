// tile.scan whose axis leaves the warp, or is not spread over it in the order registers, lanes, registers.
//
//     %s = tile.scan(%x) axis 0 { addi } : tensor<1024xi32, blocked [1024] vector 4 warps 4>
//   becomes, with a segment per warp and register run,
//     %0, %sums = kgpu.partial_scan(%x) axis 0 { addi } : ... -> tensor<1024xi32, ...>, tensor<8xi32, one per segment>
//     %1 = ... kgpu.local_store %sums, kgpu.local_load -> tensor<8xi32, blocked [8] vector 1 warps 4>
//     %2 = tile.scan(%1) axis 0 { addi }
//     %s = kgpu.add_prefix(%0, %2) axis 0 { addi }
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/kgpu/PartialLayout.h"
#include "dialects/layout/Constructors.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

/// The axis goes over registers, then lanes, then registers, and each digit along it steps along no other dimension, by
/// a power of two that no other digit has.
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
  llvm::sort(steps);
  unsigned changes = 0;
  for (unsigned i = 0; i < steps.size(); ++i)
    if (steps[i].second == Coord::Lane && (i == 0 || steps[i - 1].second != Coord::Lane))
      ++changes;
  return changes <= 1;
}

/// The axis is fastest in every coordinate: registers, lanes, warps, registers.
static Layout axisFirst(const Layout &like, unsigned axis) {
  SmallVector<int32_t> order = {int32_t(axis)};
  for (int32_t dim = int32_t(like.rank()) - 1; dim >= 0; --dim)
    if (dim != int32_t(axis))
      order.push_back(dim);
  return layout::blocked(like.shape(), order, 4, layout::threadsOf(like));
}

/// Each warp scans its segments; their sums cross the warps once; each warp scans those and adds the preceding sum.
static SmallVector<Value> scanAcrossWarps(Exchanges &exchanges, tile::ScanOp scan, ArrayRef<Value> operands) {
  unsigned axis = scan.getAxis(), count = operands.size();
  Layout sums = *segmentSums(layoutOf(operands.front().getType()), axis);
  SmallVector<Type> types;
  for (Value operand : operands)
    types.push_back(operand.getType());
  for (Value operand : operands)
    types.push_back(tileType(cast<RankedTensorType>(operand.getType()).getElementType(), sums));
  auto partial = PartialScanOp::create(exchanges.b, types, operands, axis, scan.getReverse());
  exchanges.copyCombine(scan.getCombine(), partial.getCombine());
  SmallVector<Value> places, loaded;
  for (Value sum : partial.getResults().drop_front(count)) {
    Type element = cast<RankedTensorType>(sum.getType()).getElementType();
    places.push_back(exchanges.allocate(element, exchanges.wholeInEachCta(sums.shape(), axis)));
    exchanges.store(sum, places.back());
  }
  for (Value place : places)
    loaded.push_back(exchanges.load(place, scannedSums(sums, axis)));
  auto whole = tile::ScanOp::create(exchanges.b, TypeRange(ValueRange(loaded)), loaded, axis, scan.getReverse());
  IRMapping map;
  scan.getCombine().cloneInto(&whole.getCombine(), map);
  SmallVector<Value> both(partial.getResults().take_front(count));
  llvm::append_range(both, whole.getResults());
  auto result = AddPrefixOp::create(exchanges.b, TypeRange(ValueRange(operands)), both, axis, scan.getReverse());
  exchanges.copyCombine(scan.getCombine(), result.getCombine());
  return SmallVector<Value>(result.getResults());
}

static LogicalResult exchangeScan(Exchanges &exchanges, Operation *op) {
  auto scan = cast<tile::ScanOp>(op);
  unsigned axis = scan.getAxis();
  Layout layout = layoutOf(scan.getOperand(0).getType());
  if (scansInsideWarp(layout, axis))
    return success();
  // If the axis is too short to fill the lanes, rows fill them, inside one warp.
  bool across = segmentSums(layout, axis).has_value();
  if (!across) {
    layout = axisFirst(layout, axis);
    across = segmentSums(layout, axis).has_value();
  }
  if (!across)
    layout = axisInWarp(layout, axis, 4);
  SmallVector<Value> operands, results;
  for (Value operand : scan.getOperands())
    operands.push_back(exchanges.convert(operand, layout));
  if (across) {
    results = scanAcrossWarps(exchanges, scan, operands);
  } else {
    auto moved = tile::ScanOp::create(exchanges.b, TypeRange(ValueRange(operands)), operands, axis, scan.getReverse());
    moved.getCombine().takeBody(scan.getCombine());
    results.assign(moved.getResults().begin(), moved.getResults().end());
  }
  for (auto [result, original] : llvm::zip(results, scan.getResults()))
    result = exchanges.convert(result, layoutOf(original.getType()));
  exchanges.replace(op, results);
  return success();
}

void kgpu::addScanExchange(ExchangeTable &table) { table[tile::ScanOp::getOperationName()] = exchangeScan; }
