// tile.scan inside a warp, kgpu.partial_scan and kgpu.add_prefix. Along the axis there are registers (fast ones), then
// lanes, then further registers; kiln-lower-exchanges has converted tiles to which this does not apply.
//
// Each thread scans its runs of fast registers. The totals of the runs are scanned over the lanes by butterfly shuffles
// (the region has no neutral element, so a flag tells a lane whether anything precedes it). The totals of whole warps
// pass from one slow register to the next. Then every element is combined with what precedes its run.
//
//     %s = tile.scan(%x) axis 0 { addi } : tensor<64xi32, blocked [64] vector 2 warps 1>
//   becomes, for lane 5, which holds x10 and x11,
//     %total = x10 + x11                                     the thread's run
//     five butterflies (distances 1, 2, 4, 8, 16)            %before = x0 + ... + x9, and a flag that it exists
//     %s0 = flag ? %before + x10 : x10     %s1 = flag ? %before + %total : %total
#include "compiler/conversion/kgpu_to_nvvm/Combine.h"
#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/kgpu/PartialLayout.h"
#include <map>

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

namespace {
class WarpScan {
public:
  WarpScan(Lowering &lowering, Operation *op, bool reverse, ArrayRef<AxisDigit> fast, ArrayRef<AxisDigit> lanes,
           ArrayRef<AxisDigit> slow)
      : lowering(lowering), op(op), reverse(reverse), layout(kgpu::layoutOf(op->getOperand(0).getType())), fast(fast),
        lanes(lanes), slow(slow) {}
  LogicalResult run();
  /// The sum over each run of fast and slow registers and lanes, by the run's first register.
  const std::map<int64_t, Tuple> &sums() const { return totals; }

private:
  /// What precedes a run, the run's sum, and `before`: whether anything precedes it (null: always).
  struct Run {
    Tuple carry, total;
    Value before;
  };
  /// a precedes b in the order of the scan.
  Tuple add(const Tuple &a, const Tuple &b) { return combine(lowering, op->getRegion(0), a, b); }
  /// The registers that differ from `reg` only in `digits`, in the order of the scan.
  SmallVector<int64_t> along(int64_t reg, ArrayRef<AxisDigit> digits);
  bool scanLanes(Run &run);

  Lowering &lowering;
  Operation *op;
  bool reverse;
  const Layout &layout;
  ArrayRef<AxisDigit> fast, lanes, slow;
  std::map<int64_t, Tuple> totals;
};
} // namespace

SmallVector<int64_t> WarpScan::along(int64_t reg, ArrayRef<AxisDigit> digits) {
  SmallVector<int64_t> registers = {reg};
  for (const AxisDigit &digit : digits) {
    SmallVector<int64_t> more;
    for (int64_t value = 0; value < digit.radix; ++value)
      for (int64_t known : registers)
        more.push_back(withDigit(layout, known, digit.index, value));
    registers = more;
  }
  if (reverse)
    std::reverse(registers.begin(), registers.end());
  return registers;
}

/// Exclusive scan of run.total over the lanes; run.total becomes the sum over all lanes.
bool WarpScan::scanLanes(Run &run) {
  CodeBuilder &b = lowering.b;
  for (const AxisDigit &digit : lanes) {
    Tuple other = shuffleXor(lowering, run.total, int64_t(1) << digit.index);
    Value upper = laneBit(lowering, digit.index);
    if (reverse)
      upper = arith::XOrIOp::create(b, upper, b.i1(true));
    Tuple both = add(select(lowering, upper, other, run.total), select(lowering, upper, run.total, other));
    if (both.empty())
      return false;
    if (run.carry.empty()) {
      run.carry = other;
      run.before = upper;
    } else {
      // In the upper half, the other half precedes this lane, and perhaps lanes of its own half too.
      Tuple joined = select(lowering, run.before, add(other, run.carry), other);
      run.carry = select(lowering, upper, joined, run.carry);
      run.before = arith::OrIOp::create(b, run.before, upper);
    }
    run.total = both;
  }
  return true;
}

