// Atomics, one element at a time. What x86 has an instruction for (or LLVM a loop) is one atomicrmw; narrow floats are
// updated by a compare-exchange loop on integers.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

static LLVM::AtomicOrdering orderingOf(tile::MemSemantic sem) {
  switch (sem) {
  case tile::MemSemantic::Relaxed:
    return LLVM::AtomicOrdering::monotonic;
  case tile::MemSemantic::Acquire:
    return LLVM::AtomicOrdering::acquire;
  case tile::MemSemantic::Release:
    return LLVM::AtomicOrdering::release;
  case tile::MemSemantic::AcqRel:
    return LLVM::AtomicOrdering::acq_rel;
  }
  return LLVM::AtomicOrdering::acq_rel;
}

/// The order of a failed exchange, which only reads.
static LLVM::AtomicOrdering failureOrdering(LLVM::AtomicOrdering ordering) {
  if (ordering == LLVM::AtomicOrdering::acq_rel)
    return LLVM::AtomicOrdering::acquire;
  return ordering == LLVM::AtomicOrdering::release ? LLVM::AtomicOrdering::monotonic : ordering;
}

static LLVM::AtomicBinOp binOpOf(tile::RMWKind kind) {
  switch (kind) {
  case tile::RMWKind::Add:
    return LLVM::AtomicBinOp::add;
  case tile::RMWKind::FAdd:
    return LLVM::AtomicBinOp::fadd;
  case tile::RMWKind::Max:
    return LLVM::AtomicBinOp::max;
  case tile::RMWKind::UMax:
    return LLVM::AtomicBinOp::umax;
  case tile::RMWKind::FMax:
    return LLVM::AtomicBinOp::fmax;
  case tile::RMWKind::Min:
    return LLVM::AtomicBinOp::min;
  case tile::RMWKind::UMin:
    return LLVM::AtomicBinOp::umin;
  case tile::RMWKind::FMin:
    return LLVM::AtomicBinOp::fmin;
  case tile::RMWKind::And:
    return LLVM::AtomicBinOp::_and;
  case tile::RMWKind::Or:
    return LLVM::AtomicBinOp::_or;
  case tile::RMWKind::Xor:
    return LLVM::AtomicBinOp::_xor;
  case tile::RMWKind::Xchg:
    return LLVM::AtomicBinOp::xchg;
  }
  return LLVM::AtomicBinOp::xchg;
}

/// The integer type of the element's width, which compare-exchange takes.
static IntegerType bitsOf(Type element) {
  return IntegerType::get(element.getContext(), static_cast<unsigned>(memoryBytes(element) * 8));
}

static Value exchangeLoop(CodeBuilder &b, Value address, Type element, Operation *op,
                          function_ref<Value(Value)> update) {
  LLVM::AtomicOrdering ordering = orderingOf(cast<tile::AtomicRMWOp>(op).getSem());
  Type bits = bitsOf(element);
  Value seen = LLVM::LoadOp::create(b, bits, address, memoryBytes(element), false, false, false, false,
                                    LLVM::AtomicOrdering::monotonic);
  auto retry = scf::WhileOp::create(b, TypeRange{bits}, ValueRange{seen});
  OpBuilder::InsertionGuard guard(b);
  Block &before = retry.getBefore().emplaceBlock();
  Value old = before.addArgument(bits, b.getLoc());
  b.setInsertionPointToEnd(&before);
  Value next = update(b.fromMemory(old, element));
  auto exchange = LLVM::AtomicCmpXchgOp::create(b, address, old, b.toMemory(next, element), ordering,
                                                failureOrdering(ordering), StringRef(), memoryBytes(element));
  Value found = LLVM::ExtractValueOp::create(b, exchange, ArrayRef<int64_t>{0});
  Value done = LLVM::ExtractValueOp::create(b, exchange, ArrayRef<int64_t>{1});
  Value again = arith::XOrIOp::create(b, done, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  scf::ConditionOp::create(b, again, ValueRange{found});
  Block &after = retry.getAfter().emplaceBlock();
  after.addArgument(bits, b.getLoc());
  b.setInsertionPointToEnd(&after);
  scf::YieldOp::create(b, after.getArguments());
  b.setInsertionPointAfter(retry);
  return b.fromMemory(retry.getResult(0), element);
}

static Value atomicAt(CodeBuilder &b, Operation *op, Value address, Value compare, Value value) {
  Type element = elementOf(op->getResult(0));
  if (auto cas = dyn_cast<tile::AtomicCASOp>(op)) {
    Type bits = bitsOf(element);
    auto asBits = [&](Value v) {
      v = b.toMemory(v, element);
      return v.getType() == bits ? v : arith::BitcastOp::create(b, bits, v).getResult();
    };
    LLVM::AtomicOrdering ordering = orderingOf(cas.getSem());
    auto exchange = LLVM::AtomicCmpXchgOp::create(b, address, asBits(compare), asBits(value), ordering,
                                                  failureOrdering(ordering), StringRef(), memoryBytes(element));
    Value found = LLVM::ExtractValueOp::create(b, exchange, ArrayRef<int64_t>{0});
    if (memoryType(element) != bits)
      found = arith::BitcastOp::create(b, memoryType(element), found);
    return b.fromMemory(found, element);
  }
  auto rmw = cast<tile::AtomicRMWOp>(op);
  bool narrowFloat = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  if (narrowFloat && rmw.getKind() != tile::RMWKind::Xchg)
    return exchangeLoop(b, address, element, op, [&](Value old) -> Value {
      switch (rmw.getKind()) {
      case tile::RMWKind::FMax:
        return arith::MaxNumFOp::create(b, old, value);
      case tile::RMWKind::FMin:
        return arith::MinNumFOp::create(b, old, value);
      default:
        return arith::AddFOp::create(b, old, value);
      }
    });
  Value old = LLVM::AtomicRMWOp::create(b, binOpOf(rmw.getKind()), address, b.toMemory(value, element),
                                        orderingOf(rmw.getSem()), StringRef(), memoryBytes(element));
  return b.fromMemory(old, element);
}

Value cpu::emitAtomic(KernelLowering &lowering, Operation *op, const Index *at) {
  CodeBuilder &b = lowering.b;
  auto get = [&](Value value) {
    return isTile(value) ? lowering.tiles.eval(value, *at) : lowering.values.scalar(value);
  };
  auto cas = dyn_cast<tile::AtomicCASOp>(op);
  auto rmw = dyn_cast<tile::AtomicRMWOp>(op);
  Value address = get(op->getOperand(0));
  Value compare = cas ? get(cas.getCompare()) : Value();
  Value value = cas ? get(cas.getValue()) : get(rmw.getValue());
  Value mask = rmw && rmw.getMask() ? get(rmw.getMask()) : Value();
  Type element = elementOf(op->getResult(0));
  if (lowering.check != Check::None)
    lowering.hooks.access(op, KILN_ACCESS_ATOMIC, address, mask, element, at ? *at : Index(),
                          at ? shapeOf(op->getResult(0)) : ArrayRef<int64_t>(), {}, {});
  if (!mask)
    return atomicAt(b, op, address, compare, value);
  Type type = b.scalarType(element);
  return b
      .branch(
          mask, type, [&]() -> SmallVector<Value> { return {atomicAt(b, op, address, compare, value)}; },
          [&]() -> SmallVector<Value> { return {b.zeroOf(type)}; })
      .front();
}
