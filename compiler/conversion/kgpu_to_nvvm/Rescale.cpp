// kgpu.rescale: a warp votes whether it has anything to multiply, and if not, branches around the multiplications.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static LogicalResult emitRescale(Lowering &lowering, kgpu::RescaleOp op) {
  CodeBuilder &b = lowering.b;
  ArrayRef<Value> values = lowering.get(op.getValue()), factors = lowering.get(op.getFactor());
  Type type = values.front().getType();
  Value one = b.constant(type, b.getFloatAttr(type, 1.0));
  SmallVector<Value> differ;
  // The factor of a row is one value in many registers. The comparison is unordered, so NaN counts as differing from 1.
  for (Value factor : llvm::SmallSetVector<Value, 4>(factors.begin(), factors.end()))
    differ.push_back(arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, factor, one));
  Value any = b.anyInWarp(differ);
  auto branch = scf::IfOp::create(b, SmallVector<Type>(values.size(), type), any, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Registers scaled;
    for (auto [value, factor] : llvm::zip(values, factors))
      scaled.push_back(arith::MulFOp::create(b, value, factor));
    scf::YieldOp::create(b, scaled);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, values);
  }
  lowering.set(op, Registers(branch.getResults()));
  return success();
}

void nvvm::addRescale(EmitTable &table) { table.add<kgpu::RescaleOp, emitRescale>(); }
