// Matrix products: register tiles of the accumulator, updated by vector FMAs down the shared dimension.
//
//             n ──▶ columns of a tile: `vectors` vectors
//   rhs row k  [ v0 | v1 ]
//   lhs (m, k) ─ broadcast ─▶ acc[m][v] += lhs * v        rows × vectors accumulators stay in registers over all k
//
//   A 32 x 64 product over 32, with AVX-512 (register tile 8 x 32: two vectors by eight rows):
//     scf.for %n = 0 to 64 step 32 { scf.for %m = 0 to 32 step 8 {
//       16 x llvm.load acc
//       scf.for %k = 0 to 32 step 2 iter_args(16 x vector<16xf32>) { 32 x math.fma lhs[m, k], rhs[k, v], acc[m][v] }
//       16 x llvm.store acc } }
#include "compiler/conversion/tile_to_cpu/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

static int64_t largestDivisor(int64_t value, int64_t limit) {
  for (int64_t divisor = std::min(value, limit); divisor > 1; --divisor)
    if (value % divisor == 0)
      return divisor;
  return 1;
}

LogicalResult cpu::emitDot(KernelLowering &lowering, tile::DotOp op) {
  CodeBuilder &b = lowering.b;
  Storage target = lowering.allocateFor(op.getResult());
  lowering.frame.touch(target.lifetime);
  if (!lowering.plan->accumulatesInPlace(op))
    lowering.copyBuffer(lowering.frame.storageOf(op.getAcc()), target);
  const Storage lhs = lowering.frame.storageOf(op.getLhs()), rhs = lowering.frame.storageOf(op.getRhs());
  b.setLoc(op.getLoc());

  Type element = target.element;
  int64_t bytes = memoryBytes(element);
  unsigned rank = target.shape.size();
  int64_t rows = target.shape[rank - 2], cols = target.shape[rank - 1], depth = lhs.shape[rank - 1];
  int64_t batches = rank == 3 ? target.shape[0] : 1;

  // As wide as the vector unit, with as many accumulators as the register tile holds.
  int64_t width = std::min(std::max<int64_t>(1, lowering.target.vectorLanes(bytes)), cols & -cols);
  int64_t budget = std::max<int64_t>(1, lowering.target.registerTileRows * lowering.target.registerTileCols * 4 /
                                            lowering.target.vectorBytes);
  int64_t wanted = std::max<int64_t>(1, lowering.target.registerTileCols * 4 / lowering.target.vectorBytes);
  int64_t vectors = largestDivisor(cols / width, wanted);
  int64_t height = largestDivisor(rows, std::max<int64_t>(1, budget / vectors));
  while (vectors * 2 * height <= budget && (cols / width) % (vectors * 2) == 0)
    vectors *= 2;
  int64_t unroll = depth % 2 == 0 ? 2 : 1;
  int64_t tileCols = vectors * width;

  Type lane = width > 1 ? Type(VectorType::get({width}, element)) : element;
  auto at = [&](Value base, Value index, int64_t scale) {
    return b.offsetBy(base, arith::MulIOp::create(b, index, b.i64(scale)).getResult());
  };
  auto fused = [&](Value x, Value y, Value sum) -> Value {
    if (isa<FloatType>(element))
      return math::FmaOp::create(b, x, y, sum);
    return arith::AddIOp::create(b, arith::MulIOp::create(b, x, y), sum);
  };
  auto micro = [&](Value lhsRow, Value rhsCol, Value accTile) {
    SmallVector<Value> accumulators;
    for (int64_t r = 0; r < height; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        accumulators.push_back(
            LLVM::LoadOp::create(b, lane, b.offsetBy(accTile, (r * cols + v * width) * bytes), bytes));
    SmallVector<Value> sums = b.loop(depth, unroll, accumulators, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried.begin(), carried.end());
      Value lhsAt = at(lhsRow, k, bytes), rhsAt = at(rhsCol, k, cols * bytes);
      for (int64_t step = 0; step < unroll; ++step) {
        SmallVector<Value> line;
        for (int64_t v = 0; v < vectors; ++v)
          line.push_back(LLVM::LoadOp::create(b, lane, b.offsetBy(rhsAt, (step * cols + v * width) * bytes), bytes));
        for (int64_t r = 0; r < height; ++r) {
          Value factor = LLVM::LoadOp::create(b, element, b.offsetBy(lhsAt, (r * depth + step) * bytes), bytes);
          if (width > 1)
            factor = b.toVector(factor, width);
          for (int64_t v = 0; v < vectors; ++v)
            next[r * vectors + v] = fused(factor, line[v], next[r * vectors + v]);
        }
      }
      return next;
    });
    for (int64_t r = 0; r < height; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        LLVM::StoreOp::create(b, sums[r * vectors + v], b.offsetBy(accTile, (r * cols + v * width) * bytes), bytes);
  };
  // Columns are the outer loop, so that the panel of rhs for a column of tiles stays in the first-level cache.
  b.loop(batches, 1, {}, [&](Value batch, ValueRange) -> SmallVector<Value> {
    Value lhsBatch = at(lhs.pointer, batch, rows * depth * bytes);
    Value rhsBatch = at(rhs.pointer, batch, depth * cols * bytes);
    Value accBatch = at(target.pointer, batch, rows * cols * bytes);
    b.loop(cols, tileCols, {}, [&](Value j, ValueRange) -> SmallVector<Value> {
      Value rhsCol = at(rhsBatch, j, bytes), accCol = at(accBatch, j, bytes);
      b.loop(rows, height, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
        micro(at(lhsBatch, i, depth * bytes), rhsCol, at(accCol, i, cols * bytes));
        return {};
      });
      return {};
    });
    return {};
  });
  lowering.frame.assign(op.getResult(), target);
  return success();
}
