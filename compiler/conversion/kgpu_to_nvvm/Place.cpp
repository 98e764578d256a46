// Where a thread is: in its warp, group and cta; inside a role, among the role's threads.
#include "compiler/conversion/kgpu_to_nvvm/Place.h"
#include "dialects/kgpu/KgpuOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::nvvm;
using layout::Coord;

Place::Place(func::FuncOp kernel, CodeBuilder &b) : kernel(kernel), b(b), cluster(kgpu::clusterSize(kernel)) {
  team->numWarps = kgpu::moduleNumber(kernel, kgpu::kNumWarpsAttrName, 4);
  team->numGroups = kgpu::moduleNumber(kernel, kgpu::kNumGroupsAttrName, 1);
  // With roles, the number of warps follows from them.
  for (auto roles : kernel.getOps<kgpu::RolesOp>()) {
    team->numWarps = roles.totalWarps();
    team->numGroups = 1;
  }
  numThreads = threads();
}

Value Place::special(Value &slot, StringRef name) {
  if (!slot)
    slot = atEntry([&] { return b.intrinsic(("llvm.nvvm.read.ptx.sreg." + name).str(), b.getI32Type(), {}); });
  return slot;
}

Value Place::thread() {
  if (team->thread)
    return team->thread;
  Value id = special(team->tid, "tid.x");
  return team->thread = team->firstWarp == 0 ? id : atEntry([&]() -> Value {
           return arith::SubIOp::create(b, id, b.i32(32 * team->firstWarp));
         });
}

Value Place::lane() {
  if (!team->lane) {
    Value id = special(team->tid, "tid.x");
    team->lane =
        blockThreads() == 32 ? id : atEntry([&] { return arith::AndIOp::create(b, id, b.i32(31)).getResult(); });
  }
  return team->lane;
}

Value Place::blockWarp() {
  if (team->blockWarp)
    return team->blockWarp;
  Value id = special(team->tid, "tid.x");
  // Lane 0's value: ptxas then knows that branches on it are taken by all lanes, and that results computed from it are
  // uniform.
  return team->blockWarp = atEntry([&]() -> Value {
           Value number = arith::ShRUIOp::create(b, id, b.i32(5));
           return b.intrinsic("llvm.nvvm.shfl.sync.idx.i32", b.getI32Type(), {b.i32(-1), number, b.i32(0), b.i32(31)});
         });
}

/// The number of this warp within the team.
Value Place::warpOfTeam() {
  int64_t first = team->firstWarp;
  if (first == 0 && threads() == blockThreads())
    return arith::ShRUIOp::create(b, thread(), b.i32(5));
  Value number = blockWarp();
  return first == 0 ? number : arith::SubIOp::create(b, number, b.i32(first)).getResult();
}

Value Place::warp() {
  if (team->warp)
    return team->warp;
  Value value = atEntry([&]() -> Value {
    if (team->numWarps == 1)
      return b.i32(0);
    Value all = warpOfTeam();
    return team->numGroups == 1 ? all : arith::RemUIOp::create(b, all, b.i32(team->numWarps)).getResult();
  });
  return team->warp = value;
}

Value Place::group() {
  if (team->group)
    return team->group;
  Value value = atEntry([&]() -> Value {
    if (team->numGroups == 1)
      return b.i32(0);
    return arith::DivUIOp::create(b, warpOfTeam(), b.i32(team->numWarps));
  });
  return team->group = value;
}

Value Place::cta() {
  if (cluster == 1 && !team->cta)
    team->cta = atEntry([&] { return b.i32(0); });
  return special(team->cta, "cluster.ctarank");
}

Value Place::isFirstThread() {
  if (team->firstThread)
    return team->firstThread;
  Value id = thread(), rank = cluster > 1 ? cta() : Value();
  return team->firstThread = atEntry([&]() -> Value {
           Value all = rank ? arith::OrIOp::create(b, id, rank).getResult() : id;
           return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, all, b.i32(0));
         });
}

Value Place::isLeader() {
  if (!team->leader)
    team->leader = atEntry([&]() -> Value {
      // ptxas knows that an election leaves one lane, so it issues a copy once, without a loop over lanes.
      auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {b.getI32Type(), b.getI1Type()});
      Value elected = b.intrinsic("llvm.nvvm.elect.sync", type, {b.i32(-1)});
      return LLVM::ExtractValueOp::create(b, elected, ArrayRef<int64_t>{1});
    });
  return team->leader;
}

Value Place::isIssuer() {
  if (team->issuer)
    return team->issuer;
  Value leader = isLeader();
  if (threads() == 32)
    return team->issuer = leader;
  Value value = atEntry([&]() -> Value {
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, warpOfTeam(), b.i32(0));
    return arith::AndIOp::create(b, first, leader);
  });
  return team->issuer = value;
}

Value Place::isIssuerOfGroup() {
  if (team->groupIssuer || team->numGroups == 1)
    return team->groupIssuer ? team->groupIssuer : isIssuer();
  Value leader = isLeader(), number = warp();
  return once(team->groupIssuer, [&]() -> Value {
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, b.i32(0));
    return arith::AndIOp::create(b, first, leader);
  });
}

Value Place::groupBarrier() {
  Value number = group();
  return once(team->groupBarrierOf,
              [&]() -> Value { return arith::AddIOp::create(b, number, b.i32(team->groupBarrier)); });
}

Value Place::turnBarrier(bool ofNext) {
  Value number = group();
  return once(ofNext ? team->nextTurn : team->turn, [&]() -> Value {
    if (ofNext) {
      Value next = arith::AddIOp::create(b, number, b.i32(1));
      Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, next, b.i32(team->numGroups));
      number = arith::SelectOp::create(b, isLast, b.i32(0), next);
    }
    return arith::AddIOp::create(b, number, b.i32(team->turnBarrier));
  });
}

int64_t Place::population(Coord coord) const {
  switch (coord) {
  case Coord::Lane:
    return 32;
  case Coord::Warp:
    return warps();
  case Coord::Group:
    return groups();
  case Coord::Cta:
    return clusterSize();
  default:
    return 1;
  }
}

Value Place::hardware(Coord coord) {
  switch (coord) {
  case Coord::Lane:
    return lane();
  case Coord::Warp:
    return warp();
  case Coord::Group:
    return group();
  case Coord::Cta:
    return cta();
  case Coord::Reg:
  case Coord::Offset:
    break;
  }
  llvm::report_fatal_error("kgpu-to-nvvm: expected a coordinate of a thread");
}

Value Place::atEntry(llvm::function_ref<Value()> body) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = b.getLoc();
  b.setInsertionPoint(team->anchor);
  b.setLoc(kernel.getLoc());
  Value result = body();
  b.setLoc(loc);
  return result;
}

LogicalResult Place::inRole(kgpu::RolesOp roles, unsigned index, llvm::function_ref<LogicalResult()> body) {
  Team role;
  static_cast<Shared &>(role) = *team;
  role.numWarps = roles.getWarps()[index];
  role.numGroups = roles.getGroups()[index];
  role.firstWarp = roles.firstWarp(index);
  role.barrier = index + 1;
  int32_t before = llvm::sum_of(roles.getGroups().take_front(index));
  role.groupBarrier = roles.size() + 1 + before;
  role.turnBarrier = role.groupBarrier + llvm::sum_of(roles.getGroups());
  role.anchor = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  teams.push_back(role);
  team = &teams.back();
  for (PerTeamBase *follower : followers)
    follower->enterRole();
  LogicalResult result = body();
  for (PerTeamBase *follower : followers)
    follower->leaveRole();
  teams.pop_back();
  team = &teams.back();
  return result;
}
