// Structural queries on tile IR: laziness, uniformity, strides.
#include "compiler/conversion/tile_to_cpu/Shape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

Type cpu::memoryType(Type element) {
  Type type = tile::memoryType(element);
  bool isNarrow = isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 32;
  return isNarrow ? IntegerType::get(element.getContext(), type.getIntOrFloatBitWidth()) : type;
}

bool cpu::isElementwise(Operation *op) {
  if (isa<tile::AddPtrOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::PtrCastOp, tile::HintOp, tile::InlineAsmOp,
          tile::ExternCallOp, tile::LoadOp>(op))
    return true;
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) && !isa<arith::ConstantOp>(op);
}

bool cpu::isLazy(Operation *op) {
  if (op->getNumResults() == 0 || !isTile(op->getResult(0)))
    return false;
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return true;
  return isElementwise(op) ||
         isa<arith::ConstantOp, ub::PoisonOp, tile::DescLoadOp, tile::MakeRangeOp, tile::SplatOp, tile::ExpandDimsOp,
             tile::BroadcastOp, tile::ReshapeOp, tile::TransOp, tile::JoinOp, tile::SplitOp, tile::CatOp>(op);
}

bool cpu::isExpensive(Operation *op) {
  if (isa<tile::LoadOp, tile::DescLoadOp, tile::InlineAsmOp, tile::ExternCallOp>(op))
    return true;
  if (isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
          arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp, arith::MulSIExtendedOp, arith::MulUIExtendedOp>(
          op)) {
    // Division by a power of two is a shift.
    std::optional<int64_t> divisor = op->getNumOperands() == 2 ? constantOf(op->getOperand(1)) : std::nullopt;
    return !(divisor && *divisor > 0 && llvm::isPowerOf2_64(*divisor) && op->getNumResults() == 1);
  }
  if (isa<arith::TruncFOp, arith::ExtFOp>(op))
    return elementOf(op->getResult(0)).getIntOrFloatBitWidth() < 16 ||
           elementOf(op->getOperand(0)).getIntOrFloatBitWidth() < 16 || elementOf(op->getResult(0)).isBF16();
  if (isa<math::FmaOp, math::AbsFOp, math::AbsIOp, math::CopySignOp, math::FloorOp, math::CeilOp, math::TruncOp,
          math::RoundEvenOp, math::IsNaNOp, math::IsInfOp, math::IsFiniteOp>(op))
    return false;
  return isa_and_nonnull<math::MathDialect>(op->getDialect());
}

bool cpu::writesMemory(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return load.getIsVolatile();
  if (isa<tile::StoreOp, tile::DescStoreOp, tile::AtomicRMWOp, tile::AtomicCASOp>(op))
    return true;
  if (auto inlineAsm = dyn_cast<tile::InlineAsmOp>(op))
    return !inlineAsm.getIsPure();
  if (auto call = dyn_cast<tile::ExternCallOp>(op))
    return !call.getIsPure();
  if (isa<tile::BarrierOp>(op))
    return true;
  if (isa<tile::ReduceOp, tile::ScanOp>(op))
    return false;
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Operation &inner : block)
        if (writesMemory(&inner))
          return true;
  return false;
}

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  return llvm::to_vector(llvm::make_filter_range(shape, [](int64_t side) { return side != 1; }));
}

bool cpu::isUnitReshape(tile::ReshapeOp op) {
  return withoutOnes(shapeOf(op.getValue())) == withoutOnes(shapeOf(op.getResult()));
}

static bool isPairing(ArrayRef<int64_t> flat, ArrayRef<int64_t> paired) {
  return paired.size() == flat.size() + 1 && paired.back() == 2 && flat.back() == 2 * paired[paired.size() - 2] &&
         flat.drop_back() == paired.drop_back(2);
}
bool cpu::splitsPairs(tile::ReshapeOp op) { return isPairing(shapeOf(op.getValue()), shapeOf(op.getResult())); }
bool cpu::mergesPairs(tile::ReshapeOp op) { return isPairing(shapeOf(op.getResult()), shapeOf(op.getValue())); }

bool cpu::keepsInnermost(tile::TransOp op) {
  // Ignoring dimensions of size 1: compare the last longer dimension.
  ArrayRef<int64_t> in = shapeOf(op.getValue());
  int last = static_cast<int>(in.size()) - 1;
  while (last > 0 && in[last] == 1)
    --last;
  ArrayRef<int32_t> order = op.getOrder();
  for (int dim = static_cast<int>(order.size()) - 1; dim >= 0; --dim)
    if (in[order[dim]] != 1 || dim == 0)
      return order[dim] == last;
  return true;
}

std::optional<int64_t> cpu::constantOf(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)) && constant.getBitWidth() <= 64)
    return constant.getSExtValue();
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    return constantOf(splat.getValue());
  if (auto broadcast = value.getDefiningOp<tile::BroadcastOp>())
    return constantOf(broadcast.getValue());
  if (auto expand = value.getDefiningOp<tile::ExpandDimsOp>())
    return constantOf(expand.getValue());
  if (auto ext = value.getDefiningOp<arith::ExtSIOp>())
    return constantOf(ext.getIn());
  return std::nullopt;
}

