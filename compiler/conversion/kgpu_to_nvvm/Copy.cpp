// Copies by the copy engine: boxes of mapped arrays into slots of channels, and from shared memory to global memory,
// with their fences and waits. One thread issues them.
//
//     kgpu.copy_in %map[%i, %seven] to %s of %c[%at]     with %s : !kgpu.mem<64x128xf16, swizzled ... bytes 128>
//   becomes one copy per panel of 128 bytes (64 elements), innermost coordinate first:
//     @leader cp.async.bulk.tensor.2d.shared::cluster.global...bytes [s], [map, {7, i}], [full(slot)];
//     @leader cp.async.bulk.tensor.2d.shared::cluster.global...bytes [s + 8192], [map, {71, i}], [full(slot)];
#include "compiler/conversion/kgpu_to_nvvm/Channel.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;

namespace {
/// What one cta copies: a sequence of boxes, and how their positions and addresses change from cta to cta.
struct CtaBoxes {
  kgpu::BoxPlan plan;
  int64_t pieces = 1;            ///< ctas that each send a part of the memory to all
  unsigned dim = 0;              ///< the dimension that is cut
  int64_t distance = 0;          ///< elements along it from one cta's first box to the next cta's
  int64_t placeDistance = 0;     ///< the same in bytes of shared memory
  SmallVector<unsigned, 4> mine; ///< numbers of the boxes of cta 0, in the order in which they are issued
  bool onlyFirst = false;        ///< cta 0 sends everything
};
} // namespace

/// The number of ctas that hold the same contents of `memory`.
static int64_t replicasOf(kgpu::MemType memory) {
  int64_t count = 1;
  for (const layout::Digit &digit : kgpu::layoutOf(memory).digits(Coord::Cta))
    count *= digit.replicates() ? digit.radix : 1;
  return count;
}

/// `map` determines how many rows a box has.
static FailureOr<CtaBoxes> boxesOf(Operation *op, Value map, kgpu::MemType memory, bool sharesPieces) {
  CtaBoxes boxes;
  int64_t replicas = replicasOf(memory);
  if (sharesPieces)
    boxes.pieces = replicas;
  const layout::Layout &layout = kgpu::layoutOf(memory);
  std::optional<layout::ClusterPiece> held = layout::pieceOf(layout);
  std::optional<kgpu::BoxPlan> plan = kgpu::planBoxes(memory, boxes.pieces);
  auto made = map.getDefiningOp<kgpu::TensorMapOp>();
  int64_t boxRows = made ? made.getBox().take_back(memory.getRank()).front() : 0;
  bool inRuns = plan && made && plan->box.front() != boxRows;
  if (inRuns)
    plan = kgpu::planBoxes(memory, boxes.pieces, boxRows);
  unsigned last = memory.getRank() - 1;
  bool rows = layout.digits(Coord::Offset).empty() || layout.digits(Coord::Offset).front().basis[last] != 0;
  if (!plan || !held || !rows)
    return op->emitOpError("expected row-major memory or memory swizzled by rows (because the copy engine writes boxes "
                           "in those layouts), got ")
           << memory;
  boxes.plan = *plan;
  if (held->split) {
    boxes.dim = *held->split;
    boxes.distance = held->piece.shape()[boxes.dim];
  }
  // If boxes have fewer rows than they could: first all boxes of the same rows of the array, then the next rows.
  auto order = [&] {
    if (inRuns)
      llvm::sort(boxes.mine, [&](unsigned a, unsigned b) {
        return std::pair(boxes.plan.starts[a].front(), a) < std::pair(boxes.plan.starts[b].front(), b);
      });
    return boxes;
  };
  unsigned count = boxes.plan.starts.size();
  if (boxes.pieces > 1 && memory.getRank() > 1) {
    // In each panel, the first ctas have the first rows.
    int64_t rowsOfCta = held->piece.shape()[0] / boxes.pieces;
    for (unsigned box = 0; box < count; ++box)
      if (boxes.plan.starts[box][0] < rowsOfCta)
        boxes.mine.push_back(box);
    boxes.distance = rowsOfCta;
    boxes.placeDistance = rowsOfCta / boxes.plan.box[0] * boxes.plan.boxBytes;
    return order();
  }
  boxes.onlyFirst = replicas > 1;
  for (unsigned box = 0; box < count; ++box)
    boxes.mine.push_back(box);
  return order();
}

