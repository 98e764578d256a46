// Whether two accesses to global memory touch each byte from one thread, and two to shared memory from one group,
// determined by enumerating all elements. kiln-verify-barriers uses this; kiln-insert-barriers has its own argument and
// shares nothing with this code.
#pragma once
#include "compiler/transforms/kgpu/MemoryAccess.h"

namespace kiln::kgpu {

class Owners {
public:
  /// Both use the same addresses, and no byte is touched by two threads.
  bool ofOneThread(const MemoryAccess &a, const MemoryAccess &b);
  /// No byte that the access touches in one iteration of the loop is touched in another.
  bool stepsOver(const MemoryAccess &access, mlir::Operation *loop);
  /// Both touch the same memory in one role, and each of its elements only from one group.
  bool ofOneGroup(const MemoryAccess &a, const MemoryAccess &b);

private:
  llvm::DenseMap<std::pair<const MemoryAccess *, mlir::Operation *>, bool> steps;
  /// By element, the group that touches it (-1: none); empty if some element has more than one.
  const llvm::SmallVector<int32_t> &groupsOf(mlir::Operation *op, MemType memory);

  llvm::DenseMap<std::pair<const MemoryAccess *, const MemoryAccess *>, bool> known;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int32_t>> groups;
};

} // namespace kiln::kgpu
