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

/// Whether the only message that the memory gets is awaited once. Then the mbarrier is armed when it is initialised,
/// and nobody arrives; its first phase is over when the bytes are there.
static bool isArmedAtEntry(kgpu::AllocOp alloc) {
  bool once = int32_t(alloc.getSlots()) == 1;
  alloc->getBlock()->walk([&](kgpu::AwaitOp await) {
    if (kgpu::mbarrierOf(await.getMem()) == alloc)
      once &= !await->getParentOfType<LoopLikeOpInterface>();
  });
  return once;
}

/// Bytes from the start of shared memory to the mbarrier of a slot.
static int64_t placeOf(kgpu::AllocOp alloc, int64_t slot = 0) {
  return int64_t(*alloc.getOffset()) + slot * alloc.getSlotBytes() + alloc.getTileBytes();
}

static int64_t bytesToCome(kgpu::AllocOp alloc) { return alloc.getMem().getType().getBytes(); }

void nvvm::openMbarriers(Lowering &lowering) {
  CodeBuilder &b = lowering.b;
  SmallVector<kgpu::AllocOp> allocs;
  lowering.source.walk([&](kgpu::AllocOp alloc) {
    if (alloc.getMbarrier())
      allocs.push_back(alloc);
  });
  if (allocs.empty())
    return;
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.thread(), b.i32(0));
  Value base = lowering.shared.base();
  auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  SmallVector<std::pair<Value, kgpu::AllocOp>> armed;
  for (kgpu::AllocOp alloc : allocs) {
    bool once = isArmedAtEntry(alloc);
    // Otherwise one arrival per warp that receives: those of the block, or of the role that contains the mbarrier.
    auto [roles, role] = kgpu::roleAround(alloc);
    int64_t arrivals = once ? 1 : roles ? roles.warpsOf(role) : lowering.place.threads() / 32;
    for (int64_t slot = 0; slot < int32_t(alloc.getSlots()); ++slot) {
      Value counter = b.addressOf(b.offsetBy(base, placeOf(alloc, slot)));
      b.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", {}, {counter, b.i32(arrivals)});
      if (once)
        armed.push_back({counter, alloc});
    }
  }
  b.ptx("fence.mbarrier_init.release.cluster;", "", {}, {});
  for (auto [counter, alloc] : armed)
    b.ptx("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r", {}, {counter, b.i32(bytesToCome(alloc))});
}

/// Waits for all adjacent messages at once, so that no warp waits for another's arrival in between: arriving for a
/// second one only after the first had come took an H200 up to 0.5 us more.
///
/// In a loop, one lane of each warp arrives, the first one announcing the number of bytes to come, and waits; its warp
/// waits for it. The arrival returns the state that identifies the phase, so that threads need not count phases. Only
/// an acquire at cluster scope makes visible what other ctas have stored.
static LogicalResult emitAwait(Lowering &lowering, kgpu::AwaitOp op) {
  if (isa_and_nonnull<kgpu::AwaitOp>(op->getPrevNode()))
    return success();
  CodeBuilder &b = lowering.b;
  auto wait = [](StringRef form, const Twine &place, const Twine &phase, unsigned label) {
    std::string number = std::to_string(label);
    return ("WAIT" + number + ":\n\tmbarrier.try_wait" + form + ".acquire.cluster.shared::cta.b64 over, [" + place +
            "], " + phase + ";\n\t@!over bra WAIT" + number + ";\n\t")
        .str();
  };
  SmallVector<Value> counters, bytes;
  std::string armed;
  unsigned label = 0;
  for (auto each = op; each; each = dyn_cast_or_null<kgpu::AwaitOp>(each->getNextNode())) {
    kgpu::AllocOp alloc = kgpu::mbarrierOf(each.getMem());
    if (isArmedAtEntry(alloc)) {
      armed += wait(".parity", "$0+" + Twine(placeOf(alloc)), "0", label++);
      continue;
    }
    counters.push_back(b.addressOf(b.offsetBy(lowering.scalar(each.getMem()), alloc.getTileBytes())));
    bytes.push_back(lowering.place.atEntry([&]() -> Value {
      Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.thread(), b.i32(0));
      return arith::SelectOp::create(b, first, b.i32(bytesToCome(alloc)), b.i32(0));
    }));
  }
  // One address for all: registers are scarce where rows are long.
  if (!armed.empty())
    b.ptx("{\n\t.reg .pred over;\n\t" + armed + "}", "r", {}, {b.addressOf(lowering.shared.base())});
  if (!counters.empty()) {
    unsigned count = counters.size();
    std::string arrivals, waits, constraints = "b";
    for (unsigned i = 0; i < count; ++i) {
      std::string phase = "phase" + std::to_string(i);
      arrivals += "mbarrier.arrive.expect_tx.shared::cta.b64 " + phase + ", [$" + std::to_string(1 + i) + "], $" +
                  std::to_string(1 + count + i) + ";\n\t";
      waits += wait("", "$" + Twine(1 + i), phase, i);
      constraints += ",r,r";
    }
    SmallVector<Value> operands = {lowering.place.atEntry([&]() -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.lane(), b.i32(0));
    })};
    operands.append(counters);
    operands.append(bytes);
    b.ptx("{\n\t.reg .b64 phase<" + std::to_string(count) + ">;\n\t.reg .pred over;\n\t@!$0 bra MET;\n\t" + arrivals +
              waits + "MET:\n\tbar.warp.sync 0xffffffff;\n\t}",
          constraints, {}, operands);
  }
  return success();
}

void nvvm::addMbarriers(EmitTable &table) { table.add<kgpu::AwaitOp, emitAwait>(); }
