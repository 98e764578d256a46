// The thread's lane, warp, group and cta, counted within the kernel or, inside a role, within the role. Each value is
// computed once, at the entry of the kernel or the role.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/CodeBuilder.h"
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <deque>

namespace kiln::nvvm {

class Place {
public:
  Place(mlir::func::FuncOp kernel, CodeBuilder &b);

  // All i32.
  mlir::Value thread();                              ///< in the cta (the role)
  mlir::Value lane();                                ///< in the warp
  mlir::Value warp();                                ///< in its group
  mlir::Value group();                               ///< in the cta (the role)
  mlir::Value cta();                                 ///< in the cluster
  mlir::Value hardware(layout::Coord coord);         ///< one of the above; not Reg or Offset
  int64_t warps() const { return team->numWarps; }   ///< per group
  int64_t groups() const { return team->numGroups; } ///< per cta (in the role)
  int64_t clusterSize() const { return cluster; }    ///< ctas per program instance
  int64_t threads() const { return 32 * team->numWarps * team->numGroups; }
  int64_t blockThreads() const { return numThreads; } ///< of the cta, whichever role is being emitted
  unsigned barrier() const { return team->barrier; }  ///< the number of the team's barrier; 0: the cta's
  mlir::Value groupBarrier();                         ///< the number of this group's barrier, inside a role
  /// The number of the barrier at which a group of the role waits for its turn: this one's, or the next one's.
  mlir::Value turnBarrier(bool ofNext);
  /// The number of values of a coordinate.
  int64_t population(layout::Coord coord) const;
  /// The number of this warp in the cta, in a form that ptxas knows to be uniform across the warp.
  mlir::Value blockWarp();
  /// i1: one lane of this warp (which arrives for it), and one thread of the cta or the role (which issues copies).
  /// Always the same ones.
  mlir::Value isLeader();
  mlir::Value isIssuer();
  /// i1: one thread of each group.
  mlir::Value isIssuerOfGroup();
  /// i1: the first thread of the program instance, which executes the side effects of scalar ops.
  mlir::Value isFirstThread();

  /// The first op that the team's threads run: values that are computed once are inserted before it.
  void setEntry(mlir::Operation *first) { team->anchor = first; }
  mlir::Operation *entry() const { return team->anchor; }
  /// Runs `body` with the insertion point at the entry of the kernel (the role), where the result dominates everything
  /// that its threads do.
  mlir::Value atEntry(llvm::function_ref<mlir::Value()> body);
  /// The value in the slot; if there is none, first sets it to the result of `body` at the entry.
  mlir::Value once(mlir::Value &slot, llvm::function_ref<mlir::Value()> body) {
    return slot ? slot : slot = atEntry(body);
  }
  /// A special register, read once.
  mlir::Value special(mlir::Value &slot, llvm::StringRef name);

  /// Emits `body` for the threads of role `index`; the insertion point is at the role's entry.
  mlir::LogicalResult inRole(kgpu::RolesOp roles, unsigned index, llvm::function_ref<mlir::LogicalResult()> body);

  /// Values that the kernel's threads have computed at their entry, and those of a role while it is emitted.
  class PerTeamBase {
  public:
    explicit PerTeamBase(Place &place) { place.followers.push_back(this); }
    PerTeamBase(const PerTeamBase &) = delete;
    virtual ~PerTeamBase() = default;
    virtual void enterRole() = 0;
    virtual void leaveRole() = 0;
  };

private:
  mlir::Value warpOfTeam();

  mlir::func::FuncOp kernel;
  CodeBuilder &b;
  int64_t numThreads = 128, cluster = 1;
  llvm::SmallVector<PerTeamBase *, 8> followers;

  /// Values that are the same for all teams.
  struct Shared {
    mlir::Value tid, lane, blockWarp, cta;
  };
  struct Team : Shared {
    int64_t numWarps = 4, numGroups = 1;
    int64_t firstWarp = 0;             ///< in the cta
    unsigned barrier = 0;              ///< the number of the team's barrier
    unsigned groupBarrier = 0;         ///< that of its first group; the other groups' follow
    unsigned turnBarrier = 0;          ///< the same for turns
    mlir::Operation *anchor = nullptr; ///< atEntry() inserts before it
    mlir::Value thread, warp, group, firstThread, leader, issuer, groupIssuer, groupBarrierOf, turn, nextTurn;
  };
  std::deque<Team> teams = std::deque<Team>(1);
  Team *team = &teams.back();
};

/// A `T` for each team. `shared`: a role starts with what was computed before it, and what it adds is dropped at its
/// end; otherwise it starts with nothing.
template <typename T, bool shared> class PerTeam final : Place::PerTeamBase {
public:
  using PerTeamBase::PerTeamBase;
  T *operator->() { return &teams.back(); }

private:
  void enterRole() override {
    if constexpr (shared)
      teams.push_back(T(teams.back()));
    else
      teams.emplace_back();
  }
  void leaveRole() override { teams.pop_back(); }

  std::deque<T> teams = std::deque<T>(1);
};

} // namespace kiln::nvvm
