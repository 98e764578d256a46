"""Flash attention, forward: scores never reach memory; a block of queries walks the keys with a running maximum.

Layout (batch, tokens, heads, size), any strides; K and V may have fewer heads (grouped queries). ``causal`` aligns the
last query with the last key, as FlashAttention does. Exponentials are powers of two: the scale carries log2(e). How
blocks arrive and how products and softmax overlap is the schedule's.
"""

from __future__ import annotations

import math
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.configs import AttentionPlan, prefill_plan
from kiln.kernels.attention.operands import Heads, heads_of, is_fetched
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, empty, operator, output, tile_side

LOG2_E = 1.4426950408889634


# ---- blocks of the tokens of one head --------------------------------------------------------------------------------
@kiln.jit
def blocks_of(x: Heads, ROWS: kl.constexpr, SIZE: kl.constexpr):
    """The array as blocks of ROWS tokens of a head, where its elements are contiguous (else x itself)."""
    if x.step is None:
        return kl.make_tensor_descriptor(x.data, [x.batches, x.heads, x.tokens, x.size],
                                         [x.batch_stride, x.head_stride, x.token_stride, 1],
                                         [1, 1, ROWS, SIZE])  # fmt: skip
    return x


@kiln.jit
def elements(x: Heads, batch, head, row, ROWS: kl.constexpr, SIZE: kl.constexpr):
    """Pointers to the elements of a block, and which of them the array has."""
    rows, columns = (row + kl.arange(0, ROWS))[:, None], kl.arange(0, SIZE)[None, :]
    start = x.data + batch.to(kl.int64) * x.batch_stride + head * x.head_stride
    return start + rows * x.token_stride + columns * x.step, (rows < x.tokens) & (columns < x.size)


@kiln.jit
def load(x: Heads, blocks, batch, head, row, ROWS: kl.constexpr, SIZE: kl.constexpr):
    """ROWS tokens of a head from ``row`` on, zero outside the array."""
    if x.step is None:
        return blocks.load([batch, head, row, 0]).reshape(ROWS, SIZE)
    pointers, inside = elements(x, batch, head, row, ROWS, SIZE)
    return kl.load(pointers, mask=inside, other=0.0)


@kiln.jit
def store(x: Heads, batch, head, row, value):
    ROWS: kl.constexpr = value.shape[0]
    SIZE: kl.constexpr = value.shape[1]
    value = value.to(x.data.dtype.element_ty)
    if x.step is None:
        blocks_of(x, ROWS, SIZE).store([batch, head, row, 0], value.reshape(1, 1, ROWS, SIZE))
    else:
        pointers, inside = elements(x, batch, head, row, ROWS, SIZE)
        kl.store(pointers, value, mask=inside)


# ---- the kernel ------------------------------------------------------------------------------------------------------
@kiln.jit
def place(blocks, heads, together, LONGEST_FIRST: kl.constexpr):
    """Which head of all batches and which block of its queries the program is for. So many heads, whose keys and
    values a cache holds, take turns together; the last block first where it has the most keys."""
    program = kl.program_id(0)
    first = program // (together * blocks) * together
    count = kl.minimum(heads - first, together)
    rest = program % (together * blocks)
    block = rest // count
    return first + rest % count, blocks - 1 - block if LONGEST_FIRST else block


