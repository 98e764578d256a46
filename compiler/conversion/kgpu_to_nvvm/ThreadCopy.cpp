// kgpu.copy_block and kgpu.copy_tile: cp.async. Each thread copies its share of a tile, 16, 8 or 4 bytes at a time.
#include "compiler/conversion/kgpu_to_nvvm/Access.h"
#include "compiler/conversion/kgpu_to_nvvm/Channel.h"
#include "compiler/conversion/kgpu_to_nvvm/Descriptor.h"
#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

// The most and the least bytes that one instruction copies.
static constexpr int64_t kMostBytes = 16, kLeastBytes = 4;

namespace {
/// One piece of a tile, as a thread reads it.
struct Piece {
  int64_t reg;  ///< its first element, in the layout that determines which thread copies what
  Value source; ///< !llvm.ptr<1>
  Value mask;   ///< i1: whether anything is read; null: yes
  Value count;  ///< i32: how many elements are read, if any; null: all
};

/// Emits the copies to one part of a slot.
class Copier {
public:
  Copier(Lowering &lowering, const Layout &tile, kgpu::MemType memory, Value to, tile::Eviction evict, Value when)
      : lowering(lowering), b(lowering.b), tile(tile), element(memory.getElementType()), bytes(memoryBytes(element)),
        map(kgpu::layoutOf(memory)), address(lowering, tile, map, lowering.scalar(to), bytes), evict(evict) {
    made = lowering.log.unlessFailed(when ? lowering.scalar(when) : Value());
    Value owner = lowering.coordinates.isOwner(tile);
    predicate = made && owner ? arith::AndIOp::create(b, made, owner).getResult() : made ? made : owner;
  }

  /// The elements of a piece, where addresses allow `count`.
  int64_t pieceOf(int64_t count) {
    count = std::min(count, kMostBytes / bytes);
    plan = planMemory(tile, map, bytes, count * bytes);
    // The registers of one vector are consecutive, and none goes beyond where the addresses are contiguous.
    bool inOrder = llvm::all_of(plan.accesses, [&](const MemoryPlan::Vector &access) {
      for (auto [i, reg] : llvm::enumerate(access.registers))
        if (reg != access.registers.front() + int64_t(i))
          return false;
      return access.registers.front() % count + plan.vector <= count;
    });
    if (!inOrder || plan.vector * bytes < kLeastBytes)
      plan = planMemory(tile, map, bytes, bytes);
    return plan.vector;
  }

  void copyAll(llvm::function_ref<Piece(int64_t)> pieceAt) {
    for (const MemoryPlan::Vector &access : plan.accesses) {
      Piece piece = pieceAt(access.registers.front());
      if (plan.vector * bytes >= kLeastBytes)
        copy(piece, address.of(access));
      else
        move(piece, address.of(access));
    }
  }

private:
  void copy(const Piece &piece, Value target) {
    int64_t size = plan.vector * bytes;
    std::string text = size == kMostBytes ? "cp.async.cg.shared.global" : "cp.async.ca.shared.global", tail;
    std::string constraints = "r,l";
    SmallVector<Value> operands = {lowering.b.addressOf(target), piece.source};
    auto operand = [&](StringRef constraint, Value value) {
      constraints += "," + constraint.str();
      operands.push_back(value);
      return "$" + std::to_string(operands.size() - 1);
    };
    // Elements that are not read become zero.
    if (Value count = piece.count ? piece.count : piece.mask ? lowering.b.i32(plan.vector) : Value()) {
      Value read = arith::MulIOp::create(b, count, lowering.b.i32(bytes));
      if (piece.mask)
        read = arith::SelectOp::create(b, piece.mask, read, lowering.b.i32(0));
      tail += ", " + operand("r", read);
    }
    // For targets with a copy engine, ptxas (13.0) encodes some copies that have a hint, where part of the address is
    // uniform, as instructions that the machine refuses.
    if (evict != tile::Eviction::Normal && !lowering.target.has(Feature::BulkCopy)) {
      text += ".L2::cache_hint";
      tail += ", " + operand("l", lowering.global.evictPolicy(evict));
    } else if (size == kMostBytes) {
      text += ".L2::128B";
    }
    text += " [$0], [$1], " + std::to_string(size) + tail + ";";
    if (predicate)
      text = "@" + operand("b", predicate) + " " + text;
    lowering.b.ptx(text, constraints, {}, operands);
  }

