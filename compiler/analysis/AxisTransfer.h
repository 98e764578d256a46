// The arithmetic of AxisInfo: one function per kind of operation, on facts alone, with no IR in sight. `width` is the
// width in bits of the integers (64 for pointers).
#pragma once
#include "compiler/analysis/Alignment.h"

namespace kiln::axis {

/// Largest power of two dividing `value`, at most kMaxDivisibility (zero: that).
int64_t powerOfTwoIn(int64_t value);
/// `step` as a signed number of `width` bits.
int64_t wrapStep(int64_t step, unsigned width);
/// The group cut so that none of its elements leaves the window [k * window, (k + 1) * window) its first one is in;
/// `window` is a power of two at most `dim.divisibility`. 1 when nothing better is known.
AxisDim withinWindow(const AxisDim &dim, int64_t window);

AxisInfo meet(const AxisInfo &a, const AxisInfo &b);
AxisInfo add(const AxisInfo &a, const AxisInfo &b, unsigned width);
AxisInfo sub(const AxisInfo &a, const AxisInfo &b, unsigned width);
AxisInfo mul(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Quotient rounded down (or towards zero: the caller has shown that it is the same). `b` positive.
AxisInfo divide(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// a - b * floor(a / b).
AxisInfo remainder(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Bits of `a` selected by the constant `mask`.
AxisInfo maskedBits(const AxisInfo &a, int64_t mask, unsigned width);
/// Bits set or flipped (or, xor) in steps of `a` by a `b` that is the same in a group and has no bit where `a` steps;
/// or the other way round.
AxisInfo changedBits(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Whether a < b where groups do not straddle a multiple of what divides b. Signedness does not matter.
AxisInfo lessThan(const AxisInfo &a, const AxisInfo &b, unsigned width);
/// Equality of values whose difference is constant in groups.
AxisInfo equal(const AxisInfo &a, const AxisInfo &b);
/// Any elementwise function of the operands: the same where all of them are; nothing else.
AxisInfo elementwise(llvm::ArrayRef<const AxisInfo *> operands);
/// The integers widened to a type where they no longer wrap. `exact`: the bounds of all elements are known to span less
/// than half the values of the narrow type.
AxisInfo extend(const AxisInfo &a, unsigned fromWidth, bool exact);
/// Row-major reinterpretation.
AxisInfo reshape(const AxisInfo &a, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, unsigned width);

} // namespace kiln::axis
