// Reductions into memory that programs perform one after the other, by a number in memory that says whose turn it is:
//
//   while atomic(number, acquire) is not mine: pass
//   reductions
//   atomic(number, release)
//
// Sums then have the same bits each time. A schedule with roles may move such a turn to a role of its own, if programs
// wait for nothing else. Turns then order only what is reduced in them: a program that takes turns with another kernel,
// to read what that has written, must read it elsewhere than behind a turn.
#pragma once
#include "dialects/tile/TileOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace kiln::schedule {

struct Turn {
  mlir::scf::WhileOp begin;
  llvm::SmallVector<tile::DescReduceOp, 1> reductions;
  tile::AtomicRMWOp end;

  /// The op is part of the turn's beginning or its end.
  bool orders(mlir::Operation *op) const { return begin->isAncestor(op) || tile::AtomicRMWOp(end) == op; }
};

/// The turns of a kernel; none if its programs may wait for each other in any other way, or if anything that the kernel
/// writes before the end of a turn is not part of one.
llvm::SmallVector<Turn> findTurns(mlir::func::FuncOp kernel);

inline bool isOrdering(llvm::ArrayRef<Turn> turns, mlir::Operation *op) {
  return llvm::any_of(turns, [op](const Turn &turn) { return turn.orders(op); });
}

} // namespace kiln::schedule
