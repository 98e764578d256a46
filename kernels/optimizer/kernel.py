"""AdamW: one pass over parameter, gradient and moments, all in place.

The step count may live in memory, so that a captured graph or a cached kernel never has to change with it; bias
corrections are computed from it in float64, because 1 - beta2^t cancels.
"""

from __future__ import annotations

import math
from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.operator import operator, strides

BLOCK = 2048


@kiln.jit
def adamw_kernel(parameter, gradient, moment, square, master, step, lr, n, BETA1: kl.constexpr, BETA2: kl.constexpr,
                 LOG2_BETA1: kl.constexpr, LOG2_BETA2: kl.constexpr, EPS: kl.constexpr, DECAY: kl.constexpr,
                 STEP_IN_MEMORY: kl.constexpr, BLOCK: kl.constexpr):  # fmt: skip
    if STEP_IN_MEMORY:
        time = kl.load(step).to(kl.float64)
    else:
        time = (step + 0).to(kl.float64)
    correction1 = (1.0 / (1.0 - kl.exp2(time * LOG2_BETA1))).to(kl.float32)
    correction2 = (1.0 / (1.0 - kl.exp2(time * LOG2_BETA2))).to(kl.float32)
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    mask = at < n
    if master is None:
        value = kl.load(parameter + at, mask=mask, other=0.0).to(kl.float32)
    else:
        value = kl.load(master + at, mask=mask, other=0.0)
    slope = kl.load(gradient + at, mask=mask, other=0.0).to(kl.float32)
    first = kl.load(moment + at, mask=mask, other=0.0).to(kl.float32)
    second = kl.load(square + at, mask=mask, other=0.0).to(kl.float32)
    first = BETA1 * first + (1.0 - BETA1) * slope
    second = BETA2 * second + (1.0 - BETA2) * slope * slope
    value -= lr * DECAY * value
    value -= lr * (first * correction1) / (kl.sqrt(second * correction2) + EPS)
    kl.store(moment + at, first.to(moment.dtype.element_ty), mask=mask)
    kl.store(square + at, second.to(square.dtype.element_ty), mask=mask)
    kl.store(parameter + at, value.to(parameter.dtype.element_ty), mask=mask)
    if master is not None:
        kl.store(master + at, value, mask=mask)


def _contiguous(array: Any) -> bool:
    expected = 1
    if 0 in array.shape:
        return True
    for side, stride in zip(reversed(array.shape), reversed(strides(array)), strict=True):
        if side != 1 and stride != expected:
            return False
        expected *= side
    return True


@operator(outputs=lambda *_, **__: (), mutates=("parameter", "moment", "square", "master"))
def adamw(parameter: Any, gradient: Any, moment: Any, square: Any, step: Any, *, lr: float = 1e-3,
          betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
          master: Any = None) -> None:  # fmt: skip
    """One AdamW step, in place, for contiguous arrays of one shape and any mix of float types.

    ``step`` counts from 1: an int, or an integer array of one element. ``master`` is an optional float32 copy of the
    parameter: it is what is updated, and the parameter is its rounding. Arithmetic is float32.
    """
    arrays = {"gradient": gradient, "moment": moment, "square": square, "master": master}
    for name, array in {"parameter": parameter, **arrays}.items():
        if array is None:
            continue
        if tuple(array.shape) != tuple(parameter.shape):
            raise ValueError(
                f"{name}: expected shape {tuple(parameter.shape)} (the parameter's), got {tuple(array.shape)}"
            )
        if not _contiguous(array):
            raise ValueError(f"{name}: expected a contiguous array, got strides {strides(array)}")
    if isinstance(step, int) and step < 1:
        raise ValueError(f"step: expected a count from 1 (because of the bias correction), got {step}")
    n = math.prod(parameter.shape)
    adamw_kernel[(kiln.cdiv(n, BLOCK),)](
        parameter, gradient, moment, square, master, step, lr, n, BETA1=betas[0], BETA2=betas[1],
        LOG2_BETA1=math.log2(betas[0]), LOG2_BETA2=math.log2(betas[1]), EPS=eps, DECAY=weight_decay,
        STEP_IN_MEMORY=not isinstance(step, int), BLOCK=BLOCK,
    )  # fmt: skip
