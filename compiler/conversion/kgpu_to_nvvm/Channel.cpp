// Channels: the ring and its barriers, cursors, and the waits and arrivals at a slot's two ends. A slot's full barrier
// completes a phase when everything committed has arrived, its empty barrier when all readers have released the slot.
//
//     %s = kgpu.acquire %c[%at]     becomes     WAIT: mbarrier.try_wait.parity over, [empty(slot)], parity ^ 1;
//                                               @!over bra WAIT;
//     kgpu.commit %c[%at]                       @leader mbarrier.arrive.expect_tx _, [full(slot)], 1024;
//     %r = kgpu.receive %c[%at]                 as acquire, with full(slot) and parity
//     kgpu.receive %c[%at] pending 1 by_warp    cp.async.wait_group 1; bar.warp.sync;      (a channel by groups)
//     kgpu.release %c[%at]                      bar.warp.sync; @leader mbarrier.arrive _, [empty(slot)];
//     kgpu.advance %at                          slot + 1 == 2 ? (0, parity ^ 1) : (slot + 1, parity)
#include "compiler/conversion/kgpu_to_nvvm/Channel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw;

kgpu::ChannelOp nvvm::channelOf(Value channel) { return channel.getDefiningOp<kgpu::ChannelOp>(); }

/// True if the readers of all ctas release a slot, because the copies of each cta fill the slots of all.
static bool reachesCluster(Lowering &lowering, kgpu::ChannelOp channel) {
  return lowering.place.clusterSize() > 1 && channel.isMulticast();
}

static bool hasBarriers(kgpu::ChannelOp channel) { return channel.getCompletion() != kgpu::Completion::Groups; }

//===----------------------------------------------------------------------===//
// The ring
//===----------------------------------------------------------------------===//

static LogicalResult emitChannel(Lowering &lowering, kgpu::ChannelOp op) {
  CodeBuilder &b = lowering.b;
  auto offset = op.getOffset();
  if (!offset)
    return op.emitOpError("expected an offset (because kiln-plan-shared-memory gives each channel one), got none");
  lowering.set(op, {b.offsetBy(lowering.shared.base(), int64_t(*offset))});
  if (!hasBarriers(op))
    return success();
  // A barrier after the last channel (BarrierUse.h) keeps all threads from using these before they are initialised.
  bool bytes = op.getCompletion() == kgpu::Completion::Bytes;
  int64_t arrivals = bytes ? 1 : int32_t(op.getFillers()), releases = op.getReleases(lowering.place.clusterSize());
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lowering.place.thread(), b.i32(0));
  auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (int32_t slot = 0; slot < op.getType().getSlots(); ++slot)
    for (auto [distance, count] : {std::pair(kFull, arrivals), {kEmpty, releases}})
      b.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", {},
            {lowering.shared.address(int64_t(*offset) + op.getBarrierOffset(slot) + distance), b.i32(count)});
  // Makes the initialisation visible to the copy engine and to the cluster.
  b.ptx("fence.mbarrier_init.release.cluster;", "", {}, {});
  return success();
}

static LogicalResult emitCursor(Lowering &lowering, kgpu::CursorOp op) {
  lowering.set(op, {lowering.b.i32(0), lowering.b.i32(0)});
  return success();
}

static LogicalResult emitAdvance(Lowering &lowering, kgpu::AdvanceOp op) {
  CodeBuilder &b = lowering.b;
  ArrayRef<Value> place = lowering.get(op.getCursor());
  int32_t slots = op.getCursor().getType().getSlots();
  if (slots == 1) {
    Value parity = arith::XOrIOp::create(b, place[1], b.i32(1));
    lowering.set(op, {place[0], parity});
    return success();
  }
  Value next = arith::AddIOp::create(b, place[0], b.i32(1), kNoWrap);
  Value around = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, next, b.i32(slots));
  Value slot = arith::SelectOp::create(b, around, b.i32(0), next);
  Value flip = arith::ExtUIOp::create(b, b.getI32Type(), around);
  Value parity = arith::XOrIOp::create(b, place[1], flip);
  lowering.set(op, {slot, parity});
  return success();
}

