// The program instance that this thread belongs to, and the ops on it and on the neighbouring launches.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Program::Program(func::FuncOp kernel, CodeBuilder &b, Place &place)
    : b(b), place(place), persistent(kernel->hasAttr(kgpu::kPersistentAttrName)), held(place) {}

Value Program::id(unsigned axis) {
  static constexpr StringLiteral alone[] = {"ctaid.x", "ctaid.y", "ctaid.z"};
  static constexpr StringLiteral clustered[] = {"clusterid.x", "ctaid.y", "ctaid.z"};
  return place.special(held->ids[axis], place.clusterSize() > 1 ? clustered[axis] : alone[axis]);
}

Value Program::gridSize(unsigned axis) {
  static constexpr StringLiteral alone[] = {"nctaid.x", "nctaid.y", "nctaid.z"};
  static constexpr StringLiteral clustered[] = {"nclusterid.x", "nctaid.y", "nctaid.z"};
  return place.special(held->gridSizes[axis], place.clusterSize() > 1 ? clustered[axis] : alone[axis]);
}

Value Program::first() { return place.special(held->ids[0], place.clusterSize() > 1 ? "clusterid.x" : "ctaid.x"); }

Value Program::step() {
  return place.special(held->hardwareGrid, place.clusterSize() > 1 ? "nclusterid.x" : "nctaid.x");
}

LogicalResult Program::check(func::FuncOp kernel) const {
  return failure(kernel
                     .walk([&](Operation *op) {
                       if (persistent && isa<tile::ProgramIdOp>(op)) {
                         op->emitOpError("expected no such op in a persistent kernel (because a block runs many "
                                         "program instances there), got one");
                         return WalkResult::interrupt();
                       }
                       if (!persistent && isa<kgpu::FirstProgramOp, kgpu::ProgramStepOp>(op)) {
                         op->emitOpError("expected a kernel marked kgpu.persistent (because others are launched with "
                                         "one block per program instance), got an unmarked one");
                         return WalkResult::interrupt();
                       }
                       return WalkResult::advance();
                     })
                     .wasInterrupted());
}

/// The loop over the program instances of a persistent kernel that contains `op`; null if there is none.
static scf::ForOp programLoopAround(Operation *op) {
  for (auto loop = op->getParentOfType<scf::ForOp>(); loop; loop = loop->getParentOfType<scf::ForOp>())
    if (loop.getLowerBound().getDefiningOp<kgpu::FirstProgramOp>() &&
        loop.getStep().getDefiningOp<kgpu::ProgramStepOp>())
      return loop;
  return {};
}

Value Program::number(Operation *op, llvm::function_ref<Value(Value)> scalar) {
  if (persistent) {
    scf::ForOp loop = programLoopAround(op);
    if (loop)
      return arith::ExtUIOp::create(b, b.getI64Type(), scalar(loop.getInductionVar()));
    op->emitOpError("expected this in a loop from kgpu.first_program in steps of kgpu.program_step (because its report "
                    "names the program instance), got no such loop");
    return {};
  }
  if (held->number)
    return held->number;
  Value ids[3], sizes[2];
  for (unsigned axis = 0; axis < 3; ++axis)
    ids[axis] = id(axis);
  for (unsigned axis = 0; axis < 2; ++axis)
    sizes[axis] = gridSize(axis);
  return held->number = place.atEntry([&]() -> Value {
    auto wide = [&](Value value) { return arith::ExtUIOp::create(b, b.getI64Type(), value).getResult(); };
    Value number = wide(ids[2]);
    for (unsigned axis : {1, 0})
      number = arith::AddIOp::create(b, arith::MulIOp::create(b, number, wide(sizes[axis])), wide(ids[axis]));
    return number;
  });
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static LogicalResult emitProgramId(Lowering &lowering, tile::ProgramIdOp op) {
  lowering.set(op.getResult(), {lowering.program.id(unsigned(op.getAxis()))});
  return success();
}

static LogicalResult emitNumPrograms(Lowering &lowering, tile::NumProgramsOp op) {
  lowering.set(op.getResult(), {lowering.program.gridSize(unsigned(op.getAxis()))});
  return success();
}

// The analyses have used it.
static LogicalResult emitAssume(Lowering &, tile::AssumeOp) { return success(); }

// Without pdl, launches do not overlap: the previous one has completed, and the next one starts after this one.
static LogicalResult emitLaunchDependents(Lowering &lowering, tile::LaunchDependentsOp op) {
  if (!lowering.overlaps)
    return success();
  OpBuilder::InsertionGuard guard(lowering.b);
  // If it is the kernel's first op, it precedes what the entry computes from the arguments.
  if (op == &lowering.source.front().front())
    lowering.b.setInsertionPointAfter(lowering.place.entry());
  lowering.b.ptx("griddepcontrol.launch_dependents;", "", {}, {});
  return success();
}

static LogicalResult emitWaitForGrid(Lowering &lowering, tile::WaitForGridOp) {
  if (lowering.overlaps)
    lowering.b.ptx("griddepcontrol.wait;", "", {}, {});
  return success();
}

static LogicalResult emitCloseReads(Lowering &lowering, kgpu::CloseReadsOp) {
  lowering.b.hold();
  return success();
}

static LogicalResult emitFirstProgram(Lowering &lowering, kgpu::FirstProgramOp op) {
  lowering.set(op.getResult(), {lowering.program.first()});
  return success();
}

static LogicalResult emitProgramStep(Lowering &lowering, kgpu::ProgramStepOp op) {
  lowering.set(op.getResult(), {lowering.program.step()});
  return success();
}

void nvvm::addProgram(EmitTable &table) {
  table.add<tile::ProgramIdOp, emitProgramId>();
  table.add<tile::NumProgramsOp, emitNumPrograms>();
  table.add<tile::AssumeOp, emitAssume>();
  table.add<tile::LaunchDependentsOp, emitLaunchDependents>();
  table.add<tile::WaitForGridOp, emitWaitForGrid>();
  table.add<kgpu::CloseReadsOp, emitCloseReads>();
  table.add<kgpu::FirstProgramOp, emitFirstProgram>();
  table.add<kgpu::ProgramStepOp, emitProgramStep>();
}
