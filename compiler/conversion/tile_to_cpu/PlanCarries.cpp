// Buffers of results: which results take over an operand's buffer, and how carried tiles move between a loop's buffers.
//
// A loop with n carried tiles owns n buffers and some spares. The body never copies where it can pass on a pointer:
//
//   a, b = b, a + b     slots [a, b, spare]:  a' = slot b,  b' = spare (written with a + b),  spare' = slot a
//   acc = acc * s + x   slots [acc]:          acc' = slot acc, overwritten element by element
#include "compiler/conversion/tile_to_cpu/Plan.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

static bool isLoop(Operation *op) { return isa<scf::ForOp, scf::WhileOp>(op); }

void Plan::collectReaders() {
  for (auto &[block, steps] : plans)
    for (auto [index, step] : llvm::enumerate(steps)) {
      if (step.op) {
        stepOfOp[step.op] = index;
        for (Value result : step.op->getResults())
          stepOfValue[result] = index;
      }
      for (const Root &root : step.roots) {
        if (root.kind == Root::Materialise)
          stepOfValue[root.value] = index;
        else if (root.kind != Root::Carry) {
          stepOfOp[root.op] = index;
          for (Value result : root.op->getResults())
            stepOfValue[result] = index;
        }
      }
    }
  forEachRead([&](const Root &root, Block *block, unsigned step) {
    bool group = !plans[block][step].op;
    walk(root, [&](Value value, Visit visit) {
      if (stored(value) && value != root.value)
        readers[value].push_back({block, step, group && visit.identity});
      else if (stored(value) && root.kind == Root::Carry)
        readers[value].push_back({block, step, group});
    });
  });
  kernel.walk([&](Operation *op) {
    if (!isa<scf::YieldOp, scf::ConditionOp>(op))
      return;
    auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = operand.get();
      if (!stored(value))
        continue;
      // The terminator passes the buffer on after every step of its block.
      readers[value].push_back({op->getBlock(), static_cast<unsigned>(plans[op->getBlock()].size()), false});
      if (branch) {
        Value result = branch.getResult(operand.getOperandNumber());
        aliases[result].push_back({value, op});
        aliases[value].push_back({result, op});
      }
    }
  });
}

/// A block and the ops that contain it, from the inside out, each with its own block.
static SmallVector<std::pair<Block *, Operation *>> chainOf(Block *block) {
  SmallVector<std::pair<Block *, Operation *>> chain{{block, nullptr}};
  for (Operation *op = block->getParentOp(); op && !isa<func::FuncOp>(op); op = op->getParentOp())
    chain.push_back({op->getBlock(), op});
  return chain;
}

bool Plan::finishedBefore(const Reader &reader, Block *block, unsigned step) const {
  SmallVector<std::pair<Block *, Operation *>> ours = chainOf(block);
  Block *readerBlock = reader.block, *readerInner = nullptr;
  Operation *readerOp = nullptr;
  while (true) {
    for (auto [index, position] : llvm::enumerate(ours)) {
      auto [common, ourOp] = position;
      if (common != readerBlock)
        continue;
      unsigned ourStep = ourOp ? stepOfOp.lookup(ourOp) : step;
      unsigned theirStep = readerOp ? stepOfOp.lookup(readerOp) : reader.step;
      if (ourStep != theirStep)
        return theirStep < ourStep;
      if (!ourOp && !readerOp)
        return reader.identity;
      if (!readerOp)
        return true; // a loop reads its inits before its body runs
      // Both are inside one op: only the branches of an if exclude each other.
      return ourOp && isa<scf::IfOp>(ourOp) && ours[index - 1].first != readerInner;
    }
    readerOp = readerBlock->getParentOp();
    if (!readerOp || isa<func::FuncOp>(readerOp))
      return false;
    readerInner = readerBlock;
    readerBlock = readerOp->getBlock();
  }
}