static LogicalResult emitSkip(Lowering &lowering, kgpu::SkipOp op) {
  CodeBuilder &b = lowering.b;
  ArrayRef<Value> place = lowering.get(op.getCursor());
  Value begin = lowering.scalar(op.getLowerBound()), end = lowering.scalar(op.getUpperBound());
  Type type = begin.getType();
  Value zero = arith::ConstantOp::create(b, b.getIntegerAttr(type, 0));
  Value one = arith::ConstantOp::create(b, b.getIntegerAttr(type, 1)), step = lowering.scalar(op.getStep());
  Value length = arith::MaxSIOp::create(b, arith::SubIOp::create(b, end, begin), zero);
  Value trips = arith::AddIOp::create(b, length, arith::SubIOp::create(b, step, one));
  trips = arith::DivUIOp::create(b, trips, step);
  if (type.getIntOrFloatBitWidth() > 32)
    trips = arith::TruncIOp::create(b, b.getI32Type(), trips);
  else if (type.getIntOrFloatBitWidth() < 32)
    trips = arith::ExtUIOp::create(b, b.getI32Type(), trips);
  Value slots = b.i32(op.getCursor().getType().getSlots());
  Value after = arith::AddIOp::create(b, place[0], trips);
  Value rounds = arith::AndIOp::create(b, arith::DivUIOp::create(b, after, slots), b.i32(1));
  lowering.set(op, {arith::RemUIOp::create(b, after, slots), arith::XOrIOp::create(b, place[1], rounds)});
  return success();
}

Value nvvm::barrierOf(Lowering &lowering, Value channel, Value cursor, int64_t barrier) {
  kgpu::ChannelOp ring = channelOf(channel);
  int64_t first = int64_t(*ring.getOffset()) + ring.getBarrierOffset(0) + barrier;
  return inSlot(lowering, lowering.shared.address(first), cursor, ring.getBarrierOffset(1) - ring.getBarrierOffset(0));
}

Value nvvm::inSlot(Lowering &lowering, Value address, Value cursor, int64_t stride) {
  CodeBuilder &b = lowering.b;
  if (cast<kgpu::CursorType>(cursor.getType()).getSlots() == 1)
    return address;
  Value distance = arith::MulIOp::create(b, lowering.get(cursor)[0], b.i32(stride), kNoWrap);
  return arith::AddIOp::create(b, address, distance);
}

/// The parts of a slot as memory.
static Registers partsOf(Lowering &lowering, Value channel, Value cursor, ResultRange parts) {
  CodeBuilder &b = lowering.b;
  kgpu::ChannelOp ring = channelOf(channel);
  Value slot = lowering.scalar(channel);
  if (ring.getType().getSlots() > 1)
    slot = b.offsetBy(
        slot, arith::MulIOp::create(b, lowering.get(cursor)[0], b.i32(ring.getSlotStride()), kNoWrap).getResult());
  Registers places;
  for (unsigned part = 0; part < parts.size(); ++part)
    places.push_back(b.offsetBy(slot, ring.getPartOffset(part)));
  return places;
}

//===----------------------------------------------------------------------===//
// Waiting and arriving
//===----------------------------------------------------------------------===//

/// Waits until the phase with that parity is complete. All lanes wait: a branch that spares the others costs more.
///
/// No scope is named, even where other ctas fill and release the slot: `.acquire.cluster` would invalidate the L1, and
/// `.release.cluster` would wait until the whole GPU sees what the warp wrote, each time. Neither is needed for a slot.
/// Copies deliver their data together with the bytes that they announce; a warp that releases a slot has written
/// nothing to it, and its reads are complete.
static void waitFor(Lowering &lowering, Value barrier, Value parity) {
  lowering.b.ptx("{\n\t.reg .pred over;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 over, [$0], $1;\n\t"
                 "@!over bra WAIT;\n\t}",
                 "r,r", {}, {barrier, parity});
}

template <typename Op> static LogicalResult giveParts(Lowering &lowering, Op op) {
  Registers parts = partsOf(lowering, op.getChannel(), op.getCursor(), op.getParts());
  for (auto [result, place] : llvm::zip_equal(op.getParts(), parts))
    lowering.set(result, {place});
  return success();
}

/// In the first round the preceding phase counts as complete, so the acquire waits for the opposite parity.
static LogicalResult emitAcquire(Lowering &lowering, kgpu::AcquireOp op) {
  kgpu::ChannelOp channel = channelOf(op.getChannel());
  if (hasBarriers(channel)) {
    Value parity = arith::XOrIOp::create(lowering.b, lowering.get(op.getCursor())[1], lowering.b.i32(1));
    waitFor(lowering, barrierOf(lowering, op.getChannel(), op.getCursor(), kEmpty), parity);
  }
  return giveParts(lowering, op);
}

/// True if the predicate holds for any part of the channel that is received.
static bool anyReceived(kgpu::ChannelOp channel, llvm::function_ref<bool(Value)> asks) {
  return llvm::any_of(channel.getResult().getUsers(), [&](Operation *user) {
    auto receive = dyn_cast<kgpu::ReceiveOp>(user);
    return receive && llvm::any_of(receive.getParts(), asks);
  });
}

