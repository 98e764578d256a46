// for, if and while: scalars are carried as they are, tiles as pointers to their buffers. What moves between the
// buffers of a loop is decided in PlanCarries.cpp.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

/// A scalar, or the base, shape and strides of a descriptor.
void KernelLowering::appendScalars(Value value, SmallVectorImpl<Value> &list) {
  if (isTile(value))
    return;
  if (!isa<tile::DescType>(value.getType())) {
    list.push_back(scalar(value));
    return;
  }
  const Descriptor &desc = descriptors.find(value)->second;
  list.push_back(desc.base);
  list.append(desc.shape);
  list.append(desc.strides);
}

void KernelLowering::bindCarried(Value value, ValueRange lowered, unsigned &next) {
  if (isTile(value))
    return;
  auto type = dyn_cast<tile::DescType>(value.getType());
  if (!type) {
    bind(value, lowered[next++]);
    return;
  }
  unsigned rank = type.getBlock().getRank();
  Descriptor desc;
  desc.base = lowered[next++];
  for (unsigned i = 0; i < rank; ++i)
    desc.shape.push_back(lowered[next++]);
  for (unsigned i = 0; i < rank; ++i)
    desc.strides.push_back(lowered[next++]);
  desc.padding = tile::Padding::Zero;
  descriptors[value] = desc;
}

/// Padding is no run-time value: all descriptors that meet in one value must agree.
static LogicalResult agreeOnPadding(Operation *op, Value result, ArrayRef<Value> sources,
                                    DenseMap<Value, Descriptor> &descriptors) {
  if (!isa<tile::DescType>(result.getType()))
    return success();
  std::optional<tile::Padding> padding;
  for (Value source : sources) {
    auto found = descriptors.find(source);
    if (found == descriptors.end())
      continue;
    if (padding && *padding != found->second.padding)
      return op->emitError("expected descriptors of one padding (because it is chosen at compile time), got two");
    padding = found->second.padding;
  }
  descriptors[result].padding = padding.value_or(tile::Padding::Zero);
  return success();
}

SmallVector<Value> KernelLowering::carryOut(Block *block, Pool &inner, ValueRange operands,
                                            ArrayRef<int64_t> extraBytes) {
  const CarryPlan &carries = plan->carries(block);
  SmallVector<bool> used(inner.pointers.size());
  SmallVector<Value> out;
  unsigned tile = 0;
  for (Value operand : operands) {
    if (!isTile(operand))
      continue;
    const CarrySlot &carry = carries.slots[tile++];
    used[carry.slot] = true;
    out.push_back(inner.pointers[carry.slot]);
    if (carry.copy) {
      Storage target = allocate(operand.getType(), inner.pointers[carry.slot]);
      target.lifetime = inner.lifetime;
      copyBuffer(storageOf(operand), target);
    }
  }
  for (int64_t bytes : extraBytes)
    for (unsigned slot = 0; slot < used.size(); ++slot)
      if (!used[slot] && inner.bytes[slot] == bytes) {
        used[slot] = true;
        out.push_back(inner.pointers[slot]);
        break;
      }
  return out;
}

LogicalResult KernelLowering::placeTiles(MutableArrayRef<OpOperand> inits, Pool &pool,
                                         SmallVectorImpl<Value> &pointers) {
  for (OpOperand &init : inits) {
    if (!isTile(init.get()))
      continue;
    Storage storage;
    if (plan->adopts(init)) {
      storage = storageOf(init.get());
    } else {
      storage = allocate(init.get().getType());
      if (mlir::failed(writeTile(init.get(), storage)))
        return failure();
    }
    pool.lifetime = joinLifetimes(pool.lifetime, storage.lifetime);
    pointers.push_back(storage.pointer);
  }
  return success();
}

