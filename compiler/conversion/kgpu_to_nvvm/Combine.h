// What reductions and scans share: tuples, the digits of an axis, and what is known of the combine region.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

namespace kiln::nvvm {

/// One element of every operand.
using Tuple = Registers;

/// One digit of a layout that steps along the axis.
struct AxisDigit {
  layout::Coord coord; ///< Reg or Lane
  unsigned index;      ///< among the digits of `coord`
  int64_t radix;
  int64_t step; ///< along the axis
};

/// The register and lane digits along `axis`, from the fastest to the slowest. Nothing (reported by the caller) when
/// one of them steps along another dimension too, or two by the same distance.
std::optional<llvm::SmallVector<AxisDigit>> digitsAlong(const layout::Layout &layout, unsigned axis);

/// The value of a register digit in register `reg`, and that register with the digit at `value`.
int64_t digitOf(const layout::Layout &layout, int64_t reg, unsigned digit);
int64_t withDigit(const layout::Layout &layout, int64_t reg, unsigned digit, int64_t value);

/// combine(a, b): a is of the earlier elements. Empty when an op of the region is unknown (reported).
Tuple combine(Lowering &lowering, mlir::Region &region, const Tuple &a, const Tuple &b);
/// condition ? a : b.
Tuple select(Lowering &lowering, mlir::Value condition, const Tuple &a, const Tuple &b);
/// i1: bit `digit` of the lane is set.
mlir::Value laneBit(Lowering &lowering, unsigned digit);

} // namespace kiln::nvvm
