// Which bytes an op touches, in shared memory and in global memory, and which two accesses must not be without order.
//
// Threads of one program instance run apart from each other, while a program reads as if each op were done before the
// next: what one thread writes and another touches needs a barrier in between. In shared memory the bytes are known. In
// global memory two accesses are taken to touch the same bytes unless their arguments are known to be disjoint, or each
// thread touches bytes of its own: the same addresses in the same layout.
#pragma once
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::kgpu {

struct Access {
  enum Kind : uint8_t { Read, Write, Atomic };
  mlir::Operation *op = nullptr;
  Kind kind = Read;
  bool crosses = false; ///< other ctas see it: order needs a barrier of the cluster

  // Shared memory.
  AllocOp alloc;
  mlir::Value slot;           ///< index of the slot; null: the first
  int64_t begin = 0, end = 0; ///< bytes of the slot

  // Global memory (no alloc).
  mlir::Value argument;                      ///< the kernel's argument that addresses step from; null: not known
  bool alone = false;                        ///< no other argument reaches its storage
  bool owned = false;                        ///< no two threads touch one element
  llvm::SmallVector<mlir::Value, 2> address; ///< what addresses are computed from

  bool isShared() const { return bool(AllocOp(alloc)); }
  /// The addresses are others in the next iteration of `loop`.
  bool changesIn(mlir::Operation *loop) const;
};

/// The accesses of one op to shared memory (not of those in its regions).
llvm::SmallVector<Access, 2> sharedAccesses(mlir::Operation *op);

/// All accesses of a kernel, by op.
class MemoryAccesses {
public:
  explicit MemoryAccesses(mlir::func::FuncOp function);
  llvm::ArrayRef<Access> of(mlir::Operation *op) const {
    auto found = byOp.find(op);
    return found == byOp.end() ? llvm::ArrayRef<Access>() : llvm::ArrayRef<Access>(found->second);
  }
  /// Every access, in the order of the text.
  llvm::ArrayRef<Access> all() const { return list; }
  /// Stores reach into other ctas, or the ctas of an instance share global memory.
  bool needClusters() const { return clusters; }

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Access, 2>> byOp;
  llvm::SmallVector<Access> list;
  bool clusters = false;
};

/// The two must not be without order: one writes, and (slots aside) they may touch the same bytes from different
/// threads. `sameRun`: addresses computed from the same values are the same, no loop has computed them anew in between.
bool conflict(const Access &a, const Access &b, bool sameRun);

/// The counted loop whose iterations use the two slots `slot` chooses in turn: it is carried, and flipped each time.
/// Null when `slot` is no such value.
mlir::scf::ForOp alternatesIn(mlir::Value slot);

} // namespace kiln::kgpu
