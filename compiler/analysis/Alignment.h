// How the elements of a value are spaced: which form runs of equal steps along a dimension, which are all the same, and
// which powers of two divide them. Everything that turns pointer tiles into wide accesses uses this analysis.
#pragma once
#include "compiler/analysis/Range.h"

namespace kiln {

/// What is known along one dimension of a tile (a scalar counts as one dimension of size 1). The dimension is divided
/// into aligned groups [k * group, (k + 1) * group); `group` divides its size.
///   - within a group, each element is its predecessor plus `step` (modulo 2^width; pointers step in bytes);
///   - the first element of each group, at any position of the other dimensions, is a multiple of `divisibility`.
/// A group of 1 has step 0.
struct AxisDim {
  int64_t group = 1;
  int64_t step = 0;
  /// A power of two, at most AxisInfo::kMaxDivisibility (zero has that).
  int64_t divisibility = 1;

  bool operator==(const AxisDim &other) const {
    return group == other.group && step == other.step && divisibility == other.divisibility;
  }
  /// The same facts for groups of `size`, a divisor of `group`.
  AxisDim refined(int64_t size) const;
};

struct AxisInfo {
  static constexpr int64_t kMaxDivisibility = int64_t(1) << 62;

  llvm::SmallVector<AxisDim, 2> dims;
  /// The value of every element, sign-extended.
  std::optional<int64_t> constant;

  unsigned rank() const { return dims.size(); }
  /// Elements per aligned group that are all equal.
  int64_t constancy(unsigned dim) const { return dims[dim].step == 0 ? dims[dim].group : 1; }
  /// Elements per aligned group that step by `step`.
  int64_t steppingBy(unsigned dim, int64_t step) const { return dims[dim].step == step ? dims[dim].group : 1; }
  /// A power of two that divides every element.
  int64_t everyElement() const;
  /// Whether `divisor` divides every element times `factor`; that product may have more than 64 bits.
  bool isMultiple(int64_t divisor, int64_t factor = 1) const {
    return everyElement() % divisor * factor % divisor == 0;
  }
  bool operator==(const AxisInfo &other) const { return dims == other.dims && constant == other.constant; }
};

/// Sources of facts: `tile.divisibility` of arguments (bytes for pointers), constants, tile.make_range, tile.hint, loop
/// bounds, ranges, and tile.assume of `x % c == 0`. Sound under wrapping arithmetic.
///
/// tile.hint is interpreted as programs use it: contiguity and constancy hold for aligned groups of the given size;
/// divisibility holds for the first element of each group. So a divisibility hint on a tile only covers element 0,
/// unless a contiguity or constancy, proven or promised by the hint next to it, says how long groups are.
class AlignmentAnalysis : public StructuredForward<AlignmentAnalysis, AxisInfo> {
public:
  /// `root`: a function or anything that contains functions. Answers hold for the IR as it is now; see
  /// StructuredForward. `believeHints`: trust tile.hint. A target that would read past a buffer if a hint is wrong, and
  /// can check at run time instead, passes false.
  explicit AlignmentAnalysis(mlir::Operation *root, bool believeHints = true);

  const RangeAnalysis &ranges() const { return rangeAnalysis; }

  /// For a pointer (tile): how many elements of each aligned group along `dim` are contiguous in memory. At least 1;
  /// the whole side if the dimension is one run.
  int64_t contiguousElements(mlir::Value pointers, unsigned dim) const;
  /// A power of two, in bytes, that is known to divide the address of the first element of each such group.
  int64_t alignmentInBytes(mlir::Value pointers, unsigned dim) const;
  /// For a mask (or null: no mask): elements per aligned group along `dim` that agree. `side` is the dimension's size.
  int64_t maskConstancy(mlir::Value mask, unsigned dim, int64_t side) const;
  /// True if the mask is null or provably true everywhere; alwaysFalse likewise (never for null).
  bool alwaysTrue(mlir::Value mask) const;
  bool alwaysFalse(mlir::Value mask) const;

private:
  friend class StructuredForward<AlignmentAnalysis, AxisInfo>;

  AxisInfo pessimistic(mlir::Value value) const;
  AxisInfo join(mlir::Value value, const AxisInfo &a, const AxisInfo &b) const;
  AxisInfo entry(mlir::BlockArgument argument);
  AxisInfo inductionVariable(mlir::scf::ForOp op);
  std::optional<AxisInfo> loopCarried(mlir::scf::ForOp, unsigned) { return std::nullopt; }
  void transfer(mlir::Operation *op);

  void collectAssumptions(mlir::Operation *root);
  AxisInfo withKnown(mlir::Value value, AxisInfo info) const;
  AxisInfo infer(mlir::Operation *op, mlir::Value result) const;
  AxisInfo inferExtension(mlir::Value operand, bool isSigned) const;
  AxisInfo inferHint(mlir::Operation *op) const;

  bool believeHints;
  RangeAnalysis rangeAnalysis;
  /// Divisors promised by tile.assume.
  llvm::DenseMap<mlir::Value, int64_t> promised;
};

} // namespace kiln
