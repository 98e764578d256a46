// The arithmetic of AxisInfo: one function per kind of operation, on facts alone, independent of IR. `width` is the
// width of the integers in bits (64 for pointers).
#pragma once
#include "compiler/analysis/Alignment.h"

namespace kiln::axis {

/// Largest power of two dividing `value`, at most kMaxDivisibility (the result for zero).
int64_t powerOfTwoIn(int64_t value);
/// `step` as a signed number of `width` bits.
int64_t wrapStep(int64_t step, unsigned width);
/// The group cut so that none of its elements leaves the window [k * window, (k + 1) * window) of its first element;
/// `window` is a power of two at most `dim.divisibility`. Size 1 if nothing better is known.
AxisDim withinWindow(const AxisDim &dim, int64_t window);

AxisInfo meet(const AxisInfo &a, const AxisInfo &b);
AxisInfo add(const AxisInfo &a, const AxisInfo &b, unsigned width);
AxisInfo sub(const AxisInfo &a, const AxisInfo &b, unsigned width);
AxisInfo mul(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Quotient rounded down (or towards zero, if the caller has shown that this is the same). `b` must be positive.
AxisInfo divide(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// a - b * floor(a / b).
AxisInfo remainder(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Bits of `a` selected by the constant `mask`.
AxisInfo maskedBits(const AxisInfo &a, int64_t mask, unsigned width);
/// Bitwise or, xor: one operand is constant in each group and has no bits in the range where the other one steps.
AxisInfo changedBits(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Compares a < b, for groups that do not straddle a multiple of b's divisor. Signedness does not matter.
AxisInfo lessThan(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Equality of values whose difference is constant in groups.
AxisInfo equal(const AxisInfo &a, const AxisInfo &b);
/// Any elementwise function of the operands: constant where all of them are; nothing else is known.
AxisInfo elementwise(llvm::ArrayRef<const AxisInfo *> operands);
/// The integers extended to a type in which they no longer wrap. `exact`: the bounds of all elements are known to span
/// less than half the values of the narrow type.
AxisInfo extend(const AxisInfo &a, unsigned fromWidth, bool exact);
/// Row-major reinterpretation.
AxisInfo reshape(const AxisInfo &a, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, unsigned width);

} // namespace kiln::axis
