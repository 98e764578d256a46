// Whether two accesses to global memory touch each byte from one thread, and two to shared memory from one group, found
// by going through all elements. It is what kiln-verify-barriers asks; kiln-insert-barriers has an argument of its own,
// and shares nothing with this.
#pragma once
#include "compiler/transforms/kgpu/MemoryAccess.h"

namespace kiln::kgpu {

class Owners {
public:
  /// The two go through the same addresses, and what one thread touches in either no other thread does.
  bool ofOneThread(const MemoryAccess &a, const MemoryAccess &b);
  /// What the access touches in one iteration of the loop it touches in no other.
  bool stepsOver(const MemoryAccess &access, mlir::Operation *loop);
  /// The two touch the same memory in one role, and each element there from one group alone.
  bool ofOneGroup(const MemoryAccess &a, const MemoryAccess &b);

private:
  llvm::DenseMap<std::pair<const MemoryAccess *, mlir::Operation *>, bool> steps;
  /// By element, the group that touches it (-1: none); empty where that is not one.
  const llvm::SmallVector<int32_t> &groupsOf(mlir::Operation *op, MemType memory);

  llvm::DenseMap<std::pair<const MemoryAccess *, const MemoryAccess *>, bool> known;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int32_t>> groups;
};

} // namespace kiln::kgpu
