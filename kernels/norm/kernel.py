"""RMSNorm, LayerNorm and residual + RMSNorm: statistics in float32, each row read once from memory.

A row stays in registers between its statistics and its use, in its own type where that is narrower: converting to
float32 twice costs less than the registers would. Rows that do not fit the registers have separate kernels, which walk
them in blocks and read them twice. README.md has the formulas.

Models differ in where they round. ``cast="after"``: the normalised value is multiplied by the weight in float32 and
rounded once (Gemma, and most fused kernels). ``cast="before"``: it is first rounded to the input's type, and the
product with the weight is computed in that type (Llama, Qwen, Granite as written in transformers).
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import rows as policy
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, check_apart, operator, output
from kiln.kernels.rows import RowPlan
from kiln.kernels.views import Rows, Vector, rows_view, vector_view

# Bytes in flight per thread (`kernels/rows.py`), by measurement: few, over many threads, where a row needs one
# exchange; more, over fewer threads, where two sums are exchanged and an element takes more operations.
ONE_EXCHANGE_BYTES = 32
# 16-bit elements of the widest access.
ACCESS: kl.constexpr = kl.constexpr(8)


def _layer_bytes(n: int) -> int:
    """More where a row would otherwise exceed the smallest block, as long as it does not exceed the largest."""
    smallest = policy.BLOCK_THREADS * policy.FLOAT_ELEMENTS
    return 2 * policy.THREAD_BYTES if smallest < n <= policy.BLOCK_ELEMENTS else policy.THREAD_BYTES


# ---- RMSNorm ---------------------------------------------------------------------------------------------------------
@kiln.jit
def scaled(weight, normalised, DTYPE: kl.constexpr, CAST_BEFORE: kl.constexpr):
    """weight · normalised, rounded where the model rounds."""
    if CAST_BEFORE:
        return normalised.to(DTYPE) * weight.to(DTYPE)
    return (normalised * weight.to(kl.float32)).to(DTYPE)


@kiln.jit
def rms_norm_kernel(x: Rows, weight: Vector, y: Rows, eps, CAST_BEFORE: kl.constexpr, PLAN: kl.constexpr):
    """y = x · rsqrt(mean(x²) + eps) · weight"""
    tile = PLAN.tile(x)
    value = x.load(tile).to(kl.float32)
    rstd = kl.rsqrt(x.mean(PLAN.sum(value * value)) + eps)
    y.store(tile, scaled(weight.load(tile), value * rstd, y.dtype, CAST_BEFORE))


@kiln.jit
def rms_norm_long_kernel(x: Rows, weight: Vector, y: Rows, eps, CAST_BEFORE: kl.constexpr, PLAN: kl.constexpr):
    """RMSNorm of one row that does not fit the registers."""
    x = x.row(kl.program_id(0))
    rstd = kl.rsqrt(x.mean(_sum_of_squares(x, 0.0, PLAN)) + eps)
    _write_normalised(x, 0.0, rstd, weight, None, y.row(kl.program_id(0)), CAST_BEFORE, PLAN)


@kiln.jit
def _sum_of_squares(x, shift, PLAN: kl.constexpr):
    """The sum of (x - shift)² over one long row."""
    total = kl.zeros((PLAN.BLOCK,), kl.float32)
    for start in range(0, x.columns, PLAN.BLOCK):
        tile = PLAN.block(x, start)
        value = tile.only(x.load(tile).to(kl.float32) - shift)
        total += value * value
    return kl.sum(total, axis=0)


@kiln.jit
def _write_normalised(x, mean, rstd, weight, bias, y, CAST_BEFORE: kl.constexpr, PLAN: kl.constexpr):
    """Normalises one long row with its finished statistics."""
    for start in range(0, x.columns, PLAN.BLOCK):
        tile = PLAN.block(x, start)
        value = (x.load(tile).to(kl.float32) - mean) * rstd
        scale = weight.load(tile)
        shift = None if bias is None else bias.load(tile)
        kl.store(y.at(tile), scaled_and_shifted(scale, shift, value, y.dtype, CAST_BEFORE), mask=tile.mask)


# ---- residual + RMSNorm ----------------------------------------------------------------------------------------------
@kiln.jit
def residual_rms_norm_kernel(
    x: Rows,
    residual: Rows,
    weight: Vector,
    y: Rows,
    total: Rows,
    eps,
    ROUND_SUM: kl.constexpr,
    CAST_BEFORE: kl.constexpr,
    PLAN: kl.constexpr,
):
    """total = x + residual; y = total · rsqrt(mean(total²) + eps) · weight, of the rounded sum if ROUND_SUM"""
    tile = PLAN.tile(x)
    left, right = x.load(tile), residual.load(tile)
    value = left.to(kl.float32) + right.to(kl.float32)
    rounded = value.to(total.dtype)
    total.store(tile, rounded)
    if ROUND_SUM:
        value = rounded.to(kl.float32)
    rstd = kl.rsqrt(x.mean(PLAN.sum(value * value)) + eps)
    y.store(tile, scaled(weight.load(tile), value * rstd, y.dtype, CAST_BEFORE))


@kiln.jit
def residual_rms_norm_long_kernel(
    x: Rows,
    residual: Rows,
    weight: Vector,
    y: Rows,
    total: Rows,
    eps,
    ROUND_SUM: kl.constexpr,
    CAST_BEFORE: kl.constexpr,
    PLAN: kl.constexpr,
):
    """Residual + RMSNorm of one row that does not fit the registers."""
    x, residual = x.row(kl.program_id(0)), residual.row(kl.program_id(0))
    total, y = total.row(kl.program_id(0)), y.row(kl.program_id(0))
    squares = kl.zeros((PLAN.BLOCK,), kl.float32)
    for start in range(0, x.columns, PLAN.BLOCK):
        value, _ = _sum_and_seen(x, residual, PLAN.block(x, start), total.dtype, ROUND_SUM)
        squares += value * value
    rstd = kl.rsqrt(x.mean(kl.sum(squares, axis=0)) + eps)
    # Nothing has been written yet: the outputs may be the inputs.
    for start in range(0, x.columns, PLAN.BLOCK):
        tile = PLAN.block(x, start)
        value, rounded = _sum_and_seen(x, residual, tile, total.dtype, ROUND_SUM)
        scale = weight.load(tile)
        total.store(tile, rounded)
        kl.store(y.at(tile), scaled(scale, value * rstd, y.dtype, CAST_BEFORE), mask=tile.mask)


@kiln.jit
def _sum_and_seen(x, residual, tile, DTYPE: kl.constexpr, ROUND_SUM: kl.constexpr):
    """A block of x + residual: rounded to DTYPE, and as the norm sees it."""
    value = x.load(tile).to(kl.float32) + residual.load(tile).to(kl.float32)
    rounded = value.to(DTYPE)
    if ROUND_SUM:
        value = rounded.to(kl.float32)
    return value, rounded


# ---- LayerNorm -------------------------------------------------------------------------------------------------------
@kiln.jit
def scaled_and_shifted(weight, bias, normalised, DTYPE: kl.constexpr, CAST_BEFORE: kl.constexpr):
    """weight · normalised + bias, rounded where the model rounds; the bias may be None."""
    if bias is None:
        return scaled(weight, normalised, DTYPE, CAST_BEFORE)
    if CAST_BEFORE:
        return scaled(weight, normalised, DTYPE, CAST_BEFORE) + bias.to(DTYPE)
    return (normalised * weight.to(kl.float32) + bias.to(kl.float32)).to(DTYPE)


@kiln.jit
def layer_norm_kernel(
    x: Rows, weight: Vector, bias: Vector | None, y: Rows, eps, CAST_BEFORE: kl.constexpr, PLAN: kl.constexpr
):
    """y = (x - mean(x)) · rsqrt(variance(x) + eps) · weight + bias"""
    tile = PLAN.tile(x)
    ONE_EXCHANGE: kl.constexpr = PLAN.ROWS == 1 and x.dtype.primitive_bitwidth == 16
    few = _four_of(x.row(tile.row)) if ONE_EXCHANGE else None
    row = x.load(tile)
    if ONE_EXCHANGE:
        centred, variance = _centred_around(row, _near_mean(few), x, tile, PLAN)
    else:
        centred, variance = _centred(row, x, tile, PLAN)
    rstd = kl.rsqrt(variance + eps)
    scale, shift = weight.load(tile), None if bias is None else bias.load(tile)
    y.store(tile, scaled_and_shifted(scale, shift, centred * rstd, y.dtype, CAST_BEFORE))


@kiln.jit
def layer_norm_ahead_kernel(
    x: Rows, weight: Vector, bias: Vector | None, y: Rows, eps, CAST_BEFORE: kl.constexpr, PLAN: kl.constexpr
):
    """LayerNorm of long 16-bit rows; a program reads its next row while it works on one."""
    first, step = kl.program_id(0), kl.num_programs(0)
    coming, few = x.load(PLAN.row(x, first)), _four_of(x.row(first))
    for index in range(first, x.rows, step):
        row, near = coming, _near_mean(few)
        there = index + step < x.rows
        coming, few = x.load(PLAN.row(x, index + step).only_if(there)), _four_of(x.row(index + step), there)
        tile = PLAN.row(x, index)
        centred, variance = _centred_around(row, near, x, tile, PLAN)
        rstd = kl.rsqrt(variance + eps)
        scale, shift = weight.load(tile), None if bias is None else bias.load(tile)
        y.store(tile, scaled_and_shifted(scale, shift, centred * rstd, y.dtype, CAST_BEFORE))


@kiln.jit
def layer_norm_long_kernel(
    x: Rows, weight: Vector, bias: Vector | None, y: Rows, eps, CAST_BEFORE: kl.constexpr, PLAN: kl.constexpr
):
    """LayerNorm of one row that does not fit the registers."""
    x = x.row(kl.program_id(0))
    if x.dtype.primitive_bitwidth == 16:
        mean, variance = _moments_of_long(x, _near_mean(_four_of(x)), PLAN)
    else:
        mean = _sum_of(x, PLAN) / x.columns
        variance = x.mean(_sum_of_squares(x, mean, PLAN))
    rstd = kl.rsqrt(variance + eps)
    _write_normalised(x, mean, rstd, weight, bias, y.row(kl.program_id(0)), CAST_BEFORE, PLAN)


@kiln.jit
def _sum_of(x, PLAN: kl.constexpr):
    """The sum of one long row."""
    total = kl.zeros((PLAN.BLOCK,), kl.float32)
    for start in range(0, x.columns, PLAN.BLOCK):
        total += x.load(PLAN.block(x, start)).to(kl.float32)
    return kl.sum(total, axis=0)


@kiln.jit
def _centred(row, x, tile, PLAN: kl.constexpr):
    """x - mean(x) and the variance, in two exchanges: the second sums squares of centred values."""
    value = row.to(kl.float32)
    centred = tile.only(value - PLAN.sum(value) / x.columns)
    return centred, x.mean(PLAN.sum(centred * centred))


@kiln.jit
def _centred_around(row, near, x, tile, PLAN: kl.constexpr):
    """x - mean(x) and the variance in one exchange: both sums are over distances from a number near the mean, so that
    nothing cancels."""
    value = tile.only(row.to(kl.float32) - near)
    mean, variance = _moments(x, near, PLAN.sum(value), PLAN.sum(value * value))
    return row.to(kl.float32) - mean, variance


@kiln.jit
def _moments(x, near, total, squares):
    """The mean and the variance, from sums of the distances from a number near the mean and of their squares."""
    offset = x.mean(total)
    # NaN stays: of a row with an infinity, or whose squares are no float32, the difference is one.
    variance = kl.maximum(x.mean(squares) - offset * offset, 0.0, propagate_nan=kl.PropagateNan.ALL)
    return near + offset, variance


@kiln.jit
def _moments_of_long(x, near, PLAN: kl.constexpr):
    """The mean and the variance of one long row, in one read."""
    # A thread has one sum for all elements of an access: with a sum for each, fewer threads would fit.
    total = kl.zeros((PLAN.BLOCK // ACCESS,), kl.float32)
    squares = kl.zeros((PLAN.BLOCK // ACCESS,), kl.float32)
    for start in range(0, x.columns, PLAN.BLOCK):
        tile = PLAN.block(x, start)
        value = tile.only(x.load(tile).to(kl.float32) - near).reshape(PLAN.BLOCK // ACCESS, ACCESS)
        total += kl.sum(value, axis=1)
        squares += kl.sum(value * value, axis=1)
    return _moments(x, near, kl.sum(total, axis=0), kl.sum(squares, axis=0))


@kiln.jit
def _four_of(x, there=True):
    """Four elements of one row; zeros if it is not ``there``."""
    n, step = x.columns, x.step
    return (
        kl.load(x.data, mask=there, other=0.0),
        kl.load(x.data + n // 4 * step, mask=there, other=0.0),
        kl.load(x.data + n // 2 * step, mask=there, other=0.0),
        kl.load(x.data + (n - 1) * step, mask=there, other=0.0),
    )


@kiln.jit
def _near_mean(few):
    """A number near the mean of a row, without an exchange: the mean of the middle two of four of its elements.

    One outlier among the four does not matter, and no element is more than sqrt(n) standard deviations from the mean.
    """
    a, b, c, d = few[0].to(kl.float32), few[1].to(kl.float32), few[2].to(kl.float32), few[3].to(kl.float32)
    outer = kl.minimum(kl.minimum(a, b), kl.minimum(c, d)) + kl.maximum(kl.maximum(a, b), kl.maximum(c, d))
    return ((a + b) + (c + d) - outer) * 0.5


# ---- the functions ---------------------------------------------------------------------------------------------------
def _check(n: int, cast: str, **vectors: Any) -> bool:
    """Checks vectors against the row length; returns whether the cast comes before the weight."""
    for name, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (n,):
            raise ArgumentError(
                name, f"expected shape ({n},) (because rows have {n} elements), got {tuple(vector.shape)}"
            )
    if cast not in ("before", "after"):
        raise ArgumentError("cast", f'expected "before" or "after", got {cast!r}')
    return cast == "before"


@operator(
    outputs=lambda x, weight, *_, **__: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "weight": "(n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, weight=FLOATS, out=FLOATS, inside="float32", result="x"),),
    repeatable=True,
)
def rms_norm(
    x: Any, weight: Any, eps: float = 1e-6, *, cast: str = "after", out: Any = None, plan: RowPlan | None = None
) -> Any:
    """``x / sqrt(mean(x²) + eps) · weight`` over the last dimension.

    Arithmetic is float32. ``cast="after"`` rounds once, after the product with the weight; ``cast="before"`` rounds the
    normalised value to the type of ``x`` and multiplies in that type. ``plan`` says how rows are spread over threads
    (chosen from the shape when None).
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight)
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "weight": weight}, ("x",))
    of_x, of_y = rows_view(x), rows_view(out, "out")
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(of_x.rows, n, x.itemsize, 1, machine, 1, ONE_EXCHANGE_BYTES)
        kernel = rms_norm_long_kernel if plan.loop else rms_norm_kernel
        meta = plan.meta(of_x.rows, n, machine)
        kernel[plan.grid(of_x.rows)](of_x, vector_view(weight), of_y, eps, CAST_BEFORE=before, **meta)
    return out


