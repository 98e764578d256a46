// tile.reduce inside a warp, and kgpu.partial_reduce: first the registers of each thread, then lanes by butterfly
// shuffles.
//
// The region is associative; it counts as commutative only if it is recognised as such. In both cases registers are
// combined in the order of the axis (in up to four parallel runs, to hide the latency of the chain). Where order
// matters, lanes select which side comes first, and registers that step over lanes are combined after the lanes.
//
//     %s = tile.reduce(%x) axis 0 { addf } : (tensor<512xf32, blocked [512] vector 4 warps 1>) -> f32
//   becomes, for the 16 elements that each thread holds,
//     %a = x0 + x1 + x2 + x3   %b = x4 + ... + x7   %c = x8 + ... + x11   %d = x12 + ... + x15     four chains
//     %0 = (%a + %b) + (%c + %d)
//     %1 = %0 + shfl.sync.bfly(%0, 1)     then likewise with 2, 4, 8 and 16: every lane has the sum
#include "compiler/conversion/kgpu_to_nvvm/Combine.h"
#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"
#include "dialects/kgpu/Combine.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

namespace {
/// One reduction: tuples by register of the operand's layout, combined until only the results are left.
class WarpReduction {
public:
  WarpReduction(Lowering &lowering, Operation *op, Region &region, unsigned axis, bool partialOrdered)
      : lowering(lowering), op(op), region(region), layout(kgpu::layoutOf(op->getOperand(0).getType())), axis(axis),
        commutative(kgpu::isCommutative(region)), partialOrdered(partialOrdered) {}

  /// Returns false after reporting an error.
  bool run();
  /// The remaining registers, in ascending order, with the tuple that each holds.
  const std::map<int64_t, Tuple> &left() const { return tuples; }

private:
  bool reduceRegisters(ArrayRef<AxisDigit> digits);
  /// `first` and all registers that differ from it only in `digits`, in the order of the axis.
  SmallVector<int64_t> runFrom(int64_t first, ArrayRef<AxisDigit> digits);
  bool comparePairs(ArrayRef<AxisDigit> digits);
  bool reduceLane(unsigned digit);
  bool reduceByRedux();
  Tuple reduceRun(ArrayRef<Tuple> run);

  Lowering &lowering;
  Operation *op;
  Region &region;
  const Layout &layout;
  unsigned axis;
  bool commutative, partialOrdered;
  std::map<int64_t, Tuple> tuples;
};
} // namespace

Tuple WarpReduction::reduceRun(ArrayRef<Tuple> run) {
  Tuple sum = run.front();
  for (const Tuple &next : run.drop_front()) {
    if (sum.empty())
      return sum;
    sum = combine(lowering, region, sum, next);
  }
  return sum;
}

SmallVector<int64_t> WarpReduction::runFrom(int64_t first, ArrayRef<AxisDigit> digits) {
  SmallVector<int64_t> registers = {first};
  for (const AxisDigit &digit : digits) {
    SmallVector<int64_t> more;
    for (int64_t value = 0; value < digit.radix; ++value)
      for (int64_t known : registers)
        more.push_back(withDigit(layout, known, digit.index, value));
    registers = more;
  }
  return registers;
}

/// The extremum of values widened from 16 bits is the widened extremum of the narrow values, which are compared in
/// pairs:
///
///     max(extf(a), extf(b), extf(c), extf(d))  ->  extf(max of both halves of max.f16x2({a, b}, {c, d}))
///
/// False if this is not such a reduction.
bool WarpReduction::comparePairs(ArrayRef<AxisDigit> digits) {
  Operation *compare = kgpu::singleOp(region);
  auto widen = op->getOperand(0).getDefiningOp<arith::ExtFOp>();
  if (!isa_and_nonnull<arith::MaxNumFOp, arith::MinNumFOp, arith::MaximumFOp, arith::MinimumFOp>(compare) || !widen)
    return false;
  Type narrow = elementOf(widen.getIn());
  if (!(narrow.isF16() || narrow.isBF16()) || kgpu::layoutOf(widen.getIn().getType()) != layout)
    return false;
  CodeBuilder &b = lowering.b;
  auto compared = [&](Value left, Value right) {
    Operation *one = compare->clone();
    one->setOperands({left, right});
    one->getResult(0).setType(left.getType());
    one->setLoc(b.getLoc());
    return b.insert(one)->getResult(0);
  };
  ArrayRef<Value> registers = lowering.get(widen.getIn());
  std::map<int64_t, Tuple> result;
  for (auto &entry : tuples) {
    int64_t first = entry.first;
    if (!llvm::all_of(digits, [&](const AxisDigit &d) { return digitOf(layout, first, d.index) == 0; }))
      continue;
    SmallVector<int64_t> run = runFrom(first, digits);
    if (run.size() < 4 || run.size() % 2 != 0)
      return false;
    SmallVector<Value> pairs;
    for (size_t i = 0; i < run.size(); i += 2) {
      Value pair = b.zero(VectorType::get({2}, narrow));
      for (size_t half : {0, 1})
        pair = LLVM::InsertElementOp::create(b, pair, registers[run[i + half]], b.i32(half));
      pairs.push_back(pair);
    }
    while (pairs.size() > 1) {
      SmallVector<Value> fewer;
      for (size_t i = 0; i + 1 < pairs.size(); i += 2)
        fewer.push_back(compared(pairs[i], pairs[i + 1]));
      if (pairs.size() % 2 != 0)
        fewer.push_back(pairs.back());
      pairs = std::move(fewer);
    }
    Value halves[] = {LLVM::ExtractElementOp::create(b, pairs.front(), b.i32(0)),
                      LLVM::ExtractElementOp::create(b, pairs.front(), b.i32(1))};
    Value wide = arith::ExtFOp::create(b, elementOf(op->getOperand(0)), compared(halves[0], halves[1]));
    result[first] = {wide};
  }
  tuples = std::move(result);
  return true;
}

