"""The rows as Triton kernels, tuned per shape by Triton's own autotuner: what a good user of Triton writes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

# Rows up to this many elements stay in registers; longer ones are read twice.
LONGEST_ROW = 32768


def _tuned(configs: list[Any], key: list[str]) -> Callable[[Any], Any]:
    """triton.autotune, timing each configuration for 15 ms after 5 (the default takes 125)."""
    bench = functools.partial(triton.testing.do_bench, warmup=5, rep=15)
    return triton.autotune(configs=configs, key=key, do_bench=bench)


_ROWS = [triton.Config({"ROWS": rows}, num_warps=warps)
         for rows, warps in ((1, 2), (1, 4), (1, 8), (1, 16), (2, 4), (4, 4))]  # fmt: skip
_LONG = [triton.Config({"STEP": step}, num_warps=warps)
         for step, warps in ((2048, 8), (4096, 8), (8192, 16), (8192, 32))]  # fmt: skip
_FLAT = [triton.Config({"BLOCK": block}, num_warps=warps)
         for block, warps in ((512, 2), (1024, 4), (2048, 4), (2048, 8), (4096, 8))]  # fmt: skip


@_tuned(_ROWS, ["rows", "N"])
@triton.jit
def _norm_kernel(x, residual, weight, bias, y, total, rows, eps, N: tl.constexpr, LAYER: tl.constexpr,
                 BLOCK: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = column < N
    mask = (row < rows) & inside
    at = row * N + column
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + at, mask=mask, other=0.0)
    if residual is not None:
        value += tl.load(residual + at, mask=mask, other=0.0)
        tl.store(total + at, value, mask=mask)
    value = value.to(tl.float32)
    if LAYER:
        value = tl.where(mask, value - (tl.sum(value, axis=1) / N)[:, None], 0.0)
    value *= tl.rsqrt(tl.sum(value * value, axis=1) / N + eps)[:, None]
    value *= scale
    if bias is not None:
        value += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, value.to(y.dtype.element_ty), mask=mask)


@_tuned(_LONG, ["N"])
@triton.jit
def _long_rms_norm_kernel(x, weight, y, eps, N: tl.constexpr, STEP: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    column = tl.arange(0, STEP)
    squares = tl.zeros([STEP], tl.float32)
    for first in range(0, N, STEP):
        value = tl.load(x + start + first + column, mask=first + column < N, other=0.0).to(tl.float32)
        squares += value * value
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for first in range(0, N, STEP):
        mask = first + column < N
        value = tl.load(x + start + first + column, mask=mask, other=0.0).to(tl.float32)
        factor = tl.load(weight + first + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + start + first + column, (value * scale * factor).to(y.dtype.element_ty), mask=mask)


def _norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float, y: Any, total: Any, layer: bool) -> None:
    rows, n = x.shape
    grid = lambda meta: (triton.cdiv(rows, meta["ROWS"]),)  # noqa: E731
    block = triton.next_power_of_2(n)
    _norm_kernel[grid](x, residual, weight, bias, y, total, rows, eps, N=n, LAYER=layer, BLOCK=block)


def rms_norm(x: Any, weight: Any, eps: float, outs: Any) -> tuple[Any, ...]:
    if x.shape[1] > LONGEST_ROW:
        _long_rms_norm_kernel[(x.shape[0],)](x, weight, outs[0], eps, N=x.shape[1])
    else:
        _norm(x, None, weight, None, eps, outs[0], None, False)
    return outs


def residual_rms_norm(x: Any, residual: Any, weight: Any, eps: float, outs: Any) -> tuple[Any, ...]:
    _norm(x, residual, weight, None, eps, outs[0], outs[1], False)
    return outs


def layer_norm(x: Any, weight: Any, bias: Any, eps: float, outs: Any) -> tuple[Any, ...]:
    _norm(x, None, weight, bias, eps, outs[0], None, True)
    return outs


@_tuned([triton.Config({}, num_warps=warps) for warps in (4, 8, 16, 32)], ["N"])
@triton.jit
def _softmax_kernel(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < N
    at = tl.program_id(0).to(tl.int64) * N + column
    value = tl.load(x + at, mask=mask, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + at, (power / tl.sum(power, axis=0)).to(y.dtype.element_ty), mask=mask)


@_tuned(_LONG, ["N"])
@triton.jit
def _long_softmax_kernel(x, y, N: tl.constexpr, STEP: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * N
    column = tl.arange(0, STEP)
    largest = tl.full([STEP], -float("inf"), tl.float32)
    total = tl.zeros([STEP], tl.float32)
    for first in range(0, N, STEP):
        value = tl.load(x + start + first + column, mask=first + column < N, other=-65504.0).to(tl.float32)
        higher = tl.maximum(largest, value)
        total = total * tl.exp(largest - higher) + tl.exp(value - higher)
        largest = higher
    top = tl.max(largest, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(largest - top), axis=0)
    for first in range(0, N, STEP):
        mask = first + column < N
        value = tl.load(x + start + first + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + start + first + column, (tl.exp(value - top) * scale).to(y.dtype.element_ty), mask=mask)


def softmax(x: Any, outs: Any) -> tuple[Any, ...]:
    rows, n = x.shape
    if n > LONGEST_ROW:
        _long_softmax_kernel[(rows,)](x, outs[0], N=n)
    else:
        _softmax_kernel[(rows,)](x, outs[0], N=n, BLOCK=triton.next_power_of_2(n))
    return outs


@_tuned(_FLAT, ["n"])
@triton.jit
def _swiglu_kernel(gate, up, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    left = tl.load(gate + at, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(up + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + at, (left * tl.sigmoid(left) * right).to(y.dtype.element_ty), mask=mask)


def swiglu(gate: Any, up: Any, outs: Any) -> tuple[Any, ...]:
    n = gate.numel()
    _swiglu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](gate, up, outs[0], n)
    return outs


@_tuned(_FLAT, ["rows", "n"])
@triton.jit
def _bias_gelu_kernel(x, bias, y, rows, n, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = column < n
    at = tl.program_id(1) * n + column
    value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    value += tl.load(bias + column, mask=mask, other=0.0).to(tl.float32)
    result = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    tl.store(y + at, result.to(y.dtype.element_ty), mask=mask)


def bias_gelu(x: Any, bias: Any, outs: Any) -> tuple[Any, ...]:
    rows, n = x.shape
    _bias_gelu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]), rows)](x, bias, outs[0], rows, n)
    return outs


@_tuned([triton.Config({"EACH": each}, num_warps=warps) for each, warps in ((8, 2), (16, 4), (32, 4), (32, 8))],
        ["tokens"])  # fmt: skip
@triton.jit
def _rope_kernel(q, cosines, sines, y, tokens, HEADS: tl.constexpr, HALF: tl.constexpr, EACH: tl.constexpr):
    token = tl.program_id(0)
    head = tl.program_id(1) * EACH + tl.arange(0, EACH)[:, None]
    column = tl.arange(0, HALF)[None, :]
    c = tl.load(cosines + token * HALF + column)
    s = tl.load(sines + token * HALF + column)
    at = (token * HEADS + head) * 2 * HALF + column
    first = tl.load(q + at).to(tl.float32)
    second = tl.load(q + at + HALF).to(tl.float32)
    tl.store(y + at, (first * c - second * s).to(y.dtype.element_ty))
    tl.store(y + at + HALF, (second * c + first * s).to(y.dtype.element_ty))


def rope(q: Any, cosines: Any, sines: Any, outs: Any) -> tuple[Any, ...]:
    _, tokens, heads, size = q.shape
    grid = lambda meta: (tokens, heads // meta["EACH"])  # noqa: E731
    _rope_kernel[grid](q, cosines, sines, outs[0], tokens, HEADS=heads, HALF=size // 2)
    return outs


@_tuned(_FLAT, ["n"])
@triton.jit
def _adamw_kernel(parameter, gradient, moment, square, step, n, LR: tl.constexpr, BETA1: tl.constexpr,
                  BETA2: tl.constexpr, EPS: tl.constexpr, DECAY: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr,
                  BLOCK: tl.constexpr):  # fmt: skip
    time = tl.load(step).to(tl.float32)
    correction1 = 1.0 / (1.0 - tl.exp(time * LOG1))
    correction2 = 1.0 / (1.0 - tl.exp(time * LOG2))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(parameter + at, mask=mask)
    slope = tl.load(gradient + at, mask=mask)
    first = tl.load(moment + at, mask=mask)
    second = tl.load(square + at, mask=mask)
    first = BETA1 * first + (1 - BETA1) * slope
    second = BETA2 * second + (1 - BETA2) * slope * slope
    value *= 1 - LR * DECAY
    value -= LR * (first * correction1) / (tl.sqrt(second * correction2) + EPS)
    tl.store(parameter + at, value, mask=mask)
    tl.store(moment + at, first, mask=mask)
    tl.store(square + at, second, mask=mask)


def adamw(parameter: Any, gradient: Any, moment: Any, square: Any, step: Any, lr: float, betas: tuple[float, float],
          eps: float, decay: float) -> None:  # fmt: skip
    n = parameter.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    _adamw_kernel[grid](parameter, gradient, moment, square, step, n, LR=lr, BETA1=betas[0], BETA2=betas[1], EPS=eps,
                        DECAY=decay, LOG1=math.log(betas[0]), LOG2=math.log(betas[1]))  # fmt: skip
