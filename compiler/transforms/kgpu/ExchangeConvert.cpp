// kgpu.convert between warps or ctas: a store and a load.
//
//     %y = kgpu.convert %x : tensor<512xf32, blocked [512] vector 4 warps 4> -> tensor<512xf32, #to>
//   becomes, where %0 converts to #to inside each warp,
//     %m = kgpu.alloc : <512xf32, row_major [512]>
//     kgpu.local_store %x, %m
//     %0 = kgpu.local_load %m : ... -> tensor<512xf32, blocked [512] vector 1 warps 4>
//     %y = kgpu.convert %0 : ... -> tensor<512xf32, #to>
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
