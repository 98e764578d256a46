// tile.print and tile.assert: records in the KilnDeviceLog of the launch (runtime/launch/Abi.h says what they mean).
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "runtime/launch/Abi.h"
#include <cstddef>

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

int64_t Lowering::siteOf(Operation *op) {
  auto [known, added] = siteIds.try_emplace(op, int64_t(sites.size()));
  if (added)
    sites.push_back(describeSite(op, source.getName()));
  return known->second;
}

Value Lowering::logAddress(int64_t offset) {
  Value pointer = atEntry([&] { return LLVM::IntToPtrOp::create(b, ptrType, hooks).getResult(); });
  return offsetBy(pointer, offset);
}

/// Runs `body` where the condition holds; always, if it is null.
static void when(Lowering &lowering, Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  ImplicitLocOpBuilder &b = lowering.b;
  auto branch = scf::IfOp::create(b, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

//===----------------------------------------------------------------------===//
// print
//===----------------------------------------------------------------------===//

/// How many prints this instance has executed, counted in a slot of the stack that LLVM turns into a register.
static Value nextSequence(Lowering &lowering, Value &slot) {
  ImplicitLocOpBuilder &b = lowering.b;
  if (!slot)
    slot = lowering.atEntry([&]() -> Value {
      auto type = LLVM::LLVMPointerType::get(b.getContext());
      Value cell = LLVM::AllocaOp::create(b, type, b.getI32Type(), lowering.i32(1), 4);
      LLVM::StoreOp::create(b, lowering.i32(0), cell, 4);
      return cell;
    });
  Value sequence = LLVM::LoadOp::create(b, b.getI32Type(), slot, 4);
  LLVM::StoreOp::create(b, arith::AddIOp::create(b, sequence, lowering.i32(1)), slot, 4);
  return sequence;
}

namespace {
/// One record to be.
struct Entry {
  uint32_t operand;
  Value element; ///< i32
  Value bits;    ///< i64
};
} // namespace

static Value wideBits(Lowering &lowering, Value value) {
  ImplicitLocOpBuilder &b = lowering.b;
  Value bits = lowering.toBits(value);
  return bits.getType().isInteger(64) ? bits : arith::ExtUIOp::create(b, b.getI64Type(), bits).getResult();
}

static LogicalResult emitPrint(Lowering &lowering, tile::PrintOp op) {
  ImplicitLocOpBuilder &b = lowering.b;
  int64_t site = lowering.siteOf(op);
  Value sequence = nextSequence(lowering, lowering.printCount());
  // Entries with one condition are asked for together.
  llvm::MapVector<Value, SmallVector<Entry>> entries;
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    ArrayRef<Value> registers = lowering.get(operand);
    const Layout *layout = layoutOf(operand.getType());
    if (!layout) {
      entries[lowering.isFirstThread()].push_back(
          {uint32_t(index), lowering.i32(0), wideBits(lowering, registers.front())});
      continue;
    }
    auto &list = entries[lowering.isOwner(*layout)];
    for (int64_t reg = 0; reg < layout->registers(); ++reg)
      if (Lowering::isOwnerRegister(*layout, reg))
        list.push_back({uint32_t(index), lowering.linearIndex(*layout, reg), wideBits(lowering, registers[reg])});
  }
  if (op.getOperands().empty())
    entries[lowering.isFirstThread()].push_back({KILN_LOG_NO_OPERAND, lowering.i32(0), lowering.i64(0)});
  Value program = lowering.programNumber(op);
  if (!program)
    return failure();
  for (auto &[condition, together] : entries)
    when(lowering, condition, [&, &list = together] {
      Value cursor = lowering.logAddress(offsetof(KilnDeviceLog, cursor));
      Value first = LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, cursor, lowering.i32(int64_t(list.size())),
                                              LLVM::AtomicOrdering::monotonic, "device", 4);
      Value capacity =
          LLVM::LoadOp::create(b, b.getI32Type(), lowering.logAddress(offsetof(KilnDeviceLog, capacity)), 4);
      for (const Entry &entry : list) {
        Value place = arith::AddIOp::create(b, first, lowering.i32(&entry - list.begin()));
        Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, place, capacity);
        when(lowering, fits, [&] {
          Value offset = arith::MulIOp::create(b, arith::ExtUIOp::create(b, b.getI64Type(), place),
                                               lowering.i64(sizeof(KilnDeviceRecord)));
          Value record = lowering.offsetBy(lowering.logAddress(sizeof(KilnDeviceLog)), offset);
          auto put = [&](Value value, size_t at) {
            LLVM::StoreOp::create(b, value, lowering.offsetBy(record, int64_t(at)),
                                  value.getType().getIntOrFloatBitWidth() / 8);
          };
          put(lowering.i32(site), offsetof(KilnDeviceRecord, site));
          put(sequence, offsetof(KilnDeviceRecord, sequence));
          put(program, offsetof(KilnDeviceRecord, program));
          put(lowering.i32(int64_t(entry.operand)), offsetof(KilnDeviceRecord, operand));
          put(entry.element, offsetof(KilnDeviceRecord, element));
          put(entry.bits, offsetof(KilnDeviceRecord, bits));
        });
      }
    });
  return success();
}

