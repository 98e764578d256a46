// One kernel: its entry function, arguments and program ids, and the walk over the plan's steps.
#include "compiler/analysis/Disjoint.h"
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/tile_to_cpu/Abi.h"
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

KernelLowering::KernelLowering(func::FuncOp kernel, const Target &target, Check check)
    : kernel(kernel), target(target), check(check), alignment(kernel, /*believeHints=*/false),
      b(kernel.getLoc(), kernel.getContext()), ptrType(LLVM::LLVMPointerType::get(kernel.getContext())) {}

bool kiln::cpu::mayWait(Operation *op) {
  return isa<tile::LoadOp, tile::AtomicRMWOp, tile::AtomicCASOp>(op) && !isTile(op->getResult(0)) &&
         op->getParentOfType<scf::WhileOp>();
}

LogicalResult KernelLowering::run() {
  if (!kernel.getBody().hasOneBlock())
    return kernel.emitOpError("expected one block (because control flow of tile IR is structured), got ")
           << kernel.getBody().getBlocks().size();
  plan = std::make_unique<Plan>(kernel, shapes);
  kernel.walk([&](tile::ReshapeOp op) { splitsPairsSomewhere |= splitsPairs(op); });
  kernel.walk([&](Operation *op) { waits |= mayWait(op); });
  createEntry();
  bindArguments();

  // for program in [begin, end): the kernel's body
  Value begin = entry.getArgument(2), end = entry.getArgument(3);
  auto loop = scf::ForOp::create(b, begin, end, i64(1));
  program = loop.getInductionVar();
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
  if (mlir::failed(emitBlock(&kernel.front())) || failed)
    return failure();
  b.setLoc(kernel.getLoc());
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b);
  b.setInsertionPointToEnd(&entry.front());
  func::ReturnOp::create(b);
  finish();
  entry->setAttr("kiln.sites", b.getArrayAttr(sites));
  if (waits)
    entry->setAttr("kiln.waits", b.getBoolAttr(true));
  kernel.erase();
  return success();
}

void KernelLowering::createEntry() {
  b.setInsertionPoint(kernel);
  Type i64Type = b.getI64Type();
  auto type = b.getFunctionType({ptrType, ptrType, i64Type, i64Type}, {});
  entry = func::FuncOp::create(b, ("kiln_" + kernel.getName()).str(), type);
  b.setInsertionPointToEnd(entry.addEntryBlock());
  launch = entry.getArgument(1);
  for (int axis = 0; axis < 3; ++axis)
    gridSizes[axis] = loadFrom(offsetBy(launch, kGridOffset + 4 * axis), b.getI32Type(), 1);
  frame = LLVM::LoadOp::create(b, ptrType, offsetBy(launch, kFrameOffset), 8);
  hooks = LLVM::LoadOp::create(b, ptrType, offsetBy(launch, kHooksOffset), 8);
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
    Value address = offsetBy(entry.getArgument(0), offset);
    bind(argument, isa<tile::PtrType>(type) ? LLVM::LoadOp::create(b, ptrType, address, 8).getResult()
                                            : loadFrom(address, type, 1));
    described.push_back(describeArgument(kernel, index, offset, bytes, written.contains(argument)));
    offset += bytes;
  }
  entry->setAttr("kiln.name", b.getStringAttr(kernel.getName()));
  entry->setAttr("kiln.arguments", b.getArrayAttr(described));
  entry->setAttr("kiln.arguments_bytes", number((offset + 7) / 8 * 8));
  entry->setAttr("kiln.workspace_bytes", number(0));
  const char *names[] = {"none", "bounds", "races"};
  entry->setAttr("kiln.check", b.getStringAttr(names[static_cast<int>(check)]));
  // Frame addresses go before this constant, which nothing uses: folded away later.
  frameAnchor = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
}

Value KernelLowering::scalar(Value value) {
  auto found = scalars.find(value);
  if (found != scalars.end())
    return found->second;
  // Constants are defined where they are used.
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return arith::ConstantOp::create(b, constant.getValue());
  llvm::report_fatal_error("tile-to-cpu: a scalar was used before it was emitted");
}

LogicalResult KernelLowering::emitBlock(Block *block) {
  for (const Step &step : plan->steps(block)) {
    if (mlir::failed(step.op ? emitOp(step.op) : emitGroup(step)))
      return failure();
  }
  return success();
}

