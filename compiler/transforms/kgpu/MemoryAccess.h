// Which bytes an op touches in shared and in global memory, and which two accesses need an order between them.
//
// The threads of a program instance run independently, while a program reads as if each op completed before the next:
// what one thread writes and another touches needs a barrier in between. In shared memory the bytes are known. In
// global memory two accesses are assumed to touch the same bytes unless their arguments are known to be disjoint;
// insertion and verification each have their own way to show that every thread touches only its own bytes.
//
// Some accesses are not made by threads. The copy engine and the tensor cores access shared memory asynchronously: they
// see threads' writes only after a fence by those threads, and their reads last until a wait. Between roles, a
// channel's own steps order its memory. Inside the role that receives a slot they do not: where it writes to slots, as
// a result that replaces an addend, its accesses are covered here like those to an allocation.
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
  bool crosses = false; ///< other ctas see it: ordering it takes a cluster barrier
  /// Performed by the copy engine or the tensor cores, from the op until a wait for it.
  std::optional<Flight> flight;

  // Shared memory.
  AllocOp alloc;
  ChannelOp channel;          ///< if this is a slot of a channel, whose receivers write to slots
  unsigned part = 0;          ///< of the slot
  mlir::Value slot;           ///< index of the slot; null: the first
  int64_t begin = 0, end = 0; ///< byte range in the slot

  // Global memory (neither).
  mlir::Value argument;                      ///< the kernel argument that addresses are based on; null: unknown
  bool alone = false;                        ///< no other argument reaches its storage
  mlir::Value pointer;                       ///< pointer or pointers, descriptor, map; null: anywhere
  mlir::RankedTensorType tile;               ///< its layout says which thread has which element; null: a scalar
  llvm::SmallVector<mlir::Value, 2> address; ///< the values that addresses are computed from

  bool isShared() const { return AllocOp(alloc) || ChannelOp(channel); }
  bool isAsync() const { return flight.has_value(); }
  /// The access is complete after `wait`, if `later` accesses of its kind were begun after it.
  bool isOverBehind(const Wait &wait, int64_t later) const {
    return flight == wait.flight && later >= wait.pending && (kind == Read || !wait.readsOnly);
  }
  /// A copy to global memory made by the one thread that makes all of its role's copies; not a per-group copy.
  bool isByOneCopier() const;
  /// The addresses differ in the next iteration of `loop`.
  bool changesIn(mlir::Operation *loop) const;
};

/// The accesses of one op to allocations, and to slots that their receivers write to; excluding ops in its regions.
llvm::SmallVector<MemoryAccess, 2> sharedAccesses(mlir::Operation *op);

/// Checks that every accessed memory is an allocation or belongs to a channel; it is an error if that is unknown. Also
/// checks that ops declare all their accesses (verifyEffects).
mlir::LogicalResult checkAccesses(mlir::func::FuncOp function);

/// All accesses of a kernel, by op. Requires checkAccesses to have succeeded.
class MemoryAccesses {
public:
  explicit MemoryAccesses(mlir::func::FuncOp function);
  llvm::ArrayRef<MemoryAccess> of(mlir::Operation *op) const {
    auto found = byOp.find(op);
    return found == byOp.end() ? llvm::ArrayRef<MemoryAccess>() : llvm::ArrayRef<MemoryAccess>(found->second);
  }
  /// Every access, in program order.
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

/// At least one writes, and (regardless of slots) they may touch the same bytes. They need an order unless one thread
/// makes both.
bool mayConflict(const MemoryAccess &a, const MemoryAccess &b);

/// The iterations of the loop are separate program instances, whose accesses to global memory nothing orders.
bool isOverPrograms(mlir::Operation *loop);
/// If such a loop takes two programs at a time: whether `op` belongs to the first (0) or the second (1) of them.
std::optional<unsigned> programOfPair(mlir::Operation *op);

/// The counted loop whose iterations alternate between the two slots that `slot` selects: `slot` is loop-carried and
/// flipped each time. Null if `slot` is not such a value.
mlir::scf::ForOp alternatesIn(mlir::Value slot);

} // namespace kiln::kgpu
