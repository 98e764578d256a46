// Ops that change the shape. If the result's layout does not follow from the operand's, the op produces the layout that
// does follow, and that is converted. If none follows (a reshape across odd sides, halves that share no register
// digit), the tile is stored row-major and read as the other shape.
#include "compiler/analysis/LayoutRules.h"
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/layout/Constructors.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Layout;

static Type elementOf(Value tile) { return cast<RankedTensorType>(tile.getType()).getElementType(); }

/// Clones the op with other operands and the result layout `result`, and converts to the layouts that are wanted.
static void redo(Exchanges &exchanges, Operation *op, ValueRange operands, const Layout &result) {
  Operation *made = exchanges.b.clone(*op);
  made->setOperands(operands);
  SmallVector<Value> results;
  for (auto [value, original] : llvm::zip(made->getResults(), op->getResults())) {
    value.setType(tileType(elementOf(original), result));
    results.push_back(exchanges.convert(value, layoutOf(original.getType())));
  }
  exchanges.replace(op, results);
}

static LogicalResult exchangeShape(Exchanges &exchanges, Operation *op) {
  const Layout operand = layoutOf(op->getOperand(0).getType()), result = layoutOf(op->getResult(0).getType());
  if (rules::fits(op, operand, result))
    return success();
  if (auto natural = rules::resultFromOperand(op, operand)) {
    redo(exchanges, op, op->getOperands(), *natural);
    return success();
  }
  if (auto natural = rules::operandFromResult(op, result)) {
    SmallVector<Value> operands;
    for (Value value : op->getOperands())
      operands.push_back(exchanges.convert(value, *natural));
    redo(exchanges, op, operands, result);
    return success();
  }
  if (!isa<tile::ReshapeOp>(op))
    return op->emitOpError("expected layouts of which one determines the other, got ")
           << op->getOperand(0).getType() << " and " << op->getResult(0).getType();
  Value place = exchanges.allocate(elementOf(op->getOperand(0)), exchanges.wholeInEachCta(operand.shape()));
  exchanges.store(op->getOperand(0), place);
  Value seen = exchanges.view(place, 0, exchanges.wholeInEachCta(result.shape()));
  exchanges.replace(op, exchanges.load(seen, result));
  return success();
}

/// Stores both halves one after the other, with the axis as the slowest dimension.
static LogicalResult exchangeCat(Exchanges &exchanges, Operation *op) {
  auto cat = cast<tile::CatOp>(op);
  if (rules::isDerived(op))
    return exchangeShape(exchanges, op);
  unsigned axis = cat.getAxis();
  const Layout result = layoutOf(cat.getType());
  Value place = exchanges.allocate(elementOf(cat.getResult()), exchanges.wholeInEachCta(result.shape(), {}, axis));
  int64_t offset = 0;
  for (Value half : {cat.getLhs(), cat.getRhs()}) {
    const Layout &layout = layoutOf(half.getType());
    exchanges.store(half, exchanges.view(place, offset, exchanges.wholeInEachCta(layout.shape(), {}, axis)));
    offset += cast<RankedTensorType>(half.getType()).getNumElements();
  }
  exchanges.replace(op, exchanges.load(place, result));
  return success();
}

void kgpu::addShapeExchanges(ExchangeTable &table) {
  for (StringRef name : {tile::ExpandDimsOp::getOperationName(), tile::BroadcastOp::getOperationName(),
                         tile::TransOp::getOperationName(), tile::ReshapeOp::getOperationName(),
                         tile::JoinOp::getOperationName(), tile::SplitOp::getOperationName()})
    table[name] = exchangeShape;
  table[tile::CatOp::getOperationName()] = exchangeCat;
}