LogicalResult KernelLowering::emitOp(Operation *op) {
  b.setLoc(op->getLoc());
  ++now;
  if (isa<arith::ConstantOp>(op))
    return success();
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return emitFor(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return emitWhile(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return emitIf(branch);
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return emitDot(dot);
  if (auto scan = dyn_cast<tile::ScanOp>(op))
    return emitScan(scan);
  if (auto sort = dyn_cast<tile::SortOp>(op))
    return emitSort(sort);
  if (auto topk = dyn_cast<tile::TopkOp>(op))
    return emitTopk(topk);
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return emitGather(gather);
  if (auto histogram = dyn_cast<tile::HistogramOp>(op))
    return emitHistogram(histogram);
  if (auto print = dyn_cast<tile::PrintOp>(op))
    return emitPrint(print);
  if (auto assertion = dyn_cast<tile::AssertOp>(op))
    return emitAssert(assertion, nullptr);
  if (isa<tile::AtomicRMWOp, tile::AtomicCASOp>(op)) {
    bind(op->getResult(0), emitAtomic(op, nullptr));
    return success();
  }
  if (auto desc = dyn_cast<tile::MakeDescOp>(op)) {
    bindDescriptor(desc);
    return success();
  }
  // One program instance runs on one thread, in order.
  if (isa<tile::BarrierOp, tile::AssumeOp>(op))
    return success();
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    bind(id.getResult(), programIds[static_cast<int>(id.getAxis())]);
    return success();
  }
  if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
    bind(count.getResult(), gridSizes[static_cast<int>(count.getAxis())]);
    return success();
  }
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    emitScalarStore(store);
    return success();
  }
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    bind(load.getResult(), emitScalarLoad(load));
    return success();
  }
  if (auto unsplat = dyn_cast<tile::UnsplatOp>(op)) {
    Index first;
    first.at.resize(shapeOf(unsplat.getValue()).size());
    bind(unsplat.getResult(), evalAlone(unsplat.getValue(), first));
    return failure(failed);
  }
  if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
    Value offset = scalar(add.getOffset());
    if (!offset.getType().isInteger(64))
      offset = offset.getType().isInteger(1) ? arith::ExtUIOp::create(b, b.getI64Type(), offset).getResult()
                                             : arith::ExtSIOp::create(b, b.getI64Type(), offset).getResult();
    Type pointee = cast<tile::PtrType>(add.getType()).getPointee();
    bind(add.getResult(),
         LLVM::GEPOp::create(b, ptrType, memoryType(pointee), scalar(add.getPtr()), ArrayRef<LLVM::GEPArg>{offset}));
    return success();
  }
  if (isa<tile::HintOp, tile::PtrCastOp>(op)) {
    bind(op->getResult(0), scalar(op->getOperand(0)));
    return success();
  }
  if (isa<tile::PtrToIntOp>(op)) {
    bind(op->getResult(0), LLVM::PtrToIntOp::create(b, b.getI64Type(), scalar(op->getOperand(0))));
    return success();
  }
  if (isa<tile::IntToPtrOp>(op)) {
    bind(op->getResult(0), LLVM::IntToPtrOp::create(b, ptrType, scalar(op->getOperand(0))));
    return success();
  }
  if (isa<ub::PoisonOp>(op)) {
    if (!isa<tile::DescType>(op->getResult(0).getType()))
      bind(op->getResult(0), zeroOf(scalarType(op->getResult(0).getType())));
    return success();
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    if (isTile(operand) || isa<tile::DescType, tile::BlockPtrType>(operand.getType()))
      return op->emitOpError("expected an op that the cpu target knows, got one on ") << operand.getType();
    operands.push_back(scalar(operand));
  }
  if (auto call = dyn_cast<tile::ExternCallOp>(op)) {
    bind(call.getResult(), emitExternCall(call, operands));
    return failure(failed);
  }
  if (auto inlineAsm = dyn_cast<tile::InlineAsmOp>(op)) {
    if (inlineAsm.getPortable().empty())
      return inlineAsm.emitError("expected a portable body (because the cpu target cannot run PTX assembly), got none");
    for (auto [result, value] : llvm::zip(op->getResults(), emitRegion(inlineAsm.getPortable(), operands)))
      bind(result, value);
    return failure(failed);
  }
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return op->emitOpError(
        "expected tile, arith, math or scf ops (because the tile passes leave only these), got this op");
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
          arith::CeilDivUIOp>(op))
    operands[1] = guardDivisor(op, operands[0], operands[1]);
  Operation *clone = cloneFor(op, operands, 1);
  for (auto [result, value] : llvm::zip(op->getResults(), clone->getResults()))
    bind(result, value);
  return success();
}