@operator(
    outputs=lambda x, residual, weight, *_, **__: (Spec(x.shape, x.dtype), Spec(residual.shape, residual.dtype)),
    arrays={"x": "(…, n)", "residual": "(…, n)", "weight": "(n)", "out[0]": "(…, n)", "out[1]": "(…, n)"},
    types=(
        Types(
            **dict.fromkeys(("x", "residual", "weight", "out[0]", "out[1]"), FLOATS),
            inside="float32",
            result="x, residual",
        ),
    ),
    repeatable=True,
)
def residual_rms_norm(
    x: Any,
    residual: Any,
    weight: Any,
    eps: float = 1e-6,
    *,
    cast: str = "after",
    round_sum: bool = True,
    out: tuple[Any, Any] | None = None,
    plan: RowPlan | None = None,
) -> tuple[Any, Any]:
    """``(rms_norm(s), s)`` with ``s = x + residual``.

    The second output is ``s`` rounded to the residual's type; ``round_sum`` says whether the norm sees that rounded sum
    (as if the two operations were separate) or the float32 one.
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight)
    if tuple(x.shape) != tuple(residual.shape):
        raise ArgumentError(
            "residual", f"expected shape {tuple(x.shape)} (the shape of x), got {tuple(residual.shape)}"
        )
    given = out or (None, None)
    inputs, same = {"x": x, "residual": residual, "weight": weight}, ("x", "residual")
    y = output(given[0], Spec(x.shape, x.dtype), x, "out[0]", inputs, same)
    total = output(given[1], Spec(residual.shape, residual.dtype), x, "out[1]", inputs, same)
    if given[0] is not None and given[1] is not None:
        check_apart("out[1]", total, "out[0]", y)
    of_x = rows_view(x)
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(of_x.rows, n, x.itemsize, 2, machine, 1, ONE_EXCHANGE_BYTES)
        kernel = residual_rms_norm_long_kernel if plan.loop else residual_rms_norm_kernel
        kernel[plan.grid(of_x.rows)](
            of_x,
            rows_view(residual, "residual"),
            vector_view(weight),
            rows_view(y, "out[0]"),
            rows_view(total, "out[1]"),
            eps,
            ROUND_SUM=round_sum,
            CAST_BEFORE=before,
            **plan.meta(of_x.rows, n, machine),
        )
    return y, total


@operator(
    outputs=lambda x, weight, *_, **__: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "weight": "(n)", "bias": "(n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, weight=FLOATS, bias=FLOATS, out=FLOATS, inside="float32", result="x"),),
    repeatable=True,
)
def layer_norm(
    x: Any,
    weight: Any,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    cast: str = "after",
    out: Any = None,
    plan: RowPlan | None = None,
) -> Any:
    """``(x - mean) / sqrt(variance + eps) · weight + bias`` over the last dimension.

    Mean and variance are float32, in one pass over memory. For 16-bit rows both come from distances to a number near
    the mean, which takes one exchange; for others the variance is that of centred values, which takes two.
    ``cast="after"`` rounds once, at the end; ``cast="before"`` rounds the normalised value to the type of ``x`` first.
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight, bias=bias)
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "weight": weight, "bias": bias}, ("x",))
    of_x, of_y = rows_view(x), rows_view(out, "out")
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(of_x.rows, n, x.itemsize, 1, machine, 1 if bias is None else 2, _layer_bytes(n))
        kernel, grid = layer_norm_long_kernel if plan.loop else layer_norm_kernel, plan.grid(of_x.rows)
        if plan.programs and not plan.loop and x.itemsize == 2:
            kernel, grid = layer_norm_ahead_kernel, (min(of_x.rows, plan.programs),)
        meta = plan.meta(of_x.rows, n, machine)
        kernel[grid](of_x, vector_view(weight), vector_view(bias), of_y, eps, CAST_BEFORE=before, **meta)
    return out
