// One kernel: its entry function, arguments and program ids, and the walk over the plan's steps.
#include "compiler/analysis/Disjoint.h"
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/tile_to_cpu/Abi.h"
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

KernelLowering::KernelLowering(func::FuncOp kernel, const Target &target, Check check)
    : b(kernel.getLoc(), kernel.getContext()), values(b), nests(b), frame(b), buffers(b, nests),
      hooks(kernel, b, nests), alignment(kernel, /*believeHints=*/false),
      tiles(b, values, frame, nests, buffers, hooks, shapes, alignment, check), target(target), check(check),
      kernel(kernel) {}

bool kiln::cpu::mayWait(Operation *op) {
  return isa<tile::LoadOp, tile::AtomicRMWOp, tile::AtomicCASOp>(op) && !isTile(op->getResult(0)) &&
         op->getParentOfType<scf::WhileOp>();
}

LogicalResult KernelLowering::run() {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError("expected one block (because control flow of tile IR is structured), got ")
           << kernel.getBody().getBlocks().size();
  if (failed(verifyScalarOps(kernel)))
    return failure();
  plan = std::make_unique<Plan>(kernel, shapes);
  kernel.walk([&](tile::ReshapeOp op) { splitsPairsSomewhere |= splitsPairs(op); });
  kernel.walk([&](Operation *op) { waits |= mayWait(op); });
  createEntry();
  bindArguments();

  // for program in [begin, end): the kernel's body
  Value begin = entry.getArgument(2), end = entry.getArgument(3);
  auto loop = scf::ForOp::create(b, begin, end, b.i64(1));
  Value program = loop.getInductionVar();
  hooks.setProgram(program);
  loop.getBody()->back().erase();
  b.setInsertionPointToEnd(loop.getBody());
  Value rest = program;
  for (int axis = 0; axis < 3; ++axis) {
    Value size = arith::ExtUIOp::create(b, b.getI64Type(), gridSizes[axis]);
    Value id = axis == 2 ? rest : arith::RemUIOp::create(b, rest, size).getResult();
    programIds[axis] = arith::TruncIOp::create(b, b.getI32Type(), id);
    if (axis < 2)
      rest = arith::DivUIOp::create(b, rest, size);
  }
  if (failed(emitBlock(&kernel.front())))
    return failure();
  b.setLoc(kernel.getLoc());
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b);
  b.setInsertionPointToEnd(&entry.front());
  func::ReturnOp::create(b);
  entry->setAttr("kiln.frame_bytes", b.getI64IntegerAttr(frame.finish()));
  entry->setAttr("kiln.sites", b.getArrayAttr(hooks.sites()));
  if (waits)
    entry->setAttr("kiln.waits", b.getBoolAttr(true));
  kernel.erase();
  return success();
}

void KernelLowering::createEntry() {
  b.setInsertionPoint(kernel);
  Type i64Type = b.getI64Type();
  auto type = b.getFunctionType({b.ptrType, b.ptrType, i64Type, i64Type}, {});
  entry = func::FuncOp::create(b, ("kiln_" + kernel.getName()).str(), type);
  b.setInsertionPointToEnd(entry.addEntryBlock());
  Value launch = entry.getArgument(1);
  for (int axis = 0; axis < 3; ++axis)
    gridSizes[axis] = b.loadFrom(b.offsetBy(launch, kGridOffset + 4 * axis), b.getI32Type(), 1);
  framePointer = LLVM::LoadOp::create(b, b.ptrType, b.offsetBy(launch, kFrameOffset), 8);
  hooks.begin(launch, LLVM::LoadOp::create(b, b.ptrType, b.offsetBy(launch, kHooksOffset), 8));
}

void KernelLowering::bindArguments() {
  SmallVector<Attribute> described;
  int64_t offset = 0;
  llvm::SmallDenseSet<Value> written;
  kernel.walk([&](Operation *op) {
    if (Value pointer = accessedPointer(op); pointer && writesGlobal(op))
      written.insert(pointerArgument(pointer));
  });
  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  for (BlockArgument argument : kernel.getArguments()) {
    unsigned index = argument.getArgNumber();
    Type type = argument.getType();
    int64_t bytes = memoryBytes(type);
    offset = (offset + bytes - 1) / bytes * bytes;
    Value address = b.offsetBy(entry.getArgument(0), offset);
    values.bind(argument, isa<tile::PtrType>(type) ? LLVM::LoadOp::create(b, b.ptrType, address, 8).getResult()
                                                   : b.loadFrom(address, type, 1));
    described.push_back(describeArgument(kernel, index, offset, bytes, written.contains(argument)));
    offset += bytes;
  }
  entry->setAttr("kiln.name", b.getStringAttr(kernel.getName()));
  entry->setAttr("kiln.arguments", b.getArrayAttr(described));
  entry->setAttr("kiln.arguments_bytes", number((offset + 7) / 8 * 8));
  entry->setAttr("kiln.workspace_bytes", number(0));
  const char *names[] = {"none", "bounds", "races"};
  entry->setAttr("kiln.check", b.getStringAttr(names[static_cast<int>(check)]));
  // Addresses in the frame are inserted before this unused constant, which is folded away later.
  frame.begin(framePointer, arith::ConstantOp::create(b, b.getI64IntegerAttr(0)));
}

