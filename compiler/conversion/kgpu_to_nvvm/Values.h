// How one thread holds a value of kgpu IR: a tile with a layout is a list of scalars, one per register of the layout;
// anything else is one scalar, except for descriptors (base, extents, strides) and cursors (slot, parity).
//
//     tensor<64xf16, blocked [64] vector 2>    2 registers of f16, the elements 2·lane and 2·lane + 1
//     !tile.ptr<f32>                           1 of !llvm.ptr<1>
//     i1                                       1 of i1; in memory it is a byte
#pragma once
#include "dialects/layout/Layout.h"
#include "dialects/tile/MemoryType.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace kiln::nvvm {

/// The scalars of one value, in order.
using Registers = llvm::SmallVector<mlir::Value, 8>;

inline bool isTile(mlir::Type type) { return mlir::isa<mlir::RankedTensorType>(type); }
inline bool isTile(mlir::Value value) { return isTile(value.getType()); }
inline mlir::Type elementOf(mlir::Type type) {
  auto tile = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tile ? tile.getElementType() : type;
}
inline mlir::Type elementOf(mlir::Value value) { return elementOf(value.getType()); }
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// The layout in the type of a tile; null if it has none (which kiln-verify-layouts rejects).
const layout::Layout *layoutOf(mlir::Type type);
using tile::memoryBytes;
/// The type of a single element in global and shared memory: as tile::memoryType, except that a pointer is
/// !llvm.ptr<1>.
mlir::Type memoryType(mlir::Type element);
/// The type of an element in a register: a pointer is !llvm.ptr<1>, anything else itself.
mlir::Type registerType(mlir::Type element);
/// The number of registers of a value of this type, and their types.
unsigned registerCount(mlir::Type type);
llvm::SmallVector<mlir::Type> registerTypes(mlir::Type type);

/// The first register of a thread that holds the same element as `reg`.
int64_t ownerRegister(const layout::Layout &layout, int64_t reg);
inline bool isOwnerRegister(const layout::Layout &layout, int64_t reg) { return ownerRegister(layout, reg) == reg; }
/// The registers that are their own owners, in order.
llvm::SmallVector<int64_t> ownerRegisters(const layout::Layout &layout);
/// Sets registers that repeat an element to what its owner register holds.
void repeatOwners(const layout::Layout &layout, Registers &registers);
/// All registers, given those of the owners in their order.
Registers fromOwners(const layout::Layout &layout, llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::nvvm