bool Plan::mayOverwrite(Value old, Block *block, unsigned step) const {
  SmallVector<Value> work{old};
  llvm::SmallDenseSet<Value> seen{old};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    // A loop between the value and the overwrite would repeat the overwrite.
    Block *home = value.getParentBlock();
    bool loop = false, inside = false;
    for (Block *at = block; at; at = at->getParentOp() ? at->getParentOp()->getBlock() : nullptr) {
      if (at == home) {
        inside = true;
        break;
      }
      if (isa<func::FuncOp>(at->getParentOp()))
        break;
      loop |= isLoop(at->getParentOp());
    }
    if (inside && loop)
      return false;
    auto found = readers.find(value);
    if (found != readers.end())
      for (const Reader &reader : found->second)
        if (!finishedBefore(reader, block, step))
          return false;
    auto forwards = aliases.find(value);
    if (forwards == aliases.end())
      continue;
    for (auto [other, terminator] : forwards->second) {
      // If it is forwarded in a branch that excludes ours, it is not our buffer.
      Block *branch = terminator->getBlock();
      Operation *owner = branch->getParentOp();
      bool exclusive = false;
      for (Block *at = block; at && !isa<func::FuncOp>(at->getParentOp()); at = at->getParentOp()->getBlock())
        exclusive |= at->getParentOp() == owner && at != branch;
      if (!exclusive && seen.insert(other).second)
        work.push_back(other);
    }
  }
  return true;
}

void Plan::planInPlace() {
  auto sameBuffer = [&](Value a, Value b) {
    return shapeOf(a) == shapeOf(b) && memoryBytes(elementOf(a)) == memoryBytes(elementOf(b));
  };
  kernel.walk<WalkOrder::PreOrder>([&](Block *block) {
    auto found = plans.find(block);
    if (found == plans.end())
      return;
    for (auto [index, step] : llvm::enumerate(found->second)) {
      auto take = [&, at = static_cast<unsigned>(index)](Value value, Value old) {
        if (!stored(old) || old == value || inPlace.count(value) || claimed.contains(old) || !sameBuffer(value, old))
          return;
        auto written = stepOfValue.find(old);
        if (written != stepOfValue.end() && old.getParentBlock() == block && written->second == at)
          return;
        if (!mayOverwrite(old, block, at))
          return;
        inPlace[value] = old;
        claimed.insert(old);
      };
      if (step.op) {
        if (auto dot = dyn_cast<tile::DotOp>(step.op))
          take(dot.getResult(), dot.getAcc());
        continue;
      }
      for (const Root &root : step.roots)
        if (root.kind == Root::Materialise)
          walkValue(root.value, {}, true, [&](Value value, Visit visit) {
            if (visit.identity)
              take(root.value, value);
          });
    }
  });
}

void Plan::planBranches() {
  // A branch may evaluate its result into a tile that it reads, or that the other branch passes on, if no op needs
  // that tile any more: then both branches may end in the same buffer.
  kernel.walk([&](scf::IfOp branch) {
    llvm::SmallDenseMap<Value, unsigned> claims; // values claimed by a branch of this if, with the result
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      if (!block)
        continue;
      Operation *other = block == branch.thenBlock()
                             ? (branch.elseBlock() ? branch.elseBlock()->getTerminator() : nullptr)
                             : branch.thenBlock()->getTerminator();
      for (auto [index, step] : llvm::enumerate(steps(block)))
        for (const Root &root : step.roots) {
          if (root.kind != Root::Carry)
            continue;
          Value target;
          auto take = [&, at = static_cast<unsigned>(index)](Value old) {
            if (target || !stored(old) || old.getType() != root.value.getType() || old == root.value ||
                branch->isAncestor(old.getParentBlock()->getParentOp()))
              return;
            auto claim = claims.find(old);
            bool free = claim == claims.end() ? !claimed.contains(old) : claim->second == root.operand;
            if (free && mayOverwrite(old, block, at))
              target = old;
          };
          if (other && stored(other->getOperand(root.operand)))
            take(other->getOperand(root.operand));
          walk(root, [&](Value value, Visit visit) {
            if (visit.identity)
              take(value);
          });
          if (!target)
            continue;
          branchTargets[{root.op, root.operand}] = target;
          claims[target] = root.operand;
          claimed.insert(target);
        }
    }
  });
}

void Plan::planAdoption() {
  kernel.walk([&](Operation *op) {
    if (!isLoop(op))
      return;
    Block *block = op->getBlock();
    for (OpOperand &init : op->getOpOperands()) {
      Value value = init.get();
      // The loop itself reads it at its own step, and must be the only reader from there on.
      if (!stored(value) || claimed.contains(value) || llvm::count(op->getOperands(), value) != 1 ||
          value.getParentBlock() != block)
        continue;
      auto found = readers.find(value);
      unsigned step = stepOfOp.lookup(op);
      bool last = aliases.find(value) == aliases.end();
      for (const Reader &reader : found->second)
        last &= (reader.block == block && reader.step == step) || finishedBefore(reader, block, step);
      if (last) {
        adopted.insert(&init);
        claimed.insert(value);
      }
    }
  });
}

