#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;

/// The values `value` takes its pointers from; nothing for a value whose origin is not known.
static SmallVector<Value> sources(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar())
      return {};
    return {loop.getTiedLoopInit(argument)->get(), loop.getTiedLoopYieldedValue(argument)->get()};
  }
  unsigned index = cast<OpResult>(value).getResultNumber();
  return llvm::TypeSwitch<Operation *, SmallVector<Value>>(value.getDefiningOp())
      .Case<tile::AddPtrOp>([](auto op) { return SmallVector<Value>{op.getPtr()}; })
      .Case<tile::PtrCastOp>([](auto op) { return SmallVector<Value>{op.getPtr()}; })
      .Case<tile::MakeDescOp>([](auto op) { return SmallVector<Value>{op.getBase()}; })
      .Case<tile::HintOp, tile::SplatOp, tile::UnsplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp,
            tile::TransOp, tile::SplitOp>([](auto op) { return SmallVector<Value>{op.getValue()}; })
      .Case<kgpu::TensorMapOp>([](auto op) { return SmallVector<Value>{op.getDesc()}; })
      .Case<kgpu::ConvertOp>([](auto op) { return SmallVector<Value>{op.getSource()}; })
      .Case<tile::JoinOp, tile::CatOp>([](auto op) { return SmallVector<Value>{op.getLhs(), op.getRhs()}; })
      .Case<arith::SelectOp>([](auto op) { return SmallVector<Value>{op.getTrueValue(), op.getFalseValue()}; })
      .Case<scf::ForOp>(
          [&](auto op) { return SmallVector<Value>{op.getInitArgs()[index], op.getYieldedValues()[index]}; })
      .Case<scf::IfOp>([&](auto op) {
        return SmallVector<Value>{op.thenYield().getOperand(index), op.elseYield().getOperand(index)};
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

Value kiln::pointerArgument(Value pointer) {
  Value argument;
  SmallVector<Value> open{pointer};
  SmallPtrSet<void *, 8> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value.getAsOpaquePointer()).second)
      continue; // round a loop: whatever it was is already being followed
    auto block = dyn_cast<BlockArgument>(value);
    if (block && isa<func::FuncOp>(block.getOwner()->getParentOp())) {
      if (argument && argument != value)
        return {};
      argument = value;
      continue;
    }
    SmallVector<Value> next = sources(value);
    if (next.empty())
      return {};
    open.append(next);
  }
  return argument;
}

Value kiln::accessedPointer(Operation *access) {
  return llvm::TypeSwitch<Operation *, Value>(access)
      .Case<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCASOp>([](auto op) { return op.getPtr(); })
      .Case<tile::DescLoadOp, tile::DescStoreOp>([](auto op) { return op.getDesc(); })
      .Case<kgpu::CopyInOp, kgpu::CopyOutOp>([](auto op) { return op.getMap(); })
      .Default([](Operation *) { return Value(); });
}

bool kiln::areDisjoint(Operation *a, Operation *b) {
  Value one = accessedPointer(a), other = accessedPointer(b);
  if (!one || !other)
    return false;
  Value from = pointerArgument(one), to = pointerArgument(other);
  if (!from || !to || from == to)
    return false;
  auto marked = [](Value argument) {
    auto kernel = cast<func::FuncOp>(argument.getParentBlock()->getParentOp());
    return kernel.getArgAttr(cast<BlockArgument>(argument).getArgNumber(), "tile.disjoint") != nullptr;
  };
  return marked(from) || marked(to);
}
