// The ops on shared memory: alloc, slot, view, local_store (also into other ctas), local_load, local_gather and
// local_atomic_add, in the widest vectors that suit both registers and memory.
#include "compiler/conversion/kgpu_to_nvvm/MatrixLoad.h"
#include "compiler/conversion/kgpu_to_nvvm/Mbarrier.h"
#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"
#include "dialects/kgpu/KgpuOps.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

/// Stores `values` (elements in their form in memory) at `pointer`.
static void storeVector(Lowering &lowering, ArrayRef<Value> values, Value pointer, int64_t elementBytes) {
  CodeBuilder &b = lowering.b;
  unsigned align = elementBytes * values.size();
  if (values.size() == 1) {
    LLVM::StoreOp::create(b, values.front(), pointer, align);
    return;
  }
  Type type = VectorType::get(int64_t(values.size()), values.front().getType());
  Value vector = LLVM::PoisonOp::create(b, type);
  for (auto [i, value] : llvm::enumerate(values))
    vector = LLVM::InsertElementOp::create(b, vector, value, b.i32(i));
  LLVM::StoreOp::create(b, vector, pointer, align);
}

static Registers loadVector(Lowering &lowering, Type type, int64_t count, Value pointer, int64_t elementBytes) {
  CodeBuilder &b = lowering.b;
  unsigned align = elementBytes * count;
  if (count == 1)
    return {LLVM::LoadOp::create(b, type, pointer, align).getResult()};
  Value vector = LLVM::LoadOp::create(b, VectorType::get(count, type), pointer, align);
  Registers values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(LLVM::ExtractElementOp::create(b, vector, b.i32(i)));
  return values;
}

Registers nvvm::loadShared(Lowering &lowering, Type element, int64_t count, Value pointer) {
  Registers values = loadVector(lowering, tile::memoryType(element), count, pointer, memoryBytes(element));
  for (Value &value : values)
    value = lowering.b.fromTransfer(value, element);
  return values;
}

//===----------------------------------------------------------------------===//
// alloc, slot
//===----------------------------------------------------------------------===//

static LogicalResult emitAlloc(Lowering &lowering, kgpu::AllocOp op) {
  auto offset = op.getOffset();
  if (!offset)
    return op.emitOpError("expected an offset (because kiln-plan-shared-memory gives each allocation one), got none");
  lowering.set(op, {lowering.b.offsetBy(lowering.shared.base(), int64_t(*offset))});
  return success();
}

static LogicalResult emitSlot(Lowering &lowering, kgpu::SlotOp op) {
  int64_t bytes = op.getMem().getDefiningOp<kgpu::AllocOp>().getSlotBytes();
  Value distance = arith::MulIOp::create(lowering.b, lowering.scalar(op.getIndex()), lowering.b.i32(bytes));
  lowering.set(op, {lowering.b.offsetBy(lowering.scalar(op.getMem()), distance)});
  return success();
}

static LogicalResult emitTrans(Lowering &lowering, kgpu::TransOp op) {
  lowering.set(op.getResult(), {lowering.scalar(op.getMem())});
  return success();
}

static LogicalResult emitView(Lowering &lowering, kgpu::ViewOp op) {
  int64_t bytes = int64_t(op.getOffset()) * op.getMem().getType().getElementBytes();
  lowering.set(op, {lowering.b.offsetBy(lowering.scalar(op.getMem()), bytes)});
  return success();
}

/// The widest access that a memory is aligned for: a view may start anywhere.
static int64_t alignmentOf(Value memory) {
  auto view = memory.getDefiningOp<kgpu::ViewOp>();
  int64_t bytes = view ? int64_t(view.getOffset()) * view.getMem().getType().getElementBytes() : 0;
  return bytes == 0 ? kgpu::kSharedAlign : std::min(kgpu::kSharedAlign, bytes & -bytes);
}

//===----------------------------------------------------------------------===//
// local_store
//===----------------------------------------------------------------------===//

/// The corresponding address in the memory of cta `cta` of the cluster.
static Value inCta(Lowering &lowering, Value pointer, Value cta) {
  Type remote = LLVM::LLVMPointerType::get(lowering.b.getContext(), kCluster);
  return lowering.b.intrinsic("llvm.nvvm.mapa.shared.cluster", remote, {pointer, cta});
}

