"""RMSNorm, LayerNorm and residual + RMSNorm: statistics in float32, each row read once from memory.

A row stays in registers between its statistics and its use, in its own type where that is narrower: the second
conversion to float32 costs less than the registers. The weight is asked for together with the row, before anything
waits, and 1 / n comes from the host (``per_column``). Rows that no registers hold are walked in blocks (``LOOP``) and
read again.

Models differ in where they round. ``cast="after"``: the normalised value is multiplied by the weight in float32 and
rounded once (Gemma, and most fused kernels). ``cast="before"``: it is rounded to the input's type first and the product
with the weight is in that type (Llama, Qwen, Granite as written in transformers).
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import rows as policy
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, check_apart, operator, output, rows_of, strides
from kiln.kernels.rows import RowPlan, read, row_sum, start_next, tile_place

# What a thread asks for (`kernels/rows.py`), by measurement: little where a row meets once, in many threads; much where
# two sums are exchanged and an element takes more operations, in few.
ONE_EXCHANGE_BYTES = 32


def _layer_bytes(n: int) -> int:
    return 128 if 4096 < n <= policy.BLOCK_ELEMENTS else policy.THREAD_BYTES


@kiln.jit
def _scale(normalised, weight, DTYPE: kl.constexpr, CAST_BEFORE: kl.constexpr):
    """The normalised row times the weight, rounded where the model rounds."""
    if CAST_BEFORE:
        return normalised.to(DTYPE) * weight.to(DTYPE)
    return (normalised * weight.to(kl.float32)).to(DTYPE)


@kiln.jit
def _scale_shift(normalised, weight, bias, DTYPE: kl.constexpr, CAST_BEFORE: kl.constexpr):
    """The normalised row times the weight plus the bias, if there is one."""
    if bias is None:
        return _scale(normalised, weight, DTYPE, CAST_BEFORE)
    if CAST_BEFORE:
        return _scale(normalised, weight, DTYPE, CAST_BEFORE) + bias.to(DTYPE)
    return (normalised * weight.to(kl.float32) + bias.to(kl.float32)).to(DTYPE)


@kiln.jit
def _squares_of(x, step, shift, n, BLOCK: kl.constexpr, FULL: kl.constexpr):
    """The sum of (x - shift)² over one long row."""
    total = kl.zeros((BLOCK,), kl.float32)
    for start in range(0, n, BLOCK):
        at = start + kl.arange(0, BLOCK)
        mask = None if FULL else at < n
        value = read(x + at * step, mask).to(kl.float32) - shift
        if not FULL:
            value = kl.where(at < n, value, 0.0)
        total += value * value
    return kl.sum(total, axis=0)


@kiln.jit
def _sum_of(x, step, n, BLOCK: kl.constexpr, FULL: kl.constexpr):
    """The sum of one long row."""
    total = kl.zeros((BLOCK,), kl.float32)
    for start in range(0, n, BLOCK):
        at = start + kl.arange(0, BLOCK)
        total += read(x + at * step, None if FULL else at < n).to(kl.float32)
    return kl.sum(total, axis=0)


@kiln.jit
def _write_long_row(x, weight, bias, y, x_step, weight_step, bias_step, y_step, n, mean, rstd,
                    CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr, FULL: kl.constexpr):  # fmt: skip
    """Normalises one long row with its finished statistics."""
    for start in range(0, n, BLOCK):
        at = start + kl.arange(0, BLOCK)
        mask = None if FULL else at < n
        value = (read(x + at * x_step, mask).to(kl.float32) - mean) * rstd
        scale = read(weight + at * weight_step, mask)
        shift = None if bias is None else read(bias + at * bias_step, mask)
        kl.store(y + at * y_step, _scale_shift(value, scale, shift, y.dtype.element_ty, CAST_BEFORE), mask=mask)


@kiln.jit
def rms_norm_kernel(x, weight, y, x_stride, x_step, weight_step, y_stride, y_step, rows, n, per_column, eps,
                    CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr, ROWS: kl.constexpr = 1, FULL: kl.constexpr = False,
                    EVEN: kl.constexpr = True, LOOP: kl.constexpr = False, EARLY: kl.constexpr = True,
                    EVICT: kl.constexpr = "", FEW: kl.constexpr = False):  # fmt: skip
    if LOOP:
        row = kl.program_id(0)
        x += row * x_stride
        rstd = kl.rsqrt(_squares_of(x, x_step, 0.0, n, BLOCK, FULL) * per_column + eps)
        _write_long_row(x, weight, None, y + row * y_stride, x_step, weight_step, 1, y_step, n, 0.0, rstd,
                        CAST_BEFORE, BLOCK, FULL)  # fmt: skip
    else:
        start_next(FEW)
        row, columns, mask, column_mask = tile_place(rows, n, ROWS, BLOCK, FULL, EVEN)
        packed = read(x + row * x_stride + columns * x_step, mask, EVICT=EVICT)
        if EARLY:
            scale = read(weight + columns * weight_step, column_mask)
        value = packed.to(kl.float32)
        rstd = kl.rsqrt(row_sum(value * value, ROWS) * per_column + eps)
        if not EARLY:
            scale = read(weight + columns * weight_step, column_mask)
        result = _scale(packed.to(kl.float32) * rstd, scale, y.dtype.element_ty, CAST_BEFORE)
        kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


@kiln.jit
def _sum_and_seen(x, residual, mask, DTYPE: kl.constexpr, ROUND_SUM: kl.constexpr):
    """A block of x + residual as the norm sees it, and rounded to DTYPE."""
    value = read(x, mask).to(kl.float32) + read(residual, mask).to(kl.float32)
    rounded = value.to(DTYPE)
    if ROUND_SUM:
        value = rounded.to(kl.float32)
    return value, rounded


@kiln.jit
def residual_rms_norm_kernel(x, residual, weight, y, total, x_stride, x_step, r_stride, r_step, weight_step,
                             y_stride, y_step, t_stride, t_step, rows, n, per_column, eps, ROUND_SUM: kl.constexpr,
                             CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr, ROWS: kl.constexpr = 1,
                             FULL: kl.constexpr = False, EVEN: kl.constexpr = True, LOOP: kl.constexpr = False,
                             EARLY: kl.constexpr = True, EVICT: kl.constexpr = "",
                             FEW: kl.constexpr = False):  # fmt: skip
    if LOOP:
        row = kl.program_id(0)
        x += row * x_stride
        residual += row * r_stride
        total += row * t_stride
        y += row * y_stride
        squares = kl.zeros((BLOCK,), kl.float32)
        for start in range(0, n, BLOCK):
            at = start + kl.arange(0, BLOCK)
            mask = None if FULL else at < n
            value, _ = _sum_and_seen(x + at * x_step, residual + at * r_step, mask, total.dtype.element_ty, ROUND_SUM)
            squares += value * value
        rstd = kl.rsqrt(kl.sum(squares, axis=0) * per_column + eps)
        # Nothing was written yet: the outputs may be the inputs.
        for start in range(0, n, BLOCK):
            at = start + kl.arange(0, BLOCK)
            mask = None if FULL else at < n
            value, rounded = _sum_and_seen(x + at * x_step, residual + at * r_step, mask, total.dtype.element_ty,
                                           ROUND_SUM)  # fmt: skip
            scale = read(weight + at * weight_step, mask)
            kl.store(total + at * t_step, rounded, mask=mask)
            kl.store(y + at * y_step, _scale(value * rstd, scale, y.dtype.element_ty, CAST_BEFORE), mask=mask)
    else:
        start_next(FEW)
        row, columns, mask, column_mask = tile_place(rows, n, ROWS, BLOCK, FULL, EVEN)
        left = read(x + row * x_stride + columns * x_step, mask, EVICT=EVICT)
        right = read(residual + row * r_stride + columns * r_step, mask, EVICT=EVICT)
        if EARLY:
            scale = read(weight + columns * weight_step, column_mask)
        value = left.to(kl.float32) + right.to(kl.float32)
        rounded = value.to(total.dtype.element_ty)
        kl.store(total + row * t_stride + columns * t_step, rounded, mask=mask)
        if ROUND_SUM:
            value = rounded.to(kl.float32)
        rstd = kl.rsqrt(row_sum(value * value, ROWS) * per_column + eps)
        if not EARLY:
            scale = read(weight + columns * weight_step, column_mask)
        result = _scale(value * rstd, scale, y.dtype.element_ty, CAST_BEFORE)
        kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


@kiln.jit
def _four_of(x, step, n):
    """Four elements of a row."""
    return kl.load(x), kl.load(x + n // 4 * step), kl.load(x + n // 2 * step), kl.load(x + (n - 1) * step)


@kiln.jit
def _near_mean(a, b, c, d):
    """A number near the mean of a row that needs no exchange: of four of its elements, the two in the middle.

    One outlier among them does not count, and no element of a row is further than sqrt(n) deviations from the mean.
    """
    a, b, c, d = a.to(kl.float32), b.to(kl.float32), c.to(kl.float32), d.to(kl.float32)
    outer = kl.minimum(kl.minimum(a, b), kl.minimum(c, d)) + kl.maximum(kl.maximum(a, b), kl.maximum(c, d))
    return ((a + b) + (c + d) - outer) * 0.5


@kiln.jit
def layer_norm_kernel(x, weight, bias, y, x_stride, x_step, weight_step, bias_step, y_stride, y_step, rows, n,
                      per_column, eps, CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr, ROWS: kl.constexpr = 1,
                      FULL: kl.constexpr = False, EVEN: kl.constexpr = True, LOOP: kl.constexpr = False,
                      EARLY: kl.constexpr = True, EVICT: kl.constexpr = "", FEW: kl.constexpr = False):  # fmt: skip
    if LOOP:
        row = kl.program_id(0)
        x += row * x_stride
        mean = _sum_of(x, x_step, n, BLOCK, FULL) / n
        rstd = kl.rsqrt(_squares_of(x, x_step, mean, n, BLOCK, FULL) * per_column + eps)
        _write_long_row(x, weight, bias, y + row * y_stride, x_step, weight_step, bias_step, y_step, n, mean, rstd,
                        CAST_BEFORE, BLOCK, FULL)  # fmt: skip
    else:
        start_next(FEW)
        row, columns, mask, column_mask = tile_place(rows, n, ROWS, BLOCK, FULL, EVEN)
        ONE_EXCHANGE: kl.constexpr = ROWS == 1 and x.dtype.element_ty.primitive_bitwidth == 16
        if ONE_EXCHANGE:
            a, b, c, d = _four_of(x + row * x_stride, x_step, n)
        packed = read(x + row * x_stride + columns * x_step, mask, EVICT=EVICT)
        if EARLY:
            scale = read(weight + columns * weight_step, column_mask)
            shift = None if bias is None else read(bias + columns * bias_step, column_mask)
        if ONE_EXCHANGE:
            near = _near_mean(a, b, c, d)
            value = packed.to(kl.float32) - near
            if not FULL:
                value = kl.where(column_mask, value, 0.0)
            offset = row_sum(value, ROWS) * per_column
            variance = kl.maximum(row_sum(value * value, ROWS) * per_column - offset * offset, 0.0)
            centred = packed.to(kl.float32) - (near + offset)
        else:
            value = packed.to(kl.float32)
            centred = value - row_sum(value, ROWS) / n
            if not FULL:
                centred = kl.where(column_mask, centred, 0.0)
            variance = row_sum(centred * centred, ROWS) * per_column
        rstd = kl.rsqrt(variance + eps)
        if not EARLY:
            scale = read(weight + columns * weight_step, column_mask)
            shift = None if bias is None else read(bias + columns * bias_step, column_mask)
        result = _scale_shift(centred * rstd, scale, shift, y.dtype.element_ty, CAST_BEFORE)
        kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


def _check(n: int, cast: str, **vectors: Any) -> bool:
    """Checks vectors against the row length; whether the cast comes before the weight."""
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
)
def rms_norm(x: Any, weight: Any, eps: float = 1e-6, *, cast: str = "after", out: Any = None,
             plan: RowPlan | None = None) -> Any:  # fmt: skip
    """``x / sqrt(mean(x²) + eps) · weight`` over the last dimension.

    Statistics are float32. ``cast`` says whether the normalised value is rounded before or after the weight. ``plan``
    says how rows are spread over threads (chosen from the shape when None).
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight)
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "weight": weight}, ("x",))
    rows, x_stride, x_step = rows_of(x)
    _, y_stride, y_step = rows_of(out, "out")
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(rows, n, x.itemsize, 1, machine, 1, ONE_EXCHANGE_BYTES)
        rms_norm_kernel[plan.grid(rows)](
            x, weight, out, x_stride, x_step, *strides(weight), y_stride, y_step, rows, n, 1.0 / n, eps,
            CAST_BEFORE=before, EARLY=plan.early, **plan.meta(rows, n, machine),
        )  # fmt: skip
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
)
def residual_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6, *, cast: str = "after",
                      round_sum: bool = True, out: tuple[Any, Any] | None = None,
                      plan: RowPlan | None = None) -> tuple[Any, Any]:  # fmt: skip
    """``(rms_norm(s), s)`` with ``s = x + residual``.

    The second output is ``s`` rounded to the residual's type; ``round_sum`` says whether the norm sees that rounded sum
    (as when the two operations are separate) or the float32 one.
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
    rows, x_stride, x_step = rows_of(x)
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(rows, n, x.itemsize, 2, machine, 1, ONE_EXCHANGE_BYTES)
        residual_rms_norm_kernel[plan.grid(rows)](
            x, residual, weight, y, total, x_stride, x_step, *rows_of(residual, "residual")[1:], *strides(weight),
            *rows_of(y, "out[0]")[1:], *rows_of(total, "out[1]")[1:], rows, n, 1.0 / n, eps,
            ROUND_SUM=round_sum, CAST_BEFORE=before, EARLY=plan.early, **plan.meta(rows, n, machine),
        )  # fmt: skip
    return y, total


@operator(
    outputs=lambda x, weight, *_, **__: (Spec(x.shape, x.dtype),),
    arrays={"x": "(…, n)", "weight": "(n)", "bias": "(n)", "out": "(…, n)"},
    types=(Types(x=FLOATS, weight=FLOATS, bias=FLOATS, out=FLOATS, inside="float32", result="x"),),
)
def layer_norm(x: Any, weight: Any, bias: Any = None, eps: float = 1e-5, *, cast: str = "after",
               out: Any = None, plan: RowPlan | None = None) -> Any:  # fmt: skip
    """``(x - mean) / sqrt(variance + eps) · weight + bias`` over the last dimension.

    Mean and variance are float32, in one pass over memory. The variance of 16-bit rows is that of the distances from a
    number near the mean, so that both statistics take one exchange; of others, that of centred values, in two.
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight, bias=bias)
    out = output(out, Spec(x.shape, x.dtype), x, "out", {"x": x, "weight": weight, "bias": bias}, ("x",))
    rows, x_stride, x_step = rows_of(x)
    bias_step = strides(bias)[0] if bias is not None else 1
    if n:
        machine = machine_of(x)
        plan = plan or policy.plan(rows, n, x.itemsize, 1, machine, 1 if bias is None else 2, _layer_bytes(n))
        layer_norm_kernel[plan.grid(rows)](
            x, weight, bias, out, x_stride, x_step, *strides(weight), bias_step, *rows_of(out, "out")[1:], rows, n,
            1.0 / n, eps, CAST_BEFORE=before, EARLY=plan.early, **plan.meta(rows, n, machine),
        )  # fmt: skip
    return out
