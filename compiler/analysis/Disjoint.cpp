#include "compiler/analysis/Disjoint.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;

/// The tiles stored to the memory that `view` is part of, i.e. what a load of it may return. Empty if anything else
/// writes it.
static SmallVector<Value> storedTo(Value view) {
  while (view.getDefiningOp() && kgpu::isView(view.getDefiningOp()))
    view = view.getDefiningOp()->getOperand(0);
  if (!view.getDefiningOp<kgpu::AllocOp>())
    return {};
  SmallVector<Value> stored;
  for (Value part : kgpu::viewsOf(view))
    for (Operation *user : part.getUsers()) {
      if (auto store = dyn_cast<kgpu::LocalStoreOp>(user))
        stored.push_back(store.getValue());
      else if (!kgpu::isView(user) && !isa<kgpu::LocalLoadOp, kgpu::AwaitOp>(user))
        return {};
    }
  return stored;
}

/// The values that `value` takes its pointers from; empty if its origin is unknown.
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
      .Case<kgpu::LocalLoadOp>([](auto op) { return storedTo(op.getMem()); })
      .Case<tile::JoinOp, tile::CatOp>([](auto op) { return SmallVector<Value>{op.getLhs(), op.getRhs()}; })
      .Case<arith::SelectOp>([](auto op) { return SmallVector<Value>{op.getTrueValue(), op.getFalseValue()}; })
      .Case<scf::ForOp>(
          [&](auto op) { return SmallVector<Value>{op.getInitArgs()[index], op.getYieldedValues()[index]}; })
      .Case<scf::IfOp>([&](auto op) {
        return SmallVector<Value>{op.thenYield().getOperand(index), op.elseYield().getOperand(index)};
      })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

/// The kernel arguments that `pointer` may be offset from; std::nullopt if one of its origins is unknown.
static std::optional<SmallVector<BlockArgument>> pointerArguments(Value pointer) {
  SmallVector<BlockArgument> arguments;
  SmallVector<Value> open{pointer};
  SmallPtrSet<void *, 8> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value.getAsOpaquePointer()).second)
      continue; // around a loop: it is already being followed
    auto block = dyn_cast<BlockArgument>(value);
    if (block && isa<func::FuncOp>(block.getOwner()->getParentOp())) {
      arguments.push_back(block);
      continue;
    }
    SmallVector<Value> next = sources(value);
    if (next.empty())
      return std::nullopt;
    open.append(next);
  }
  return arguments;
}

Value kiln::pointerArgument(Value pointer) {
  std::optional<SmallVector<BlockArgument>> arguments = pointerArguments(pointer);
  return arguments && arguments->size() == 1 ? arguments->front() : Value();
}

SmallVector<unsigned> kiln::writtenArguments(func::FuncOp kernel) {
  llvm::BitVector written(kernel.getNumArguments());
  kernel.walk([&](Operation *op) {
    std::optional<GlobalEffect> effect = globalEffect(op);
    if (!effect || !effect->writes)
      return;
    std::optional<SmallVector<BlockArgument>> arguments;
    if (effect->pointer)
      arguments = pointerArguments(effect->pointer);
    for (BlockArgument argument : kernel.getArguments())
      if (isa<tile::PtrType>(argument.getType()) && (!arguments || llvm::is_contained(*arguments, argument)))
        written.set(argument.getArgNumber());
  });
  return SmallVector<unsigned>(written.set_bits());
}

std::optional<GlobalEffect> kiln::globalEffect(Operation *op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return std::nullopt;
  SmallVector<MemoryEffects::EffectInstance> found;
  effects.getEffects(found);
  std::optional<GlobalEffect> all;
  for (const MemoryEffects::EffectInstance &effect : found) {
    if (!isa<tile::GlobalMemory>(effect.getResource()))
      continue;
    if (!all)
      all = GlobalEffect{effect.getValue()};
    if (all->pointer != effect.getValue())
      all->pointer = Value();
    all->reads |= isa<MemoryEffects::Read>(effect.getEffect());
    all->writes |= isa<MemoryEffects::Write>(effect.getEffect());
  }
  return all;
}

bool kiln::isGlobalRead(Operation *op) {
  std::optional<GlobalEffect> effect = globalEffect(op);
  return effect && effect->reads && !effect->writes && op->getNumResults() == 1;
}

/// Collects the reads of a block that a write may precede: an earlier write, or one in a loop around them.
static void collectBehindWrites(Block &block, bool &written, DenseSet<Operation *> &found) {
  for (Operation &op : block) {
    if (written && isGlobalRead(&op))
      found.insert(&op);
    if (isa<LoopLikeOpInterface, kgpu::RolesOp>(op)) // roles run concurrently
      op.walk([&](Operation *inner) { written |= writesGlobal(inner); });
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        collectBehindWrites(inner, written, found);
    written |= writesGlobal(&op);
  }
}

DenseSet<Operation *> kiln::readsBehindWrites(func::FuncOp kernel) {
  DenseSet<Operation *> found;
  bool written = false;
  collectBehindWrites(kernel.front(), written, found);
  return found;
}

Value kiln::accessedPointer(Operation *access) {
  std::optional<GlobalEffect> effect = globalEffect(access);
  return effect ? effect->pointer : Value();
}

LogicalResult kiln::verifyEffects(func::FuncOp kernel) {
  WalkResult result = kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == kernel)
      return WalkResult::advance();
    bool structured = isa<scf::ForOp, scf::IfOp, scf::WhileOp, kgpu::RolesOp>(op);
    for (Region &region : op->getRegions()) {
      WalkResult effects = region.walk([&](Operation *inner) {
        return structured || isMemoryEffectFree(inner) ? WalkResult::advance() : WalkResult::interrupt();
      });
      if (!effects.wasInterrupted())
        continue;
      op->emitOpError("expected effects on memory only in branches, loops and roles (because it is not known when "
                      "other regions run), got some elsewhere");
      return WalkResult::interrupt();
    }
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (!effects && op->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
      return WalkResult::advance();
    SmallVector<MemoryEffects::EffectInstance> found;
    if (effects)
      effects.getEffects(found);
    bool known = effects && llvm::all_of(found, [](const MemoryEffects::EffectInstance &effect) {
                   return isa<tile::GlobalMemory, tile::Report, tile::Order, kgpu::SharedMemory, kgpu::Asynchrony>(
                       effect.getResource());
                 });
    if (known)
      return WalkResult::advance();
    op->emitOpError("expected declared effects on global memory, shared memory or order (because barriers and waits "
                    "are placed by the effects of an op), got other effects");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

bool kiln::isConstantRead(func::FuncOp kernel, Operation *op) {
  if (!isGlobalRead(op))
    return false;
  return !kernel
              .walk([&](Operation *other) {
                return writesGlobal(other) && !areDisjoint(op, other) ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
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
