// kiln-lower-desc-reductions: tiles that are combined into a described array leave through shared memory and the copy
// engine where it can combine them, else by atomics of threads.
#include "compiler/analysis/Disjoint.h"
#include "compiler/transforms/schedule/Passes.h"
#include "compiler/transforms/schedule/RoleWriter.h"
#include "compiler/transforms/schedule/Schedule.h"
#include "dialects/kgpu/BarrierUse.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln {
#define GEN_PASS_DEF_LOWERDESCREDUCTIONSPASS
#include "compiler/transforms/schedule/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

// Of what a block may have, the part that tiles may take on their way out: exchanges need memory too.
static constexpr int64_t kShareOfMemory = 4;

//===----------------------------------------------------------------------===//
// By threads
//===----------------------------------------------------------------------===//

/// Pointers to the elements of the block, and which of them there are, in 64 bits.
static void reduceByThreads(tile::DescReduceOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto desc = op.getDesc().getDefiningOp<tile::MakeDescOp>();
  RankedTensorType block = op.getDesc().getType().getBlock();
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value none = arith::ConstantOp::create(b, b.getI64IntegerAttr(0)), offset, inside;
  for (int64_t dim = 0; dim < block.getRank(); ++dim) {
    int64_t side = block.getShape()[dim];
    auto line = RankedTensorType::get({side}, i64);
    auto all = [&](Value scalar) -> Value { return tile::SplatOp::create(b, line, scalar); };
    // Along this dimension; then over all of them.
    auto spread = [&](Value tile) -> Value {
      SmallVector<int64_t> sides(block.getRank(), 1);
      sides[dim] = side;
      for (int64_t other = 0; other < block.getRank(); ++other)
        if (other != dim) {
          auto type = cast<RankedTensorType>(tile.getType());
          SmallVector<int64_t> shape(type.getShape());
          shape.insert(shape.begin() + other, 1);
          tile = tile::ExpandDimsOp::create(b, type.clone(shape), tile, int32_t(other));
        }
      auto type = block.clone(cast<RankedTensorType>(tile.getType()).getElementType());
      return type == tile.getType() ? tile : tile::BroadcastOp::create(b, type, tile).getResult();
    };
    Value number = tile::MakeRangeOp::create(b, line.clone(i32), 0, int32_t(side));
    Value index = arith::AddIOp::create(b, all(arith::ExtSIOp::create(b, i64, op.getOffsets()[dim])),
                                        arith::ExtSIOp::create(b, line, number));
    Value step = arith::MulIOp::create(b, index, all(desc.getStrides()[dim]));
    Value behind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, index, all(none));
    Value before = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, all(desc.getShape()[dim]));
    Value there = spread(arith::AndIOp::create(b, behind, before));
    step = spread(step);
    offset = offset ? arith::AddIOp::create(b, offset, step).getResult() : step;
    inside = inside ? arith::AndIOp::create(b, inside, there).getResult() : there;
  }
  Value base = tile::SplatOp::create(b, block.clone(desc.getBase().getType()), desc.getBase());
  Value places = tile::AddPtrOp::create(b, base, offset);
  tile::AtomicRMWOp::create(b, op.getValue().getType(), op.getKind(), places, op.getValue(), inside,
                            tile::MemSemantic::Relaxed, tile::MemScope::GPU);
  op.erase();
}

//===----------------------------------------------------------------------===//
// By the copy engine
//===----------------------------------------------------------------------===//

