// Runs of reads of tiles in a kernel's block: asked for one after the other, until the first of them is needed.
//
//     %x = tile.load %p        one run: all of it is to be on its way
//     %w = tile.load %q        before anything waits for a part of it
//                              <- ends here
//     %y = arith.extf %x
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kiln::kgpu {

/// Follows the ops of a kernel's block in their order.
class ReadRuns {
public:
  explicit ReadRuns(mlir::func::FuncOp kernel);

  /// Takes the next op. A read that no write may come before joins the run.
  void take(mlir::Operation *op);
  /// The run ends before the op taken last: that needs it, or says itself where launches overlap, and no read follows
  /// before threads do something together.
  bool ends() const { return isEnd; }
  /// The op taken last says itself where the next launch may begin, or waits for the one before.
  bool holds() const { return isHold; }
  /// Reads in the run; none where the op taken last is not behind one.
  unsigned size() const { return isRead ? 0 : open.size(); }
  /// The next run begins.
  void close();

private:
  bool pdl;
  llvm::DenseSet<mlir::Operation *> behindWrites;
  llvm::DenseSet<mlir::Value> open;
  bool isNeeded = false, isRead = false, isEnd = false, isHold = false;
};

} // namespace kiln::kgpu