/// i1: this thread is the owner among the threads that differ in `coords`; null if every thread is.
static Value ownerAmong(Lowering &lowering, const Layout &tile, ArrayRef<Coord> coords) {
  CodeBuilder &b = lowering.b;
  return lowering.place.atEntry([&]() -> Value {
    Value owner;
    for (Coord coord : coords) {
      uint64_t repeats = tile.ownerMask(coord);
      // The replicating digits, as a number of their own, are 0 at the owner.
      Value others =
          lowering.coordinates.digitsValue(tile, coord, [&](unsigned i) { return int64_t(repeats >> i & 1) << i; });
      if (!others)
        continue;
      Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, others, b.i32(0));
      owner = owner ? arith::AndIOp::create(b, owner, here).getResult() : here;
    }
    return owner;
  });
}

static void guarded(Lowering &lowering, Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(lowering.b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(lowering.b);
  lowering.b.setInsertionPointToStart(branch.thenBlock());
  body();
}

static LogicalResult emitScalarStore(Lowering &lowering, kgpu::LocalStoreOp op) {
  CodeBuilder &b = lowering.b;
  Type element = op.getValue().getType();
  Value pointer = lowering.scalar(op.getMem()), value = lowering.b.toTransfer(lowering.scalar(op.getValue()), element);
  bool crosses = op.crossesCtas();
  Value first = lowering.place.atEntry([&]() -> Value {
    Value thread = lowering.place.thread();
    if (crosses)
      thread = arith::OrIOp::create(b, thread, lowering.place.cta());
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, b.i32(0));
  });
  guarded(lowering, first, [&] {
    if (!crosses)
      return storeVector(lowering, {value}, pointer, memoryBytes(element));
    for (int64_t cta = 0; cta < lowering.place.clusterSize(); ++cta)
      storeVector(lowering, {value}, inCta(lowering, pointer, b.i32(cta)), memoryBytes(element));
  });
  return success();
}

static LogicalResult emitLocalStore(Lowering &lowering, kgpu::LocalStoreOp op) {
  CodeBuilder &b = lowering.b;
  if (!isTile(op.getValue()))
    return emitScalarStore(lowering, op);
  const Layout &tile = kgpu::layoutOf(op.getValue().getType()), &memory = kgpu::layoutOf(op.getMem().getType());
  Type element = elementOf(op.getValue());
  int64_t bytes = memoryBytes(element);
  OffsetMap map(memory);
  MemoryPlan plan = planMemory(tile, map, bytes, alignmentOf(op.getMem()));
  MemoryAddress address(lowering, tile, map, lowering.scalar(op.getMem()), bytes);
  ArrayRef<Value> registers = lowering.get(op.getValue());
  auto storeAll = [&](llvm::function_ref<void(ArrayRef<Value>, Value)> put) {
    for (const MemoryPlan::Vector &access : plan.accesses) {
      SmallVector<Value> values;
      for (int64_t reg : access.registers)
        values.push_back(lowering.b.toTransfer(registers[reg], element));
      put(values, address.of(access));
    }
  };
  kgpu::AllocOp mbarrier = kgpu::mbarrierOf(op.getMem());
  auto putInCta = [&](ArrayRef<Value> values, Value pointer, Value cta) {
    if (mbarrier)
      return sendToCta(lowering, values, pointer, bytes, cta, lowering.scalar(op.getMem()), mbarrier.getTileBytes());
    storeVector(lowering, values, inCta(lowering, pointer, cta), bytes);
  };
  int64_t ctas = lowering.place.clusterSize();
  if (!op.crossesCtas() && lowering.target.has(Feature::MatrixStore))
    if (auto matrices = planMatrices(tile, op.getMem().getType(), plan.vector, alignmentOf(op.getMem()))) {
      // The instruction is warp-wide, so whole warps store or do not.
      guarded(lowering, ownerAmong(lowering, tile, {Coord::Warp, Coord::Group}), [&] {
        storeMatrices(lowering, *matrices, op.getMem().getType(), lowering.scalar(op.getMem()), registers);
      });
      return success();
    }
  if (!op.crossesCtas()) {
    // Each cta stores what its own threads hold: for that, replicas in different ctas all count as owners.
    Value owner = ownerAmong(lowering, tile, {Coord::Lane, Coord::Warp, Coord::Group});
    guarded(lowering, owner, [&] {
      storeAll([&](ArrayRef<Value> values, Value pointer) { storeVector(lowering, values, pointer, bytes); });
    });
    return success();
  }
  if (std::optional<layout::ClusterPiece> held = layout::pieceOf(memory); mbarrier && held && held->split) {
    // An element goes to the cta whose piece it is in, which depends on its register alone.
    unsigned dim = *held->split;
    int64_t side = held->piece.shape()[dim];
    for (const MemoryPlan::Vector &access : plan.accesses) {
      SmallVector<Value> values;
      for (int64_t reg : access.registers)
        values.push_back(lowering.b.toTransfer(registers[reg], element));
      int64_t cta = tile.at(Coord::Reg, access.registers.front())[dim] / side;
      // One address per cta; the registers add constants to it.
      MemoryPlan::Vector first = access;
      first.constant = 0;
      sendToCta(lowering, values, address.of(first), bytes, b.i32(cta), lowering.scalar(op.getMem()),
                mbarrier.getTileBytes(), access.constant * bytes, /*asOne=*/true);
    }
    return success();
  }
  bool sameInLanes = llvm::all_of(tile.digits(Coord::Lane), [](const layout::Digit &d) { return d.replicates(); });
  if (sameInLanes && ctas <= 32 && !op.fromOneOwner()) {
    // Every lane has the value, so lane i sends it to cta i.
    Value mine = lowering.place.atEntry([&]() -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, lowering.place.lane(), b.i32(ctas));
    });
    if (Value owner = ownerAmong(lowering, tile, {Coord::Warp, Coord::Group, Coord::Cta}))
      mine = arith::AndIOp::create(b, mine, owner);
    guarded(lowering, mine, [&] {
      storeAll([&](ArrayRef<Value> values, Value pointer) { putInCta(values, pointer, lowering.place.lane()); });
    });
    return success();
  }
  guarded(lowering, lowering.coordinates.isOwner(tile), [&] {
    for (int64_t cta = 0; cta < ctas; ++cta)
      storeAll([&](ArrayRef<Value> values, Value pointer) { putInCta(values, pointer, b.i32(cta)); });
  });
  return success();
}