LogicalResult WarpScan::run() {
  unsigned operands = op->getNumOperands();
  SmallVector<Tuple> elements(layout.registers());
  for (int64_t reg = 0; reg < layout.registers(); ++reg)
    for (unsigned i = 0; i < operands; ++i)
      elements[reg].push_back(lowering.get(op->getOperand(i))[reg]);
  auto isFirst = [&](int64_t reg, ArrayRef<AxisDigit> digits) {
    return llvm::all_of(digits, [&](const AxisDigit &d) { return digitOf(layout, reg, d.index) == 0; });
  };
  for (int64_t row = 0; row < layout.registers(); ++row) {
    if (!isOwnerRegister(layout, row) || !isFirst(row, fast) || !isFirst(row, slow))
      continue;
    Tuple sum; // over the slow registers so far
    for (int64_t start : along(row, slow)) {
      SmallVector<int64_t> registers = along(start, fast);
      for (size_t i = 1; i < registers.size(); ++i) {
        elements[registers[i]] = add(elements[registers[i - 1]], elements[registers[i]]);
        if (elements[registers[i]].empty())
          return failure();
      }
      Run run;
      run.total = elements[registers.back()];
      if (!scanLanes(run))
        return failure();
      Tuple carry = run.carry;
      Value before = run.before;
      if (!sum.empty()) {
        carry = run.carry.empty() ? sum : select(lowering, run.before, add(sum, run.carry), sum);
        before = Value();
      }
      if (!carry.empty())
        for (int64_t reg : registers) {
          Tuple joined = add(carry, elements[reg]);
          elements[reg] = before ? select(lowering, before, joined, elements[reg]) : joined;
        }
      sum = sum.empty() ? run.total : add(sum, run.total);
    }
    totals[row] = sum;
  }
  for (unsigned i = 0; i < operands; ++i) {
    Registers result;
    for (int64_t reg = 0; reg < layout.registers(); ++reg)
      result.push_back(elements[ownerRegister(layout, reg)][i]);
    lowering.set(op->getResult(i), result);
  }
  return success();
}

static LogicalResult emitScan(Lowering &lowering, tile::ScanOp op) {
  const Layout &layout = kgpu::layoutOf(op.getOperand(0).getType());
  auto digits = digitsAlong(layout, op.getAxis());
  SmallVector<AxisDigit> fast, lanes, slow;
  bool inForm = digits.has_value();
  for (const AxisDigit &digit : digits ? ArrayRef(*digits) : ArrayRef<AxisDigit>()) {
    if (digit.coord == Coord::Lane) {
      inForm &= slow.empty();
      lanes.push_back(digit);
    } else {
      (lanes.empty() ? fast : slow).push_back(digit);
    }
  }
  for (Coord coord : {Coord::Warp, Coord::Group, Coord::Cta})
    for (const layout::Digit &digit : layout.digits(coord))
      inForm &= digit.basis[op.getAxis()] == 0;
  if (!inForm)
    return op.emitOpError("expected registers, then lanes, then registers along the axis (because kiln-lower-exchanges "
                          "converts to that order), got ")
           << op.getOperand(0).getType();
  return WarpScan(lowering, op, op.getReverse(), fast, lanes, slow).run();
}

/// A warp's smallest step along the axis. Registers that step further start new segments.
static int64_t leastWarpStep(const Layout &layout, unsigned axis) {
  int64_t least = INT64_MAX;
  for (const layout::Digit &digit : layout.digits(Coord::Warp))
    if (digit.basis[axis] != 0)
      least = std::min(least, digit.basis[axis]);
  return least;
}

