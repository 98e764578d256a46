// for, if and while: scalars are carried as they are, tiles as pointers to their buffers. PlanCarries.cpp decides how
// tiles move between the buffers of a loop.
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

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
      Storage target = frame.allocate(operand.getType(), inner.pointers[carry.slot]);
      target.lifetime = inner.lifetime;
      copyBuffer(frame.storageOf(operand), target);
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
      storage = frame.storageOf(init.get());
    } else {
      storage = frame.allocate(init.get().getType());
      if (failed(writeTile(init.get(), storage)))
        return failure();
    }
    pool.lifetime = frame.join(pool.lifetime, storage.lifetime);
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
    values.append(init, inits);
  unsigned scalarCount = inits.size();
  if (failed(placeTiles(op.getInitsMutable(), inner, inits)))
    return failure();
  for (int64_t bytes : carries.spareBytes) {
    int lifetime;
    inits.push_back(frame.buffer(bytes, lifetime));
    inner.lifetime = frame.join(inner.lifetime, lifetime);
  }
  inner.bytes = carries.argumentBytes;
  inner.bytes.append(carries.spareBytes);

  b.setLoc(op.getLoc());
  frame.enterLoop();
  auto loop = scf::ForOp::create(b, values.scalar(op.getLowerBound()), values.scalar(op.getUpperBound()),
                                 values.scalar(op.getStep()), inits, nullptr, op.getUnsignedCmp());
  if (!loop.getBody()->empty())
    loop.getBody()->back().erase();
  b.setInsertionPointToEnd(loop.getBody());
  values.bind(op.getInductionVar(), loop.getInductionVar());
  ValueRange arguments = loop.getRegionIterArgs();
  unsigned next = 0;
  for (auto [argument, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs())) {
    values.bindFrom(argument, arguments, next);
    if (failed(values.agreeOnPadding(op, argument, {init})))
      return failure();
  }
  inner.pointers.assign(arguments.begin() + scalarCount, arguments.end());
  unsigned tile = 0;
  auto assignTiles = [&](ValueRange values, ValueRange pointers) {
    tile = 0;
    for (Value value : values)
      if (isTile(value)) {
        Storage storage = frame.allocate(value.getType(), pointers[tile++]);
        storage.lifetime = inner.lifetime;
        frame.assign(value, storage);
      }
  };
  assignTiles(op.getRegionIterArgs(), inner.pointers);

  Pool *outer = std::exchange(pool, &inner);
  if (failed(emitBlock(body)))
    return failure();
  b.setLoc(body->getTerminator()->getLoc());
  SmallVector<Value> yields;
  for (Value operand : body->getTerminator()->getOperands())
    values.append(operand, yields);
  yields.append(carryOut(body, inner, body->getTerminator()->getOperands(), carries.spareBytes));
  scf::YieldOp::create(b, yields);
  pool = outer;
  frame.leaveLoop();
  frame.touch(inner.lifetime);
  b.setInsertionPointToEnd(loop->getBlock());
  next = 0;
  for (auto [result, init] : llvm::zip(op.getResults(), op.getInitArgs())) {
    values.bindFrom(result, loop.getResults(), next);
    if (failed(values.agreeOnPadding(op, result, {init})))
      return failure();
  }
  assignTiles(op.getResults(), loop.getResults().drop_front(scalarCount));
  return success();
}

LogicalResult KernelLowering::emitIf(scf::IfOp op) {
  // Emit the blocks first and their yields afterwards, when the result types are known.
  Block *home = b.getInsertionBlock();
  Value condition = values.scalar(op.getCondition());
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
    if (failed(emitBlock(source)))
      return failure();
    b.setLoc(source->getTerminator()->getLoc());
    b.setInsertionPointToEnd(block);
    Operation *yield = source->getTerminator();
    for (OpOperand &operand : yield->getOpOperands())
      values.append(operand.get(), current.yields);
    for (OpOperand &operand : yield->getOpOperands()) {
      if (!isTile(operand.get()))
        continue;
      auto written = carriedTo.find({yield, operand.getOperandNumber()});
      const Storage &storage = written != carriedTo.end() ? written->second : frame.storageOf(operand.get());
      frame.touch(storage.lifetime);
      int &lifetime = joined[operand.getOperandNumber()];
      lifetime = frame.join(lifetime, storage.lifetime);
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
    values.bindFrom(result, branch.getResults(), next);
    if (failed(values.agreeOnPadding(
            op, result,
            {op.thenBlock()->getTerminator()->getOperand(index), op.elseBlock()->getTerminator()->getOperand(index)})))
      return failure();
  }
  for (auto [index, result] : llvm::enumerate(op.getResults()))
    if (isTile(result)) {
      Storage storage = frame.allocate(result.getType(), branch.getResult(next++));
      storage.lifetime = joined[index];
      frame.touch(storage.lifetime);
      frame.assign(result, storage);
    }
  return success();
}

