// Which bytes of shared memory an op touches, and how.
#pragma once
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::kgpu {

struct SharedAccess {
  enum Kind { Read, Write, Atomic };
  mlir::Operation *op = nullptr;
  AllocOp alloc;
  mlir::Value slot;           ///< index of the slot; null: the first
  int64_t begin = 0, end = 0; ///< bytes of the slot
  Kind kind = Read;
  bool crosses = false; ///< reaches into other ctas
};

/// The accesses of one op (not of those in its regions).
llvm::SmallVector<SharedAccess, 2> sharedAccesses(mlir::Operation *op);

/// The two must not be without order: one writes, and (slots aside) they touch the same bytes. Two atomics commute.
bool touchSameBytes(const SharedAccess &a, const SharedAccess &b);

/// The counted loop whose iterations use the two slots `slot` chooses in turn: it is carried, and flipped each time.
/// Null when `slot` is no such value.
mlir::scf::ForOp alternatesIn(mlir::Value slot);

} // namespace kiln::kgpu
