// Steps and stored tiles. Storing a tile adds a root, which may split or join groups, which may require further stored
// tiles; this is iterated to a fixed point (the set only grows).
//
//     %v = tile.load %x; %sum = tile.reduce(%v * %v); tile.store %o, %v * rsqrt(%sum)          (1024 elements)
//   becomes two groups with one stored tile, because two nests read %v and the second must not load it again:
//     nest 1: %v is loaded, written to the frame, squared and summed      roots: Materialise %v, Reduce %sum
//     rsqrt, one scalar
//     nest 2: %v is read from the frame, multiplied and stored            root: Store
#include "compiler/conversion/tile_to_cpu/Plan.h"
#include "compiler/analysis/Disjoint.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

SmallVector<Value> Root::reads() const {
  SmallVector<Value> values;
  if (kind == Materialise || kind == Carry)
    values.push_back(value);
  else
    for (Value operand : op->getOperands())
      if (isTile(operand))
        values.push_back(operand);
  return values;
}

ArrayRef<int64_t> Root::space() const {
  if (kind == Materialise || kind == Carry)
    return shapeOf(value);
  if (auto store = dyn_cast<tile::DescStoreOp>(op))
    return shapeOf(store.getValue());
  return shapeOf(op->getOperand(0));
}

int64_t cpu::tileBytes(Type type) {
  auto tile = cast<RankedTensorType>(type);
  return tile.getNumElements() * memoryBytes(tile.getElementType());
}

static bool isGroupRoot(Operation *op) {
  if (isa<tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCASOp, tile::AssertOp>(op))
    return isTile(op->getOperand(0));
  return isa<tile::DescStoreOp, tile::ReduceOp>(op);
}

static Root rootOf(Operation *op) {
  if (isa<tile::ReduceOp>(op))
    return {Root::Reduce, op, Value(), 0};
  if (isa<tile::AtomicRMWOp, tile::AtomicCASOp>(op))
    return {Root::Atomic, op, Value(), 0};
  if (isa<tile::AssertOp>(op))
    return {Root::Assert, op, Value(), 0};
  return {Root::Store, op, Value(), 0};
}

Plan::Plan(func::FuncOp kernel, Shapes &shapes) : kernel(kernel), shapes(shapes) {
  requireByUse();
  do {
    requireAcrossWrites();
    buildAll();
  } while (requireShared());
  collectReaders();
  planInPlace();
  planBranches();
  planAdoption();
  // Innermost first: an outer loop needs to know where an inner loop leaves its results.
  kernel.walk<WalkOrder::PostOrder>([&](Operation *op) {
    if (isa<scf::ForOp, scf::WhileOp>(op))
      for (Region &region : op->getRegions())
        planCarries(&region.front());
  });
}

bool Plan::stored(Value value) const {
  if (!isTile(value))
    return false;
  Operation *op = value.getDefiningOp();
  return !op || !isLazy(op) || required.contains(value);
}

ArrayRef<Step> Plan::steps(Block *block) const {
  auto found = plans.find(block);
  return found == plans.end() ? ArrayRef<Step>() : ArrayRef<Step>(found->second);
}

int Plan::targetSlot(Value value) const {
  auto found = targets.find(value);
  return found == targets.end() ? -1 : found->second;
}

const CarryPlan &Plan::carries(Block *block) const { return carryPlans.find(block)->second; }

void Plan::require(Value value) {
  if (!stored(value))
    required.insert(value);
}

//===----------------------------------------------------------------------===//
// Which tiles live in memory
//===----------------------------------------------------------------------===//

/// The most nested splits into pairs: each of them doubles the vector that is read.
static constexpr unsigned kNestedPairs = 2;

