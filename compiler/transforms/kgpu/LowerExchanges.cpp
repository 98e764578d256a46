// kiln-lower-exchanges: runs the rewrites of the ops (Exchange<Op>.cpp).
#include "compiler/transforms/kgpu/Exchange.h"
#include "compiler/transforms/kgpu/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_LOWEREXCHANGESPASS
#include "compiler/transforms/kgpu/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// The one list of ops that may need an exchange.
static const kgpu::ExchangeTable &rewrites() {
  static const kgpu::ExchangeTable table = [] {
    kgpu::ExchangeTable table;
    kgpu::addConvertExchange(table);
    kgpu::addReduceExchange(table);
    kgpu::addScanExchange(table);
    kgpu::addAtomicExchanges(table);
    kgpu::addLoadExchange(table);
    kgpu::addShapeExchanges(table);
    kgpu::addGatherExchange(table);
    kgpu::addHistogramExchange(table);
    kgpu::addDotExchange(table);
    return table;
  }();
  return table;
}

namespace {
struct LowerExchanges : kiln::impl::LowerExchangesPassBase<LowerExchanges> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    kgpu::Exchanges exchanges(function);
    SmallVector<std::pair<Operation *, kgpu::Exchanges::Rewrite>> found;
    function.walk([&](Operation *op) {
      auto entry = rewrites().find(op->getName().getStringRef());
      if (entry != rewrites().end())
        found.push_back({op, entry->second});
    });
    for (auto [op, rewrite] : found) {
      exchanges.b.setInsertionPoint(op);
      exchanges.b.setLoc(op->getLoc());
      if (failed(rewrite(exchanges, op)))
        return signalPassFailure();
    }
  }
};
} // namespace
