// Shared by all schedules with roles: moves descriptors to the front, and writes the loop over programs and the roles.
#pragma once
#include "compiler/transforms/schedule/Schedule.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::schedule {

/// Moves descriptors and everything they depend on to the front of the kernel; leaves `b` inserting after them.
void hoistDescriptors(mlir::func::FuncOp kernel, llvm::ArrayRef<tile::MakeDescOp> descs, mlir::ImplicitLocOpBuilder &b);

/// The tensor map with which the copy engine fills `memory` with blocks of the described array; in a cluster each CTA
/// copies one of `pieces` pieces. Boxes have `rows` rows, if the memory's rows can be divided that way (0: as many as a
/// copy can have).
mlir::Value mapOf(mlir::ImplicitLocOpBuilder &b, tile::MakeDescOp desc, kgpu::MemType memory, int64_t pieces,
                  int64_t rows = 0);

/// Moves the program, everything from `b` on, into a loop over the programs that this block runs.
mlir::scf::ForOp makePersistent(mlir::func::FuncOp kernel, mlir::ImplicitLocOpBuilder &b);
/// The same, where each block runs one program: a loop of one iteration.
mlir::scf::ForOp makeSingle(mlir::ImplicitLocOpBuilder &b);

/// Scalar and without effects: the load role computes it too.
bool isScalarOp(mlir::Operation &op);
/// The same, or a read of a scalar that the kernel does not write.
bool isScalarOrRead(mlir::Operation &op, mlir::func::FuncOp kernel);

/// Creates the empty bodies of the roles of a kernel with `consumers` multiply groups: one multiply role for all
/// groups, or, if two groups take turns, one for even programs and one for `odd` ones. Each multiply thread gets
/// `moved` more registers than usual, taken from the load role. With `adds` a warp beside the load role's has the copy
/// engine add to memory.
struct RoleBodies {
  mlir::Block *load, *multiply, *odd, *add;
};
RoleBodies makeRoles(mlir::ImplicitLocOpBuilder &b, int32_t consumers, bool inTurns = false, int32_t moved = 0,
                     bool adds = false);

} // namespace kiln::schedule
