// Reports of a thread to the host; see DeviceLog.h.
#include "compiler/conversion/kgpu_to_nvvm/DeviceLog.h"
#include "compiler/analysis/KernelInterface.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

DeviceLog::DeviceLog(func::FuncOp kernel, CodeBuilder &b, Place &place)
    : kernel(kernel), b(b), place(place), held(place) {
  failuresEnd = place.clusterSize() == 1;
  kernel.walk([&](Operation *op) {
    needed |= isa<tile::PrintOp, tile::AssertOp>(op);
    failuresEnd &= !isa<kgpu::RolesOp, scf::WhileOp>(op);
  });
  kernel.walk([&](tile::AssertOp op) { mayGoOn |= !failuresEnd || isTile(op.getCondition()); });
}

int64_t DeviceLog::siteOf(Operation *op) {
  auto [known, added] = siteIds.try_emplace(op, int64_t(described.size()));
  if (added)
    described.push_back(describeSite(op, kernel.getName()));
  return known->second;
}

Value DeviceLog::address(int64_t offset) {
  Value pointer = place.atEntry([&] { return LLVM::IntToPtrOp::create(b, b.globalPointer(), hooks).getResult(); });
  return b.offsetBy(pointer, offset);
}

/// A cell on the stack, zero at the entry, that LLVM turns into a register.
static Value makeCell(CodeBuilder &b, Place &place, Value &slot, Type type) {
  int64_t bytes = memoryBytes(type);
  return place.once(slot, [&]() -> Value {
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value cell = LLVM::AllocaOp::create(b, pointer, type, b.i32(1), unsigned(bytes));
    LLVM::StoreOp::create(b, b.zero(type), cell, unsigned(bytes));
    return cell;
  });
}

Value DeviceLog::nextSequence() {
  Value slot = makeCell(b, place, held->printCount, b.getI32Type());
  Value sequence = LLVM::LoadOp::create(b, b.getI32Type(), slot, 4);
  LLVM::StoreOp::create(b, arith::AddIOp::create(b, sequence, b.i32(1)), slot, 4);
  return sequence;
}

/// Holds 1 once an assertion of this thread has failed.
Value DeviceLog::failureCell() { return makeCell(b, place, cell, b.getI8Type()); }

void DeviceLog::recordFailure(bool ofAll) {
  if (ofAll && failuresEnd)
    b.ptx("exit;", "", {}, {});
  else
    LLVM::StoreOp::create(b, b.constant(b.getI8Type(), b.getI8IntegerAttr(1)), failureCell(), 1);
}

Value DeviceLog::unlessFailed(Value mask) {
  if (!mayGoOn)
    return mask;
  Value failed = LLVM::LoadOp::create(b, b.getI8Type(), failureCell(), 1);
  Value holds = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, failed, b.zero(b.getI8Type()));
  return mask ? arith::AndIOp::create(b, mask, holds).getResult() : holds;
}
