// What every schedule with roles writes: descriptors at the front, the loop over programs, the roles.
#pragma once
#include "compiler/transforms/schedule/Schedule.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::schedule {

/// Moves descriptors, with what they are made of, to the front of the kernel; `b` inserts behind them afterwards.
void hoistDescriptors(mlir::func::FuncOp kernel, llvm::ArrayRef<tile::MakeDescOp> descs, mlir::ImplicitLocOpBuilder &b);

/// The map by which the copy engine fills `memory` with blocks of the described array; in a cluster each cta copies one
/// of so many pieces. Boxes have so many `rows`, where the memory's rows part into such (0: as many as a copy may
/// have).
mlir::Value mapOf(mlir::ImplicitLocOpBuilder &b, tile::MakeDescOp desc, kgpu::MemType memory, int64_t pieces,
                  int64_t rows = 0);

/// Puts the program, everything from `b` on, into a loop over those that this block runs.
mlir::scf::ForOp makePersistent(mlir::func::FuncOp kernel, mlir::ImplicitLocOpBuilder &b);

/// Scalar and without effect: the loading role computes it too.
bool isScalarOp(mlir::Operation &op);
/// The same, or the read of a scalar that nobody writes.
bool isScalarOrRead(mlir::Operation &op, mlir::func::FuncOp kernel);

/// The bodies of the roles of a kernel with so many groups that multiply, empty: one role of all groups, or, where two
/// take turns, one for the even programs and one for the `odd`. Each thread that multiplies has `moved` registers more
/// than usual, of the loading role's.
struct RoleBodies {
  mlir::Block *load, *multiply, *odd;
};
RoleBodies makeRoles(mlir::ImplicitLocOpBuilder &b, int32_t consumers, bool inTurns = false, int32_t moved = 0);

} // namespace kiln::schedule
