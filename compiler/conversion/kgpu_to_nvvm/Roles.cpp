// kgpu.roles: each warp runs the body of its role, with the role's number of registers; then all warps wait for each
// other.
#include "compiler/conversion/kgpu_to_nvvm/Channel.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

/// There are sixteen named barriers, and the first is the block's.
static constexpr int64_t kMaxRoles = 15;
/// The granularity in which registers are allocated to a thread.
static constexpr int64_t kRegisterStep = 8;

/// Registers per thread when the block starts: the limit of the launch, or an equal share of all.
static int64_t registersAtLaunch(Lowering &lowering) {
  const GpuLimits &limits = lowering.target.gpu;
  int64_t most = lowering.maxRegisters ? lowering.maxRegisters : limits.maxRegisters;
  int64_t share = limits.registersPerProcessor / lowering.place.blockThreads();
  return std::min(most, share) / kRegisterStep * kRegisterStep;
}

static bool movesRegisters(kgpu::RolesOp op) {
  return llvm::any_of(op.getRegisters(), [](int32_t count) { return count != 0; });
}

/// Checks that the roles' registers fit what the block starts with: a warp that asks for more would wait for ever.
static LogicalResult checkRegisters(kgpu::RolesOp op, int64_t atLaunch, int64_t threads) {
  int64_t wanted = 0;
  for (unsigned role = 0; role < op.size(); ++role)
    wanted += 32 * op.paddedWarps(role) * (op.getRegisters()[role] ? op.getRegisters()[role] : atLaunch);
  if (wanted <= threads * atLaunch)
    return success();
  return op.emitOpError() << "expected roles that together have at most " << threads * atLaunch
                          << " registers (because " << threads << " threads start with " << atLaunch << " each), got "
                          << wanted;
}

/// A role's threads start with the block's registers and release the surplus or wait for the rest.
static void setRegisters(Lowering &lowering, int64_t wanted, int64_t atLaunch) {
  if (wanted == 0 || wanted == atLaunch)
    return;
  std::string direction = wanted < atLaunch ? "dec" : "inc";
  lowering.b.ptx("setmaxnreg." + direction + ".sync.aligned.u32 " + std::to_string(wanted) + ";", "", {}, {});
}

static bool takesTurns(Region &body) {
  return body.walk([](kgpu::BeginTurnOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

static LogicalResult emitRole(Lowering &lowering, kgpu::RolesOp op, unsigned role) {
  CodeBuilder &b = lowering.b;
  OpBuilder::InsertionGuard guard(b);
  // Padding warps have released their registers and do nothing else.
  if (op.paddedWarps(role) != op.warpsOf(role)) {
    Value works = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, lowering.place.blockWarp(),
                                        b.i32(op.firstWarp(role) + op.warpsOf(role)));
    auto branch = scf::IfOp::create(b, works, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  Region &body = op.getBodies()[role];
  bool inTurns = takesTurns(body);
  return lowering.place.inRole(op, role, [&] {
    if (inTurns)
      openTurns(lowering, /*opens=*/true);
    if (failed(lowering.emitBlock(body.front())))
      return failure();
    if (inTurns)
      openTurns(lowering, /*opens=*/false);
    finishCopies(lowering, body);
    return success();
  });
}

static LogicalResult emitRoles(Lowering &lowering, kgpu::RolesOp op) {
  CodeBuilder &b = lowering.b;
  if (op.size() > kMaxRoles)
    return op.emitOpError() << "expected at most " << kMaxRoles
                            << " roles (because each has a barrier of its own), got " << op.size();
  bool ofGroups = op.walk([](kgpu::BarrierOp barrier) {
                      return barrier.getScope() == kgpu::Scope::Group ? WalkResult::interrupt() : WalkResult::advance();
                    }).wasInterrupted();
  bool inTurns = llvm::any_of(op.getBodies(), takesTurns);
  int64_t barriers = op.size() + llvm::sum_of(op.getGroups()) * (inTurns ? 2 : ofGroups ? 1 : 0);
  if (barriers > kMaxRoles)
    return op.emitOpError() << "expected at most " << kMaxRoles
                            << " roles and groups (because each has a barrier of its own), got " << barriers;
  int64_t threads = lowering.place.blockThreads(), atLaunch = registersAtLaunch(lowering);
  if (threads > lowering.target.gpu.maxThreads)
    return op.emitOpError() << "expected at most " << lowering.target.gpu.maxThreads
                            << " threads (because a block holds no more), got " << threads;
  if (movesRegisters(op)) {
    if (failed(checkRegisters(op, atLaunch, threads)))
      return failure();
    // ptxas honours setmaxnreg only if it knows the number of registers at the start.
    lowering.entry->setAttr("nvvm.maxnreg", b.getI32IntegerAttr(int32_t(atLaunch)));
  }
  OpBuilder::InsertionGuard guard(b);
  // Goes on in the branch of the warps before `end`; returns that of the others, null if there are none.
  auto split = [&](unsigned end) -> Block * {
    if (end == op.size())
      return nullptr;
    Value mine =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, lowering.place.blockWarp(), b.i32(op.firstWarp(end)));
    auto branch = scf::IfOp::create(b, mine, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    return branch.elseBlock();
  };
  for (unsigned first = 0, end = 0; first < op.size(); first = end) {
    // Four warps take registers or release them by one instruction, so roles that share them split up after it.
    for (end = first + 1; end < op.size() && op.sharesGroup(end);)
      ++end;
    Block *others = split(end);
    setRegisters(lowering, op.getRegisters()[first], atLaunch);
    for (unsigned role = first; role < end; ++role) {
      Block *next = role + 1 < end ? split(role + 1) : nullptr;
      if (failed(emitRole(lowering, op, role)))
        return failure();
      if (next)
        b.setInsertionPointToStart(next);
    }
    if (others)
      b.setInsertionPointToStart(others);
  }
  return success();
}

void nvvm::addRoles(EmitTable &table) { table.add<kgpu::RolesOp, emitRoles>(); }
