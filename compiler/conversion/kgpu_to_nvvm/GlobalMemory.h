// What an access to global memory needs to know of the kernel around it: what is written while it runs, what comes
// before, and how long the L2 is to keep the line.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"
#include "dialects/tile/TileOps.h"

namespace kiln::nvvm {

class GlobalMemory {
public:
  GlobalMemory(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place);

  /// The argument of the kernel a pointer steps from is never written by it and reached by no other argument.
  bool isReadOnly(mlir::Value pointer);
  /// Some write to global memory may come before this op when the kernel runs.
  bool mayFollowStore(mlir::Operation *op);
  /// The L2 policy of an eviction hint (i64).
  mlir::Value evictPolicy(tile::Eviction evict);

  /// The kernel may write what this argument reaches.
  bool isWritten(mlir::Value argument) const { return written.contains(argument); }
  /// What LLVM may know of an argument: that nothing else reaches what it does, and that nothing is written there. Not
  /// with overlapping launches, where nothing may be read before the wait, nor of what copies write, whose addresses
  /// LLVM does not see.
  bool isAlone(mlir::BlockArgument argument);

private:
  mlir::func::FuncOp kernel;
  CodeBuilder &b;
  Place &place;
  bool overlaps;
  llvm::DenseSet<mlir::Value> written;                          ///< arguments a store or atomic steps
                                                                ///< from; null stands for an unknown one
  llvm::DenseSet<mlir::Value> copied;                           ///< arguments that copies reach
  std::optional<llvm::DenseSet<mlir::Operation *>> afterStores; ///< once asked for
  struct Policies {
    mlir::Value of[3];
  };
  PerTeam<Policies, /*shared=*/true> policies;
};

} // namespace kiln::nvvm
