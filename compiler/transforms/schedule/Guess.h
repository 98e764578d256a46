// A loop of chained products whose weights are a guess: `tile.unlikely` asks in each step whether it was good enough,
// and a branch computes what else is needed.
#pragma once
#include "compiler/transforms/schedule/ChainedProducts.h"

namespace kiln::schedule {

struct Guess {
  mlir::OwningOpRef<mlir::scf::ForOp> loop; ///< outside of the kernel, with the kernel's values as operands
  tile::DotOp scores, sums;
  tile::UnlikelyOp question;
  mlir::scf::IfOp remedy;
  /// Rounds a result of the remedy, which nothing else uses, to the second product's left operand; null if none does.
  mlir::Operation *rounding = nullptr;
  /// The condition of branches that only the first step or the last ones take; null if all steps are alike.
  mlir::Value masks;
  /// Ops of a step that load or multiply, or decide whether it masks.
  llvm::DenseSet<mlir::Operation *> parts;
  /// What comes behind the remedy.
  llvm::DenseSet<mlir::Operation *> behind;
  /// What the remedy needs of the scores, in order: it is computed once more rather than held.
  llvm::SmallVector<mlir::Operation *> again;
};

/// Takes the kernel's unlikely branches. The loop as it was is the result, if a schedule can tell the guess from the
/// rest of a step; nothing is lost otherwise.
std::optional<Guess> setGuessAside(mlir::func::FuncOp kernel);

} // namespace kiln::schedule