int cpu::sourceDim(Operation *op, unsigned dim) {
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    unsigned axis = expand.getAxis();
    return dim == axis ? -1 : static_cast<int>(dim < axis ? dim : dim - 1);
  }
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op))
    return shapeOf(broadcast.getValue())[dim] == 1 ? -1 : static_cast<int>(dim);
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return trans.getOrder()[dim];
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    ArrayRef<int64_t> in = shapeOf(reshape.getValue()), out = shapeOf(reshape.getResult());
    if (out[dim] == 1)
      return -1;
    // The n-th longer dimension of the result is the n-th longer one of the operand.
    int rank = llvm::count_if(out.take_front(dim), [](int64_t side) { return side != 1; });
    for (unsigned source = 0; source < in.size(); ++source)
      if (in[source] != 1 && rank-- == 0)
        return source;
  }
  return -1;
}

bool Shapes::uniform(Value value, unsigned dim) {
  auto key = std::make_pair(value, dim);
  auto found = uniforms.find(key);
  if (found != uniforms.end())
    return found->second;
  bool result = computeUniform(value, dim);
  return uniforms[key] = result;
}

bool Shapes::computeUniform(Value value, unsigned dim) {
  if (shapeOf(value)[dim] == 1)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (isa<tile::SplatOp, ub::PoisonOp>(op))
    return true;
  if (auto load = dyn_cast<tile::LoadOp>(op); load && load.getIsVolatile())
    return false;
  if (isElementwise(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) { return !isTile(operand) || uniform(operand, dim); });
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    if (!isUnitReshape(reshape))
      return false;
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp>(op)) {
    int source = sourceDim(op, dim);
    return source < 0 || uniform(op->getOperand(0), source);
  }
  if (auto join = dyn_cast<tile::JoinOp>(op))
    return dim + 1 < shapeOf(value).size() && uniform(join.getLhs(), dim) && uniform(join.getRhs(), dim);
  if (auto split = dyn_cast<tile::SplitOp>(op))
    return uniform(split.getValue(), dim);
  return false;
}

std::optional<int64_t> Shapes::stride(Value value, unsigned dim) {
  auto key = std::make_pair(value, dim);
  auto found = strides.find(key);
  if (found != strides.end())
    return found->second;
  std::optional<int64_t> result = computeStride(value, dim);
  return strides[key] = result;
}

std::optional<int64_t> Shapes::computeStride(Value value, unsigned dim) {
  if (uniform(value, dim))
    return 0;
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  auto both = [&](auto combine) -> std::optional<int64_t> {
    std::optional<int64_t> lhs = stride(op->getOperand(0), dim), rhs = stride(op->getOperand(1), dim);
    if (!lhs || !rhs)
      return std::nullopt;
    return combine(*lhs, *rhs);
  };
  auto scaled = [&](Value factor, Value other, bool shift) -> std::optional<int64_t> {
    std::optional<int64_t> constant = constantOf(factor), step = stride(other, dim);
    if (!constant || !step || (shift && (*constant < 0 || *constant > 31)))
      return std::nullopt;
    return shift ? *step << *constant : *step * *constant;
  };
  if (isa<tile::MakeRangeOp>(op))
    return 1;
  if (isa<arith::AddIOp>(op))
    return both([](int64_t a, int64_t b) { return a + b; });
  if (isa<arith::SubIOp>(op))
    return both([](int64_t a, int64_t b) { return a - b; });
  if (isa<arith::MulIOp>(op)) {
    if (auto result = scaled(op->getOperand(1), op->getOperand(0), false))
      return result;
    return scaled(op->getOperand(0), op->getOperand(1), false);
  }
  if (isa<arith::ShLIOp>(op))
    return scaled(op->getOperand(1), op->getOperand(0), true);
  if (isa<arith::ExtSIOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::PtrCastOp>(op))
    return stride(op->getOperand(0), dim);
  if (isa<arith::ExtUIOp>(op) && op->getOperand(0).getDefiningOp<tile::MakeRangeOp>())
    return 1;
  if (auto add = dyn_cast<tile::AddPtrOp>(op)) {
    int64_t bytes = memoryBytes(cast<tile::PtrType>(elementOf(value)).getPointee());
    std::optional<int64_t> offset = isTile(add.getOffset()) ? stride(add.getOffset(), dim) : 0;
    std::optional<int64_t> base = isTile(add.getPtr()) ? stride(add.getPtr(), dim) : 0;
    // i1 offsets would be signed like any other, so they make no sensible range.
    if (!offset || !base || elementOf(add.getOffset()).isInteger(1))
      return std::nullopt;
    return *base + *offset * bytes;
  }
  if (isa<tile::HintOp>(op))
    return stride(op->getOperand(0), dim);
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    if (!isUnitReshape(reshape))
      return std::nullopt;
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp, tile::ReshapeOp>(op)) {
    int source = sourceDim(op, dim);
    return source < 0 ? std::optional<int64_t>(0) : stride(op->getOperand(0), source);
  }
  return std::nullopt;
}

bool Shapes::contiguous(Value pointers, unsigned dim) {
  int64_t bytes = memoryBytes(cast<tile::PtrType>(elementOf(pointers)).getPointee());
  std::optional<int64_t> step = stride(pointers, dim);
  return step && *step == bytes;
}
