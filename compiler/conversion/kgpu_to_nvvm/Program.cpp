// Ops about the program instance and the launches around it.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

static LogicalResult emitProgramId(Lowering &lowering, tile::ProgramIdOp op) {
  lowering.set(op.getResult(), {lowering.programId(unsigned(op.getAxis()))});
  return success();
}

static LogicalResult emitNumPrograms(Lowering &lowering, tile::NumProgramsOp op) {
  lowering.set(op.getResult(), {lowering.gridSize(unsigned(op.getAxis()))});
  return success();
}

// The analyses have read it.
static LogicalResult emitAssume(Lowering &, tile::AssumeOp) { return success(); }

Value Lowering::programNumber() {
  if (program)
    return program;
  Value ids[3], sizes[2];
  for (unsigned axis = 0; axis < 3; ++axis)
    ids[axis] = programId(axis);
  for (unsigned axis = 0; axis < 2; ++axis)
    sizes[axis] = gridSize(axis);
  return program = atEntry([&]() -> Value {
           auto wide = [&](Value value) { return arith::ExtUIOp::create(b, b.getI64Type(), value).getResult(); };
           Value number = wide(ids[2]);
           for (unsigned axis : {1, 0})
             number = arith::AddIOp::create(b, arith::MulIOp::create(b, number, wide(sizes[axis])), wide(ids[axis]));
           return number;
         });
}

// Without pdl launches do not overlap: the one before is over, the one behind begins when this one is.
static LogicalResult emitLaunchDependents(Lowering &lowering, tile::LaunchDependentsOp) {
  if (lowering.pdl)
    lowering.launchDependents();
  return success();
}

static LogicalResult emitWaitForGrid(Lowering &lowering, tile::WaitForGridOp) {
  if (lowering.pdl)
    lowering.waitForGrid();
  return success();
}

void nvvm::addProgram(EmitTable &table) {
  table.add<tile::ProgramIdOp, emitProgramId>();
  table.add<tile::NumProgramsOp, emitNumPrograms>();
  table.add<tile::AssumeOp, emitAssume>();
  table.add<tile::LaunchDependentsOp, emitLaunchDependents>();
  table.add<tile::WaitForGridOp, emitWaitForGrid>();
}