void Plan::requireByUse() {
  llvm::DenseMap<Operation *, unsigned> nested; // splits into pairs that are read through other such splits
  kernel.walk([&](Operation *op) {
    if (isa<tile::DotOp, tile::ScanOp, tile::SortOp, tile::TopkOp, tile::HistogramOp, tile::PrintOp>(op)) {
      for (Value operand : op->getOperands())
        if (isTile(operand))
          require(operand);
    } else if (auto gather = dyn_cast<tile::GatherOp>(op)) {
      require(gather.getSource());
    } else if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
      if (!isUnitReshape(reshape) && !splitsPairs(reshape) && !mergesPairs(reshape))
        require(reshape.getValue());
      if (splitsPairs(reshape)) {
        unsigned &depth = nested[op] = 1;
        walkValue(reshape.getValue(), {}, false, [&](Value value, Visit) {
          if (Operation *inner = value.getDefiningOp(); inner && !stored(value))
            depth = std::max(depth, nested.lookup(inner) + 1);
        });
        if (depth > kNestedPairs) {
          require(reshape.getValue());
          depth = 1;
        }
      }
    } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
      // Store the operand, to read its rows as rows: a transposed read of global memory would touch a cache line per
      // element.
      if (!keepsInnermost(trans))
        walkValue(trans.getValue(), {}, false, [&](Value value, Visit) {
          Operation *def = value.getDefiningOp();
          if (def && isa<tile::LoadOp, tile::DescLoadOp>(def))
            require(value);
        });
    } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (isTile(constant.getResult()) && !isa<SplatElementsAttr>(constant.getValue()))
        require(constant.getResult());
    } else if (isLazy(op) && writesMemory(op)) {
      for (Value result : op->getResults())
        require(result);
    }
  });
}

/// True if the store's value at each element depends on the load only through elementwise ops, and the store writes
/// where the load reads: then working element by element is the same as reading everything first.
static bool updatesSameElements(Operation *load, const Root &root) {
  auto store = dyn_cast<tile::StoreOp>(root.op);
  auto source = dyn_cast<tile::LoadOp>(load);
  return root.kind == Root::Store && store && source && store.getPtr() == source.getPtr();
}

/// True if running `op` may change what `load` reads.
static bool mayClobber(Operation *op, Operation *load) {
  if (!writesMemory(op))
    return false;
  bool structured = isa<RegionBranchOpInterface>(op);
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Operation &inner : block)
        if (structured && mayClobber(&inner, load))
          return true;
  return !structured && !areDisjoint(op, load);
}

void Plan::requireAcrossWrites() {
  // A lazy load must not be evaluated after a later write, nor in a region that runs at another time.
  bool changed = true;
  while (changed) {
    changed = false;
    buildAll();
    forEachRead([&](const Root &root, Block *block, unsigned) {
      walk(root, [&](Value value, Visit visit) {
        Operation *load = value.getDefiningOp();
        if (!load || stored(value) || !isa<tile::LoadOp, tile::DescLoadOp>(load))
          return;
        Operation *reader = load->getBlock()->findAncestorOpInBlock(*root.op);
        bool hazard = reader != root.op;
        for (Operation *op = load->getNextNode(); !hazard && op && op != reader; op = op->getNextNode())
          hazard = mayClobber(op, load);
        if (!hazard && reader == root.op && root.kind != Root::Materialise && mayClobber(root.op, load))
          hazard = !(visit.identity && updatesSameElements(load, root));
        if (hazard) {
          require(value);
          changed = true;
        }
      });
    });
  }
}

/// True if storing the value loses no known stride: it is neither an address, an offset nor a mask.
static bool hasNoPattern(Value value, Shapes &shapes) {
  Type element = elementOf(value);
  if (isa<FloatType>(element))
    return true;
  int last = shapeOf(value).size() - 1;
  return isa<IntegerType>(element) && !element.isInteger(1) && !shapes.stride(value, last);
}

bool Plan::isLong(Value value) const {
  SmallVector<Value> work{value};
  llvm::SmallDenseSet<Operation *, 2 * kLong> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !isTile(next) || stored(next) || !isLazy(op) || !seen.insert(op).second)
      continue;
    if (seen.size() >= kLong)
      return true;
    work.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