//===----------------------------------------------------------------------===//
// local_load
//===----------------------------------------------------------------------===//

static LogicalResult emitLocalLoad(Lowering &lowering, kgpu::LocalLoadOp op) {
  Type element = elementOf(op.getResult());
  int64_t bytes = memoryBytes(element);
  Value base = lowering.scalar(op.getMem());
  if (!isTile(op.getResult())) {
    Registers loaded = loadVector(lowering, tile::memoryType(element), 1, base, bytes);
    lowering.set(op, {lowering.b.fromTransfer(loaded.front(), element)});
    return success();
  }
  const Layout &tile = kgpu::layoutOf(op.getType());
  OffsetMap map(kgpu::layoutOf(op.getMem().getType()));
  MemoryPlan plan = planMemory(tile, map, bytes, alignmentOf(op.getMem()));
  if (lowering.target.has(Feature::MatrixLoad))
    if (auto matrices = planMatrices(tile, op.getMem().getType(), plan.vector, alignmentOf(op.getMem()))) {
      lowering.set(op, loadMatrices(lowering, *matrices, op.getMem().getType(), base, tile.registers()));
      return success();
    }
  MemoryAddress address(lowering, tile, map, base, bytes);
  Registers registers(tile.registers());
  for (const MemoryPlan::Vector &access : plan.accesses) {
    Registers loaded = loadVector(lowering, tile::memoryType(element), plan.vector, address.of(access), bytes);
    for (auto [reg, value] : llvm::zip(access.registers, loaded))
      registers[reg] = lowering.b.fromTransfer(value, element);
  }
  repeatOwners(tile, registers);
  lowering.set(op, registers);
  return success();
}

//===----------------------------------------------------------------------===//
// local_gather, local_atomic_add
//===----------------------------------------------------------------------===//

/// The strides of the dimensions in elements; std::nullopt unless the memory is row-major in some order.
static std::optional<SmallVector<int64_t>> stridesOf(const Layout &memory) {
  OffsetMap map(memory);
  SmallVector<int64_t> strides;
  for (auto [dim, side] : llvm::enumerate(memory.shape())) {
    layout::Index element(memory.rank(), 0);
    int64_t power = layout::splitSide(side)->power;
    element[dim] = side > 1 ? 1 : 0;
    strides.push_back(map.offsetOf(element));
    for (int64_t place = 1; place < side; place = place < power ? place * 2 : side) {
      element[dim] = place;
      if (map.offsetOf(element) != strides.back() * place)
        return std::nullopt;
    }
  }
  return strides;
}

