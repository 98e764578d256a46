// What ops do to global memory, and which accesses of a kernel cannot touch the same byte.
//
// A pointer argument marked `tile.disjoint` points into storage that no other argument reaches (the kernel was
// specialised for such a call). Two accesses are then disjoint if each address is provably an offset from one kernel
// argument, the arguments differ, and one of them is marked: no valid access leaves its argument's storage.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace kiln {

/// What an op does to global memory, as it declares it (excluding ops in its regions).
struct GlobalEffect {
  mlir::Value pointer; ///< pointers, descriptor or map of the access; null: anywhere
  bool reads = false, writes = false;
  /// Reads and writes in one step, or inline assembly that may do anything.
  bool isAtomic() const { return reads && writes; }
};
std::optional<GlobalEffect> globalEffect(mlir::Operation *op);
inline bool writesGlobal(mlir::Operation *op) {
  std::optional<GlobalEffect> effect = globalEffect(op);
  return effect && effect->writes;
}
/// A plain read that returns a tile or a scalar.
bool isGlobalRead(mlir::Operation *op);
/// The reads of a kernel that may execute after some write to global memory.
llvm::DenseSet<mlir::Operation *> readsBehindWrites(mlir::func::FuncOp kernel);

/// Checks that every op of the kernel declares its effects, on a known resource, and that only regions of structured
/// control flow have effects; otherwise it is an error. Every pass that relies on effects calls this first.
mlir::LogicalResult verifyEffects(mlir::func::FuncOp kernel);

/// A read of memory that no op of the kernel may write: it returns the same value whenever it is made.
bool isConstantRead(mlir::func::FuncOp kernel, mlir::Operation *op);

/// The one kernel argument that `pointer` (a pointer, a tile of pointers, a descriptor or a map) is offset from, or
/// null.
mlir::Value pointerArgument(mlir::Value pointer);

/// The arguments that the kernel may write through, in order: those that a write may be offset from, or all pointers if
/// that is unknown for some write.
llvm::SmallVector<unsigned> writtenArguments(mlir::func::FuncOp kernel);

/// The pointer or descriptor that a tile memory op accesses, or null for any other op.
mlir::Value accessedPointer(mlir::Operation *access);

/// True when two tile memory ops of one kernel provably touch no common byte.
bool areDisjoint(mlir::Operation *a, mlir::Operation *b);

} // namespace kiln
