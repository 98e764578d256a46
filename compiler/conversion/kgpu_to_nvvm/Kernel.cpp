// One kernel: its entry function with its attributes, the arguments and their attributes, and the walk over the ops.
#include "compiler/analysis/Disjoint.h"
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/kgpu_to_nvvm/Channel.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/UB/IR/UBOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

Lowering::Lowering(func::FuncOp kernel, const Target &target, const EmitTable &table)
    : source(kernel), b(kernel.getLoc(), kernel.getContext()), target(target), alignment(kernel),
      overlaps(kgpu::moduleHas(kernel, kgpu::kPdlAttrName)),
      maxRegisters(kgpu::moduleNumber(kernel, kgpu::kMaxRegistersAttrName, 0)), place(kernel, b), coordinates(b, place),
      program(kernel, b, place), shared(kernel, b, place), global(kernel, b, place), log(kernel, b, place),
      tensorMaps(b, place), scalars(b, alignment, [this](Value value) { return scalar(value); }), table(table) {}

/// Checks that every tile has a layout: emitters ask which threads hold what.
static LogicalResult checkLayouts(func::FuncOp kernel) {
  WalkResult result = kernel.walk([](Operation *op) {
    for (Type type : op->getResultTypes())
      if (isa<RankedTensorType>(type) && !layoutOf(type)) {
        op->emitOpError("expected a tile with a layout (because its registers follow from it), got ") << type;
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult Lowering::run() {
  if (!source.getBody().hasOneBlock())
    return source.emitOpError("expected one block (because control flow of kgpu IR is structured), got ")
           << source.getBody().getBlocks().size();
  if (failed(verifyEffects(source)) || failed(checkLayouts(source)))
    return failure();
  if (failed(tensorMaps.collect(source, target)) || failed(program.check(source)))
    return failure();
  createEntry();
  bindArguments();
  if (failed(emitBlock(source.front())))
    return failure();
  b.setLoc(source.getLoc());
  finishCopies(*this, source.getBody());
  if (auto use = kgpu::barriersOf(source.front().getTerminator()).before)
    emitBarrier(*use);
  LLVM::ReturnOp::create(b, ValueRange());
  entry->setAttr("kiln.sites", b.getArrayAttr(log.sites()));
  if (!source.getOps<kgpu::KeepOp>().empty())
    orderByUse(entry.getBody().front());
  source.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

void Lowering::createEntry() {
  b.setInsertionPoint(source);
  SmallVector<Type> types;
  for (Type type : source.getArgumentTypes())
    types.push_back(memoryType(type));
  if (log.isNeeded())
    types.push_back(b.getI64Type());
  // The logical grid, x first: the hardware grid has only as many blocks as fit at once.
  if (program.isPersistent())
    types.append(3, b.getI32Type());
  types.append(tensorMaps.size(), LLVM::LLVMPointerType::get(b.getContext()));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types);
  entry = LLVM::LLVMFuncOp::create(b, ("kiln_" + source.getName()).str(), type);
  int64_t cluster = place.clusterSize();
  int32_t blockSize = int32_t(place.blockThreads());
  entry->setAttr("nvvm.kernel", b.getUnitAttr());
  entry->setAttr("nvvm.reqntid", b.getDenseI32ArrayAttr({blockSize, 1, 1}));
  if (cluster > 1)
    entry->setAttr("nvvm.cluster_dim", b.getDenseI32ArrayAttr({int32_t(cluster), 1, 1}));
  if (maxRegisters > 0)
    entry->setAttr("nvvm.maxnreg", b.getI32IntegerAttr(int32_t(maxRegisters)));
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToEnd(block);
  unsigned hidden = source.getNumArguments();
  if (log.isNeeded())
    log.setParameter(block->getArgument(hidden++));
  if (program.isPersistent())
    for (unsigned axis = 0; axis < 3; ++axis)
      program.setGridSize(axis, block->getArgument(hidden++));
  // What is computed once is inserted before this unused constant, which is folded away later.
  place.setEntry(arith::ConstantOp::create(b, b.getI64IntegerAttr(0)));

  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  auto shared = source->getAttrOfType<IntegerAttr>(kgpu::kSharedBytesAttrName);
  entry->setAttr("kiln.cuda", b.getDictionaryAttr({b.getNamedAttr("num_warps", number(place.blockThreads() / 32)),
                                                   b.getNamedAttr("threads", number(place.blockThreads())),
                                                   b.getNamedAttr("cluster", number(cluster)),
                                                   b.getNamedAttr("shared_bytes", number(shared ? shared.getInt() : 0)),
                                                   b.getNamedAttr("max_registers", number(maxRegisters)),
                                                   b.getNamedAttr("pdl", b.getBoolAttr(overlaps))}));
  if (program.isPersistent())
    describeCuda("persistent", b.getBoolAttr(true));
  if (!source.getBody().getOps<kgpu::RolesOp>().empty())
    describeCuda("roles", b.getBoolAttr(true));
  if (source->hasAttr(kgpu::kAttendsAttrName))
    describeCuda("attends", b.getBoolAttr(true));
  // Passes rely on ranges that hold only for bounded launches, whether or not descriptors were made.
  if (source->hasAttr(kgpu::kDescribedAttrName) || kgpu::moduleHas(source, kgpu::kDescribePointersAttrName))
    describeCuda("bounded", b.getBoolAttr(true));
  if (Attribute positive = source->getAttr(kgpu::kPositiveAttrName))
    describeCuda("positive", positive);
}

void Lowering::describeCuda(StringRef name, Attribute value) {
  NamedAttrList entries(entry->getAttrOfType<DictionaryAttr>("kiln.cuda"));
  entries.set(name, value);
  entry->setAttr("kiln.cuda", entries.getDictionary(b.getContext()));
}

void Lowering::bindArguments() {
  SmallVector<Attribute> described;
  int64_t offset = 0;
  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  for (BlockArgument argument : source.getArguments()) {
    unsigned index = argument.getArgNumber();
    Type type = argument.getType();
    bool isPointer = isa<tile::PtrType>(type);
    set(argument, {b.fromMemory(entry.getArgument(index), type)});
    if (isPointer) {
      if (global.isAlone(argument)) {
        entry.setArgAttr(index, "llvm.noalias", b.getUnitAttr());
        if (!global.isWritten(argument))
          entry.setArgAttr(index, "llvm.readonly", b.getUnitAttr());
      }
      if (auto divisor = source.getArgAttrOfType<IntegerAttr>(index, "tile.divisibility"))
        if (divisor.getInt() > 1)
          entry.setArgAttr(index, "llvm.align", number(std::min<int64_t>(divisor.getInt(), 128)));
    }
    int64_t bytes = memoryBytes(type);
    offset = (offset + bytes - 1) / bytes * bytes;
    described.push_back(describeArgument(source, index, offset, bytes, global.isWritten(argument)));
    offset += bytes;
  }
  // Hidden parameters follow: the log, the logical grid, the maps.
  int64_t hidden = offset;
  if (log.isNeeded())
    hidden = llvm::alignTo(hidden, 8) + 8;
  if (program.isPersistent())
    hidden = llvm::alignTo(hidden, 4) + 12;
  if (ArrayAttr maps = tensorMaps.bind(entry, hidden))
    describeCuda("tensor_maps", maps);
  entry->setAttr("kiln.name", b.getStringAttr(source.getName()));
  entry->setAttr("kiln.arguments", b.getArrayAttr(described));
  entry->setAttr("kiln.arguments_bytes", number((offset + 7) / 8 * 8));
  entry->setAttr("kiln.workspace_bytes", number(0));
  entry->setAttr("kiln.frame_bytes", number(0));
  entry->setAttr("kiln.check", b.getStringAttr("none"));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

ArrayRef<Value> Lowering::get(Value value) {
  auto found = values.find(value);
  if (found != values.end())
    return *found->second;
  // Constants are materialised where they are used.
  if (Operation *op = value.getDefiningOp(); isa_and_nonnull<arith::ConstantOp, ub::PoisonOp>(op)) {
    constants.push_back(std::make_unique<Registers>(constantRegisters(op)));
    return *constants.back();
  }
  llvm::report_fatal_error("kgpu-to-nvvm: a value was used before it was emitted");
}

void Lowering::set(Value value, Registers registers) {
  assert(registers.size() == registerCount(value.getType()) && "one scalar per register");
  values[value] = std::make_unique<Registers>(std::move(registers));
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

LogicalResult Lowering::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    b.setLoc(op.getLoc());
    if (failed(emitOp(&op)))
      return failure();
  }
  return success();
}

FailureOr<Registers> Lowering::emitBody(Block &block) {
  if (failed(emitBlock(block)))
    return failure();
  Operation *terminator = block.getTerminator();
  b.setLoc(terminator->getLoc());
  Registers results;
  for (Value operand : terminator->getOperands())
    llvm::append_range(results, get(operand));
  return results;
}

LogicalResult Lowering::emitOp(Operation *op) {
  if (isa<arith::ConstantOp, ub::PoisonOp>(op))
    return success();
  if (const EmitTable::Emit *emit = table.find(op)) {
    kgpu::BarrierUses uses = kgpu::barriersOf(op);
    if (uses.before)
      emitBarrier(*uses.before);
    if (failed((*emit)(*this, op)))
      return failure();
    if (uses.after)
      emitBarrier(*uses.after);
    return success();
  }
  if (isa_and_nonnull<arith::ArithDialect>(op->getDialect()) || op->getDialect()->getNamespace() == "math")
    return emitElementwise(*this, op);
  return op->emitOpError("expected an op that a GPU target supports, got this one");
}
