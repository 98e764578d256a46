// tile.print and tile.assert: records in the launch's KilnDeviceLog (runtime/launch/Abi.h describes them).
#include "compiler/analysis/KernelInterface.h"
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "runtime/launch/Abi.h"
#include <cstddef>

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Layout;

/// Runs `body` under the condition; unconditionally if it is null.
static void when(Lowering &lowering, Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  CodeBuilder &b = lowering.b;
  auto branch = scf::IfOp::create(b, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

//===----------------------------------------------------------------------===//
// print
//===----------------------------------------------------------------------===//

namespace {
/// A record to be written.
struct Entry {
  uint32_t operand;
  Value element; ///< i32
  Value bits;    ///< i64
};
} // namespace

static Value wideBits(Lowering &lowering, Value value) {
  CodeBuilder &b = lowering.b;
  Value bits = lowering.b.toBits(value);
  return bits.getType().isInteger(64) ? bits : arith::ExtUIOp::create(b, b.getI64Type(), bits).getResult();
}

static LogicalResult emitPrint(Lowering &lowering, tile::PrintOp op) {
  CodeBuilder &b = lowering.b;
  int64_t site = lowering.log.siteOf(op);
  Value sequence = lowering.log.nextSequence();
  // Entries with the same condition share a branch.
  llvm::MapVector<Value, SmallVector<Entry>> entries;
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    ArrayRef<Value> registers = lowering.get(operand);
    const Layout *layout = layoutOf(operand.getType());
    if (!layout) {
      entries[lowering.place.isFirstThread()].push_back(
          {uint32_t(index), lowering.b.i32(0), wideBits(lowering, registers.front())});
      continue;
    }
    auto &list = entries[lowering.coordinates.isOwner(*layout)];
    for (int64_t reg = 0; reg < layout->registers(); ++reg)
      if (isOwnerRegister(*layout, reg))
        list.push_back(
            {uint32_t(index), lowering.coordinates.linearIndex(*layout, reg), wideBits(lowering, registers[reg])});
  }
  if (op.getOperands().empty())
    entries[lowering.place.isFirstThread()].push_back({KILN_LOG_NO_OPERAND, lowering.b.i32(0), lowering.b.i64(0)});
  Value program = lowering.program.number(op, [&](Value value) { return lowering.scalar(value); });
  if (!program)
    return failure();
  for (auto &[condition, together] : entries)
    when(lowering, condition, [&, &list = together] {
      Value cursor = lowering.log.address(offsetof(KilnDeviceLog, cursor));
      Value first = LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, cursor, lowering.b.i32(int64_t(list.size())),
                                              LLVM::AtomicOrdering::monotonic, "device", 4);
      Value capacity =
          LLVM::LoadOp::create(b, b.getI32Type(), lowering.log.address(offsetof(KilnDeviceLog, capacity)), 4);
      for (const Entry &entry : list) {
        Value place = arith::AddIOp::create(b, first, lowering.b.i32(&entry - list.begin()));
        Value fits = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, place, capacity);
        when(lowering, fits, [&] {
          Value offset = arith::MulIOp::create(b, arith::ExtUIOp::create(b, b.getI64Type(), place),
                                               lowering.b.i64(sizeof(KilnDeviceRecord)));
          Value record = lowering.b.offsetBy(lowering.log.address(sizeof(KilnDeviceLog)), offset);
          auto put = [&](Value value, size_t at) {
            LLVM::StoreOp::create(b, value, lowering.b.offsetBy(record, int64_t(at)),
                                  value.getType().getIntOrFloatBitWidth() / 8);
          };
          put(lowering.b.i32(site), offsetof(KilnDeviceRecord, site));
          put(sequence, offsetof(KilnDeviceRecord, sequence));
          put(program, offsetof(KilnDeviceRecord, program));
          put(lowering.b.i32(int64_t(entry.operand)), offsetof(KilnDeviceRecord, operand));
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

static LogicalResult emitAssert(Lowering &lowering, tile::AssertOp op) {
  CodeBuilder &b = lowering.b;
  constexpr int64_t kMaxElement = (int64_t(1) << KILN_LOG_SITE_SHIFT) - 1;
  constexpr int64_t kMaxSite = (int64_t(1) << (KILN_LOG_PROGRAM_SHIFT - KILN_LOG_SITE_SHIFT)) - 1;
  constexpr int64_t kMaxProgram = (int64_t(1) << (64 - KILN_LOG_PROGRAM_SHIFT)) - 1;
  int64_t site = std::min(lowering.log.siteOf(op), kMaxSite);
  ArrayRef<Value> holds = lowering.get(op.getCondition());
  const Layout *layout = layoutOf(op.getCondition().getType());
  // The first failing element of this thread; a number beyond every element if none fails.
  Value worst = lowering.b.i32(-1);
  for (unsigned reg = 0; reg < holds.size(); ++reg) {
    if (layout && !isOwnerRegister(*layout, reg))
      continue;
    Value element = layout ? lowering.coordinates.linearIndex(*layout, reg) : lowering.b.i32(0);
    Value mine = arith::SelectOp::create(b, holds[reg], lowering.b.i32(-1), element);
    worst = arith::MinUIOp::create(b, worst, mine);
  }
  Value fails = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, worst, lowering.b.i32(-1));
  Value program = lowering.program.number(op, [&](Value value) { return lowering.scalar(value); });
  if (!program)
    return failure();
  Value sizes[2] = {lowering.program.gridSize(0), lowering.program.gridSize(1)};
  when(lowering, fails, [&] {
    for (int64_t axis : {0, 1})
      LLVM::StoreOp::create(b, sizes[axis], lowering.log.address(offsetof(KilnDeviceLog, grid) + 4 * axis), 4);
    auto wide = [&](Value value) { return arith::ExtUIOp::create(b, b.getI64Type(), value).getResult(); };
    Value element = arith::MinUIOp::create(b, wide(worst), lowering.b.i64(kMaxElement));
    Value known = arith::MinUIOp::create(b, program, lowering.b.i64(kMaxProgram));
    Value code = arith::ShLIOp::create(b, known, lowering.b.i64(KILN_LOG_PROGRAM_SHIFT));
    code = arith::OrIOp::create(b, code, lowering.b.i64(site << KILN_LOG_SITE_SHIFT));
    code = arith::OrIOp::create(b, code, element);
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umin, lowering.log.address(offsetof(KilnDeviceLog, failed)), code,
                              LLVM::AtomicOrdering::monotonic, "device", 8);
    lowering.log.recordFailure(/*ofAll=*/!layout);
  });
  return success();
}

void nvvm::addHooks(EmitTable &table) {
  table.add<tile::PrintOp, emitPrint>();
  table.add<tile::AssertOp, emitAssert>();
}
