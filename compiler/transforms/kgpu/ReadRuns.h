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

/// Whether threads begin a ring's first copies in `op`, or close a group of them, and wait for none.
bool fillsRing(mlir::Operation *op);

/// Visits the ops of a kernel's block in order.
class ReadRuns {
public:
  /// `endAtCopies`: a run ends where threads begin copies, too. Memory takes requests in turn, so the reads should be
  /// issued before.
  explicit ReadRuns(mlir::func::FuncOp kernel, bool endAtCopies = false);

  /// Takes the next op. A read that no write may precede joins the run.
  void take(mlir::Operation *op);
  /// The run ends before the op taken last: that op needs the run or is a launch marker, and no read follows before
  /// threads cooperate.
  bool ends() const { return isEnd; }
  /// The op taken last is a launch marker: the next launch may begin there, or it waits for the previous one.
  bool holds() const { return isHold; }
  /// The op taken last begins asynchronous copies.
  bool isBeforeCopies() const { return isAheadOfCopies; }
  /// Reads in the run; 0 if the op taken last is itself a read.
  unsigned size() const { return isRead ? 0 : open.size(); }
  /// Starts the next run.
  void close();

private:
  bool endAtCopies, pdl;
  llvm::DenseSet<mlir::Operation *> behindWrites;
  llvm::DenseSet<mlir::Value> open;
  bool isNeeded = false, isRead = false, isEnd = false, isHold = false, isAheadOfCopies = false;
};

} // namespace kiln::kgpu