/// value + constant; the value itself if the constant is zero.
static Value plus(Lowering &lowering, Value value, int64_t constant) {
  return constant == 0 ? value : arith::AddIOp::create(lowering.b, value, lowering.b.i32(constant)).getResult();
}

/// cta() * distance; null if that is zero.
static Value ofCta(Lowering &lowering, int64_t distance) {
  if (distance == 0)
    return {};
  return lowering.place.atEntry(
      [&]() -> Value { return arith::MulIOp::create(lowering.b, lowering.place.cta(), lowering.b.i32(distance)); });
}

/// group() * distance; null if that is zero.
static Value ofGroup(Lowering &lowering, int64_t distance) {
  if (distance == 0)
    return {};
  return lowering.place.atEntry(
      [&]() -> Value { return arith::MulIOp::create(lowering.b, lowering.place.group(), lowering.b.i32(distance)); });
}

/// The position of box `box` of this cta, first dimension first. With `rows`: of this group's box, each group having
/// that many rows of the matrix.
static SmallVector<Value> positionOf(Lowering &lowering, const CtaBoxes &boxes, unsigned box, ValueRange offsets,
                                     int64_t rows = 0) {
  SmallVector<Value> position;
  Value moved = ofCta(lowering, boxes.distance), movedByGroup = ofGroup(lowering, rows);
  // Along leading dimensions that the memory lacks, the box has one element.
  size_t single = offsets.size() - boxes.plan.box.size();
  for (auto [i, offset] : llvm::enumerate(offsets)) {
    Value at = lowering.scalar(offset);
    if (i >= single) {
      if (moved && i - single == boxes.dim)
        at = arith::AddIOp::create(lowering.b, at, moved);
      if (movedByGroup && i == single)
        at = arith::AddIOp::create(lowering.b, at, movedByGroup);
      at = plus(lowering, at, boxes.plan.starts[box][i - single]);
    }
    position.push_back(at);
  }
  return position;
}

/// True in the thread that issues the copies, in the cta that does: one thread of the team, or one of each group.
static Value issuerOf(Lowering &lowering, const CtaBoxes &boxes, bool byGroup = false) {
  Value issuer = byGroup ? lowering.place.isIssuerOfGroup() : lowering.place.isIssuer();
  if (!boxes.onlyFirst)
    return issuer;
  return lowering.place.atEntry([&]() -> Value {
    Value first = arith::CmpIOp::create(lowering.b, arith::CmpIPredicate::eq, lowering.place.cta(), lowering.b.i32(0));
    return arith::AndIOp::create(lowering.b, issuer, first);
  });
}

namespace {
/// The text and operands of one copy, assembled in order.
struct Copy {
  std::string text, constraints;
  SmallVector<Value> operands;

  std::string operand(StringRef constraint, Value value) {
    constraints += (constraints.empty() ? "" : ",") + constraint.str();
    operands.push_back(value);
    return "$" + std::to_string(operands.size() - 1);
  }
  /// "[map, {inner, ..., outer}]"
  std::string box(Value map, ArrayRef<Value> position) {
    std::string text = "[" + operand("l", map) + ", {";
    for (auto [i, place] : llvm::enumerate(llvm::reverse(position)))
      text += (i ? ", " : "") + operand("r", place);
    return text + "}]";
  }
};
} // namespace