LogicalResult KernelLowering::emitFor(scf::ForOp op) {
  Block *body = op.getBody();
  const CarryPlan &carries = plan->carries(body);
  Pool inner;
  SmallVector<Value> inits;
  for (Value init : op.getInitArgs())
    appendScalars(init, inits);
  unsigned scalarCount = inits.size();
  if (mlir::failed(placeTiles(op.getInitsMutable(), inner, inits)))
    return failure();
  for (int64_t bytes : carries.spareBytes) {
    int lifetime;
    inits.push_back(frameBuffer(bytes, lifetime));
    inner.lifetime = joinLifetimes(inner.lifetime, lifetime);
  }
  inner.bytes = carries.argumentBytes;
  inner.bytes.append(carries.spareBytes);

  b.setLoc(op.getLoc());
  enterLoop();
  auto loop = scf::ForOp::create(b, scalar(op.getLowerBound()), scalar(op.getUpperBound()), scalar(op.getStep()), inits,
                                 nullptr, op.getUnsignedCmp());
  if (!loop.getBody()->empty())
    loop.getBody()->back().erase();
  b.setInsertionPointToEnd(loop.getBody());
  bind(op.getInductionVar(), loop.getInductionVar());
  ValueRange arguments = loop.getRegionIterArgs();
  unsigned next = 0;
  for (auto [argument, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    bindCarried(argument, arguments, next);
    if (mlir::failed(agreeOnPadding(op, argument, {init}, descriptors)))
      return failure();
  }
  inner.pointers.assign(arguments.begin() + scalarCount, arguments.end());
  unsigned tile = 0;
  auto assignTiles = [&](ValueRange values, ValueRange pointers) {
    tile = 0;
    for (Value value : values)
      if (isTile(value)) {
        Storage storage = allocate(value.getType(), pointers[tile++]);
        storage.lifetime = inner.lifetime;
        assign(value, storage);
      }
  };
  assignTiles(op.getRegionIterArgs(), inner.pointers);

  Pool *outer = std::exchange(pool, &inner);
  if (mlir::failed(emitBlock(body)))
    return failure();
  b.setLoc(body->getTerminator()->getLoc());
  SmallVector<Value> yields;
  for (Value operand : body->getTerminator()->getOperands())
    appendScalars(operand, yields);
  yields.append(carryOut(body, inner, body->getTerminator()->getOperands(), carries.spareBytes));
  scf::YieldOp::create(b, yields);
  pool = outer;
  leaveLoop();
  touch(inner.lifetime);
  b.setInsertionPointToEnd(loop->getBlock());
  next = 0;
  for (auto [result, init] : llvm::zip(op.getResults(), op.getInitArgs())) {
    bindCarried(result, loop.getResults(), next);
    if (mlir::failed(agreeOnPadding(op, result, {init}, descriptors)))
      return failure();
  }
  assignTiles(op.getResults(), loop.getResults().drop_front(scalarCount));
  return success();
}

LogicalResult KernelLowering::emitIf(scf::IfOp op) {
  // Blocks first, their yields afterwards: result types are then known.
  Block *home = b.getInsertionBlock();
  Value condition = scalar(op.getCondition());
  struct Branch {
    Block *source;
    std::unique_ptr<Region> region;
    SmallVector<Value> yields;
  };
  SmallVector<int> joined(op.getNumResults(), -1);
  SmallVector<Branch> branches;
  for (Block *source : {op.thenBlock(), op.elseBlock()}) {
    branches.push_back({source, std::make_unique<Region>(), {}});
    Branch &current = branches.back();
    Block *block = &current.region->emplaceBlock();
    if (!source)
      continue;
    b.setInsertionPointToEnd(block);
    if (mlir::failed(emitBlock(source)))
      return failure();
    b.setLoc(source->getTerminator()->getLoc());
    b.setInsertionPointToEnd(block);
    Operation *yield = source->getTerminator();
    for (OpOperand &operand : yield->getOpOperands())
      appendScalars(operand.get(), current.yields);
    for (OpOperand &operand : yield->getOpOperands()) {
      if (!isTile(operand.get()))
        continue;
      auto written = carriedTo.find({yield, operand.getOperandNumber()});
      const Storage &storage = written != carriedTo.end() ? written->second : storageOf(operand.get());
      touch(storage.lifetime);
      int &lifetime = joined[operand.getOperandNumber()];
      lifetime = joinLifetimes(lifetime, storage.lifetime);
      current.yields.push_back(storage.pointer);
    }
  }
  b.setInsertionPointToEnd(home);
  b.setLoc(op.getLoc());
  auto branch =
      scf::IfOp::create(b, ValueRange(branches[0].yields).getTypes(), condition, true, op.elseBlock() != nullptr);
  for (auto [current, region] : llvm::zip(branches, branch->getRegions())) {
    if (!current.source)
      continue;
    region.takeBody(*current.region);
    b.setInsertionPointToEnd(&region.front());
    scf::YieldOp::create(b, current.yields);
  }
  b.setInsertionPointToEnd(home);
  unsigned next = 0;
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    bindCarried(result, branch.getResults(), next);
    if (mlir::failed(agreeOnPadding(
            op, result,
            {op.thenBlock()->getTerminator()->getOperand(index), op.elseBlock()->getTerminator()->getOperand(index)},
            descriptors)))
      return failure();
  }
  for (auto [index, result] : llvm::enumerate(op.getResults()))
    if (isTile(result)) {
      Storage storage = allocate(result.getType(), branch.getResult(next++));
      storage.lifetime = joined[index];
      touch(storage.lifetime);
      assign(result, storage);
    }
  return success();
}