bool schedule::isAlone(tile::DescReduceOp op) {
  auto kernel = op->getParentOfType<func::FuncOp>();
  return !kernel
              .walk([&](Operation *other) {
                auto alike = dyn_cast<tile::DescReduceOp>(other);
                if (alike && alike.getKind() == op.getKind())
                  return WalkResult::advance();
                // An order that the engine would have to keep.
                BarrierUses uses = barriersOf(other);
                bool orders = isa<tile::AtomicRMWOp, tile::AtomicCASOp>(other) && (uses.before || uses.after);
                bool touches = globalEffect(other) && !areDisjoint(other, op);
                return orders || touches ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

std::optional<MemType> schedule::reductionMemory(tile::DescReduceOp op, const AlignmentAnalysis &alignment) {
  std::string why;
  RankedTensorType tile = asMatrix(cast<RankedTensorType>(op.getValue().getType()));
  if (!CopyOutOp::canReduce(op.getKind(), tile.getElementType()) || !mayCopyOut(op, alignment, why) || !isAlone(op))
    return std::nullopt;
  return storeMemory(tile, /*ctas=*/1, /*swapped=*/false);
}

/// Products that stand where they are, and the exchanges beside them, take memory that is not known yet.
static bool mayStage(func::FuncOp kernel) {
  return !kernel
              .walk([](Operation *op) {
                return isa<tile::DotOp, RolesOp, ChannelOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

static Value asMatrixOf(ImplicitLocOpBuilder &b, Value tile) {
  RankedTensorType type = asMatrix(cast<RankedTensorType>(tile.getType()));
  return type == tile.getType() ? tile : tile::ReshapeOp::create(b, type, tile).getResult();
}

namespace {
struct LowerDescReductions : kiln::impl::LowerDescReductionsPassBase<LowerDescReductions> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    SmallVector<tile::DescReduceOp> reductions;
    bool known = true;
    kernel.walk([&](tile::DescReduceOp op) {
      reductions.push_back(op);
      if (op.getDesc().getDefiningOp<tile::MakeDescOp>())
        return;
      op.emitOpError("expected a descriptor that is made where it is used (because its extents and strides are asked "
                     "for), got one that comes another way");
      known = false;
    });
    if (!known)
      return signalPassFailure();
    if (reductions.empty())
      return;
    Target target = Target::fromModule(kernel->getParentOfType<ModuleOp>());
    llvm::MapVector<Operation *, MemType> staged;
    if (target.isGpu() && target.has(Feature::BulkCopy) && clusterSize(kernel) == 1 && mayStage(kernel)) {
      AlignmentAnalysis alignment(kernel);
      llvm::SmallDenseSet<MemType> memories;
      int64_t bytes = 0;
      for (tile::DescReduceOp op : reductions)
        if (std::optional<MemType> memory = reductionMemory(op, alignment)) {
          staged.insert({op, *memory});
          bytes += memories.insert(*memory).second ? memory->getBytes() : 0;
        }
      if (bytes > target.gpu.maxSharedBytes / kShareOfMemory)
        staged.clear();
    }
    stage(kernel, staged);
    for (tile::DescReduceOp op : reductions)
      if (!staged.contains(op))
        reduceByThreads(op);
      else
        op.erase();
  }

  /// Tiles of one type use one memory, one after the other; barriers and fences between are kiln-insert-barriers'.
  void stage(func::FuncOp kernel, const llvm::MapVector<Operation *, MemType> &staged) {
    if (staged.empty())
      return;
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getContext());
    SmallVector<tile::MakeDescOp> descs;
    for (auto &[op, memory] : staged)
      descs.push_back(cast<tile::DescReduceOp>(op).getDesc().getDefiningOp<tile::MakeDescOp>());
    hoistDescriptors(kernel, descs, b);
    llvm::SmallDenseMap<Type, Value> memories;
    SmallVector<Value> maps;
    for (auto [desc, entry] : llvm::zip_equal(descs, staged)) {
      maps.push_back(mapOf(b, desc, entry.second, /*pieces=*/1));
      Value &memory = memories[entry.second];
      if (!memory)
        memory = AllocOp::create(b, entry.second, /*offset=*/IntegerAttr());
    }
    for (auto [map, entry] : llvm::zip_equal(maps, staged)) {
      auto op = cast<tile::DescReduceOp>(entry.first);
      b.setInsertionPoint(op);
      b.setLoc(op.getLoc());
      CopyOutWaitOp::create(b, /*read=*/true, /*pending=*/0);
      LocalStoreOp::create(b, asMatrixOf(b, op.getValue()), memories[entry.second]);
      CopyOutOp::create(b, memories[entry.second], map, op.getOffsets(),
                        b.getStringAttr(tile::stringifyRMWKind(op.getKind())));
    }
    // Memory of the block is read until then.
    b.setInsertionPoint(kernel.front().getTerminator());
    b.setLoc(kernel.getLoc());
    CopyOutWaitOp::create(b, /*read=*/false, /*pending=*/0);
  }
};
} // namespace
