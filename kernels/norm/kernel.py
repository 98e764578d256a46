"""RMSNorm, LayerNorm and residual + RMSNorm: one program per row, statistics in float32.

Models differ in where they round. ``cast="after"``: the normalised value is multiplied by the weight in float32 and
rounded once (Gemma, and most fused kernels). ``cast="before"``: it is rounded to the input's type first and the product
with the weight is in that type (Llama, Qwen, Granite as written in transformers).
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.operator import Spec, operator, output, rows_of, strides, tile_side


@kiln.jit
def _scale(normalised, weight, DTYPE: kl.constexpr, CAST_BEFORE: kl.constexpr):
    """The normalised row times the weight, rounded where the model rounds."""
    if CAST_BEFORE:
        return normalised.to(DTYPE) * weight.to(DTYPE)
    return (normalised * weight.to(kl.float32)).to(DTYPE)


@kiln.jit
def rms_norm_kernel(x, weight, y, x_stride, x_step, weight_step, y_stride, y_step, n, eps,
                    CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr):  # fmt: skip
    row = kl.program_id(0)
    columns = kl.arange(0, BLOCK)
    mask = columns < n
    value = kl.load(x + row * x_stride + columns * x_step, mask=mask, other=0.0).to(kl.float32)
    scale = kl.load(weight + columns * weight_step, mask=mask, other=0.0)
    rstd = kl.rsqrt(kl.sum(value * value, axis=0) / n + eps)
    result = _scale(value * rstd, scale, y.dtype.element_ty, CAST_BEFORE)
    kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


@kiln.jit
def residual_rms_norm_kernel(x, residual, weight, y, total, x_stride, x_step, r_stride, r_step, weight_step,
                             y_stride, y_step, t_stride, t_step, n, eps,
                             ROUND_SUM: kl.constexpr, CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr):  # fmt: skip
    row = kl.program_id(0)
    columns = kl.arange(0, BLOCK)
    mask = columns < n
    value = kl.load(x + row * x_stride + columns * x_step, mask=mask, other=0.0).to(kl.float32)
    value += kl.load(residual + row * r_stride + columns * r_step, mask=mask, other=0.0).to(kl.float32)
    scale = kl.load(weight + columns * weight_step, mask=mask, other=0.0)
    rounded = value.to(total.dtype.element_ty)
    kl.store(total + row * t_stride + columns * t_step, rounded, mask=mask)
    if ROUND_SUM:
        value = rounded.to(kl.float32)
    rstd = kl.rsqrt(kl.sum(value * value, axis=0) / n + eps)
    result = _scale(value * rstd, scale, y.dtype.element_ty, CAST_BEFORE)
    kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


@kiln.jit
def layer_norm_kernel(x, weight, bias, y, x_stride, x_step, weight_step, bias_step, y_stride, y_step, n, eps,
                      CAST_BEFORE: kl.constexpr, BLOCK: kl.constexpr):  # fmt: skip
    row = kl.program_id(0)
    columns = kl.arange(0, BLOCK)
    mask = columns < n
    value = kl.load(x + row * x_stride + columns * x_step, mask=mask, other=0.0).to(kl.float32)
    mean = kl.sum(value, axis=0) / n
    centred = kl.where(mask, value - mean, 0.0)
    rstd = kl.rsqrt(kl.sum(centred * centred, axis=0) / n + eps)
    result = centred * rstd
    scale = kl.load(weight + columns * weight_step, mask=mask, other=0.0)
    if bias is None:
        result = _scale(result, scale, y.dtype.element_ty, CAST_BEFORE)
    else:
        shift = kl.load(bias + columns * bias_step, mask=mask, other=0.0)
        if CAST_BEFORE:
            result = _scale(result, scale, y.dtype.element_ty, CAST_BEFORE) + shift.to(y.dtype.element_ty)
        else:
            result = (result * scale.to(kl.float32) + shift.to(kl.float32)).to(y.dtype.element_ty)
    kl.store(y + row * y_stride + columns * y_step, result, mask=mask)


def _check(n: int, cast: str, **vectors: Any) -> bool:
    """Checks vectors against the row length; whether the cast comes before the weight."""
    for name, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (n,):
            raise ValueError(
                f"{name}: expected shape ({n},) (because rows have {n} elements), got {tuple(vector.shape)}"
            )
    if cast not in ("before", "after"):
        raise ValueError(f'cast: expected "before" or "after", got {cast!r}')
    return cast == "before"


@operator(outputs=lambda x, weight, **_: (Spec(x.shape, x.dtype),))
def rms_norm(x: Any, weight: Any, *, eps: float = 1e-6, cast: str = "after", out: Any = None) -> Any:
    """``x / sqrt(mean(x²) + eps) · weight`` over the last dimension.

    Statistics are float32. ``cast`` says whether the normalised value is rounded before or after the weight.
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight)
    out = output(out, Spec(x.shape, x.dtype), x)
    rows, x_stride, x_step = rows_of(x)
    _, y_stride, y_step = rows_of(out, "out")
    if n:
        rms_norm_kernel[(rows,)](x, weight, out, x_stride, x_step, *strides(weight), y_stride, y_step, n, eps,
                                 CAST_BEFORE=before, BLOCK=tile_side(n))  # fmt: skip
    return out


