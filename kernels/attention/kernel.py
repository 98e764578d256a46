"""Flash attention, forward: scores never reach memory; a block of queries walks the keys with a running maximum.

Layout (batch, tokens, heads, size), any strides; K and V may have fewer heads (grouped queries). ``causal`` aligns the
last query with the last key, as FlashAttention does. Exponentials are powers of two: the scale carries log2(e).
"""

from __future__ import annotations

import math
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.configs import prefill_plan
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, empty, operator, output, strides, tile_side

LOG2_E = 1.4426950408889634


@kiln.jit
def attention_kernel(q, k, v, y, lse, scale_log2, q_batch, q_token, q_head, q_step, k_batch, k_token, k_head, k_step,
                     v_batch, v_token, v_head, v_step, y_batch, y_token, y_head, y_step, q_tokens, k_tokens, heads,
                     group, size, CAUSAL: kl.constexpr, BLOCK_M: kl.constexpr, BLOCK_N: kl.constexpr,
                     SIZE: kl.constexpr):  # fmt: skip
    block = kl.program_id(0)
    head = kl.program_id(1) % heads
    batch = kl.program_id(1) // heads
    rows = block * BLOCK_M + kl.arange(0, BLOCK_M)
    columns = kl.arange(0, SIZE)
    inside = columns[None, :] < size
    q_at = q + batch * q_batch + head * q_head + rows[:, None] * q_token + columns[None, :] * q_step
    query = kl.load(q_at, mask=(rows[:, None] < q_tokens) & inside, other=0.0)
    # A negative scale turns the queries instead, so that the greatest product has the greatest score.
    query = kl.where(scale_log2 < 0.0, -query, query)
    scale = kl.where(scale_log2 == 0.0, 1e-30, kl.abs(scale_log2))
    keys = kl.arange(0, BLOCK_N)
    k_at = k + batch * k_batch + (head // group) * k_head + keys[:, None] * k_token + columns[None, :] * k_step
    v_at = v + batch * v_batch + (head // group) * v_head + keys[:, None] * v_token + columns[None, :] * v_step
    shift = k_tokens - q_tokens
    # Keys that some query of the block sees, and those that all of them see.
    end = k_tokens
    common = k_tokens
    if CAUSAL:
        end = kl.maximum(kl.minimum(k_tokens, (block + 1) * BLOCK_M + shift), 0)
        common = kl.minimum(k_tokens, block * BLOCK_M + shift + 1)
    top = kl.full((BLOCK_M,), -float("inf"), kl.float32)
    total = kl.zeros((BLOCK_M,), kl.float32)
    result = kl.zeros((BLOCK_M, SIZE), kl.float32)
    key = kl.load(k_at, mask=(keys[:, None] < end) & inside, other=0.0)
    for start in range(0, end, BLOCK_N):
        score = kl.dot(query, kl.trans(key))
        # Under way during what follows: the values, and the keys of the next step.
        value = kl.load(v_at + start * v_token, mask=(start + keys[:, None] < k_tokens) & inside, other=0.0)
        after = start + BLOCK_N
        key = kl.load(k_at + after * k_token, mask=(after + keys[:, None] < end) & inside, other=0.0)
        if after > common:
            allowed = start + keys[None, :] < k_tokens
            if CAUSAL:
                allowed = allowed & (start + keys[None, :] <= rows[:, None] + shift)
            score = kl.where(allowed, score, -float("inf"))
        new_top = kl.maximum(top, kl.max(score, axis=1) * scale)
        # A row with no key yet has top = -inf; subtracting 0 instead keeps its weights at exp2(-inf) = 0.
        safe = kl.where(new_top == -float("inf"), 0.0, new_top)
        weight = exp2_flushed(score * scale - safe[:, None])
        correction = exp2_flushed(top - safe)
        total = total * correction + kl.sum(weight, axis=1)
        result = kl.dot(weight.to(value.dtype), value, result * correction[:, None])
        top = new_top
    result = result / kl.where(total == 0.0, 1.0, total)[:, None]
    y_at = y + batch * y_batch + head * y_head + rows[:, None] * y_token + columns[None, :] * y_step
    kl.store(y_at, result.to(y.dtype.element_ty), mask=(rows[:, None] < q_tokens) & inside)
    if lse is not None:
        # Natural logarithm; a row with no key gives -inf.
        value = (top + kl.log2(total)) * 0.6931471805599453
        kl.store(lse + (batch * heads + head) * q_tokens + rows, value, mask=rows < q_tokens)


def _specs(q: Any, k: Any, v: Any, *, return_lse: bool = False, **_: Any) -> tuple[Spec, ...]:
    y = Spec(q.shape, q.dtype)
    return (y, Spec((q.shape[0], q.shape[2], q.shape[1]), "float32")) if return_lse else (y,)


@operator(
    outputs=_specs,
    arrays={"q": "(batch, queries, heads, size)", "k": "(batch, tokens, kv_heads, size)",
            "v": "(batch, tokens, kv_heads, size)", "out": "(batch, queries, heads, size)"},
    types=(Types(q=FLOATS, k="q", v="q", out=FLOATS, inside="float32", result="q"),),
)  # fmt: skip
def attention(q: Any, k: Any, v: Any, *, causal: bool = False, softmax_scale: float | None = None,
              return_lse: bool = False, out: Any = None) -> Any:  # fmt: skip
    """``softmax(q kᵀ · scale) v`` for (batch, tokens, heads, size) arrays; with ``return_lse`` also log-sum-exp.

    Log-sum-exp is float32 of shape (batch, heads, tokens). A query that sees no key gives zeros and -inf. Scores and
    sums are float32; weights are rounded to V's type before the second product, as tensor cores need them.
    """
    batch, q_tokens, heads, size = q.shape
    k_tokens, k_heads = k.shape[1], k.shape[2]
    if tuple(k.shape) != (batch, k_tokens, k_heads, size) or tuple(v.shape) != tuple(k.shape):
        raise ArgumentError(
            "k, v", f"expected shape ({batch}, tokens, heads, {size}), got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if k_heads == 0 or heads % k_heads:
        raise ArgumentError(
            "k", f"expected a number of heads that divides q's {heads} (grouped queries), got {k_heads}"
        )
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    lse = empty(Spec((batch, heads, q_tokens), "float32"), q) if return_lse else None
    scale = (1 / math.sqrt(size) if softmax_scale is None else softmax_scale) * LOG2_E
    side = tile_side(size)
    plan = prefill_plan(q_tokens, k_tokens, side, q.itemsize, machine_of(q))
    attention_kernel[(kiln.cdiv(q_tokens, plan["BLOCK_M"]), batch * heads)](
        q, k, v, out, lse, scale, *strides(q), *strides(k), *strides(v), *strides(out), q_tokens, k_tokens, heads,
        heads // k_heads, size, CAUSAL=causal, SIZE=side, **plan,
    )  # fmt: skip
    return (out, lse) if return_lse else out
