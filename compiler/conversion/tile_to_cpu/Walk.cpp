// Chooses the dimension along which a nest's vectors run: usually the last; another one if that suits memory better;
// and square blocks transposed in registers where reads want one dimension and writes the other.
//
//   A transposed 32 x 32 tile, read from the frame: blocks of 8 x 8, in steps of 8 along both dimensions:
//     scf.for %i = 0 to 32 step 8 { scf.for %j = 0 to 32 step 8 {
//       %r0 = llvm.load ... : vector<8xf32>     ...     %r7: eight rows of the source
//       24 x vector.shuffle                     three rounds, of strides 1, 2 and 4
//       llvm.store %c0, ...                     ...     %c7: eight rows of the result } }
#include "compiler/conversion/tile_to_cpu/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

static int64_t powerOfTwoIn(int64_t side) { return side & -side; }

Walk KernelLowering::chooseWalk(ArrayRef<int64_t> shape, int reduceAxis, int64_t lanes) const {
  Walk walk;
  walk.shape.assign(shape.begin(), shape.end());
  int last = static_cast<int>(shape.size()) - 1;
  while (last > 0 && shape[last] == 1)
    --last;
  // Along a reduced row, several accumulators hide the latency of the combination.
  int64_t wanted = reduceAxis == last ? lanes * 4 : lanes;
  // Splitting pairs evaluates twice as many lanes, of up to 8 bytes each.
  if (splitsPairsSomewhere)
    wanted = std::min(wanted, std::max<int64_t>(1, target.maxVectorBytes() / 16));
  int64_t width = last >= 0 ? std::min(wanted, powerOfTwoIn(shape[last])) : 1;
  if (width > 1) {
    walk.vectorDim = last;
    walk.width = width;
  }
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim)
    if (dim != reduceAxis && dim != walk.vectorDim)
      walk.order.push_back(dim);
  if (walk.vectorDim >= 0 && walk.vectorDim != reduceAxis)
    walk.order.push_back(walk.vectorDim);
  if (reduceAxis >= 0)
    walk.order.push_back(reduceAxis);
  return walk;
}

/// The number of accesses that would be gathers with vectors along `dim`, not counting again those in `seen`.
int KernelLowering::gathersAlong(Value value, int dim, llvm::DenseSet<std::pair<Value, int>> &seen) {
  if (!isTile(value) || dim < 0 || shapes.uniform(value, dim) || !seen.insert({value, dim}).second)
    return 0;
  ArrayRef<int64_t> shape = shapeOf(value);
  bool innermost = llvm::all_of(shape.drop_front(dim + 1), [](int64_t side) { return side == 1; });
  Operation *op = value.getDefiningOp();
  if (frame.holds(value) || !op)
    return innermost ? 0 : 1;
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    int count = tiles.contiguous(load.getPtr(), dim, std::min(lanes(), powerOfTwoIn(shape[dim]))) ? 0 : 1;
    for (Value operand : load->getOperands())
      count += gathersAlong(operand, dim, seen);
    return count;
  }
  if (auto load = dyn_cast<tile::DescLoadOp>(op)) {
    auto desc = load.getDesc().getDefiningOp<tile::MakeDescOp>();
    return desc && constantOf(desc.getStrides()[dim]) == 1 ? 0 : innermost && !desc ? 0 : 1;
  }
  auto reshape = dyn_cast<tile::ReshapeOp>(op);
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp>(op) || (reshape && isUnitReshape(reshape)))
    return gathersAlong(op->getOperand(0), sourceDim(op, dim), seen);
  if (isElementwise(op)) {
    int count = 0;
    for (Value operand : op->getOperands())
      count += gathersAlong(operand, dim, seen);
    return count;
  }
  if (isa<tile::ReshapeOp, tile::JoinOp, tile::SplitOp, tile::CatOp>(op))
    return innermost ? 0 : 1;
  return 0;
}

void KernelLowering::preferDimension(Walk &walk, const Step &step) {
  auto cost = [&](int dim) {
    bool innermost = dim == walk.vectorDim;
    llvm::DenseSet<std::pair<Value, int>> seen;
    int count = 0;
    for (const Root &root : step.roots) {
      for (Value value : root.reads())
        if (!isa<tile::PtrType>(elementOf(value)) || root.kind != Root::Store)
          count += gathersAlong(value, dim, seen);
      if (auto store = dyn_cast<tile::StoreOp>(root.op); store && root.kind == Root::Store)
        count += tiles.contiguous(store.getPtr(), dim, std::min(lanes(), powerOfTwoIn(walk.shape[dim]))) ? 0 : 1;
      else
        count += innermost ? 0 : 1;
    }
    return count;
  };
  if (walk.vectorDim < 0)
    return;
  int best = walk.vectorDim, least = cost(best);
  int64_t wanted = lanes();
  for (int dim = best - 1; dim >= 0 && least > 0; --dim) {
    if (powerOfTwoIn(walk.shape[dim]) < 4)
      continue;
    int count = cost(dim);
    // Writing a buffer across its rows costs as much as reading across rows, unless blocks can be transposed.
    bool turns = step.roots.size() == 1 && count == 1 &&
                 (step.roots[0].kind == Root::Materialise || step.roots[0].kind == Root::Carry);
    int64_t block = std::min({powerOfTwoIn(walk.shape[dim]), powerOfTwoIn(walk.shape[best]), int64_t(8)});
    if (turns && block >= 4) {
      walk.blockDim = walk.vectorDim;
      walk.block = walk.width = block;
      walk.vectorDim = dim;
      return;
    }
    if (count < least) {
      least = count;
      walk.vectorDim = dim;
      walk.width = std::min(wanted, powerOfTwoIn(walk.shape[dim]));
    }
  }
  if (walk.vectorDim != best) {
    llvm::erase(walk.order, walk.vectorDim);
    walk.order.push_back(walk.vectorDim);
  }
}

void KernelLowering::writeTransposed(Value value, const Storage &target, const Walk &walk, const Index &at) {
  int64_t size = walk.block;
  SmallVector<Value> columns;
  for (int64_t column = 0; column < size; ++column) {
    Index one = at;
    one.at[walk.blockDim].constant += column;
    columns.push_back(tiles.evalVector(value, one));
  }
  b.turnOver(columns);
  for (int64_t row = 0; row < size; ++row) {
    Index line = at;
    line.at[walk.vectorDim].constant += row;
    line.vectorDim = walk.blockDim;
    buffers.write(target, line, columns[row]);
  }
}
