// kgpu.dot: a loop over K. At each k a thread reads the rows of the left and the columns of the right input that its
// accumulators need, in the widest vectors that the layout allows, and multiplies each row with each column. Sums of
// f16 are kept in f32 until the loop ends: rounding each product would lose precision that a tensor core keeps.
#include "compiler/conversion/kgpu_to_nvvm/SharedMemory.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;
using layout::Layout;

// Steps of K in the body of the loop: enough for the loads of one step to overlap the products of another.
static constexpr int64_t kSteps = 4;

namespace {
/// The elements of one input that a thread needs at one k, by the coordinates of its accumulators along the batch
/// dimension and along `dim`.
class Operand {
public:
  Operand(Lowering &lowering, Value memory, const Layout &acc, unsigned dim, unsigned depthDim)
      : lowering(lowering), type(cast<kgpu::MemType>(memory.getType())), acc(acc), dim(dim) {
    OffsetMap map(kgpu::layoutOf(type));
    auto strideOf = [&](unsigned along) -> int64_t {
      layout::Index next(type.getRank(), 0);
      next[along] = type.getShape()[along] > 1 ? 1 : 0;
      return map.offsetOf(next);
    };
    bytes = memoryBytes(type.getElementType());
    depthBytes = strideOf(depthDim) * bytes;
    stride = strideOf(dim);
    batchStride = type.getRank() == 3 ? strideOf(0) : 0;
    base = lowering.scalar(memory);
    plan();
  }
  /// Rows (or columns) are numbered by the first accumulator register that needs each; of(reg) is a register's.
  unsigned count() const { return starts.size() * vector; }
  unsigned of(int64_t reg) const { return numbers[reg]; }
  /// Bytes from one k to the next.
  int64_t depth() const { return depthBytes; }
  /// Reads all of them, `offset` bytes into the memory and `step` steps of K further on, converted to `element`.
  Registers read(Value offset, int64_t step, Type element);

private:
  void plan();

  Lowering &lowering;
  kgpu::MemType type;
  const Layout &acc;
  unsigned dim;
  int64_t bytes, depthBytes, stride, batchStride, vector = 1;
  Value base;
  SmallVector<Value> starts; ///< addresses of the vectors at k = 0
  SmallVector<unsigned> numbers;
};
} // namespace

void Operand::plan() {
  // Vectors run along `dim`: contiguous in registers and in memory, aligned at every k and batch.
  int64_t side = type.getShape()[dim];
  if (stride == 1 || side == 1)
    vector = std::min<int64_t>({acc.contiguity(dim), 16 / bytes, side & -side});
  // Accumulators with the same batch and coordinate share the element; the registers' parts tell them apart.
  DenseMap<std::pair<int64_t, int64_t>, unsigned> known;
  CodeBuilder &b = lowering.b;
  for (int64_t reg = 0; reg < acc.registers(); ++reg) {
    layout::Index at = acc.at(Coord::Reg, reg);
    int64_t batch = type.getRank() == 3 ? at[0] : 0, inside = at[dim] % vector;
    auto [entry, isNew] = known.try_emplace({batch, at[dim] - inside}, unsigned(starts.size()));
    numbers.push_back(entry->second * vector + inside);
    if (!isNew)
      continue;
    auto [thread, constant] = lowering.coordinates.inParts(acc, reg, dim);
    constant = (constant - inside) * stride * bytes;
    Value address = base;
    auto add = [&](Value part, int64_t scale) {
      if (part)
        address = b.offsetBy(address, arith::MulIOp::create(b, part, b.i32(scale)).getResult());
    };
    add(thread, stride * bytes);
    if (type.getRank() == 3) {
      auto [batchThread, batchConstant] = lowering.coordinates.inParts(acc, reg, 0);
      add(batchThread, batchStride * bytes);
      constant += batchConstant * batchStride * bytes;
    }
    starts.push_back(b.offsetBy(address, constant));
  }
}

static Value widened(Lowering &lowering, Value value, Type element) {
  if (value.getType() == element)
    return value;
  if (isa<FloatType>(element))
    return arith::ExtFOp::create(lowering.b, element, value);
  return arith::ExtSIOp::create(lowering.b, element, value);
}

Registers Operand::read(Value offset, int64_t step, Type element) {
  Registers values;
  for (Value start : starts) {
    Value address = offset ? lowering.b.offsetBy(start, offset) : start;
    for (Value value :
         loadShared(lowering, type.getElementType(), vector, lowering.b.offsetBy(address, step * depthBytes)))
      values.push_back(widened(lowering, value, element));
  }
  return values;
}

static LogicalResult emitDot(Lowering &lowering, kgpu::DotOp op) {
  CodeBuilder &b = lowering.b;
  const Layout &layout = kgpu::layoutOf(op.getType());
  unsigned rank = layout.rank();
  Operand lhs(lowering, op.getLhs(), layout, rank - 2, rank - 1),
      rhs(lowering, op.getRhs(), layout, rank - 1, rank - 2);
  int64_t depth = op.getLhs().getType().getShape()[rank - 1];
  int64_t steps = std::min<int64_t>(kSteps, depth & -depth);
  Type element = elementOf(op.getResult());
  bool isNarrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  Type sumType = isNarrow ? b.getF32Type() : element;
  ArrayRef<Value> initial = lowering.get(op.getAcc());
  SmallVector<int64_t> owners = ownerRegisters(layout);
  Registers sums;
  for (int64_t reg : owners)
    sums.push_back(widened(lowering, initial[reg], sumType));
  auto body = [&](Value lhsOffset, Value rhsOffset) {
    for (int64_t step = 0; step < steps; ++step) {
      Registers rows = lhs.read(lhsOffset, step, sumType), columns = rhs.read(rhsOffset, step, sumType);
      for (auto [reg, sum] : llvm::zip(owners, sums)) {
        Value x = rows[lhs.of(reg)], y = columns[rhs.of(reg)];
        if (isa<FloatType>(sumType))
          sum = math::FmaOp::create(b, x, y, sum);
        else
          sum = arith::AddIOp::create(b, sum, arith::MulIOp::create(b, x, y));
      }
    }
  };
  if (depth > steps) {
    auto loop = scf::ForOp::create(b, b.i32(0), b.i32(depth), b.i32(steps), sums);
    if (!loop.getBody()->empty())
      loop.getBody()->back().erase();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    sums.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    auto scaled = [&](int64_t bytes) -> Value {
      return arith::MulIOp::create(b, loop.getInductionVar(), b.i32(bytes),
                                   arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw);
    };
    Value lhsOffset = scaled(lhs.depth()), rhsOffset = scaled(rhs.depth());
    body(lhsOffset, rhsOffset);
    scf::YieldOp::create(b, sums);
    sums.assign(loop.getResults().begin(), loop.getResults().end());
  } else {
    body(Value(), Value());
  }
  if (isNarrow)
    for (Value &sum : sums)
      sum = arith::TruncFOp::create(b, element, sum);
  lowering.set(op.getResult(), fromOwners(layout, sums));
  return success();
}

void nvvm::addDot(EmitTable &table) { table.add<kgpu::DotOp, emitDot>(); }
