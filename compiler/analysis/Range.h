// Bounds of integers in tile IR: of a scalar's value, or of every element of a tile.
#pragma once
#include "compiler/analysis/StructuredForward.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace kiln {

/// True for integers, index, and tiles of them: the types that ranges are kept for.
bool isIntegerLike(mlir::Type type);
/// Bits of an integer-like type's elements (64 for index).
unsigned integerWidth(mlir::Type type);

/// What a launch has been checked for: integer arguments of a kernel are from 0 to `mostCount`, and its grid has at
/// most `mostPrograms` programs along each axis.
struct LaunchBounds {
  int64_t mostCount, mostPrograms;
};

/// Signed and unsigned bounds per value. Sources: constants, tile.make_range, tile.program_id and tile.num_programs
/// (grid sizes are positive 32-bit integers), promises about the launch, loop bounds, and comparisons promised by
/// tile.assume. An assumption bounds a value if both are in one block, so that the promise is made whenever the value
/// exists. Arithmetic wraps: a sum that may overflow its width is unbounded.
class RangeAnalysis : public StructuredForward<RangeAnalysis, mlir::ConstantIntRanges> {
public:
  /// `root`: a function or anything that contains functions.
  explicit RangeAnalysis(mlir::Operation *root, std::optional<LaunchBounds> launch = std::nullopt);

  /// True if add, sub, mul or shl of signed operands (the ops of offset arithmetic) may overflow; also true for every
  /// other op, about which nothing is known.
  bool mayOverflowSigned(mlir::Operation *op) const;
  /// The value every element has, if known.
  std::optional<llvm::APInt> constant(mlir::Value value) const;

private:
  friend class StructuredForward<RangeAnalysis, mlir::ConstantIntRanges>;
  using Range = mlir::ConstantIntRanges;
  struct Bound {
    mlir::arith::CmpIPredicate predicate;
    mlir::Value limit;
  };

  Range pessimistic(mlir::Value value) const;
  Range join(mlir::Value value, const Range &a, const Range &b) const { return a.rangeUnion(b); }
  Range entry(mlir::BlockArgument argument);
  Range inductionVariable(mlir::scf::ForOp op);
  std::optional<Range> loopCarried(mlir::scf::ForOp op, unsigned index);
  void transfer(mlir::Operation *op);

  void collectAssumptions(mlir::Operation *root);
  void assume(mlir::Value condition, mlir::Block *where);
  Range refine(mlir::Value value, Range range) const;
  std::optional<Range> infer(mlir::Operation *op, mlir::Value result) const;

  std::optional<LaunchBounds> launch;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Bound, 2>> bounds;
};

/// Range of the exact (unwrapped) result of add, sub, mul or shl, in a width that cannot wrap; none for other ops.
std::optional<mlir::ConstantIntRanges> exactSignedRange(mlir::Operation *op, const mlir::ConstantIntRanges &lhs,
                                                        const mlir::ConstantIntRanges &rhs);

} // namespace kiln