  /// One element, too narrow for a copy instruction. All replicas move it, not only the owner.
  void move(const Piece &piece, Value target) {
    VectorAccess access;
    access.element = element;
    access.alignment = bytes;
    access.evict = evict;
    access.isOrdered = true;
    Value mask = piece.mask && made ? arith::AndIOp::create(b, piece.mask, made).getResult()
                 : piece.mask       ? piece.mask
                                    : made;
    Value value = loadVector(lowering, access, piece.source, mask, {}).front();
    LLVM::StoreOp::create(b, lowering.b.toMemory(value, element), target, unsigned(bytes));
  }

  Lowering &lowering;
  CodeBuilder &b;
  const Layout &tile;
  Type element;
  int64_t bytes;
  OffsetMap map;
  MemoryAddress address;
  tile::Eviction evict;
  Value made, predicate; ///< whether the copy happens at all, and whether in this thread; null: yes
  MemoryPlan plan;
};
} // namespace

/// Remarks on a ring's copies that pass through registers although a schedule has counted on asynchronous ones. Only on
/// those in the loop: those before it are made in the same way.
static void remarkOnRegisters(Operation *op, Value channel, int64_t count, int64_t bytes) {
  auto inLoop = [&](kgpu::ReceiveOp receive) { return receive.getChannel() == channel; };
  if (count * bytes < kLeastBytes && llvm::any_of(op->getBlock()->getOps<kgpu::ReceiveOp>(), inLoop))
    op->emitRemark() << "schedule " << (channelOf(channel).getWarpsApart() ? "lanes" : "simple")
                     << ": this block passes through registers, " << count * bytes
                     << " bytes at a time, because its addresses are not known to be multiples of " << kLeastBytes
                     << " bytes";
}

/// The dimension that is contiguous in memory.
static unsigned fastestOf(const Layout &memory) {
  for (const layout::Digit &digit : memory.digits(Coord::Offset))
    for (auto [dim, step] : llvm::enumerate(digit.basis))
      if (step != 0)
        return unsigned(dim);
  return memory.rank() - 1;
}

static LogicalResult emitCopyBlock(Lowering &lowering, kgpu::CopyBlockOp op) {
  kgpu::MemType memory = op.getMem().getType();
  int64_t bytes = memoryBytes(memory.getElementType());
  layout::Threads threads{lowering.place.warps(), lowering.place.groups(), lowering.place.clusterSize()};
  unsigned fastest = fastestOf(kgpu::layoutOf(memory));
  SmallVector<int32_t> order = {int32_t(fastest)};
  for (int32_t dim = int32_t(memory.getRank()); dim-- > 0;)
    if (dim != int32_t(fastest))
      order.push_back(dim);
  // As wide as the addresses are aligned, which in turn determines which thread copies what.
  auto layoutFor = [&](int64_t vector) { return layout::blocked(memory.getShape(), order, vector, threads); };
  Layout widest = layoutFor(kMostBytes / bytes);
  BlockAccess block{op.getDesc(), op.getOffsets(), op.getBoundary(), &widest};
  int64_t width = BlockAddresses(lowering, block, memory.getElementType()).width(/*mayEnd=*/true);
  Layout tile = layoutFor(std::min(width, kMostBytes / bytes));
  block.layout = &tile;
  BlockAddresses addresses(lowering, block, memory.getElementType());
  Copier copier(lowering, tile, memory, op.getMem(), tile::Eviction(int32_t(op.getEvict())), op.getWhen());
  int64_t count = copier.pieceOf(width);
  remarkOnRegisters(op, op.getChannel(), count, bytes);
  copier.copyAll([&](int64_t reg) {
    return Piece{reg, addresses.address(reg), addresses.mask(reg), addresses.inside(reg, fastest, count)};
  });
  return success();
}

static LogicalResult emitCopyTile(Lowering &lowering, kgpu::CopyTileOp op) {
  const Layout &tile = *layoutOf(op.getPtr().getType());
  Grouping grouping = groupPointers(lowering.alignment, op.getPtr(), op.getMask(), lowering.target.vectorBytes);
  ArrayRef<Value> pointers = lowering.get(op.getPtr());
  Copier copier(lowering, tile, op.getMem().getType(), op.getMem(), tile::Eviction(int32_t(op.getEvict())),
                op.getWhen());
  int64_t count = copier.pieceOf(grouping.count);
  remarkOnRegisters(op, op.getChannel(), count, memoryBytes(op.getMem().getType().getElementType()));
  copier.copyAll([&](int64_t reg) {
    return Piece{reg, pointers[reg], op.getMask() ? lowering.get(op.getMask())[reg] : Value(), Value()};
  });
  return success();
}

void nvvm::addThreadCopies(EmitTable &table) {
  table.add<kgpu::CopyBlockOp, emitCopyBlock>();
  table.add<kgpu::CopyTileOp, emitCopyTile>();
}
