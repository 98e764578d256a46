// kgpu.any: a warp votes.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

Value CodeBuilder::anyInWarp(ArrayRef<Value> conditions) {
  Value any = conditions.front();
  for (Value other : conditions.drop_front())
    any = arith::OrIOp::create(*this, any, other);
  return intrinsic("llvm.nvvm.vote.any.sync", getI1Type(), {i32(-1), any});
}

static LogicalResult emitAny(Lowering &lowering, kgpu::AnyOp op) {
  ArrayRef<Value> mask = lowering.get(op.getMask());
  llvm::SmallSetVector<Value, 4> elements(mask.begin(), mask.end());
  lowering.set(op, {lowering.b.anyInWarp(elements.getArrayRef())});
  return success();
}

void nvvm::addAny(EmitTable &table) { table.add<kgpu::AnyOp, emitAny>(); }