/// An index as i32; an index outside 0..side-1 becomes side-1.
static Value clampIndex(Lowering &lowering, Value index, int64_t side) {
  CodeBuilder &b = lowering.b;
  unsigned bits = index.getType().getIntOrFloatBitWidth();
  if (bits < 32)
    index = arith::ExtUIOp::create(b, b.getI32Type(), index);
  Value last = bits == 64 ? b.i64(side - 1) : b.i32(side - 1);
  index = arith::MinUIOp::create(b, index, last);
  return bits == 64 ? arith::TruncIOp::create(b, b.getI32Type(), index).getResult() : index;
}

static LogicalResult emitLocalGather(Lowering &lowering, kgpu::LocalGatherOp op) {
  CodeBuilder &b = lowering.b;
  const Layout &memory = kgpu::layoutOf(op.getMem().getType()), &tile = kgpu::layoutOf(op.getIndices().getType());
  auto strides = stridesOf(memory);
  if (!strides)
    return op.emitOpError("expected row-major memory (because its elements are addressed individually), got ")
           << op.getMem().getType();
  Type element = op.getMem().getType().getElementType();
  int64_t bytes = memoryBytes(element);
  Value base = lowering.scalar(op.getMem());
  Registers result(tile.registers());
  for (int64_t reg = 0; reg < tile.registers(); ++reg) {
    if (!isOwnerRegister(tile, reg)) {
      result[reg] = result[ownerRegister(tile, reg)];
      continue;
    }
    Value offset;
    for (unsigned dim = 0; dim < tile.rank(); ++dim) {
      Value place = dim == op.getAxis() ? clampIndex(lowering, lowering.get(op.getIndices())[reg], memory.shape()[dim])
                                        : lowering.coordinates.of(tile, reg, dim);
      Value term = arith::MulIOp::create(b, place, b.i32((*strides)[dim] * bytes));
      offset = offset ? arith::AddIOp::create(b, offset, term).getResult() : term;
    }
    Registers loaded = loadVector(lowering, tile::memoryType(element), 1, b.offsetBy(base, offset), bytes);
    result[reg] = lowering.b.fromTransfer(loaded.front(), element);
  }
  lowering.set(op, result);
  return success();
}

static LogicalResult emitLocalAtomicAdd(Lowering &lowering, kgpu::LocalAtomicAddOp op) {
  CodeBuilder &b = lowering.b;
  const Layout &memory = kgpu::layoutOf(op.getMem().getType()), &tile = kgpu::layoutOf(op.getIndices().getType());
  auto strides = stridesOf(memory);
  if (!strides || (memory.shape()[0] > 1 && strides->front() != 1))
    return op.emitOpError("expected memory in order (because its counters are addressed individually), got ")
           << op.getMem().getType();
  Value base = lowering.scalar(op.getMem());
  Value owner = ownerAmong(lowering, tile, {Coord::Lane, Coord::Warp, Coord::Group});
  for (int64_t reg = 0; reg < tile.registers(); ++reg) {
    if (!isOwnerRegister(tile, reg))
      continue;
    Value index = lowering.get(op.getIndices())[reg];
    Value side = b.constant(index.getType(), b.getIntegerAttr(index.getType(), memory.shape()[0]));
    // A narrow index cannot reach a side that exceeds its range, so it needs no check.
    unsigned bits = index.getType().getIntOrFloatBitWidth();
    Value counts = bits < 32 && memory.shape()[0] >> bits != 0
                       ? Value()
                       : arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, side).getResult();
    auto require = [&](Value condition) {
      if (condition)
        counts = counts ? arith::AndIOp::create(b, counts, condition).getResult() : condition;
    };
    require(owner);
    if (op.getMask())
      require(lowering.get(op.getMask())[reg]);
    Value value = lowering.get(op.getValue())[reg];
    guarded(lowering, counts, [&] {
      Value distance = clampIndex(lowering, index, memory.shape()[0]);
      distance = arith::MulIOp::create(b, distance, b.i32(4));
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, b.offsetBy(base, distance), value,
                                LLVM::AtomicOrdering::monotonic);
    });
  }
  return success();
}

void nvvm::addSharedMemory(EmitTable &table) {
  table.add<kgpu::AllocOp, emitAlloc>();
  table.add<kgpu::SlotOp, emitSlot>();
  table.add<kgpu::ViewOp, emitView>();
  table.add<kgpu::TransOp, emitTrans>();
  table.add<kgpu::LocalStoreOp, emitLocalStore>();
  table.add<kgpu::LocalLoadOp, emitLocalLoad>();
  table.add<kgpu::LocalGatherOp, emitLocalGather>();
  table.add<kgpu::LocalAtomicAddOp, emitLocalAtomicAdd>();
}
