// Shared by reductions and scans: tuples, the digits of an axis, and the combine region.
#pragma once
#include "compiler/conversion/kgpu_to_nvvm/Lowering.h"

namespace kiln::nvvm {

/// One element of every operand.
using Tuple = Registers;

/// A digit of a layout that steps along the axis.
struct AxisDigit {
  layout::Coord coord; ///< Reg or Lane
  unsigned index;      ///< its number among the digits of `coord`
  int64_t radix;
  int64_t step; ///< along the axis
};

/// The register and lane digits along `axis`, from the fastest to the slowest. std::nullopt (which the caller reports)
/// if one of them steps along another dimension too, or two step by the same distance.
std::optional<llvm::SmallVector<AxisDigit>> digitsAlong(const layout::Layout &layout, unsigned axis);

/// The value of a register digit in register `reg`; and the register that differs from it in that digit alone.
int64_t digitOf(const layout::Layout &layout, int64_t reg, unsigned digit);
int64_t withDigit(const layout::Layout &layout, int64_t reg, unsigned digit, int64_t value);

/// combine(a, b), where a is of the earlier elements. Empty if the region holds an unknown op (reported).
Tuple combine(Lowering &lowering, mlir::Region &region, const Tuple &a, const Tuple &b);
/// condition ? a : b.
Tuple select(Lowering &lowering, mlir::Value condition, const Tuple &a, const Tuple &b);
/// i1: bit `digit` of the lane is set.
mlir::Value laneBit(Lowering &lowering, unsigned digit);

} // namespace kiln::nvvm
