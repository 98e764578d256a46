// tile.gather: stays inside a warp if possible (register moves and shuffles); everything else goes through shared
// memory. Indices known at compile time are recorded on the op, so that reversing a row needs no comparison of indices.
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/kgpu/GatherLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Layout;

namespace {
/// The value of an integer tile at one place along one of its dimensions, if it depends on that place alone.
class KnownAlong {
public:
  std::optional<APInt> at(Value tile, int64_t axis, int64_t place);

private:
  std::optional<APInt> combine(Operation *op, const APInt &x, const APInt &y);
};
} // namespace

std::optional<APInt> KnownAlong::combine(Operation *op, const APInt &x, const APInt &y) {
  if (isa<arith::AddIOp>(op))
    return x + y;
  if (isa<arith::SubIOp>(op))
    return x - y;
  if (isa<arith::MulIOp>(op))
    return x * y;
  if (isa<arith::XOrIOp>(op))
    return x ^ y;
  if (isa<arith::AndIOp>(op))
    return x & y;
  if (isa<arith::OrIOp>(op))
    return x | y;
  bool divides = !y.isZero();
  if (isa<arith::DivUIOp>(op) && divides)
    return x.udiv(y);
  if (isa<arith::RemUIOp>(op) && divides)
    return x.urem(y);
  bool positive = divides && !x.isNegative() && !y.isNegative();
  if (isa<arith::DivSIOp>(op) && positive)
    return x.udiv(y);
  if (isa<arith::RemSIOp>(op) && positive)
    return x.urem(y);
  return std::nullopt;
}

std::optional<APInt> KnownAlong::at(Value value, int64_t axis, int64_t place) {
  Attribute constant;
  if (matchPattern(value, m_Constant(&constant))) {
    if (auto number = dyn_cast<IntegerAttr>(constant))
      return number.getValue();
    auto elements = dyn_cast<DenseIntElementsAttr>(constant);
    return elements && elements.isSplat() ? std::optional<APInt>(elements.getSplatValue<APInt>()) : std::nullopt;
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto range = dyn_cast<tile::MakeRangeOp>(op))
    return axis == 0 ? std::optional<APInt>(APInt(32, uint64_t(int32_t(range.getStart()) + place))) : std::nullopt;
  if (isa<tile::SplatOp, ConvertOp>(op))
    return at(op->getOperand(0), axis, place);
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
    bool repeats = axis >= 0 && cast<RankedTensorType>(broadcast.getValue().getType()).getShape()[axis] == 1;
    return at(broadcast.getValue(), axis, repeats ? 0 : place);
  }
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    int64_t added = expand.getAxis();
    // The remaining value may vary along another dimension only if that has more than one element.
    return at(expand.getValue(), axis == added ? -1 : axis > added ? axis - 1 : axis, place);
  }
  if (auto cast = dyn_cast<arith::ExtSIOp>(op))
    if (auto known = at(cast.getIn(), axis, place))
      return known->sext(mlir::cast<RankedTensorType>(cast.getType()).getElementTypeBitWidth());
  if (auto cast = dyn_cast<arith::TruncIOp>(op))
    if (auto known = at(cast.getIn(), axis, place))
      return known->trunc(mlir::cast<RankedTensorType>(cast.getType()).getElementTypeBitWidth());
  if (op->getNumOperands() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  auto x = at(op->getOperand(0), axis, place), y = at(op->getOperand(1), axis, place);
  if (!x || !y || x->getBitWidth() != y->getBitWidth())
    return std::nullopt;
  return combine(op, *x, *y);
}

/// The indices along the axis, if they are known at compile time and in range.
static std::optional<SmallVector<int32_t>> knownIndices(tile::GatherOp gather) {
  int64_t axis = gather.getAxis();
  auto type = cast<RankedTensorType>(gather.getIndices().getType());
  int64_t side = cast<RankedTensorType>(gather.getSource().getType()).getShape()[axis];
  SmallVector<int32_t> indices;
  for (int64_t place = 0; place < type.getShape()[axis]; ++place) {
    auto known = KnownAlong().at(gather.getIndices(), axis, place);
    if (!known || known->isNegative() || known->getSExtValue() >= side)
      return std::nullopt;
    indices.push_back(known->getSExtValue());
  }
  return indices;
}

static LogicalResult exchangeGather(Exchanges &exchanges, Operation *op) {
  auto gather = cast<tile::GatherOp>(op);
  unsigned axis = gather.getAxis();
  const Layout &indices = layoutOf(gather.getIndices().getType());
  Value source = gather.getSource();
  auto known = knownIndices(gather);
  // Give source and indices the same layout, except along the axis.
  Layout wanted = layoutOf(source.getType()).shape() == indices.shape() ? indices : layoutOf(source.getType());
  GatherKind kind = gatherKind(wanted, indices, axis, known ? ArrayRef<int32_t>(*known) : ArrayRef<int32_t>());
  bool moves = wanted != layoutOf(source.getType()) &&
               planConversion(layoutOf(source.getType()), wanted,
                              tile::memoryBytes(cast<RankedTensorType>(source.getType()).getElementType()))
                       .kind == layout::ConversionKind::Shared;
  if (kind != GatherKind::Memory && !moves) {
    gather.getSourceMutable().assign(exchanges.convert(source, wanted));
    if (known)
      gather->setAttr(kKnownIndicesAttrName, exchanges.b.getDenseI32ArrayAttr(*known));
    return success();
  }
  Value memory = exchanges.allocate(cast<RankedTensorType>(source.getType()).getElementType(),
                                    exchanges.wholeInEachCta(layoutOf(source.getType()).shape()));
  exchanges.store(source, memory);
  Value result = LocalGatherOp::create(exchanges.b, gather.getType(), memory, gather.getIndices(), axis);
  exchanges.replace(op, result);
  return success();
}

void kgpu::addGatherExchange(ExchangeTable &table) { table[tile::GatherOp::getOperationName()] = exchangeGather; }
