"""Softmax over the last dimension: a row stays in registers, so that memory is read once and written once.

Exponentials are powers of two of ``(x - max) · log2(e)``. (The difference comes first: ``max · log2(e)`` alone leaves
float32 where a row is masked by its least number, and such a row has equal weights.)
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels import rows as policy
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, operator, output, rows_of
from kiln.kernels.rows import RowPlan, read, row_max, row_sum, start_next, tile_place

LOG2_E: kl.constexpr = kl.constexpr(1.4426950408889634)


@kiln.jit
def _long_row(x, y, x_step, y_step, n, BLOCK: kl.constexpr, FULL: kl.constexpr):
    """One row that no registers hold: a running maximum and sum over blocks, then the row once more."""
    columns = kl.arange(0, BLOCK)
    top = kl.full((BLOCK,), -float("inf"), kl.float32)
    total = kl.zeros((BLOCK,), kl.float32)
    for start in range(0, n, BLOCK):
        at = start + columns
        value = read(x + at * x_step, None if FULL else at < n, -float("inf")).to(kl.float32)
        higher = kl.maximum(top, value)
        # Subtracting 0 where nothing but -inf was seen keeps the weights there at exp2(-inf) = 0.
        safe = kl.where(higher == -float("inf"), 0.0, higher)
        total = total * kl.exp2((top - safe) * LOG2_E) + kl.exp2((value - safe) * LOG2_E)
        top = higher
    highest = kl.max(top, axis=0)
    whole = kl.sum(total * kl.exp2((top - highest) * LOG2_E), axis=0)
    for start in range(0, n, BLOCK):
        at = start + columns
        mask = None if FULL else at < n
        value = read(x + at * x_step, mask).to(kl.float32)
        result = kl.exp2((value - highest) * LOG2_E) / whole
        kl.store(y + at * y_step, result.to(y.dtype.element_ty), mask=mask)


@kiln.jit
def softmax_kernel(x, y, x_stride, x_step, y_stride, y_step, rows, n, BLOCK: kl.constexpr, ROWS: kl.constexpr = 1,
                   FULL: kl.constexpr = False, EVEN: kl.constexpr = True,
                   LOOP: kl.constexpr = False, EVICT: kl.constexpr = "",
                   FEW: kl.constexpr = False):  # fmt: skip
    if LOOP:
        row = kl.program_id(0)
        _long_row(x + row * x_stride, y + row * y_stride, x_step, y_step, n, BLOCK, FULL)
    else:
        start_next(FEW)
        row, columns, mask, _ = tile_place(rows, n, ROWS, BLOCK, FULL, EVEN)
        value = read(x + row * x_stride + columns * x_step, mask, -float("inf"), EVICT).to(kl.float32)
        top = row_max(value, ROWS)
        weight = exp2_flushed((value - top) * LOG2_E)
        result = weight * (1.0 / row_sum(weight, ROWS))
        kl.store(y + row * y_stride + columns * y_step, result.to(y.dtype.element_ty), mask=mask)


@operator(
    outputs=lambda x, **_: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, out=FLOATS, inside="float32", result="x"),),
)
def softmax(x: Any, *, out: Any = None, plan: RowPlan | None = None) -> Any:
    """Softmax over the last dimension, computed in float32, rounded once to ``out``'s type.

    ``plan`` says how rows are spread over threads (chosen from the shape when None).
    """
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x}, ("x",))
    rows, x_stride, x_step = rows_of(x)
    _, y_stride, y_step = rows_of(out, "out")
    n = x.shape[-1]
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(rows, n, x.itemsize, 1, machine)
        softmax_kernel[plan.grid(rows)](x, out, x_stride, x_step, y_stride, y_step, rows, n,
                                        **plan.meta(rows, n, machine))  # fmt: skip
    return out
