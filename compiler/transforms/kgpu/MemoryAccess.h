// Which bytes an op touches, in shared memory and in global memory, and which two accesses must not be without order.
//
// Threads of one program instance run apart from each other, while a program reads as if each op were done before the
// next: what one thread writes and another touches needs a barrier in between. In shared memory the bytes are known. In
// global memory two accesses are taken to touch the same bytes unless their arguments are known to be disjoint; that
// each thread touches bytes of its own, insertion and verification find out each in its way.
//
// Not all accesses are those of threads. The copy engine and the tensor cores reach shared memory another way: what
// threads wrote they see behind a fence of those threads, and what they read they read until somebody has waited.
// Memory of channels is ordered by what goes around in them, and is left out here.
#pragma once
#include "dialects/kgpu/BarrierUse.h"
#include "dialects/kgpu/KgpuOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::kgpu {

struct MemoryAccess {
  enum Kind : uint8_t { Read, Write, Atomic };
  mlir::Operation *op = nullptr;
  Kind kind = Read;
  bool crosses = false; ///< other ctas see it: order needs a barrier of the cluster
  /// Done by the copy engine or the tensor cores, from the op on until a wait for it.
  std::optional<Flight> flight;

  // Shared memory.
  AllocOp alloc;
  mlir::Value slot;           ///< index of the slot; null: the first
  int64_t begin = 0, end = 0; ///< bytes of the slot

  // Global memory (no alloc).
  mlir::Value argument;                      ///< the kernel's argument that addresses step from; null: not known
  bool alone = false;                        ///< no other argument reaches its storage
  mlir::Value pointer;                       ///< pointer or pointers, descriptor, map; null: anywhere
  mlir::RankedTensorType tile;               ///< whose layout says which thread has which element; null: a scalar
  llvm::SmallVector<mlir::Value, 2> address; ///< what addresses are computed from

  bool isShared() const { return bool(AllocOp(alloc)); }
  bool isAsync() const { return flight.has_value(); }
  /// Behind `wait` it is over, where `later` of its kind were begun behind it.
  bool isOverBehind(const Wait &wait, int64_t later) const {
    return flight == wait.flight && later >= wait.pending && (kind == Read || !wait.readsOnly);
  }
  /// A copy to global memory that the one thread makes which makes all of its role's; not of each group's own.
  bool isByOneCopier() const;
  /// The addresses are others in the next iteration of `loop`.
  bool changesIn(mlir::Operation *loop) const;
};

/// The accesses of one op to allocations (not of those in its regions).
llvm::SmallVector<MemoryAccess, 2> sharedAccesses(mlir::Operation *op);

/// Every memory that is accessed is an allocation, or was given by a channel: an error where it is not known which. Nor
/// is anything accessed that no op declares (verifyEffects).
mlir::LogicalResult checkAccesses(mlir::func::FuncOp function);

/// All accesses of a kernel, by op. They are known (checkAccesses).
class MemoryAccesses {
public:
  explicit MemoryAccesses(mlir::func::FuncOp function);
  llvm::ArrayRef<MemoryAccess> of(mlir::Operation *op) const {
    auto found = byOp.find(op);
    return found == byOp.end() ? llvm::ArrayRef<MemoryAccess>() : llvm::ArrayRef<MemoryAccess>(found->second);
  }
  /// Every access, in the order of the text.
  llvm::ArrayRef<MemoryAccess> all() const { return list; }
  /// Stores reach into other ctas, or the ctas of an instance share global memory.
  bool needClusters() const { return clusters; }
  /// The copy engine or the tensor cores access allocations.
  bool haveAsync() const { return async; }

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<MemoryAccess, 2>> byOp;
  llvm::SmallVector<MemoryAccess> list;
  bool clusters = false, async = false;
};

/// One writes, and (slots aside) they may touch the same bytes: without order, unless that is one thread's.
bool mayConflict(const MemoryAccess &a, const MemoryAccess &b);

/// The iterations of the loop are program instances of their own, whose accesses to global memory nothing orders.
bool isOverPrograms(mlir::Operation *loop);
/// Where such a loop takes two programs at a time: whether `op` belongs to the first (0) or the second (1) of them.
std::optional<unsigned> programOfPair(mlir::Operation *op);

/// The counted loop whose iterations use the two slots `slot` chooses in turn: it is carried, and flipped each time.
/// Null when `slot` is no such value.
mlir::scf::ForOp alternatesIn(mlir::Value slot);

} // namespace kiln::kgpu
