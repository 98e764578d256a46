// Runs of reads of tiles in a kernel's block: issued one after the other, until the first of them is needed.
//
//     %x = tile.load %p        one run: all of it should be in flight
//     %w = tile.load %q        before anything waits for a part of it
//                              <- ends here
//     %y = arith.extf %x
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kiln::kgpu {

/// Visits the ops of a kernel's block in order.
class ReadRuns {
public:
  explicit ReadRuns(mlir::func::FuncOp kernel);

  /// Takes the next op. A read that no write may precede joins the run.
  void take(mlir::Operation *op);
  /// The run ends before the op taken last: that op needs the run or is a launch marker, and no read follows before
  /// threads cooperate.
  bool ends() const { return isEnd; }
  /// The op taken last is a launch marker: the next launch may begin there, or it waits for the previous one.
  bool holds() const { return isHold; }
  /// Reads in the run; 0 if the op taken last is itself a read.
  unsigned size() const { return isRead ? 0 : open.size(); }
  /// Starts the next run.
  void close();

private:
  bool pdl;
  llvm::DenseSet<mlir::Operation *> behindWrites;
  llvm::DenseSet<mlir::Value> open;
  bool isNeeded = false, isRead = false, isEnd = false, isHold = false;
};

} // namespace kiln::kgpu
