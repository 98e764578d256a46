"""Softmax over the last dimension: a row stays in registers, so that memory is read once and written once.

Exponentials are powers of two of ``(x - max) · log2(e)``. Where x and y have 16 bits, one multiply-add computes the
exponent: float16 times log2(e) is finite, and bfloat16 times 16 bits of log2(e) is exact. Otherwise the subtraction
comes first: the largest float32 numbers times log2(e) overflow, and a row masked with the lowest number must have equal
weights.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels import rows as policy
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, operator, output
from kiln.kernels.rows import RowPlan
from kiln.kernels.views import Rows, rows_view

LOG2_E: kl.constexpr = kl.constexpr(1.4426950408889634)
SHORT_LOG2_E: kl.constexpr = kl.constexpr(47274 / 32768)  # 16 bits of log2(e), 4.9e-6 too small
LARGE: kl.constexpr = kl.constexpr(2.0**126)
LOWEST: kl.constexpr = kl.constexpr(-3.4028234663852886e38)  # the lowest float32


@kiln.jit
def level(top, NARROW: kl.constexpr):
    """The origin of the exponents: the maximum. If NARROW, top · log2(e), which is finite there; it is rounded before
    anything is subtracted from it, since weights and their scale factors must use the same origin.

    It is finite, so that the weights of a part that is all -inf are exp2(-inf) = 0.
    """
    return kl.maximum(kl.fma(top, LOG2_E, 0.0) if NARROW else top, LOWEST)


@kiln.jit
def exponent(value, base, EXACT: kl.constexpr, NARROW: kl.constexpr):
    """(value - top) · log2(e), given top's level; in one operation if NARROW or EXACT. EXACT is for bfloat16, whose
    products with 16 bits of log2(e) are exact, however large both sides of the difference are."""
    if NARROW:
        return kl.fma(value, LOG2_E, -base)
    if EXACT:
        # The smaller multiplier keeps products finite. Numbers that large are so far apart that all weights are 0 or 1.
        factor = kl.where(kl.abs(base) > LARGE, SHORT_LOG2_E / 256, SHORT_LOG2_E)
        return kl.fma(value, factor, -(base * factor))
    return (value - base) * LOG2_E


@kiln.jit
def scale(distance, NARROW: kl.constexpr):
    """2^distance, for the distance between two levels: it scales weights from one level to the other."""
    return exp2_flushed(distance if NARROW else distance * LOG2_E)


@kiln.jit
def softmax_kernel(x: Rows, y: Rows, PLAN: kl.constexpr):
    """y = exp(x - max(x)) / sum(exp(x - max(x)))"""
    NARROW: kl.constexpr = x.dtype == kl.float16
    EXACT: kl.constexpr = x.dtype == kl.bfloat16 and y.dtype.primitive_bitwidth == 16
    tile = PLAN.parts(x)
    value = x.load(tile, -float("inf")).to(kl.float32)
    base = level(PLAN.max(value), NARROW)
    weight = exp2_flushed(exponent(value, base, EXACT, NARROW))
    total = PLAN.sum(weight)
    y.store(tile, weight * (1.0 / total if PLAN.PARTS == 1 else share(base, total, NARROW)))


@kiln.jit
def share(base, total, NARROW: kl.constexpr):
    """The factor that turns the weights of each part of a row, whose sums are ``total``, into the row's softmax. Takes
    one exchange, for the maximum and the sum of the row together."""
    highest, whole = kl.reduce((base, total), 0, joined if NARROW else joined_wide, keep_dims=True)
    return scale(base - highest, NARROW) / whole


@kiln.jit
def joined(base, total, other, more):
    """The combined level and sum of two parts."""
    return _joined(base, total, other, more, True)


@kiln.jit
def joined_wide(base, total, other, more):
    """`joined` for levels that are plain maxima."""
    return _joined(base, total, other, more, False)


@kiln.jit
def _joined(base, total, other, more, NARROW: kl.constexpr):
    # Only the sum at the lower level is scaled: one exponential per pair.
    distance = base - other
    higher, lower = kl.where(distance >= 0, total, more), kl.where(distance >= 0, more, total)
    return kl.maximum(base, other), kl.fma(lower, scale(-kl.abs(distance), NARROW), higher)


@kiln.jit
def softmax_long_kernel(x: Rows, y: Rows, PLAN: kl.constexpr):
    """Softmax of one row that does not fit the registers: a running maximum and sum over blocks, then a second read."""
    x, y = x.row(kl.program_id(0)), y.row(kl.program_id(0))
    top, total = kl.full((PLAN.BLOCK,), LOWEST, kl.float32), kl.zeros((PLAN.BLOCK,), kl.float32)
    for start in range(0, x.columns, PLAN.BLOCK):
        value = x.load(PLAN.block(x, start), -float("inf")).to(kl.float32)
        top, total = joined_wide(top, total, value, 1.0)
    highest = kl.max(top, axis=0)
    whole = kl.sum(total * scale(top - highest, False), axis=0)
    for start in range(0, x.columns, PLAN.BLOCK):
        tile = PLAN.block(x, start)
        value = x.load(tile).to(kl.float32)
        y.store(tile, exp2_flushed(exponent(value, highest, False, False)) / whole)


@operator(
    outputs=lambda x, **_: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, out=FLOATS, inside="float32", result="x"),),
    repeatable=True,
)
def softmax(x: Any, *, out: Any = None, plan: RowPlan | None = None) -> Any:
    """Softmax over the last dimension, computed in float32 and rounded once to the type of ``out``.

    ``plan`` says how rows are spread over threads (chosen from the shape when None).
    """
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x}, ("x",))
    of_x, of_y = rows_view(x), rows_view(out, "out")
    n = of_x.columns
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(of_x.rows, n, x.itemsize, 1, machine)
        kernel = softmax_long_kernel if plan.loop else softmax_kernel
        kernel[plan.grid(of_x.rows)](of_x, of_y, **plan.meta(of_x.rows, n, machine))
    return out