int Plan::slotOf(Value value, Block *body) const {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != body)
      return -1;
    int slot = 0;
    for (BlockArgument other : body->getArguments().take_front(argument.getArgNumber()))
      slot += isTile(other);
    return slot;
  }
  if (Value old = inPlaceOf(value))
    return slotOf(old, body);
  if (auto branch = value.getDefiningOp<scf::IfOp>()) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    auto of = [&](Block *block) {
      Operation *yield = block->getTerminator();
      if (Value target = branchTarget(yield, number))
        return slotOf(target, body);
      return stored(yield->getOperand(number)) ? slotOf(yield->getOperand(number), body) : -1;
    };
    int slot = of(branch.thenBlock());
    return branch.elseBlock() && slot == of(branch.elseBlock()) ? slot : -1;
  }
  if (auto loop = value.getDefiningOp<scf::ForOp>()) {
    // An inner loop that keeps working in the buffer that it started from.
    unsigned number = cast<OpResult>(value).getResultNumber();
    OpOperand &init = loop.getInitsMutable()[number];
    auto found = carryPlans.find(loop.getBody());
    if (!adopts(init) || found == carryPlans.end())
      return -1;
    int inner = slotOf(loop.getRegionIterArg(number), loop.getBody());
    int tile = 0;
    for (Value result : loop.getResults().take_front(number))
      tile += isTile(result);
    const CarrySlot &slot = found->second.slots[tile];
    return slot.slot == inner && !slot.copy ? slotOf(init.get(), body) : -1;
  }
  return -1;
}

void Plan::planCarries(Block *block) {
  CarryPlan &plan = carryPlans[block];
  for (BlockArgument argument : block->getArguments())
    if (isTile(argument))
      plan.argumentBytes.push_back(tileBytes(argument.getType()));
  Operation *terminator = block->getTerminator();
  SmallVector<OpOperand *> operands;
  for (OpOperand &operand : terminator->getOpOperands())
    if (isTile(operand.get()))
      operands.push_back(&operand);
  plan.slots.resize(operands.size());
  llvm::SmallDenseSet<int> taken;

  // First, values that are in a slot already.
  for (auto [index, operand] : llvm::enumerate(operands)) {
    Value value = operand->get();
    if (!stored(value))
      continue;
    int slot = slotOf(value, block);
    if (slot >= 0 && taken.insert(slot).second)
      plan.slots[index].slot = slot;
  }
  ArrayRef<Step> all = steps(block);
  for (auto [index, operand] : llvm::enumerate(operands)) {
    CarrySlot &carry = plan.slots[index];
    if (carry.slot >= 0)
      continue;
    Value value = operand->get();
    int64_t bytes = tileBytes(value.getType());
    auto step = llvm::find_if(all, [&, number = operand->getOperandNumber()](const Step &s) {
      return llvm::any_of(s.roots,
                          [&](const Root &root) { return root.kind == Root::Carry && root.operand == number; });
    });
    bool evaluated = step != all.end();
    auto freshInBody = [&] {
      Operation *op = value.getDefiningOp();
      return op && op->getBlock() == block && !inPlaceOf(value) && !targets.count(value) &&
             !isa<scf::IfOp, scf::ForOp, scf::WhileOp>(op);
    };
    // Into the same argument's own buffer, if nothing reads that any more.
    if (evaluated && index < plan.argumentBytes.size() && plan.argumentBytes[index] == bytes &&
        !taken.contains(index)) {
      int tile = -1;
      for (BlockArgument argument : block->getArguments()) {
        tile += isTile(argument);
        if (isTile(argument) && tile == static_cast<int>(index) && !claimed.contains(argument) &&
            mayOverwrite(argument, block, step - all.begin())) {
          carry.slot = index;
          taken.insert(index);
          claimed.insert(argument);
        }
      }
    }
    if (carry.slot >= 0)
      continue;
    carry.slot = plan.argumentBytes.size() + plan.spareBytes.size();
    plan.spareBytes.push_back(bytes);
    if (!evaluated) {
      if (freshInBody())
        targets[value] = carry.slot;
      else
        carry.copy = true;
    }
  }
}
