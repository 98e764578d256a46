// kgpu.compare: steps of a sorting network, between registers of a thread and between lanes.
//
// The direction in which a run is sorted may depend on the thread. Then its keys are inverted first (flipping all bits
// reverses their order) and inverted back after the last stride, instead of selecting at every comparison.
//
//     %y = kgpu.compare %x from 2 to 1 run 4 : tensor<64xi32, blocked [64] vector 2 warps 1>
//   becomes, with %flip = all ones in the threads whose run descends,
//     %0 = xori x0, %flip     %1 = xori x1, %flip
//     stride 2:  %p = shfl.sync.bfly(%0, 1);  %2 = odd lane ? maxsi(%0, %p) : minsi(%0, %p);  %3 from %1 likewise
//     stride 1:  %4 = minsi(%2, %3)     %5 = maxsi(%2, %3)
//     y0 = xori %4, %flip     y1 = xori %5, %flip
#include "compiler/conversion/kgpu_to_nvvm/Combine.h"
#include "compiler/conversion/kgpu_to_nvvm/Shuffle.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

namespace {
class Comparing {
public:
  Comparing(Lowering &lowering, kgpu::CompareOp op)
      : lowering(lowering), b(lowering.b), op(op), layout(kgpu::layoutOf(op.getType())), axis(layout.rank() - 1),
        keys(lowering.get(op.getValue())) {}
  void run();

private:
  Value pick(Value x, Value y, bool smaller);
  void turnOver(Value mask);
  bool turns(int64_t reg) { return (layout.at(Coord::Reg, reg)[axis] & int32_t(op.getRun())) != 0; }
  void compareRegisters(unsigned digit);
  void compareLanes(unsigned digit);

  Lowering &lowering;
  CodeBuilder &b;
  kgpu::CompareOp op;
  const Layout &layout;
  unsigned axis;
  Registers keys;
};
} // namespace

Value Comparing::pick(Value x, Value y, bool smaller) {
  if (op.getIsUnsigned())
    return smaller ? arith::MinUIOp::create(b, x, y).getResult() : arith::MaxUIOp::create(b, x, y).getResult();
  return smaller ? arith::MinSIOp::create(b, x, y).getResult() : arith::MaxSIOp::create(b, x, y).getResult();
}

void Comparing::turnOver(Value mask) {
  for (int64_t reg : ownerRegisters(layout))
    keys[reg] = arith::XOrIOp::create(b, keys[reg], mask);
}

void Comparing::compareRegisters(unsigned digit) {
  for (int64_t reg : ownerRegisters(layout)) {
    if (digitOf(layout, reg, digit) != 0)
      continue;
    int64_t other = withDigit(layout, reg, digit, 1);
    bool smaller = turns(reg) == op.getDescending();
    Value first = pick(keys[reg], keys[other], smaller);
    keys[other] = pick(keys[reg], keys[other], !smaller);
    keys[reg] = first;
  }
}

void Comparing::compareLanes(unsigned digit) {
  Value upper = laneBit(lowering, digit);
  SmallVector<int64_t> registers = ownerRegisters(layout);
  Registers own;
  for (int64_t reg : registers)
    own.push_back(keys[reg]);
  Registers others = shuffleXor(lowering, own, int64_t(1) << digit);
  for (auto [reg, other] : llvm::zip(registers, others)) {
    bool smaller = turns(reg) == op.getDescending();
    Value lower = pick(keys[reg], other, smaller), higher = pick(keys[reg], other, !smaller);
    keys[reg] = arith::SelectOp::create(b, upper, higher, lower);
  }
}

void Comparing::run() {
  Type type = keys.front().getType();
  Value mask;
  if (Value part = lowering.coordinates.threadPart(layout, axis)) {
    bool byThread = false;
    for (Coord coord : {Coord::Lane, Coord::Warp, Coord::Group, Coord::Cta})
      for (const layout::Digit &digit : layout.digits(coord))
        byThread |= digit.basis[axis] == int64_t(int32_t(op.getRun()));
    if (byThread)
      mask = lowering.place.atEntry([&]() -> Value {
        Value bit = arith::AndIOp::create(b, part, lowering.b.i32(int32_t(op.getRun())));
        Value set = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, lowering.b.i32(0));
        return arith::ExtSIOp::create(b, type, set);
      });
  }
  if (mask)
    turnOver(mask);
  auto digits = digitsAlong(layout, axis); // they exist: compare_c3
  for (int64_t stride = int32_t(op.getFrom()); stride >= int32_t(op.getTo()); stride /= 2)
    for (const AxisDigit &digit : *digits)
      if (digit.step == stride)
        digit.coord == Coord::Reg ? compareRegisters(digit.index) : compareLanes(digit.index);
  if (mask)
    turnOver(mask);
  repeatOwners(layout, keys);
  lowering.set(op.getResult(), keys);
}

static LogicalResult emitCompare(Lowering &lowering, kgpu::CompareOp op) {
  if (op.getType().getElementType().isInteger(1))
    return op.emitOpError("expected keys of 8 to 64 bits (because warp shuffles exchange whole registers), got i1");
  Comparing(lowering, op).run();
  return success();
}

void nvvm::addCompare(EmitTable &table) { table.add<kgpu::CompareOp, emitCompare>(); }