LogicalResult KernelLowering::emitWhile(scf::WhileOp op) {
  Block *before = op.getBeforeBody(), *after = op.getAfterBody();
  const CarryPlan &first = plan->carries(before), &second = plan->carries(after);
  // Both regions share buffers: of each size, as many as the region that needs more.
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
    values.append(init, inits);
  unsigned scalarCount = inits.size();
  if (failed(placeTiles(op.getInitsMutable(), inner, inits)))
    return failure();
  for (int64_t bytes : firstExtras) {
    int lifetime;
    inits.push_back(frame.buffer(bytes, lifetime));
    inner.lifetime = frame.join(inner.lifetime, lifetime);
  }

  b.setLoc(op.getLoc());
  frame.enterLoop();
  SmallVector<Type> resultTypes;
  for (Value result : op.getResults()) {
    if (isTile(result))
      continue;
    if (auto desc = dyn_cast<tile::DescType>(result.getType())) {
      resultTypes.push_back(b.ptrType);
      resultTypes.append(2 * desc.getBlock().getRank(), b.getI64Type());
    } else {
      resultTypes.push_back(b.scalarType(result.getType()));
    }
  }
  unsigned resultScalars = resultTypes.size();
  resultTypes.append(second.argumentBytes.size() + secondExtras.size(), b.ptrType);
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
      values.bindFrom(argument, block.getArguments(), next);
      if (failed(values.agreeOnPadding(op, argument, {init})))
        return failure();
    }
    inner.pointers.assign(block.args_begin() + scalars, block.args_end());
    inner.bytes = carries.argumentBytes;
    inner.bytes.append(extras.begin(), extras.end());
    unsigned tile = 0;
    for (Value argument : source->getArguments())
      if (isTile(argument)) {
        Storage storage = frame.allocate(argument.getType(), inner.pointers[tile++]);
        storage.lifetime = inner.lifetime;
        frame.assign(argument, storage);
      }
    return emitBlock(source);
  };
  Pool *outer = std::exchange(pool, &inner);
  if (failed(enter(loop.getBefore(), ValueRange(inits).getTypes(), before, op.getInits(), scalarCount, first,
                   firstExtras)))
    return failure();
  auto condition = cast<scf::ConditionOp>(before->getTerminator());
  b.setLoc(condition.getLoc());
  SmallVector<Value> forwarded;
  for (Value operand : condition.getArgs())
    values.append(operand, forwarded);
  forwarded.append(carryOut(before, inner, condition.getArgs(), secondExtras));
  scf::ConditionOp::create(b, values.scalar(condition.getCondition()), forwarded);

  if (failed(enter(loop.getAfter(), resultTypes, after, condition.getArgs(), resultScalars, second, secondExtras)))
    return failure();
  b.setLoc(after->getTerminator()->getLoc());
  SmallVector<Value> yields;
  for (Value operand : after->getTerminator()->getOperands())
    values.append(operand, yields);
  yields.append(carryOut(after, inner, after->getTerminator()->getOperands(), firstExtras));
  scf::YieldOp::create(b, yields);
  pool = outer;
  frame.leaveLoop();
  frame.touch(inner.lifetime);

  b.setInsertionPointToEnd(home);
  unsigned next = 0;
  for (auto [result, source] : llvm::zip(op.getResults(), condition.getArgs())) {
    values.bindFrom(result, loop.getResults(), next);
    if (failed(values.agreeOnPadding(op, result, {source})))
      return failure();
  }
  for (Value result : op.getResults())
    if (isTile(result)) {
      Storage storage = frame.allocate(result.getType(), loop.getResult(next++));
      storage.lifetime = inner.lifetime;
      frame.assign(result, storage);
    }
  return success();
}
