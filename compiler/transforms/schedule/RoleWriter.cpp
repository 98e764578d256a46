// Shared by all schedules with roles; see RoleWriter.h.
#include "compiler/transforms/schedule/RoleWriter.h"
#include "compiler/analysis/Disjoint.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::schedule;
using namespace kiln::kgpu;

// Registers of a thread that copies, and of one that multiplies, by the number of multiply groups: together they fill
// the register file. A single group needs no more than it is launched with.
static constexpr int32_t kLoadRegisters[] = {0, 0, 40, 32}, kMultiplyRegisters[] = {0, 0, 232, 160};

/// Moves an op and everything it depends on to the front of the kernel.
static void moveToFront(Operation *op, Operation *&last, Block &entry) {
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp())
      moveToFront(def, last, entry);
  if (op->getBlock() == &entry && last && !last->isBeforeInBlock(op))
    return;
  if (last)
    op->moveAfter(last);
  else
    op->moveBefore(&entry, entry.begin());
  last = op;
}

void schedule::hoistDescriptors(func::FuncOp kernel, ArrayRef<tile::MakeDescOp> descs, ImplicitLocOpBuilder &b) {
  Block &entry = kernel.front();
  Operation *last = nullptr;
  for (tile::MakeDescOp desc : descs)
    moveToFront(desc, last, entry);
  b.setInsertionPointAfter(last);
}

Value schedule::mapOf(ImplicitLocOpBuilder &b, tile::MakeDescOp desc, MemType memory, int64_t pieces, int64_t rows) {
  std::optional<BoxPlan> inRuns = rows ? planBoxes(memory, pieces, rows) : std::nullopt;
  BoxPlan plan = inRuns ? *inRuns : *planBoxes(memory, pieces);
  // Dimensions along which a block has one element exist only in the array.
  SmallVector<int64_t> box(desc.getStrides().size() - plan.box.size(), 1);
  llvm::append_range(box, plan.box);
  return TensorMapOp::create(b, TensorMapType::get(b.getContext()), desc, box, plan.swizzle);
}

/// Moves everything after the loop except the return, the program, into it.
static void moveInto(scf::ForOp loop) {
  SmallVector<Operation *> program;
  for (Operation *op = loop->getNextNode(); !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode())
    program.push_back(op);
  for (Operation *op : program)
    op->moveBefore(loop.getBody()->getTerminator());
}

scf::ForOp schedule::makeSingle(ImplicitLocOpBuilder &b) {
  Type i32 = b.getI32Type();
  Value zero = arith::ConstantIntOp::create(b, i32, 0), one = arith::ConstantIntOp::create(b, i32, 1);
  auto loop = scf::ForOp::create(b, zero, one, one);
  moveInto(loop);
  return loop;
}

scf::ForOp schedule::makePersistent(func::FuncOp kernel, ImplicitLocOpBuilder &b) {
  Type i32 = b.getI32Type();
  Value sizes[3];
  for (tile::Axis axis : {tile::Axis::X, tile::Axis::Y, tile::Axis::Z})
    sizes[unsigned(axis)] = tile::NumProgramsOp::create(b, i32, axis);
  Value plane = arith::MulIOp::create(b, sizes[0], sizes[1]);
  Value count = arith::MulIOp::create(b, plane, sizes[2]);
  Value first = FirstProgramOp::create(b, i32), step = ProgramStepOp::create(b, i32);
  auto loop = scf::ForOp::create(b, first, count, step);
  Block *body = loop.getBody();
  moveInto(loop);
  b.setInsertionPointToStart(body);
  Value number = loop.getInductionVar();
  Value ids[3];
  loop.walk([&](tile::ProgramIdOp op) {
    Value &id = ids[unsigned(op.getAxis())];
    if (!id) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(body);
      switch (op.getAxis()) {
      case tile::Axis::X:
        id = arith::RemUIOp::create(b, number, sizes[0]);
        break;
      case tile::Axis::Y:
        id = arith::RemUIOp::create(b, arith::DivUIOp::create(b, number, sizes[0]), sizes[1]);
        break;
      case tile::Axis::Z:
        id = arith::DivUIOp::create(b, number, plane);
        break;
      }
    }
    op.getResult().replaceAllUsesWith(id);
    op.erase();
  });
  kernel->setAttr(kgpu::kPersistentAttrName, b.getUnitAttr());
  return loop;
}

bool schedule::isScalarOp(Operation &op) {
  auto isTile = [](Value value) { return isa<RankedTensorType>(value.getType()); };
  return op.getNumRegions() == 0 && isMemoryEffectFree(&op) && llvm::none_of(op.getOperands(), isTile) &&
         llvm::none_of(op.getResults(), isTile);
}

bool schedule::isScalarOrRead(Operation &op, func::FuncOp kernel) {
  bool isTile = op.getNumResults() == 1 && isa<RankedTensorType>(op.getResult(0).getType());
  return isScalarOp(op) || (isa<tile::LoadOp>(op) && !isTile && isConstantRead(kernel, &op));
}

RoleBodies schedule::makeRoles(ImplicitLocOpBuilder &b, int32_t consumers, bool inTurns, int32_t moved, bool adds) {
  SmallVector<StringRef> names;
  SmallVector<int32_t> warps, groups, registers;
  auto add = [&](StringRef name, int32_t wide, int32_t together, int32_t held) {
    names.push_back(name);
    warps.push_back(wide);
    groups.push_back(together);
    registers.push_back(held);
    return unsigned(names.size()) - 1;
  };
  unsigned load = 0, multiply = 0, odd = 0, adding = 0;
  auto addCopying = [&] {
    int32_t held = kLoadRegisters[consumers] - moved * consumers;
    load = add("load", 1, 1, held);
    if (adds)
      adding = add("add", 1, 1, held);
  };
  // A single group needs none of the load warp's registers. Warps that copy then come last, without idle warps.
  bool copyFirst = consumers > 1;
  if (copyFirst)
    addCopying();
  int32_t held = kMultiplyRegisters[consumers] + moved;
  if (inTurns) {
    multiply = add("multiply_even", 4, 1, held);
    odd = add("multiply_odd", 4, 1, held);
  } else {
    multiply = add("multiply", 4, consumers, held);
  }
  if (!copyFirst)
    addCopying();
  OperationState state(b.getLoc(), RolesOp::getOperationName());
  state.addAttribute("names", b.getStrArrayAttr(names));
  state.addAttribute("warps", b.getDenseI32ArrayAttr(warps));
  state.addAttribute("groups", b.getDenseI32ArrayAttr(groups));
  state.addAttribute("registers", b.getDenseI32ArrayAttr(registers));
  for (size_t i = 0; i < names.size(); ++i)
    state.addRegion();
  auto roles = cast<RolesOp>(b.create(state));
  for (Region &body : roles.getBodies())
    body.emplaceBlock();
  auto bodyOf = [&](unsigned i) { return &roles.getBodies()[i].front(); };
  return {bodyOf(load), bodyOf(multiply), inTurns ? bodyOf(odd) : nullptr, adds ? bodyOf(adding) : nullptr};
}