bool Plan::requireShared() {
  // Store the last ones first: storing a result often makes it unnecessary to store its operands.
  llvm::MapVector<Value, SmallVector<std::pair<Block *, unsigned>>> uses;
  llvm::DenseSet<Value> amplified;
  // For cheap values: the place that reads them first, and whether others compute them again.
  llvm::MapVector<Value, std::pair<std::pair<Block *, unsigned>, bool>> cheap;
  forEachRead([&](const Root &root, Block *block, unsigned step) {
    walk(root, [&](Value value, Visit visit) {
      Operation *op = value.getDefiningOp();
      if (!op || stored(value))
        return;
      if (!isExpensive(op)) {
        auto here = std::make_pair(block, step);
        auto &[first, again] = cheap.try_emplace(value, here, false).first->second;
        again |= first != here || visit.amplified || block != op->getBlock();
        return;
      }
      auto &steps = uses[value];
      if (!llvm::is_contained(steps, std::make_pair(block, step)))
        steps.push_back({block, step});
      if (visit.amplified && !isa<tile::LoadOp, tile::DescLoadOp>(op))
        amplified.insert(value);
    });
  });
  Value last;
  for (auto &[value, steps] : uses) {
    bool elsewhere = steps.front().first != value.getDefiningOp()->getBlock();
    if (steps.size() < 2 && !elsewhere && !amplified.contains(value))
      continue;
    if (!last || value.getDefiningOp()->getBlock() != last.getDefiningOp()->getBlock() ||
        last.getDefiningOp()->isBeforeInBlock(value.getDefiningOp()))
      last = value;
  }
  if (last) {
    require(last);
    return true;
  }
  // Store the first ones first, which shortens the chains that follow them.
  llvm::MapVector<Block *, SmallVector<Value>> candidates;
  for (auto &[value, read] : cheap)
    if (read.second && hasNoPattern(value, shapes))
      candidates[value.getParentBlock()].push_back(value);
  bool changed = false;
  for (auto &[block, values] : candidates) {
    llvm::sort(values, [](Value a, Value b) {
      Operation *one = a.getDefiningOp(), *other = b.getDefiningOp();
      if (one == other)
        return cast<OpResult>(a).getResultNumber() < cast<OpResult>(b).getResultNumber();
      return one->isBeforeInBlock(other);
    });
    for (Value value : values)
      if (isLong(value)) {
        require(value);
        changed = true;
      }
  }
  return changed;
}

//===----------------------------------------------------------------------===//
// Walking what a root evaluates
//===----------------------------------------------------------------------===//

void Plan::walkValue(Value value, Visit state, bool descend, Visitor visit) const {
  llvm::DenseSet<std::pair<Value, unsigned>> seen;
  walkValue(value, state, descend, visit, seen);
}

void Plan::walkValue(Value value, Visit state, bool descend, Visitor visit,
                     llvm::DenseSet<std::pair<Value, unsigned>> &seen) const {
  if (!isTile(value))
    return;
  // It is read at another index if it is uniform along a dimension, which is then dropped from the index.
  for (unsigned dim = 0; dim < shapeOf(value).size(); ++dim)
    state.identity &= shapeOf(value)[dim] == 1 || !shapes.uniform(value, dim);
  // Visit once for each way of reading: repeated sharing makes the number of paths to a value exponential.
  if (!seen.insert({value, unsigned(state.identity) | unsigned(state.amplified) << 1}).second)
    return;
  visit(value, state);
  Operation *op = value.getDefiningOp();
  if (!op || (stored(value) && !descend) || !isLazy(op))
    return;
  Visit below = state;
  below.identity &= isElementwise(op);
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
    // Repeated along an outer dimension while varying along an inner one: evaluated once per repetition.
    ArrayRef<int64_t> in = shapeOf(broadcast.getValue()), out = shapeOf(broadcast.getResult());
    bool repeated = false;
    for (unsigned dim = 0; dim < in.size(); ++dim) {
      if (repeated && in[dim] > 1)
        below.amplified = true;
      repeated |= in[dim] == 1 && out[dim] > 1;
    }
  }
  for (Value operand : op->getOperands())
    walkValue(operand, below, false, visit, seen);
}

void Plan::walk(const Root &root, Visitor visit) const {
  llvm::DenseSet<std::pair<Value, unsigned>> seen;
  for (Value value : root.reads())
    walkValue(value, {}, root.kind == Root::Materialise, visit, seen);
}

