#include "compiler/conversion/kgpu_to_nvvm/Mbarrier.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

void nvvm::sendToCta(Lowering &lowering, ArrayRef<Value> values, Value pointer, int64_t elementBytes, Value cta,
                     Value slot, int64_t tileBytes, int64_t distance, bool asOne) {
  CodeBuilder &b = lowering.b;
  Value there = b.addressOf(pointer), counter = b.addressOf(b.offsetBy(slot, tileBytes));
  auto inCta = [&](Value address) {
    return b.ptx("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", b.getI32Type(), {address, cta}, /*pure=*/true)
        .front();
  };
  there = inCta(there);
  counter = inCta(counter);
  const char *bits = elementBytes == 8 ? "64" : "32";
  auto placeAt = [](int64_t bytes) { return bytes ? "+" + std::to_string(bytes) : std::string(); };
  if (asOne && elementBytes == 4 && (values.size() == 2 || values.size() == 4)) {
    std::string list, constraints = "r,r";
    SmallVector<Value> operands = {there, counter};
    for (auto [i, value] : llvm::enumerate(values)) {
      list += (i ? ", $" : "$") + std::to_string(i + 2);
      constraints += ",r";
      operands.push_back(b.toBits(value));
    }
    b.ptx("st.async.shared::cluster.mbarrier::complete_tx::bytes.v" + std::to_string(values.size()) + ".b32 [$0" +
              placeAt(distance) + "], {" + list + "}, [$1];",
          constraints, {}, operands);
    return;
  }
  for (auto [i, value] : llvm::enumerate(values)) {
    std::string offset = placeAt(distance + int64_t(i) * elementBytes);
    b.ptx("st.async.shared::cluster.mbarrier::complete_tx::bytes.b" + std::string(bits) + " [$0" + offset +
              "], $1, [$2];",
          elementBytes == 8 ? "r,l,r" : "r,r,r", {}, {there, b.toBits(value), counter});
  }
}

void nvvm::openMbarriers(Lowering &lowering) {
  CodeBuilder &b = lowering.b;
  // One arrival per warp that receives: those of the block, or of the role that contains the mbarrier.
  SmallVector<std::pair<int64_t, int64_t>> counters;
  lowering.source.walk([&](kgpu::AllocOp alloc) {
    auto [roles, role] = kgpu::roleAround(alloc);
    int64_t warps = roles ? roles.warpsOf(role) : lowering.place.threads() / 32;
    if (alloc.getMbarrier())
      for (int64_t i = 0; i < int32_t(alloc.getSlots()); ++i)
        counters.push_back({int64_t(*alloc.getOffset()) + i * alloc.getSlotBytes() + alloc.getTileBytes(), warps});
  });
  if (counters.empty())
    return;
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.thread(), b.i32(0));
  Value base = lowering.shared.base();
  auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (auto [counter, warps] : counters)
    b.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", {}, {b.addressOf(b.offsetBy(base, counter)), b.i32(warps)});
  b.ptx("fence.mbarrier_init.release.cluster;", "", {}, {});
}

/// One lane of each warp arrives, the first one announcing the number of bytes to come, and waits; its warp waits for
/// it. The arrival returns the state that identifies the phase, so that threads need not count phases. Only an acquire
/// at cluster scope makes visible what other ctas have stored.
static LogicalResult emitAwait(Lowering &lowering, kgpu::AwaitOp op) {
  CodeBuilder &b = lowering.b;
  kgpu::AllocOp alloc = kgpu::mbarrierOf(op.getMem());
  Value counter = b.addressOf(b.offsetBy(lowering.scalar(op.getMem()), alloc.getTileBytes()));
  Value bytes = lowering.place.atEntry([&]() -> Value {
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.thread(), b.i32(0));
    return arith::SelectOp::create(b, first, b.i32(alloc.getMem().getType().getBytes()), b.i32(0));
  });
  Value waits = lowering.place.atEntry(
      [&]() -> Value { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.lane(), b.i32(0)); });
  b.ptx("{\n\t.reg .b64 phase;\n\t.reg .pred over;\n\t@!$2 bra MET;\n\t"
        "mbarrier.arrive.expect_tx.shared::cta.b64 phase, [$0], $1;\n\t"
        "WAIT:\n\tmbarrier.try_wait.acquire.cluster.shared::cta.b64 over, [$0], phase;\n\t@!over bra WAIT;\n\t"
        "MET:\n\tbar.warp.sync 0xffffffff;\n\t}",
        "r,r,b", {}, {counter, bytes, waits});
  return success();
}

void nvvm::addMbarriers(EmitTable &table) { table.add<kgpu::AwaitOp, emitAwait>(); }
