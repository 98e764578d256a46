// Where this thread is among those of the kernel; inside a role, among those of the role. What that takes is computed
// once, at the entry of either.
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
  mlir::Value thread();                              ///< of the cta (of the role)
  mlir::Value lane();                                ///< of the warp
  mlir::Value warp();                                ///< of its group
  mlir::Value group();                               ///< of the cta (of the role)
  mlir::Value cta();                                 ///< of the cluster
  mlir::Value hardware(layout::Coord coord);         ///< one of the above; not Reg or Offset
  int64_t warps() const { return team->numWarps; }   ///< of a group
  int64_t groups() const { return team->numGroups; } ///< of a cta (of the role)
  int64_t clusterSize() const { return cluster; }    ///< ctas per program instance
  int64_t threads() const { return 32 * team->numWarps * team->numGroups; }
  int64_t blockThreads() const { return numThreads; } ///< of the cta, whatever role is being emitted
  unsigned barrier() const { return team->barrier; }  ///< number of theirs; 0: the cta's
  mlir::Value groupBarrier();                         ///< number of this group's, inside a role
  /// How many values of a coordinate there are.
  int64_t population(layout::Coord coord) const;
  /// The number of this warp in the cta, the same for all of its lanes as far as ptxas can see.
  mlir::Value blockWarp();
  /// i1: one lane of this warp, and one thread of the cta (of the role): who arrives, and who issues copies. Always the
  /// same ones.
  mlir::Value isLeader();
  mlir::Value isIssuer();
  /// i1: one thread of each group.
  mlir::Value isIssuerOfGroup();
  /// i1: the first thread of the program instance, which does what a scalar op does once.
  mlir::Value isFirstThread();

  /// The first op that the threads run: what is computed once stands before it.
  void setEntry(mlir::Operation *first) { team->anchor = first; }
  mlir::Operation *entry() const { return team->anchor; }
  /// Runs `body` with the insertion point at the kernel's (the role's) entry, where what it makes dominates everything
  /// that its threads do.
  mlir::Value atEntry(llvm::function_ref<mlir::Value()> body);
  /// What is in the slot, or else what `body` puts there, at the entry.
  mlir::Value once(mlir::Value &slot, llvm::function_ref<mlir::Value()> body) {
    return slot ? slot : slot = atEntry(body);
  }
  /// A special register, read once.
  mlir::Value special(mlir::Value &slot, llvm::StringRef name);

  /// Emits `body` for the threads of role `index`, at whose entry the insertion point stands.
  mlir::LogicalResult inRole(kgpu::RolesOp roles, unsigned index, llvm::function_ref<mlir::LogicalResult()> body);

  /// What the kernel's threads, and those of a role while it is emitted, have computed at their entry.
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

  /// The same for everybody.
  struct Shared {
    mlir::Value tid, lane, blockWarp, cta;
  };
  struct Team : Shared {
    int64_t numWarps = 4, numGroups = 1;
    int64_t firstWarp = 0;             ///< in the cta
    unsigned barrier = 0;              ///< number of theirs
    unsigned groupBarrier = 0;         ///< of their first group's; the next groups' follow
    mlir::Operation *anchor = nullptr; ///< atEntry() inserts before it
    mlir::Value thread, warp, group, firstThread, leader, issuer, groupIssuer, groupBarrierOf;
  };
  std::deque<Team> teams = std::deque<Team>(1);
  Team *team = &teams.back();
};

/// A `T` for each team. `shared`: a role begins with what was computed before it, and forgets what it adds; otherwise
/// it begins with nothing.
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