static LogicalResult emitPartialScan(Lowering &lowering, kgpu::PartialScanOp op) {
  const Layout &layout = kgpu::layoutOf(op.getOperand(0).getType());
  int64_t lowestWarp = leastWarpStep(layout, op.getAxis());
  SmallVector<AxisDigit> fast, lanes, slow;
  auto digits = digitsAlong(layout, op.getAxis());
  for (const AxisDigit &digit : *digits) {
    if (digit.coord == Coord::Lane)
      lanes.push_back(digit);
    else if (digit.step < lowestWarp)
      (lanes.empty() ? fast : slow).push_back(digit);
  }
  WarpScan scan(lowering, op, op.getReverse(), fast, lanes, slow);
  if (failed(scan.run()))
    return failure();
  unsigned count = op.getNumOperands();
  for (unsigned i = 0; i < count; ++i) {
    const Layout &to = kgpu::layoutOf(op.getResult(count + i).getType());
    Registers owners;
    for (auto &[row, sum] : scan.sums())
      owners.push_back(sum[i]);
    lowering.set(op.getResult(count + i), fromOwners(to, owners));
  }
  return success();
}

static LogicalResult emitAddPrefix(Lowering &lowering, kgpu::AddPrefixOp op) {
  CodeBuilder &b = lowering.b;
  unsigned count = op.getNumResults(), axis = op.getAxis();
  const Layout &layout = kgpu::layoutOf(op.getOperand(0).getType());
  const Layout &scanned = kgpu::layoutOf(op.getOperand(count).getType());
  Layout segments = *kgpu::segmentSums(layout, axis);
  int64_t places = scanned.shape()[axis];
  // Lanes hold the low bits of a segment's number, registers the rest.
  int64_t inLanes = 1;
  for (const layout::Digit &digit : scanned.digits(Coord::Lane))
    inLanes *= digit.basis[axis] != 0 ? 2 : 1;
  auto rowOf = [&](layout::Index element) {
    element.erase(element.begin() + axis);
    return element;
  };
  // What precedes each segment of this thread, and whether anything does.
  SmallVector<std::pair<Tuple, Value>> before;
  for (int64_t segment = 0; segment < segments.registers(); ++segment) {
    Value place = lowering.coordinates.of(segments, segment, axis);
    Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, place, b.i32(op.getReverse() ? places - 1 : 0));
    place = arith::AddIOp::create(b, place, b.i32(op.getReverse() ? 1 : -1));
    Value lane = arith::AndIOp::create(b, place, b.i32(inLanes - 1));
    Tuple found;
    for (int64_t reg = 0; reg < scanned.registers(); ++reg) {
      layout::Index element = scanned.at(Coord::Reg, reg);
      if (!isOwnerRegister(scanned, reg) || rowOf(element) != rowOf(segments.at(Coord::Reg, segment)))
        continue;
      Tuple here;
      for (unsigned i = 0; i < count; ++i)
        here.push_back(lowering.get(op.getOperand(count + i))[reg]);
      here = shuffleFrom(lowering, here, lane);
      if (found.empty()) {
        found = here;
        continue;
      }
      Value from = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, place, b.i32(element[axis]));
      found = select(lowering, from, here, found);
    }
    before.push_back({found, any});
  }
  SmallVector<Registers> results(count, Registers(layout.registers()));
  int64_t lowestWarp = leastWarpStep(layout, axis);
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    // The segment of the register: the register of the sums with the same digits among those that were kept.
    int64_t segment = 0, stride = 1, rest = reg;
    for (const layout::Digit &digit : layout.digits(Coord::Reg)) {
      int64_t value = rest % digit.radix;
      rest /= digit.radix;
      if (digit.basis[axis] != 0 && digit.basis[axis] < lowestWarp)
        continue;
      segment += value * stride;
      stride *= digit.radix;
    }
    Tuple own;
    for (unsigned i = 0; i < count; ++i)
      own.push_back(lowering.get(op.getOperand(i))[reg]);
    Tuple joined = combine(lowering, op.getCombine(), before[segment].first, own);
    if (joined.empty())
      return failure();
    joined = select(lowering, before[segment].second, joined, own);
    for (unsigned i = 0; i < count; ++i)
      results[i][reg] = joined[i];
  }
  for (unsigned i = 0; i < count; ++i)
    lowering.set(op.getResult(i), results[i]);
  return success();
}

void nvvm::addScan(EmitTable &table) {
  table.add<tile::ScanOp, emitScan>();
  table.add<kgpu::PartialScanOp, emitPartialScan>();
  table.add<kgpu::AddPrefixOp, emitAddPrefix>();
}