void Plan::forEachRead(function_ref<void(const Root &, Block *, unsigned)> fn) const {
  kernel->walk([&](Block *block) {
    auto found = plans.find(block);
    if (found == plans.end())
      return;
    for (auto [index, step] : llvm::enumerate(found->second)) {
      if (step.op) {
        // A single op reads its tiles at indices of its own.
        fn(Root{Root::Store, step.op, Value(), 0}, block, index);
        continue;
      }
      for (const Root &root : step.roots)
        fn(root, block, index);
    }
  });
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

bool Plan::joins(const Step &group, const Root &root) const {
  auto alone = [](const Root &r) { return r.kind == Root::Atomic || r.kind == Root::Assert; };
  if (alone(root) || llvm::any_of(group.roots, alone) || group.roots.front().space() != root.space())
    return false;
  if (root.kind == Root::Reduce && group.reduceAxis >= 0 &&
      group.reduceAxis != static_cast<int>(cast<tile::ReduceOp>(root.op).getAxis()))
    return false;

  llvm::SmallDenseSet<Value> materialised;
  llvm::SmallDenseSet<Operation *> reduced;
  llvm::SmallDenseSet<Operation *> loads;
  SmallVector<Operation *> stores;
  for (const Root &member : group.roots) {
    if (member.kind == Root::Materialise)
      materialised.insert(member.value);
    if (member.kind == Root::Reduce)
      reduced.insert(member.op);
    if (member.kind == Root::Store)
      stores.push_back(member.op);
    walk(member, [&](Value value, Visit) {
      Operation *op = value.getDefiningOp();
      if (op && isa<tile::LoadOp, tile::DescLoadOp>(op) &&
          (!stored(value) || (member.kind == Root::Materialise && value == member.value)))
        loads.insert(op);
    });
  }
  bool fits = true;
  walk(root, [&](Value value, Visit visit) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return;
    if (reduced.contains(op) || (materialised.contains(value) && !visit.identity))
      fits = false;
    if (isa<tile::LoadOp, tile::DescLoadOp>(op) && !materialised.contains(value) &&
        (!stored(value) || value == root.value))
      fits &= llvm::none_of(stores, [&](Operation *store) { return mayClobber(store, op); });
  });
  // Not if it needs a scalar that a pending reduction makes.
  for (Operation *op : reduced)
    walk(root, [&](Value value, Visit) {
      if (Operation *def = value.getDefiningOp())
        fits &= llvm::none_of(def->getOperands(), [&](Value v) { return v.getDefiningOp() == op; });
    });
  for (Value operand : root.op->getOperands())
    if (operand.getDefiningOp() && reduced.contains(operand.getDefiningOp()))
      fits = false;
  if (root.kind == Root::Store) {
    // In a shared nest, the first of two stores to one address could come last.
    for (Operation *store : stores)
      fits &= areDisjoint(store, root.op);
    for (Operation *load : loads)
      fits &= updatesSameElements(load, root) || !mayClobber(root.op, load);
  }
  return fits;
}

void Plan::buildSteps(Block *block) {
  // Stored at the end: building inner blocks adds to `plans`, which invalidates references into it.
  SmallVector<Step> steps;
  Step group;
  auto flush = [&] {
    if (!group.roots.empty())
      steps.push_back(std::move(group));
    group = Step();
  };
  auto addRoot = [&](Root root) {
    if (!group.roots.empty() && !joins(group, root))
      flush();
    if (root.kind == Root::Reduce)
      group.reduceAxis = cast<tile::ReduceOp>(root.op).getAxis();
    group.roots.push_back(root);
  };
  for (Operation &op : *block) {
    if (&op == block->getTerminator()) {
      if (isa<scf::YieldOp, scf::ConditionOp>(op))
        for (OpOperand &operand : op.getOpOperands())
          if (isTile(operand.get()) && !isa<tile::ReduceOp>(block->getParentOp()))
            if (!stored(operand.get()) ||
                (operand.get().getParentBlock() != block && !isa<scf::IfOp>(block->getParentOp())))
              addRoot({Root::Carry, &op, operand.get(), operand.getOperandNumber()});
      flush();
      break;
    }
    if (isLazy(&op)) {
      for (Value result : op.getResults())
        if (required.contains(result))
          addRoot({Root::Materialise, &op, result, 0});
      continue;
    }
    if (isGroupRoot(&op)) {
      addRoot(rootOf(&op));
      continue;
    }
    // A pure scalar op may be emitted before the pending nest, unless it needs a scalar that the nest makes.
    bool early = op.getNumRegions() == 0 && isMemoryEffectFree(&op) && !isa<tile::AssumeOp>(op) &&
                 llvm::none_of(op.getOperands(),
                               [&](Value operand) {
                                 return isTile(operand) || llvm::any_of(group.roots, [&](const Root &root) {
                                          return operand.getDefiningOp() == root.op;
                                        });
                               }) &&
                 llvm::none_of(op.getResults(), [](Value result) { return isTile(result); });
    if (!early)
      flush();
    Step step;
    step.op = &op;
    steps.push_back(std::move(step));
    if (!isa<tile::ScanOp>(op))
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          buildSteps(&inner);
  }
  flush();
  plans[block] = std::move(steps);
}

void Plan::buildAll() { buildSteps(&kernel.front()); }