/// Combines all registers that differ only in `digits` (steps ascending: the order of the axis).
bool WarpReduction::reduceRegisters(ArrayRef<AxisDigit> digits) {
  if (digits.empty())
    return true;
  std::map<int64_t, Tuple> result;
  for (auto &entry : tuples) {
    int64_t reg = entry.first;
    bool first = llvm::all_of(digits, [&](const AxisDigit &d) { return digitOf(layout, reg, d.index) == 0; });
    if (!first)
      continue;
    SmallVector<Tuple> run = llvm::map_to_vector(runFrom(reg, digits), [&](int64_t r) { return tuples.at(r); });
    // Parallel chains hide latency; chains rather than pairs let products fuse with sums.
    size_t ways = run.size() >= 8 ? 4 : run.size() >= 4 ? 2 : 1;
    SmallVector<Tuple> parts;
    for (size_t way = 0; way < ways; ++way) {
      size_t begin = run.size() * way / ways, end = run.size() * (way + 1) / ways;
      parts.push_back(reduceRun(ArrayRef(run).slice(begin, end - begin)));
    }
    while (parts.size() > 1) {
      SmallVector<Tuple> halves;
      for (size_t i = 0; i + 1 < parts.size(); i += 2)
        halves.push_back(reduceRun({parts[i], parts[i + 1]}));
      parts = halves;
    }
    if (parts.front().empty())
      return false;
    result[reg] = parts.front();
  }
  tuples = std::move(result);
  return true;
}

/// Combines pairs of lanes that differ in one bit.
bool WarpReduction::reduceLane(unsigned digit) {
  SmallVector<Value> flat;
  for (auto &[reg, tuple] : tuples)
    llvm::append_range(flat, tuple);
  Registers others = shuffleXor(lowering, flat, int64_t(1) << digit);
  Value upper = commutative ? Value() : laneBit(lowering, digit);
  size_t next = 0;
  for (auto &[reg, tuple] : tuples) {
    Tuple other(ArrayRef(others).slice(next, tuple.size()));
    next += tuple.size();
    if (commutative)
      tuple = combine(lowering, region, tuple, other);
    else
      tuple = combine(lowering, region, select(lowering, upper, other, tuple), select(lowering, upper, tuple, other));
    if (tuple.empty())
      return false;
  }
  return true;
}

/// Combines all lanes in one instruction, if the machine has one for this region. Returns false if not.
bool WarpReduction::reduceByRedux() {
  Operation *only = kgpu::singleOp(region);
  if (!only)
    return false;
  Type type = only->getResult(0).getType();
  StringRef name = llvm::TypeSwitch<Operation *, StringRef>(only)
                       .Case<arith::AddIOp>([](auto) { return "add"; })
                       .Case<arith::MaxSIOp>([](auto) { return "max"; })
                       .Case<arith::MinSIOp>([](auto) { return "min"; })
                       .Case<arith::MaxUIOp>([](auto) { return "umax"; })
                       .Case<arith::MinUIOp>([](auto) { return "umin"; })
                       .Case<arith::AndIOp>([](auto) { return "and"; })
                       .Case<arith::OrIOp>([](auto) { return "or"; })
                       .Case<arith::XOrIOp>([](auto) { return "xor"; })
                       .Case<arith::MaxNumFOp>([](auto) { return "fmax"; })
                       .Case<arith::MinNumFOp>([](auto) { return "fmin"; })
                       .Case<arith::MaximumFOp>([](auto) { return "fmax.NaN"; })
                       .Case<arith::MinimumFOp>([](auto) { return "fmin.NaN"; })
                       .Default(StringRef());
  bool integer = type.isInteger(32) && lowering.target.has(Feature::Redux);
  bool floating = type.isF32() && lowering.target.has(Feature::ReduxF32);
  if (name.empty() || !(integer || floating))
    return false;
  for (auto &[reg, tuple] : tuples)
    tuple[0] = lowering.b.intrinsic(("llvm.nvvm.redux.sync." + name).str(), type, {tuple[0], lowering.b.i32(-1)});
  return true;
}

