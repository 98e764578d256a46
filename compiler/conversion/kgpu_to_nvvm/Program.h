// The program instance that this thread is of: its numbers, the grid's sizes, and which of the kernel's arguments stand
// for them where blocks take instances in turn.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class Program {
public:
  Program(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place);

  /// Blocks run many program instances.
  bool isPersistent() const { return persistent; }
  /// That ops about instances suit a kernel of its kind; fails, reported, where not.
  mlir::LogicalResult check(mlir::func::FuncOp kernel) const;

  /// tile.program_id and tile.num_programs (i32).
  mlir::Value id(unsigned axis);
  mlir::Value gridSize(unsigned axis);
  /// The grid that is counted, x first, where it is not the one that the hardware has.
  void setGridSize(unsigned axis, mlir::Value size) { held->gridSizes[axis] = size; }
  /// Number of the program instance that the hardware started, and how many it started (i32, one dimension).
  mlir::Value first();
  mlir::Value step();
  /// Linear program id, x fastest (i64), of the instance that `op` belongs to; `scalar` gives what the counter of the
  /// loop over the instances is. Null, reported, where that loop is not around `op` in a persistent kernel.
  mlir::Value number(mlir::Operation *op, llvm::function_ref<mlir::Value(mlir::Value)> scalar);

private:
  CodeBuilder &b;
  Place &place;
  bool persistent;
  struct Held {
    mlir::Value number, ids[3], gridSizes[3], hardwareGrid;
  };
  PerTeam<Held, /*shared=*/true> held;
};

} // namespace kiln::nvvm
