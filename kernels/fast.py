"""GPU operations that the language does not name, with a portable equivalent for other targets."""

from __future__ import annotations

import kiln
import kiln.language as kl


@kiln.jit
def _exp2(x):
    return kl.exp2(x)


@kiln.jit
def exp2_flushed(x):
    """2^x in one instruction: results below 2^-126 may be 0, where ``kl.exp2`` spends three more instructions on
    scaling. For float64 it is ``kl.exp2``."""
    if x.dtype == kl.float64:
        return kl.exp2(x)
    return kl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], kl.float32, True, 1, portable=_exp2)


@kiln.jit
def _reciprocal(x):
    return 1.0 / x


@kiln.jit
def reciprocal(x):
    """1 / x in one instruction, to one unit in the last place; denormals count as 0. For float64 it is 1 / x."""
    if x.dtype == kl.float64:
        return 1.0 / x
    return kl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], kl.float32, True, 1, portable=_reciprocal
    )


@kiln.jit
def sigmoid_narrow(x):
    """1 / (1 + exp(-x)) for results that are rounded to 16 bits: its relative error is (2 + 2|x|) units of float32."""
    return reciprocal(1.0 + exp2_flushed(x * -1.4426950408889634))


# log2 of the upper tail of the normal distribution over [0, 5.6], from the constant term up: the polynomial of this
# degree whose result 2^p has the least relative error (1.1e-5; where t · 2^p < 1e-5, the least absolute error). Beyond
# 5.6 it keeps falling until 14, and is cut off where no 16-bit type resolves the product any more.
TAIL: kl.constexpr = kl.constexpr(
    (
        -1.0000141859054565,
        -1.1509239673614502,
        -0.4594768285751343,
        -0.0527481734752655,
        0.007806862238794565,
        -0.0007207344751805067,
        3.033319990208838e-05,
    )
)


@kiln.jit
def gelu_narrow(value):
    """value · Φ(value) = max(value, 0) - t · Φ(-t) with t = |value|, for results that are rounded to 16 bits.

    Covers both branches of the exact formula, without a sum that cancels. Its relative error is 1.1e-5, a fiftieth of
    float16's rounding. It takes eleven operations per element; erf and the arithmetic around it take twice that.
    """
    t = kl.minimum(kl.abs(value), 8.0)
    exponent = kl.fma(t, TAIL[6], TAIL[5])
    exponent = kl.fma(exponent, t, TAIL[4])
    exponent = kl.fma(exponent, t, TAIL[3])
    exponent = kl.fma(exponent, t, TAIL[2])
    exponent = kl.fma(exponent, t, TAIL[1])
    exponent = kl.fma(exponent, t, TAIL[0])
    return kl.fma(-t, exp2_flushed(exponent), kl.maximum(value, 0.0, propagate_nan=kl.PropagateNan.ALL))
