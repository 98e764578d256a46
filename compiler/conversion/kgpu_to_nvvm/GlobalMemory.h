// Facts about the whole kernel that an access to global memory depends on: which memory is written while the kernel
// runs, which writes may precede the access, and how long the L2 should keep the line.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"
#include "dialects/tile/TileOps.h"

namespace kiln::nvvm {

class GlobalMemory {
public:
  GlobalMemory(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place);

  /// True if the kernel never writes through the argument that the pointer derives from, and no other argument aliases
  /// it.
  bool isReadOnly(mlir::Value pointer);
  /// True if a write to global memory may precede this op when the kernel runs.
  bool mayFollowStore(mlir::Operation *op);
  /// The L2 cache policy for an eviction hint (i64).
  mlir::Value evictPolicy(tile::Eviction evict);

  /// True if the kernel may write through this argument.
  bool isWritten(mlir::Value argument) const { return written.contains(argument); }
  /// True if LLVM may be told that nothing aliases what this argument reaches. False with overlapping launches, where
  /// nothing may be read before the wait, and for memory that copies write, whose addresses LLVM does not see.
  bool isAlone(mlir::BlockArgument argument);

private:
  mlir::func::FuncOp kernel;
  CodeBuilder &b;
  Place &place;
  bool overlaps;
  llvm::DenseSet<mlir::Value> written;                          ///< arguments that writes derive from;
                                                                ///< null stands for an unknown one
  llvm::DenseSet<mlir::Value> copied;                           ///< arguments that copies derive from
  std::optional<llvm::DenseSet<mlir::Operation *>> afterStores; ///< computed on demand
  struct Policies {
    mlir::Value of[3];
  };
  PerTeam<Policies, /*shared=*/true> policies;
};

} // namespace kiln::nvvm
