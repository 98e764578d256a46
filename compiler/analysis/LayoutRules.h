// The constraints that each op puts on the layouts of its tiles: stated once, used by inference and by verification.
#pragma once
#include "dialects/layout/Layout.h"
#include "mlir/IR/Operation.h"

namespace kiln::rules {

/// Tiles that must have the same layout: operands of an op, and its results (of a loop: its arguments).
struct Group {
  llvm::SmallVector<mlir::OpOperand *, 4> uses;
  llvm::SmallVector<mlir::Value, 2> defs;

  bool empty() const { return uses.empty() && defs.empty(); }
  /// The type of any of them: all have the same shape.
  mlir::RankedTensorType type() const;
};

/// The groups of an op. A loop's or an if's groups include its terminators' operands, so terminators have none; a
/// function's groups are its arguments. std::nullopt for an op that has tiles but no rule.
std::optional<llvm::SmallVector<Group, 2>> groupsOf(mlir::Operation *op);

/// An op that changes the shape: its first group is the operands, its second the results, and the layout of one follows
/// from that of the other.
bool isDerived(mlir::Operation *op);
/// std::nullopt if the layout cannot be carried over. A reduction does not determine its operand's layout.
std::optional<layout::Layout> resultFromOperand(mlir::Operation *op, const layout::Layout &operand);
std::optional<layout::Layout> operandFromResult(mlir::Operation *op, const layout::Layout &result);
/// True if operand and result of a derived op fit together without moving an element between threads.
bool fits(mlir::Operation *op, const layout::Layout &operand, const layout::Layout &result);

} // namespace kiln::rules
