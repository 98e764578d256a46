// Where a thread is: in its warp, group and cta, or, inside a role, among those of the role.
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;

Value Lowering::special(Value &slot, StringRef name) {
  if (!slot)
    slot = atEntry([&] { return intrinsic(("llvm.nvvm.read.ptx.sreg." + name).str(), b.getI32Type(), {}); });
  return slot;
}

Value Lowering::thread() {
  if (team.thread)
    return team.thread;
  Value id = special(team.tid, "tid.x");
  return team.thread = team.firstWarp == 0
                           ? id
                           : atEntry([&]() -> Value { return arith::SubIOp::create(b, id, i32(32 * team.firstWarp)); });
}

Value Lowering::lane() {
  if (!team.lane) {
    Value id = special(team.tid, "tid.x");
    team.lane = blockThreads() == 32 ? id : atEntry([&] { return arith::AndIOp::create(b, id, i32(31)).getResult(); });
  }
  return team.lane;
}

Value Lowering::blockWarp() {
  if (team.blockWarp)
    return team.blockWarp;
  Value id = special(team.tid, "tid.x");
  // As lane 0 has it: a branch on it is known to take all lanes along, what is computed from it to be uniform.
  return team.blockWarp = atEntry([&]() -> Value {
           Value number = arith::ShRUIOp::create(b, id, i32(5));
           return intrinsic("llvm.nvvm.shfl.sync.idx.i32", b.getI32Type(), {i32(-1), number, i32(0), i32(31)});
         });
}

/// The number of this warp among those of the team.
static Value warpOfTeam(Lowering &lowering, int64_t firstWarp) {
  if (firstWarp == 0 && lowering.threads() == lowering.blockThreads())
    return arith::ShRUIOp::create(lowering.b, lowering.thread(), lowering.i32(5));
  Value number = lowering.blockWarp();
  return firstWarp == 0 ? number : arith::SubIOp::create(lowering.b, number, lowering.i32(firstWarp)).getResult();
}

Value Lowering::warp() {
  if (team.warp)
    return team.warp;
  Value value = atEntry([&]() -> Value {
    if (team.numWarps == 1)
      return i32(0);
    Value all = warpOfTeam(*this, team.firstWarp);
    return team.numGroups == 1 ? all : arith::RemUIOp::create(b, all, i32(team.numWarps)).getResult();
  });
  return team.warp = value;
}

Value Lowering::group() {
  if (team.group)
    return team.group;
  Value value = atEntry([&]() -> Value {
    if (team.numGroups == 1)
      return i32(0);
    return arith::DivUIOp::create(b, warpOfTeam(*this, team.firstWarp), i32(team.numWarps));
  });
  return team.group = value;
}

Value Lowering::cta() {
  if (cluster == 1 && !team.cta)
    team.cta = atEntry([&] { return i32(0); });
  return special(team.cta, "cluster.ctarank");
}

Value Lowering::isFirstThread() {
  if (team.firstThread)
    return team.firstThread;
  Value id = thread(), rank = cluster > 1 ? cta() : Value();
  return team.firstThread = atEntry([&]() -> Value {
           Value all = rank ? arith::OrIOp::create(b, id, rank).getResult() : id;
           return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, all, i32(0));
         });
}

Value Lowering::isLeader() {
  if (!team.leader)
    team.leader = atEntry([&]() -> Value {
      // An election is what ptxas knows to leave one lane: it then issues a copy once and asks nobody else.
      auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {b.getI32Type(), b.getI1Type()});
      Value elected = intrinsic("llvm.nvvm.elect.sync", type, {i32(-1)});
      return LLVM::ExtractValueOp::create(b, elected, ArrayRef<int64_t>{1});
    });
  return team.leader;
}

Value Lowering::isIssuer() {
  if (team.issuer)
    return team.issuer;
  Value leader = isLeader();
  if (threads() == 32)
    return team.issuer = leader;
  Value value = atEntry([&]() -> Value {
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, warpOfTeam(*this, team.firstWarp), i32(0));
    return arith::AndIOp::create(b, first, leader);
  });
  return team.issuer = value;
}

LogicalResult Lowering::inRole(kgpu::RolesOp roles, unsigned index, llvm::function_ref<LogicalResult()> body) {
  Team role;
  static_cast<Shared &>(role) = team;
  role.numWarps = roles.getWarps()[index];
  role.numGroups = roles.getGroups()[index];
  role.firstWarp = roles.firstWarp(index);
  role.barrier = index + 1;
  role.anchor = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  std::swap(team, role);
  LogicalResult result = body();
  std::swap(team, role);
  return result;
}

Value Lowering::programId(unsigned axis) {
  static constexpr StringLiteral alone[] = {"ctaid.x", "ctaid.y", "ctaid.z"};
  static constexpr StringLiteral clustered[] = {"clusterid.x", "ctaid.y", "ctaid.z"};
  return special(team.programIds[axis], cluster > 1 ? clustered[axis] : alone[axis]);
}

Value Lowering::gridSize(unsigned axis) {
  static constexpr StringLiteral alone[] = {"nctaid.x", "nctaid.y", "nctaid.z"};
  static constexpr StringLiteral clustered[] = {"nclusterid.x", "nctaid.y", "nctaid.z"};
  return special(team.gridSizes[axis], cluster > 1 ? clustered[axis] : alone[axis]);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// What swizzles repeat by, if something in the kernel is swizzled by address; otherwise what the widest access wants.
static int64_t alignmentOfShared(func::FuncOp kernel) {
  int64_t align = kgpu::kSharedAlign;
  kernel.walk([&](Operation *op) {
    if (auto alloc = dyn_cast<kgpu::AllocOp>(op))
      align = std::max(align, kgpu::addressAlignment(alloc));
    if (isa<kgpu::ChannelOp>(op))
      align = kgpu::kSwizzleAlign;
  });
  return align;
}

Value Lowering::sharedBase() {
  if (team.memory)
    return team.memory;
  auto module = source->getParentOfType<ModuleOp>();
  static constexpr StringLiteral name = "shared_memory"; // kernels are kiln_...
  auto symbol = module.lookupSymbol<LLVM::GlobalOp>(name);
  int64_t align = alignmentOfShared(source);
  if (!symbol) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    symbol = LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0), /*isConstant=*/false,
                                    LLVM::Linkage::External, name, Attribute(), align, kShared);
  }
  symbol.setAlignment(std::max(align, int64_t(symbol.getAlignment().value_or(1))));
  auto type = LLVM::LLVMPointerType::get(b.getContext(), kShared);
  return team.memory = atEntry([&] { return LLVM::AddressOfOp::create(b, type, name).getResult(); });
}

Value Lowering::addressOf(Value pointer) { return LLVM::PtrToIntOp::create(b, b.getI32Type(), pointer); }

Value Lowering::sharedAddress(int64_t offset) {
  if (!team.address) {
    Value base = sharedBase();
    team.address = atEntry([&] { return addressOf(base); });
  }
  return offset == 0 ? team.address : arith::AddIOp::create(b, team.address, i32(offset)).getResult();
}