@kiln.jit
def row_sums(x, PARTS: kl.constexpr):
    """Sums of rows in PARTS parts, of every so manieth pair of columns: four threads share a row of a product so, and
    need not tell each other in each step."""
    if PARTS == 1:
        return kl.sum(x, axis=1)[:, None]
    return kl.sum(kl.sum(x.reshape(x.shape[0], x.shape[1] // (2 * PARTS), PARTS, 2), axis=3), axis=1)


@kiln.jit
def attention_kernel(q: Heads, k: Heads, v: Heads, y: Heads, lse, scale_log2, together, CAUSAL: kl.constexpr,
                     TURNED: kl.constexpr, M: kl.constexpr, N: kl.constexpr, SIZE: kl.constexpr,
                     PARTS: kl.constexpr):  # fmt: skip
    """``y = softmax(q kᵀ · scale) v``; TURNED: of the negative scores, for scales below zero."""
    of_all, block = place(kl.cdiv(q.tokens, M), q.batches * q.heads, together, CAUSAL)
    batch, head = of_all // q.heads, of_all % q.heads
    k_head = head // (q.heads // k.heads)
    first = block * M
    shift = k.tokens - q.tokens
    # Keys that some query of the block sees, and those that all of them see.
    end = k.tokens
    common = k.tokens
    if CAUSAL:
        end = kl.maximum(kl.minimum(k.tokens, first + M + shift), 0)
        common = kl.minimum(k.tokens, first + shift + 1)
    k_blocks, v_blocks = blocks_of(k, N, SIZE), blocks_of(v, N, SIZE)
    query = load(q, blocks_of(q, M, SIZE), batch, head, first, M, SIZE)
    top = kl.full((M,), -float("inf"), kl.float32)
    total = kl.zeros((M, PARTS), kl.float32)
    result = kl.zeros((M, SIZE), kl.float32)
    if k.step is not None:
        key = load(k, k_blocks, batch, k_head, 0, N, SIZE)
    for start in range(0, end, N):
        if k.step is None:
            key = load(k, k_blocks, batch, k_head, start, N, SIZE)
        score = kl.dot(query, key.T)
        value = load(v, v_blocks, batch, k_head, start, N, SIZE)
        if k.step is not None:
            # Nobody fetches ahead: the keys of the next step are under way during what follows.
            key = load(k, k_blocks, batch, k_head, start + N, N, SIZE)
        if TURNED:
            score = -score
        if start + N > common:
            # Queries that there are see no key behind the last one, if causal.
            last = (first + shift + kl.arange(0, M))[:, None] if CAUSAL else k.tokens - 1
            score = kl.where(start + kl.arange(0, N)[None, :] <= last, score, -float("inf"))
        new_top = kl.maximum(top, kl.max(score, axis=1) * scale_log2)
        # A row with no key yet has top = -inf; subtracting 0 instead keeps its weights at exp2(-inf) = 0.
        safe = kl.where(new_top == -float("inf"), 0.0, new_top)
        weight = exp2_flushed(score * scale_log2 - safe[:, None])
        correction = exp2_flushed(top - safe)
        total = total * correction[:, None] + row_sums(weight, PARTS)
        result = kl.dot(weight.to(value.dtype), value, result * correction[:, None])
        top = new_top
    total = kl.sum(total, axis=1)
    share = 1.0 / kl.where(total == 0.0, 1.0, total)
    store(y, batch, head, first, result * share[:, None])
    if lse is not None:
        # Natural logarithm; a row with no key gives -inf.
        rows = first + kl.arange(0, M)
        kl.store(lse + of_all * q.tokens + rows, (top + kl.log2(total)) * 0.6931471805599453, mask=rows < q.tokens)


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
              return_lse: bool = False, plan: AttentionPlan | None = None, out: Any = None) -> Any:  # fmt: skip
    """``softmax(q kᵀ · scale) v`` for (batch, tokens, heads, size) arrays; with ``return_lse`` also log-sum-exp.

    Log-sum-exp is float32 of shape (batch, heads, tokens). A query that sees no key gives zeros and -inf. Scores and
    sums are float32; weights are rounded to V's type before the second product, as tensor cores need them. ``plan``
    stands in the place of the one chosen from the shape.
    """
    batch, q_tokens, heads, size = q.shape
    k_tokens, k_heads = k.shape[1], k.shape[2]
    if tuple(k.shape) != (batch, k_tokens, k_heads, size) or tuple(v.shape) != tuple(k.shape):
        raise ArgumentError(
            "k, v", f"expected shape ({batch}, tokens, heads, {size}), got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if size == 0:
        raise ArgumentError("q", f"expected heads of at least one element, got shape {tuple(q.shape)}")
    if k_heads == 0 or heads % k_heads:
        raise ArgumentError(
            "k", f"expected a number of heads that divides q's {heads} (grouped queries), got {k_heads}"
        )
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    lse = empty(Spec((batch, heads, q_tokens), "float32"), q) if return_lse else None
    if 0 in q.shape:
        return (out, lse) if return_lse else out
    scale = (1 / math.sqrt(size) if softmax_scale is None else softmax_scale) * LOG2_E
    side = tile_side(size)
    machine = machine_of(q)
    arrays = q, k, v, out
    operands = tuple(heads_of(x) for x in arrays)
    # Queries that results overwrite are not fetched ahead.
    fetched = out is not q and all(is_fetched(x) for x in operands)
    plan = plan or prefill_plan(q_tokens, k_tokens, side, q.itemsize, fetched, causal, machine)
    if machine.gpu and plan.schedule != "attention":
        operands = tuple(heads_of(x, described=False) for x in arrays)
    # The greatest product has the greatest score: of a scale that is 0, all scores are; a negative one turns them.
    attention_kernel[(kiln.cdiv(q_tokens, plan.m) * batch * heads,)](
        *operands, lse, abs(scale) or 1e-30, plan.together, CAUSAL=causal, TURNED=scale < 0, M=plan.m, N=plan.n,
        SIZE=side, PARTS=plan.parts, **plan.options(machine),
    )  # fmt: skip
    return (out, lse) if return_lse else out