@operator(outputs=lambda x, residual, weight, **_: (Spec(x.shape, x.dtype), Spec(residual.shape, residual.dtype)))
def residual_rms_norm(x: Any, residual: Any, weight: Any, *, eps: float = 1e-6, cast: str = "after",
                      round_sum: bool = True, out: tuple[Any, Any] | None = None) -> tuple[Any, Any]:  # fmt: skip
    """``(rms_norm(s), s)`` with ``s = x + residual``.

    The second output is ``s`` rounded to the residual's type; ``round_sum`` says whether the norm sees that rounded sum
    (as when the two operations are separate) or the float32 one.
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight)
    if tuple(x.shape) != tuple(residual.shape):
        raise ValueError(f"residual: expected shape {tuple(x.shape)} (the shape of x), got {tuple(residual.shape)}")
    y, total = out or (None, None)
    y = output(y, Spec(x.shape, x.dtype), x, "out[0]")
    total = output(total, Spec(residual.shape, residual.dtype), x, "out[1]")
    rows, x_stride, x_step = rows_of(x)
    if n:
        residual_rms_norm_kernel[(rows,)](
            x, residual, weight, y, total, x_stride, x_step, *rows_of(residual, "residual")[1:], *strides(weight),
            *rows_of(y, "out[0]")[1:], *rows_of(total, "out[1]")[1:], n, eps,
            ROUND_SUM=round_sum, CAST_BEFORE=before, BLOCK=tile_side(n),
        )  # fmt: skip
    return y, total


@operator(outputs=lambda x, weight, bias=None, **_: (Spec(x.shape, x.dtype),))
def layer_norm(x: Any, weight: Any, bias: Any = None, *, eps: float = 1e-5, cast: str = "after",
               out: Any = None) -> Any:  # fmt: skip
    """``(x - mean) / sqrt(variance + eps) · weight + bias`` over the last dimension.

    Mean and variance are float32, the variance from centred values (two passes over registers, one over memory).
    """
    n = x.shape[-1]
    before = _check(n, cast, weight=weight, bias=bias)
    out = output(out, Spec(x.shape, x.dtype), x)
    rows, x_stride, x_step = rows_of(x)
    bias_step = strides(bias)[0] if bias is not None else 1
    if n:
        layer_norm_kernel[(rows,)](x, weight, bias, out, x_stride, x_step, *strides(weight), bias_step,
                                   *rows_of(out, "out")[1:], n, eps, CAST_BEFORE=before,
                                   BLOCK=tile_side(n))  # fmt: skip
    return out