static LogicalResult emitCopyIn(Lowering &lowering, kgpu::CopyInOp op) {
  CodeBuilder &b = lowering.b;
  FailureOr<CtaBoxes> boxes = boxesOf(op, op.getMap(), op.getMem().getType(), /*sharesPieces=*/true);
  if (failed(boxes))
    return failure();
  kgpu::ChannelOp channel = channelOf(op.getChannel());
  unsigned part = cast<OpResult>(op.getMem()).getResultNumber();
  Value slot = inSlot(lowering, lowering.shared.address(int64_t(*channel.getOffset()) + channel.getPartOffset(part)),
                      op.getCursor(), channel.getSlotStride());
  if (Value moved = ofCta(lowering, boxes->placeDistance))
    slot = arith::AddIOp::create(b, slot, moved);
  Value full = barrierOf(lowering, op.getChannel(), op.getCursor(), kFull), issuer = issuerOf(lowering, *boxes);
  auto evict = tile::Eviction(int32_t(op.getEvict()));
  bool multicast = boxes->pieces > 1;
  for (unsigned box : boxes->mine) {
    SmallVector<Value> position = positionOf(lowering, *boxes, box, op.getOffsets());
    Copy copy;
    std::string place = copy.operand("r", plus(lowering, slot, int64_t(box) * boxes->plan.boxBytes));
    std::string from = copy.box(lowering.scalar(op.getMap()), position), barrier = copy.operand("r", full);
    copy.text = "cp.async.bulk.tensor." + std::to_string(position.size()) +
                "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
    std::string tail = " [" + place + "], " + from + ", [" + barrier + "]";
    if (multicast) {
      // Multicast to the same address in every cta, and to the barrier there.
      Value all = arith::ConstantOp::create(b, b.getI16IntegerAttr(int16_t((1 << lowering.place.clusterSize()) - 1)));
      copy.text += ".multicast::cluster";
      tail += ", " + copy.operand("h", all);
    }
    if (evict != tile::Eviction::Normal) {
      copy.text += ".L2::cache_hint";
      tail += ", " + copy.operand("l", lowering.global.evictPolicy(evict));
    }
    std::string predicate = copy.operand("b", issuer);
    b.ptx("@" + predicate + " " + copy.text + tail + ";", copy.constraints, {}, copy.operands);
  }
  return success();
}

static LogicalResult emitPrefetch(Lowering &lowering, kgpu::PrefetchOp op) {
  FailureOr<CtaBoxes> boxes = boxesOf(op, op.getMap(), cast<kgpu::MemType>(op.getMemory()), /*sharesPieces=*/true);
  if (failed(boxes))
    return failure();
  Value issuer = issuerOf(lowering, *boxes);
  for (unsigned box : boxes->mine) {
    SmallVector<Value> position = positionOf(lowering, *boxes, box, op.getOffsets());
    Copy copy;
    std::string from = copy.box(lowering.scalar(op.getMap()), position), predicate = copy.operand("b", issuer);
    lowering.b.ptx("@" + predicate + " cp.async.bulk.prefetch.tensor." + std::to_string(position.size()) +
                       "d.L2.global.tile " + from + ";",
                   copy.constraints, {}, copy.operands);
  }
  return success();
}

/// The copy engine's name for the reduction.
static StringRef reductionOf(tile::RMWKind kind) {
  switch (kind) {
  case tile::RMWKind::Add:
  case tile::RMWKind::FAdd:
    return "add";
  case tile::RMWKind::UMax:
    return "max";
  case tile::RMWKind::UMin:
    return "min";
  default:
    return tile::stringifyRMWKind(kind);
  }
}

