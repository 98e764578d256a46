// kiln-lower-desc-reductions: turns reductions of tiles into a described array that no schedule has taken into atomics
// through pointers.
#include "compiler/transforms/schedule/Passes.h"
#include "dialects/kgpu/KgpuDialect.h"
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln {
#define GEN_PASS_DEF_LOWERDESCREDUCTIONSPASS
#include "compiler/transforms/schedule/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Computes pointers to the block's elements, and a mask of those inside the array, in 64 bits.
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
    // Broadcasts a tile along this dimension to the block's shape.
    auto spread = [&](Value tile) -> Value {
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
    Value begun = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, index, all(none));
    Value before = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, all(desc.getShape()[dim]));
    Value there = spread(arith::AndIOp::create(b, begun, before));
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

namespace {
struct LowerDescReductions : kiln::impl::LowerDescReductionsPassBase<LowerDescReductions> {
  void runOnOperation() override {
    SmallVector<tile::DescReduceOp> reductions;
    WalkResult result = getOperation().walk([&](tile::DescReduceOp op) {
      reductions.push_back(op);
      if (op.getDesc().getDefiningOp<tile::MakeDescOp>())
        return WalkResult::advance();
      op.emitOpError("expected a descriptor that is made in this function (because its extents and strides must be "
                     "known here), got one from elsewhere");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (tile::DescReduceOp op : reductions)
      reduceByThreads(op);
  }
};
} // namespace
