// tile.histogram: counters in shared memory, zeroed, incremented by the owners of the elements, and read.
#include "compiler/transforms/kgpu/Exchange.h"
#include "dialects/layout/Constructors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kgpu;
using layout::Coord;
using layout::Layout;

static Value splat(Exchanges &exchanges, const Layout &layout, int64_t value) {
  auto type = tileType(exchanges.b.getI32Type(), layout);
  return arith::ConstantOp::create(exchanges.b, DenseElementsAttr::get(type, APInt(32, uint64_t(value))));
}

static LogicalResult exchangeHistogram(Exchanges &exchanges, Operation *op) {
  auto histogram = cast<tile::HistogramOp>(op);
  Value values = histogram.getValue(), mask = histogram.getMask();
  const Layout &result = layoutOf(histogram.getType());
  Layout from = layoutOf(values.getType());
  Value counters = exchanges.allocate(exchanges.b.getI32Type(), exchanges.wholeInEachCta(result.shape()));
  layout::Threads threads = layout::threadsOf(from);
  // Each cta counts all values in its own memory.
  if (llvm::any_of(from.digits(Coord::Cta), [](const layout::Digit &digit) { return !digit.replicates(); })) {
    from = layout::blocked(from.shape(), {0}, 4, threads);
    values = exchanges.convert(values, from);
    mask = mask ? exchanges.convert(mask, from) : mask;
  }
  exchanges.store(splat(exchanges, layout::blocked(result.shape(), {0}, 4, threads), 0), counters);
  LocalAtomicAddOp::create(exchanges.b, counters, values, splat(exchanges, from, 1), mask);
  exchanges.replace(op, exchanges.load(counters, result));
  return success();
}

void kgpu::addHistogramExchange(ExchangeTable &table) {
  table[tile::HistogramOp::getOperationName()] = exchangeHistogram;
}
