// The program instance that this thread belongs to: its ids, the grid's sizes, and the kernel's parameters that replace
// them where blocks run several instances in turn.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Place.h"

namespace kiln::nvvm {

class Program {
public:
  Program(mlir::func::FuncOp kernel, CodeBuilder &b, Place &place);

  /// True if a block runs many program instances.
  bool isPersistent() const { return persistent; }
  /// Checks that the ops on program instances suit this kind of kernel; fails, reported, where they do not.
  mlir::LogicalResult check(mlir::func::FuncOp kernel) const;

  /// tile.program_id and tile.num_programs (i32).
  mlir::Value id(unsigned axis);
  mlir::Value gridSize(unsigned axis);
  /// Sets the logical grid, x first, where it differs from the hardware's.
  void setGridSize(unsigned axis, mlir::Value size) { held->gridSizes[axis] = size; }
  /// The number of the program instance that the hardware started, and how many it started (i32, one dimension).
  mlir::Value first();
  mlir::Value step();
  /// The linear program id, x fastest (i64), of the instance that `op` belongs to; `scalar` maps the counter of the
  /// loop over instances to its emitted value. Null, reported, if `op` is outside that loop in a persistent kernel.
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