LogicalResult KernelLowering::emitBlock(Block *block) {
  for (const Step &step : plan->steps(block)) {
    if (failed(step.op ? emitOp(step.op) : emitGroup(step)))
      return failure();
  }
  return success();
}

LogicalResult KernelLowering::emitOp(Operation *op) {
  b.setLoc(op->getLoc());
  frame.advance();
  if (isa<arith::ConstantOp>(op))
    return success();
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitFor(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return emitWhile(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return emitIf(branch);
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return emitDot(*this, dot);
  if (auto scan = dyn_cast<tile::ScanOp>(op))
    return emitScan(*this, scan);
  if (auto sort = dyn_cast<tile::SortOp>(op))
    return emitSort(*this, sort);
  if (auto topk = dyn_cast<tile::TopkOp>(op))
    return emitTopk(*this, topk);
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return emitGather(*this, gather);
  if (auto histogram = dyn_cast<tile::HistogramOp>(op))
    return emitHistogram(*this, histogram);
  if (auto print = dyn_cast<tile::PrintOp>(op))
    return emitPrint(print);
  if (auto assertion = dyn_cast<tile::AssertOp>(op)) {
    emitAssert(assertion, nullptr);
    return success();
  }
  if (isa<tile::AtomicRMWOp, tile::AtomicCASOp>(op)) {
    values.bind(op->getResult(0), emitAtomic(*this, op, nullptr));
    return success();
  }
  if (auto desc = dyn_cast<tile::MakeDescOp>(op)) {
    values.bind(desc);
    return success();
  }
  // No code: one program instance runs on one thread, in order.
  if (isa<tile::BarrierOp, tile::AssumeOp>(op))
    return success();
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    values.bind(id.getResult(), programIds[static_cast<int>(id.getAxis())]);
    return success();
  }
  if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
    values.bind(count.getResult(), gridSizes[static_cast<int>(count.getAxis())]);
    return success();
  }
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    emitScalarStore(store);
    return success();
  }
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    values.bind(load.getResult(), emitScalarLoad(load));
    return success();
  }
  if (auto unsplat = dyn_cast<tile::UnsplatOp>(op)) {
    Index first;
    first.at.resize(shapeOf(unsplat.getValue()).size());
    values.bind(unsplat.getResult(), tiles.evalAlone(unsplat.getValue(), first));
    return success();
  }
  if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
    Value offset = values.scalar(add.getOffset());
    if (!offset.getType().isInteger(64))
      offset = offset.getType().isInteger(1) ? arith::ExtUIOp::create(b, b.getI64Type(), offset).getResult()
                                             : arith::ExtSIOp::create(b, b.getI64Type(), offset).getResult();
    Type pointee = cast<tile::PtrType>(add.getType()).getPointee();
    values.bind(add.getResult(), LLVM::GEPOp::create(b, b.ptrType, memoryType(pointee), values.scalar(add.getPtr()),
                                                     ArrayRef<LLVM::GEPArg>{offset}));
    return success();
  }
  if (isa<tile::HintOp, tile::PtrCastOp>(op)) {
    values.bind(op->getResult(0), values.scalar(op->getOperand(0)));
    return success();
  }
  if (isa<tile::PtrToIntOp>(op)) {
    values.bind(op->getResult(0), LLVM::PtrToIntOp::create(b, b.getI64Type(), values.scalar(op->getOperand(0))));
    return success();
  }
  if (isa<tile::IntToPtrOp>(op)) {
    values.bind(op->getResult(0), LLVM::IntToPtrOp::create(b, b.ptrType, values.scalar(op->getOperand(0))));
    return success();
  }
  if (isa<ub::PoisonOp>(op)) {
    if (!isa<tile::DescType>(op->getResult(0).getType()))
      values.bind(op->getResult(0), b.zeroOf(b.scalarType(op->getResult(0).getType())));
    return success();
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (isTile(operand) || isa<tile::DescType, tile::BlockPtrType>(operand.getType()))
      return op->emitOpError("expected an op that the cpu target supports, got one on ") << operand.getType();
    operands.push_back(values.scalar(operand));
  }
  if (auto call = dyn_cast<tile::ExternCallOp>(op)) {
    values.bind(call.getResult(), emitExternCall(b, call, operands));
    return success();
  }
  if (auto inlineAsm = dyn_cast<tile::InlineAsmOp>(op)) {
    for (auto [result, value] : llvm::zip(op->getResults(), tiles.combine(inlineAsm.getPortable(), operands)))
      values.bind(result, value);
    return success();
  }
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return op->emitOpError(
        "expected tile, arith, math or scf ops (because the tile passes leave only these), got this op");
  Operation *clone = cloneFor(b, op, operands, 1);
  for (auto [result, value] : llvm::zip(op->getResults(), clone->getResults()))
    values.bind(result, value);
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars that are in memory
//===----------------------------------------------------------------------===//