static LogicalResult emitReceive(Lowering &lowering, kgpu::ReceiveOp op) {
  kgpu::ChannelOp channel = channelOf(op.getChannel());
  if (op.getAgain() && !op.getUnless())
    return giveParts(lowering, op);
  if (!hasBarriers(channel)) {
    // After the barrier that follows (BarrierUse.h), what all threads have copied is visible; after that of a warp,
    // what its lanes have copied.
    lowering.b.ptx("cp.async.wait_group " + std::to_string(int32_t(op.getPending())) + ";", "", {}, {});
    if (op.getByWarp())
      lowering.b.syncWarp();
    if (anyReceived(channel, kgpu::isReadAsynchronously))
      lowering.b.ptx("fence.proxy.async.shared::cta;", "", {}, {});
    return giveParts(lowering, op);
  }
  waitFor(lowering, barrierOf(lowering, op.getChannel(), op.getCursor(), kFull), lowering.get(op.getCursor())[1]);
  return giveParts(lowering, op);
}

/// True if a fence separates `op` from the preceding stores to shared memory in its block.
static bool isFenced(Operation *op) {
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
    if (isa<kgpu::FenceAsyncOp>(before))
      return true;
    if (isa<kgpu::LocalStoreOp, kgpu::LocalAtomicAddOp>(before) || before->getNumRegions() != 0)
      return false;
  }
  return false;
}

static LogicalResult emitCommit(Lowering &lowering, kgpu::CommitOp op) {
  kgpu::ChannelOp channel = channelOf(op.getChannel());
  if (!hasBarriers(channel)) {
    lowering.b.ptx("cp.async.commit_group;", "", {}, {});
    return success();
  }
  Value full = barrierOf(lowering, op.getChannel(), op.getCursor(), kFull);
  if (channel.getCompletion() == kgpu::Completion::Bytes) {
    lowering.b.ptx("@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,b", {},
                   {full, lowering.b.i32(channel.getType().getSlotBytes()), lowering.place.isIssuer()});
    return success();
  }
  if (anyReceived(channel, kgpu::isReadAsynchronously) && !isFenced(op))
    lowering.b.ptx("fence.proxy.async.shared::cta;", "", {}, {});
  lowering.b.syncWarp();
  lowering.b.ptx("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b", {}, {full, lowering.place.isLeader()});
  return success();
}

/// True if only warp-wide instructions read what the channel brings, each of which the whole warp waits for: then, once
/// one lane gets here, all lanes have read.
static bool isReadByWarps(kgpu::ChannelOp channel) {
  return !anyReceived(channel, [](Value part) {
    return llvm::any_of(kgpu::viewsOf(part), [](Value view) {
      return llvm::any_of(view.getUsers(), [](Operation *reader) {
        return !isa<kgpu::SlotOp, kgpu::ViewOp, kgpu::TransOp, kgpu::WarpgroupMmaOp>(reader);
      });
    });
  });
}

static LogicalResult emitRelease(Lowering &lowering, kgpu::ReleaseOp op) {
  CodeBuilder &b = lowering.b;
  kgpu::ChannelOp channel = channelOf(op.getChannel());
  if (!hasBarriers(channel))
    return success();
  if (!isReadByWarps(channel))
    b.syncWarp();
  Value when = op.getWhen() ? lowering.scalar(op.getWhen()) : Value();
  auto both = [&](Value arrives) -> Value {
    return when ? arith::AndIOp::create(b, arrives, when).getResult() : arrives;
  };
  if (!reachesCluster(lowering, channel)) {
    Value empty = barrierOf(lowering, op.getChannel(), op.getCursor(), kEmpty);
    b.ptx("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b", {}, {empty, both(lowering.place.isLeader())});
    return success();
  }
  // Lane i arrives at cta i, which also sends a share of the slot to this cta.
  Value tells = lowering.place.atEntry([&]() -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, lowering.place.lane(),
                                 b.i32(lowering.place.clusterSize()));
  });
  Value there = lowering.place.atEntry([&]() -> Value {
    Value first = lowering.shared.address(int64_t(*channel.getOffset()) + channel.getBarrierOffset(0) + kEmpty);
    Value cta = arith::AndIOp::create(b, lowering.place.lane(), b.i32(lowering.place.clusterSize() - 1));
    return b.ptx("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", b.getI32Type(), {first, cta}, /*pure=*/true).front();
  });
  Value empty = inSlot(lowering, there, op.getCursor(), channel.getBarrierOffset(1) - channel.getBarrierOffset(0));
  b.ptx("@$1 mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,b", {}, {empty, both(tells)});
  return success();
}

void nvvm::addChannels(EmitTable &table) {
  table.add<kgpu::ChannelOp, emitChannel>();
  table.add<kgpu::CursorOp, emitCursor>();
  table.add<kgpu::AdvanceOp, emitAdvance>();
  table.add<kgpu::SkipOp, emitSkip>();
  table.add<kgpu::AcquireOp, emitAcquire>();
  table.add<kgpu::ReceiveOp, emitReceive>();
  table.add<kgpu::CommitOp, emitCommit>();
  table.add<kgpu::ReleaseOp, emitRelease>();
}