bool WarpReduction::run() {
  auto digits = digitsAlong(layout, axis);
  if (!digits) {
    op->emitOpError("expected a layout whose digits along the axis step along no other (because kiln-lower-exchanges "
                    "converts to one), got ")
        << op->getOperand(0).getType();
    return false;
  }
  // Ordered: registers that step over other warps' elements are kept, as places of the partial result.
  if (partialOrdered) {
    int64_t lowest = INT64_MAX;
    for (Coord coord : {Coord::Warp, Coord::Group, Coord::Cta})
      for (const layout::Digit &digit : layout.digits(coord))
        if (digit.basis[axis] != 0)
          lowest = std::min(lowest, digit.basis[axis]);
    llvm::erase_if(*digits, [&](const AxisDigit &digit) { return digit.step > lowest; });
  }
  unsigned operands = op->getNumOperands();
  for (int64_t reg = 0; reg < layout.registers(); ++reg) {
    if (!isOwnerRegister(layout, reg))
      continue;
    Tuple &tuple = tuples[reg];
    for (unsigned i = 0; i < operands; ++i)
      tuple.push_back(lowering.get(op->getOperand(i))[reg]);
  }
  SmallVector<AxisDigit> registers, lanes;
  for (const AxisDigit &digit : *digits)
    (digit.coord == Coord::Reg ? registers : lanes).push_back(digit);
  bool registersFirst = lanes.empty() || registers.empty() || registers.back().step < lanes.front().step;
  if (commutative || registersFirst) {
    if (!comparePairs(registers) && !reduceRegisters(registers))
      return false;
    if (lanes.size() == 5 && reduceByRedux())
      return true;
    for (const AxisDigit &digit : lanes)
      if (!reduceLane(digit.index))
        return false;
    return true;
  }
  // Digits of registers and of lanes, in the order of the axis.
  for (size_t i = 0; i < digits->size();) {
    if ((*digits)[i].coord == Coord::Lane) {
      if (!reduceLane((*digits)[i++].index))
        return false;
      continue;
    }
    size_t end = i;
    while (end < digits->size() && (*digits)[end].coord == Coord::Reg)
      ++end;
    if (!reduceRegisters(ArrayRef(*digits).slice(i, end - i)))
      return false;
    i = end;
  }
  return true;
}

/// Sets the results from the remaining tuples: each register takes the tuple that agrees with it in all other
/// dimensions.
static LogicalResult setResults(Lowering &lowering, Operation *op, unsigned axis, const std::map<int64_t, Tuple> &left,
                                const Layout &from) {
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    auto tensor = dyn_cast<RankedTensorType>(result.getType());
    if (!tensor) {
      lowering.set(result, {left.begin()->second[index]});
      continue;
    }
    const Layout &to = kgpu::layoutOf(tensor);
    Registers registers;
    for (int64_t reg = 0; reg < to.registers(); ++reg) {
      layout::Index element = to.at(Coord::Reg, reg);
      Value found;
      for (auto &[source, tuple] : left) {
        layout::Index place = from.at(Coord::Reg, source);
        place.erase(place.begin() + axis);
        if (place == element) {
          found = tuple[index];
          break;
        }
      }
      if (!found)
        return op->emitOpError("expected the operand's layout without the axis (because a reduction moves no other "
                               "data between threads), got ")
               << tensor;
      registers.push_back(found);
    }
    lowering.set(result, registers);
  }
  return success();
}

static LogicalResult emitReduce(Lowering &lowering, tile::ReduceOp op) {
  const Layout &layout = kgpu::layoutOf(op.getOperand(0).getType());
  unsigned axis = op.getAxis();
  for (Coord coord : {Coord::Warp, Coord::Group, Coord::Cta})
    for (const layout::Digit &digit : layout.digits(coord))
      if (digit.basis[axis] != 0)
        return op.emitOpError("expected an axis within one warp (because kiln-lower-exchanges lowers the others), got ")
               << op.getOperand(0).getType();
  WarpReduction reduction(lowering, op, op.getCombine(), axis, /*partialOrdered=*/false);
  if (!reduction.run())
    return failure();
  return setResults(lowering, op, axis, reduction.left(), layout);
}

static LogicalResult emitPartialReduce(Lowering &lowering, kgpu::PartialReduceOp op) {
  WarpReduction reduction(lowering, op, op.getCombine(), op.getAxis(), op.getOrdered());
  if (!reduction.run())
    return failure();
  // The remaining registers are those of the result, in order.
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    const Layout &to = kgpu::layoutOf(result.getType());
    Registers owners;
    for (auto &[reg, tuple] : reduction.left())
      owners.push_back(tuple[index]);
    lowering.set(result, fromOwners(to, owners));
  }
  return success();
}

void nvvm::addReduce(EmitTable &table) {
  table.add<tile::ReduceOp, emitReduce>();
  table.add<kgpu::PartialReduceOp, emitPartialReduce>();
}