Value KernelLowering::emitScalarLoad(tile::LoadOp op) {
  Type element = cast<tile::PtrType>(op.getPtr().getType()).getPointee();
  Value address = values.scalar(op.getPtr());
  Value mask = op.getMask() ? values.scalar(op.getMask()) : Value();
  if (check != Check::None)
    hooks.access(op, KILN_ACCESS_LOAD, address, mask, element, Index(), {}, {}, {});
  // A load that may wait for another instance reads memory anew each time.
  bool isVolatile = op.getIsVolatile() || mayWait(op);
  if (!mask)
    return b.loadFrom(address, element, 1, isVolatile);
  Type type = b.scalarType(element);
  return b
      .branch(
          mask, type, [&]() -> SmallVector<Value> { return {b.loadFrom(address, element, 1, isVolatile)}; },
          [&]() -> SmallVector<Value> { return {op.getOther() ? values.scalar(op.getOther()) : b.zeroOf(type)}; })
      .front();
}

void KernelLowering::emitScalarStore(tile::StoreOp op) {
  Type element = cast<tile::PtrType>(op.getPtr().getType()).getPointee();
  Value address = values.scalar(op.getPtr()), value = values.scalar(op.getValue());
  Value mask = op.getMask() ? values.scalar(op.getMask()) : Value();
  if (check != Check::None)
    hooks.access(op, KILN_ACCESS_STORE, address, mask, element, Index(), {}, {}, {});
  if (!mask) {
    b.storeTo(address, value, element);
    return;
  }
  b.branch(
      mask, {},
      [&]() -> SmallVector<Value> {
        b.storeTo(address, value, element);
        return {};
      },
      nullptr);
}

//===----------------------------------------------------------------------===//
// print, assert
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::emitPrint(tile::PrintOp op) {
  unsigned count = op.getOperands().size();
  int lifetime;
  Value list = frame.buffer(std::max<int64_t>(8, 8 * count), lifetime);
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    Value pointer;
    if (isTile(operand)) {
      pointer = frame.storageOf(operand).pointer;
    } else {
      int spill;
      pointer = frame.buffer(8, spill);
      b.storeTo(pointer, values.scalar(operand), operand.getType());
    }
    LLVM::StoreOp::create(b, pointer, b.offsetBy(list, 8 * index), 8);
  }
  hooks.print(op, list);
  return success();
}

void KernelLowering::emitAssert(tile::AssertOp op, const Index *at) {
  Value holds = at ? tiles.eval(op.getCondition(), *at) : values.scalar(op.getCondition());
  Value fails = arith::XOrIOp::create(b, holds, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  Value element = at ? nests.linearElement(*at, shapeOf(op.getCondition())) : b.i64(0);
  b.branch(
      fails, {},
      [&]() -> SmallVector<Value> {
        hooks.fail(op, element);
        return {};
      },
      nullptr);
}

//===----------------------------------------------------------------------===//
// Tiles in memory
//===----------------------------------------------------------------------===//

Storage KernelLowering::allocateFor(Value value) {
  if (Value old = plan->inPlaceOf(value)) {
    const Storage &storage = frame.storageOf(old);
    Storage mine = frame.allocate(value.getType(), storage.pointer);
    mine.lifetime = storage.lifetime;
    return mine;
  }
  int slot = plan->targetSlot(value);
  if (slot < 0)
    return frame.allocate(value.getType());
  Storage mine = frame.allocate(value.getType(), pool->pointers[slot]);
  mine.lifetime = pool->lifetime;
  frame.touch(mine.lifetime);
  return mine;
}

LogicalResult KernelLowering::writeTile(Value tile, const Storage &target) {
  frame.advance();
  frame.touch(target.lifetime);
  return nests.forEach(chooseWalk(target.shape, -1, lanes()), [&](const Index &at) {
    buffers.write(target, at, tiles.eval(tile, at));
    return success();
  });
}

void KernelLowering::copyBuffer(const Storage &from, const Storage &to) {
  frame.advance();
  frame.touch(from.lifetime);
  frame.touch(to.lifetime);
  (void)nests.forEach(chooseWalk(to.shape, -1, lanes()), [&](const Index &at) {
    buffers.write(to, at, buffers.read(from, at));
    return success();
  });
}
