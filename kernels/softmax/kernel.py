"""Softmax over the last dimension: one program holds one row, so that memory is read once and written once."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.operator import Spec, operator, output, rows_of, tile_side


@kiln.jit
def softmax_kernel(x, y, x_stride, x_step, y_stride, y_step, n, BLOCK: kl.constexpr):
    row = kl.program_id(0)
    columns = kl.arange(0, BLOCK)
    mask = columns < n
    value = kl.load(x + row * x_stride + columns * x_step, mask=mask, other=-float("inf")).to(kl.float32)
    shifted = kl.exp(value - kl.max(value, axis=0))
    result = shifted / kl.sum(shifted, axis=0)
    kl.store(y + row * y_stride + columns * y_step, result.to(y.dtype.element_ty), mask=mask)


@operator(outputs=lambda x: (Spec(x.shape, x.dtype),))
def softmax(x: Any, *, out: Any = None) -> Any:
    """Softmax over the last dimension, computed in float32, rounded once to ``out``'s type."""
    out = output(out, Spec(x.shape, x.dtype), x)
    rows, x_stride, x_step = rows_of(x)
    _, y_stride, y_step = rows_of(out, "out")
    n = x.shape[-1]
    if n:
        softmax_kernel[(rows,)](x, out, x_stride, x_step, y_stride, y_step, n, BLOCK=tile_side(n))
    return out