static LogicalResult emitCopyOut(Lowering &lowering, kgpu::CopyOutOp op) {
  FailureOr<CtaBoxes> boxes = boxesOf(op, op.getMap(), op.getMem().getType(), /*sharesPieces=*/false);
  if (failed(boxes))
    return failure();
  Value memory = lowering.b.addressOf(lowering.scalar(op.getMem()));
  Value issuer = issuerOf(lowering, *boxes, op.getByGroup());
  int64_t rows = op.rowsOfGroup();
  if (rows) { // keep the first group's boxes; the others' are at a fixed distance from them in each panel
    llvm::erase_if(boxes->mine, [&](unsigned box) { return boxes->plan.starts[box].front() >= rows; });
    if (Value distance = ofGroup(lowering, rows / boxes->plan.box.front() * boxes->plan.boxBytes))
      memory = arith::AddIOp::create(lowering.b, memory, distance);
  }
  for (unsigned box : boxes->mine) {
    SmallVector<Value> position = positionOf(lowering, *boxes, box, op.getOffsets(), rows);
    Copy copy;
    std::string to = copy.box(lowering.scalar(op.getMap()), position);
    std::string place = copy.operand("r", plus(lowering, memory, int64_t(box) * boxes->plan.boxBytes));
    // A box that starts before the array is skipped: an H200 aborts the launch with an illegal instruction when asked
    // to write one. Schedules ensure that no such box reaches into the array, so nothing is lost.
    Value sign = position.front();
    for (Value at : llvm::drop_begin(position))
      sign = arith::OrIOp::create(lowering.b, sign, at);
    Value inside = arith::CmpIOp::create(lowering.b, arith::CmpIPredicate::sge, sign, lowering.b.i32(0));
    std::string predicate = copy.operand("b", arith::AndIOp::create(lowering.b, issuer, inside));
    std::string name = op.getKind() ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.";
    std::string kind = op.getKind() ? "." + reductionOf(*op.reduction()).str() : "";
    lowering.b.ptx("@" + predicate + " " + name + std::to_string(position.size()) + "d.global.shared::cta" + kind +
                       ".tile.bulk_group " + to + ", [" + place + "];",
                   copy.constraints, {}, copy.operands);
  }
  lowering.b.ptx("@$0 cp.async.bulk.commit_group;", "b", {}, {issuer});
  return success();
}

/// Threads that issued nothing do not wait.
static LogicalResult emitCopyOutWait(Lowering &lowering, kgpu::CopyOutWaitOp op) {
  lowering.b.ptx("cp.async.bulk.wait_group" + std::string(op.getRead() ? ".read " : " ") +
                     std::to_string(int32_t(op.getPending())) + ";",
                 "", {}, {});
  return success();
}

static LogicalResult emitFenceAsync(Lowering &lowering, kgpu::FenceAsyncOp) {
  lowering.b.ptx("fence.proxy.async.shared::cta;", "", {}, {});
  return success();
}

void nvvm::finishCopies(Lowering &lowering, Region &region) {
  // Where the kernel ends, shared memory has to stay until it has been read; the writes complete before the grid does.
  // Elsewhere the writes have to complete, since what follows may depend on them.
  Operation *around = region.getParentOp();
  bool isLast = !isa<kgpu::RolesOp>(around) || isa<func::ReturnOp>(around->getNextNode());
  auto last = dyn_cast_or_null<kgpu::CopyOutWaitOp>(region.front().getTerminator()->getPrevNode());
  if (last && (isLast || !last.getRead()) && int32_t(last.getPending()) == 0)
    return; // there is such a wait already
  auto copies = [](Operation *op) {
    if (isa<kgpu::RolesOp>(op))
      return WalkResult::skip(); // each role waits at its own end
    return isa<kgpu::CopyOutOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
  };
  if (region.walk<WalkOrder::PreOrder>(copies).wasInterrupted())
    lowering.b.ptx(isLast ? "cp.async.bulk.wait_group.read 0;" : "cp.async.bulk.wait_group 0;", "", {}, {});
}

void nvvm::addCopies(EmitTable &table) {
  table.add<kgpu::CopyInOp, emitCopyIn>();
  table.add<kgpu::PrefetchOp, emitPrefetch>();
  table.add<kgpu::CopyOutOp, emitCopyOut>();
  table.add<kgpu::CopyOutWaitOp, emitCopyOutWait>();
  table.add<kgpu::FenceAsyncOp, emitFenceAsync>();
}