LogicalResult KernelLowering::emitWhile(scf::WhileOp op) {
  Block *before = op.getBeforeBody(), *after = op.getAfterBody();
  const CarryPlan &first = plan->carries(before), &second = plan->carries(after);
  // Buffers that serve both regions: per size, as many as the hungrier one needs.
  auto needs = [](const CarryPlan &carries) {
    std::map<int64_t, int64_t> count;
    for (int64_t bytes : carries.argumentBytes)
      ++count[bytes];
    for (int64_t bytes : carries.spareBytes)
      ++count[bytes];
    return count;
  };
  std::map<int64_t, int64_t> total = needs(first), others = needs(second);
  for (auto [bytes, count] : others)
    total[bytes] = std::max(total[bytes], count);
  auto extrasOf = [&](const CarryPlan &carries) {
    SmallVector<int64_t> extras(carries.spareBytes);
    std::map<int64_t, int64_t> have = needs(carries);
    for (auto [bytes, count] : total)
      extras.append(count - have[bytes], bytes);
    return extras;
  };
  SmallVector<int64_t> firstExtras = extrasOf(first), secondExtras = extrasOf(second);

  Pool inner;
  SmallVector<Value> inits;
  for (Value init : op.getInits())
    appendScalars(init, inits);
  unsigned scalarCount = inits.size();
  if (mlir::failed(placeTiles(op.getInitsMutable(), inner, inits)))
    return failure();
  for (int64_t bytes : firstExtras) {
    int lifetime;
    inits.push_back(frameBuffer(bytes, lifetime));
    inner.lifetime = joinLifetimes(inner.lifetime, lifetime);
  }

  b.setLoc(op.getLoc());
  enterLoop();
  SmallVector<Type> resultTypes;
  for (Value result : op.getResults()) {
    if (isTile(result))
      continue;
    if (auto desc = dyn_cast<tile::DescType>(result.getType())) {
      resultTypes.push_back(ptrType);
      resultTypes.append(2 * desc.getBlock().getRank(), b.getI64Type());
    } else {
      resultTypes.push_back(scalarType(result.getType()));
    }
  }
  unsigned resultScalars = resultTypes.size();
  resultTypes.append(second.argumentBytes.size() + secondExtras.size(), ptrType);
  auto loop = scf::WhileOp::create(b, resultTypes, inits);
  Block *home = b.getInsertionBlock();

  auto enter = [&](Region &region, TypeRange types, Block *source, ValueRange inits, unsigned scalars,
                   const CarryPlan &carries, ArrayRef<int64_t> extras) -> LogicalResult {
    Block &block = region.emplaceBlock();
    for (Type type : types)
      block.addArgument(type, op.getLoc());
    b.setInsertionPointToEnd(&block);
    unsigned next = 0;
    for (auto [argument, init] : llvm::zip(source->getArguments(), inits)) {
      bindCarried(argument, block.getArguments(), next);
      if (mlir::failed(agreeOnPadding(op, argument, {init}, descriptors)))
        return failure();
    }
    inner.pointers.assign(block.args_begin() + scalars, block.args_end());
    inner.bytes = carries.argumentBytes;
    inner.bytes.append(extras.begin(), extras.end());
    unsigned tile = 0;
    for (Value argument : source->getArguments())
      if (isTile(argument)) {
        Storage storage = allocate(argument.getType(), inner.pointers[tile++]);
        storage.lifetime = inner.lifetime;
        assign(argument, storage);
      }
    return emitBlock(source);
  };
  Pool *outer = std::exchange(pool, &inner);
  if (mlir::failed(enter(loop.getBefore(), ValueRange(inits).getTypes(), before, op.getInits(), scalarCount, first,
                         firstExtras)))
    return failure();
  auto condition = cast<scf::ConditionOp>(before->getTerminator());
  b.setLoc(condition.getLoc());
  SmallVector<Value> forwarded;
  for (Value operand : condition.getArgs())
    appendScalars(operand, forwarded);
  forwarded.append(carryOut(before, inner, condition.getArgs(), secondExtras));
  scf::ConditionOp::create(b, scalar(condition.getCondition()), forwarded);

  if (mlir::failed(
          enter(loop.getAfter(), resultTypes, after, condition.getArgs(), resultScalars, second, secondExtras)))
    return failure();
  b.setLoc(after->getTerminator()->getLoc());
  SmallVector<Value> yields;
  for (Value operand : after->getTerminator()->getOperands())
    appendScalars(operand, yields);
  yields.append(carryOut(after, inner, after->getTerminator()->getOperands(), firstExtras));
  scf::YieldOp::create(b, yields);
  pool = outer;
  leaveLoop();
  touch(inner.lifetime);

  b.setInsertionPointToEnd(home);
  unsigned next = 0;
  for (auto [result, source] : llvm::zip(op.getResults(), condition.getArgs())) {
    bindCarried(result, loop.getResults(), next);
    if (mlir::failed(agreeOnPadding(op, result, {source}, descriptors)))
      return failure();
  }
  for (Value result : op.getResults())
    if (isTile(result)) {
      Storage storage = allocate(result.getType(), loop.getResult(next++));
      storage.lifetime = inner.lifetime;
      assign(result, storage);
    }
  return success();
}
