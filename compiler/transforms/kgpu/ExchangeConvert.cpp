// kgpu.convert between warps or ctas: a store and a load.
#include "compiler/transforms/kgpu/Exchange.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

static LogicalResult exchangeConvert(Exchanges &exchanges, Operation *op) {
  auto convert = cast<ConvertOp>(op);
  const layout::Layout &from = layoutOf(convert.getSource().getType()), &to = layoutOf(convert.getType());
  int64_t bytes = tile::memoryBytes(convert.getType().getElementType());
  if (planConversion(from, to, bytes).kind == layout::ConversionKind::Shared)
    exchanges.replace(op, exchanges.convert(convert.getSource(), to));
  return success();
}

void kgpu::addConvertExchange(ExchangeTable &table) { table[ConvertOp::getOperationName()] = exchangeConvert; }
