// kgpu.any: a warp votes.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static LogicalResult emitAny(Lowering &lowering, kgpu::AnyOp op) {
  CodeBuilder &b = lowering.b;
  ArrayRef<Value> mask = lowering.get(op.getMask());
  Value any;
  for (Value element : llvm::SmallSetVector<Value, 4>(mask.begin(), mask.end()))
    any = any ? arith::OrIOp::create(b, any, element).getResult() : element;
  lowering.set(op, {b.intrinsic("llvm.nvvm.vote.any.sync", b.getI1Type(), {b.i32(-1), any})});
  return success();
}

void nvvm::addAny(EmitTable &table) { table.add<kgpu::AnyOp, emitAny>(); }