//===----------------------------------------------------------------------===//
// assert
//===----------------------------------------------------------------------===//

/// A byte of the stack that LLVM turns into a register: 1 once an assertion of this thread has failed.
static Value cellOf(Lowering &lowering, Value &cell) {
  ImplicitLocOpBuilder &b = lowering.b;
  if (!cell)
    cell = lowering.atEntry([&]() -> Value {
      auto type = LLVM::LLVMPointerType::get(b.getContext());
      Value place = LLVM::AllocaOp::create(b, type, b.getI8Type(), lowering.i32(1), 1);
      LLVM::StoreOp::create(b, lowering.zero(b.getI8Type()), place, 1);
      return place;
    });
  return cell;
}

void Lowering::recordFailure(bool ofAll) {
  if (ofAll && failuresEnd)
    ptx("exit;", "", {}, {});
  else
    LLVM::StoreOp::create(b, constant(b.getI8Type(), b.getI8IntegerAttr(1)), cellOf(*this, failureCell), 1);
}

Value Lowering::unlessFailed(Value mask) {
  if (!mayGoOn)
    return mask;
  Value cell = LLVM::LoadOp::create(b, b.getI8Type(), cellOf(*this, failureCell), 1);
  Value holds = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, cell, zero(b.getI8Type()));
  return mask ? arith::AndIOp::create(b, mask, holds).getResult() : holds;
}

static LogicalResult emitAssert(Lowering &lowering, tile::AssertOp op) {
  ImplicitLocOpBuilder &b = lowering.b;
  constexpr int64_t kMaxElement = (int64_t(1) << KILN_LOG_SITE_SHIFT) - 1;
  constexpr int64_t kMaxSite = (int64_t(1) << (KILN_LOG_PROGRAM_SHIFT - KILN_LOG_SITE_SHIFT)) - 1;
  constexpr int64_t kMaxProgram = (int64_t(1) << (64 - KILN_LOG_PROGRAM_SHIFT)) - 1;
  int64_t site = std::min(lowering.siteOf(op), kMaxSite);
  ArrayRef<Value> holds = lowering.get(op.getCondition());
  const Layout *layout = layoutOf(op.getCondition().getType());
  // The first element of this thread that fails; beyond every element where none does.
  Value worst = lowering.i32(-1);
  for (unsigned reg = 0; reg < holds.size(); ++reg) {
    if (layout && !Lowering::isOwnerRegister(*layout, reg))
      continue;
    Value element = layout ? lowering.linearIndex(*layout, reg) : lowering.i32(0);
    Value mine = arith::SelectOp::create(b, holds[reg], lowering.i32(-1), element);
    worst = arith::MinUIOp::create(b, worst, mine);
  }
  Value fails = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, worst, lowering.i32(-1));
  Value program = lowering.programNumber(op);
  if (!program)
    return failure();
  Value sizes[2] = {lowering.gridSize(0), lowering.gridSize(1)};
  when(lowering, fails, [&] {
    for (int64_t axis : {0, 1})
      LLVM::StoreOp::create(b, sizes[axis], lowering.logAddress(offsetof(KilnDeviceLog, grid) + 4 * axis), 4);
    auto wide = [&](Value value) { return arith::ExtUIOp::create(b, b.getI64Type(), value).getResult(); };
    Value element = arith::MinUIOp::create(b, wide(worst), lowering.i64(kMaxElement));
    Value known = arith::MinUIOp::create(b, program, lowering.i64(kMaxProgram));
    Value code = arith::ShLIOp::create(b, known, lowering.i64(KILN_LOG_PROGRAM_SHIFT));
    code = arith::OrIOp::create(b, code, lowering.i64(site << KILN_LOG_SITE_SHIFT));
    code = arith::OrIOp::create(b, code, element);
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umin, lowering.logAddress(offsetof(KilnDeviceLog, failed)), code,
                              LLVM::AtomicOrdering::monotonic, "device", 8);
    lowering.recordFailure(/*ofAll=*/!layout);
  });
  return success();
}

void nvvm::addHooks(EmitTable &table) {
  table.add<tile::PrintOp, emitPrint>();
  table.add<tile::AssertOp, emitAssert>();
}
