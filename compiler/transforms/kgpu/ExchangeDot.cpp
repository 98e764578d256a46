// tile.dot by multiply-adds: both inputs go to shared memory, where the accumulator's threads read them. Memory is
// contiguous along M and N, since the lanes of a warp read neighbours at the same k.
#include "compiler/transforms/kgpu/Exchange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;

/// The input in memory. An 8-bit float is widened on the way, once for all its readers; f16 represents all of them.
static Value inMemory(Exchanges &exchanges, Value input, unsigned fastest) {
  auto type = cast<RankedTensorType>(input.getType());
  Type element = type.getElementType();
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8) {
    element = exchanges.b.getF16Type();
    input = arith::ExtFOp::create(exchanges.b, type.clone(element), input);
  }
  Value memory = exchanges.allocate(element, exchanges.wholeInEachCta(type.getShape(), fastest));
  exchanges.store(input, memory);
  return memory;
}

static LogicalResult exchangeDot(Exchanges &exchanges, Operation *op) {
  auto dot = cast<tile::DotOp>(op);
  unsigned rank = cast<RankedTensorType>(dot.getType()).getRank();
  Value lhs = inMemory(exchanges, dot.getLhs(), rank - 2), rhs = inMemory(exchanges, dot.getRhs(), rank - 1);
  exchanges.replace(op, DotOp::create(exchanges.b, dot.getType(), lhs, rhs, dot.getAcc()).getResult());
  return success();
}

void kgpu::addDotExchange(ExchangeTable &table) { table[tile::DotOp::getOperationName()] = exchangeDot; }
