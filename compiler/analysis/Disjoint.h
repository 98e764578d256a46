// What ops do to global memory, and which accesses of a kernel cannot touch one byte.
//
// A pointer argument marked `tile.disjoint` points into a storage that no other argument reaches (the kernel was
// specialised for such a call). Two accesses are then disjoint when each address is provably a step away from one
// kernel argument, the arguments differ, and one of them is marked: no valid access leaves its argument's storage.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace kiln {

/// What an op does to global memory, as it declares it (not what ops in its regions do).
struct GlobalEffect {
  mlir::Value pointer; ///< pointers, descriptor or map that it goes through; null: anywhere
  bool reads = false, writes = false;
  /// Reads and writes in one step, or whatever a text does.
  bool isAtomic() const { return reads && writes; }
};
std::optional<GlobalEffect> globalEffect(mlir::Operation *op);
inline bool writesGlobal(mlir::Operation *op) {
  std::optional<GlobalEffect> effect = globalEffect(op);
  return effect && effect->writes;
}
/// A plain read that gives a tile or a scalar.
bool isGlobalRead(mlir::Operation *op);
/// The reads of a kernel that some write to global memory may come before when it runs.
llvm::DenseSet<mlir::Operation *> readsBehindWrites(mlir::func::FuncOp kernel);

/// Every op of the kernel declares its effects, on a resource that is known, and only regions of structured control
/// flow have effects: an error where not. Whoever goes by effects asks this first.
mlir::LogicalResult verifyEffects(mlir::func::FuncOp kernel);

/// A read of what no op of the kernel may write: it gives the same whenever it is made.
bool isConstantRead(mlir::func::FuncOp kernel, mlir::Operation *op);

/// The one kernel argument that `pointer` (a pointer, a tile of pointers, a descriptor or a map) steps from, or null.
mlir::Value pointerArgument(mlir::Value pointer);

/// The arguments that the kernel may write through, in their order: those that a write may step from, and all pointers
/// where it is not known what one steps from.
llvm::SmallVector<unsigned> writtenArguments(mlir::func::FuncOp kernel);

/// The pointer or descriptor that a tile memory op goes through, or null for any other op.
mlir::Value accessedPointer(mlir::Operation *access);

/// True when two tile memory ops of one kernel provably touch no common byte.
bool areDisjoint(mlir::Operation *a, mlir::Operation *b);

} // namespace kiln
