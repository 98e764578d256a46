#include "dialects/kgpu/Combine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;

bool kgpu::isCommutative(Region &combine) {
  Block &block = combine.front();
  Operation *yield = block.getTerminator();
  unsigned count = yield->getNumOperands();
  for (auto [index, value] : llvm::enumerate(yield->getOperands())) {
    Operation *op = value.getDefiningOp();
    // The payload of a NaN may differ; nothing here promises it.
    if (!op || op->getNumOperands() != 2 ||
        !(op->hasTrait<OpTrait::IsCommutative>() || isa<arith::AddFOp, arith::MulFOp>(op)))
      return false;
    Value a = block.getArgument(index), b = block.getArgument(index + count);
    bool own = (op->getOperand(0) == a && op->getOperand(1) == b) || (op->getOperand(0) == b && op->getOperand(1) == a);
    if (!own)
      return false;
  }
  return true;
}

Operation *kgpu::singleOp(Region &combine) {
  Block &block = combine.front();
  Operation *yield = block.getTerminator();
  if (yield->getNumOperands() != 1 || !isCommutative(combine))
    return nullptr;
  return yield->getOperand(0).getDefiningOp();
}
