"""Flash attention, backward: gradients of q, k and v with weights computed anew, block by block, from log-sum-exp.

    S = q kᵀ,  P = exp2(S · scale - lse),  dP = dout vᵀ,  dS = P ∘ (dP - delta),  delta = row sums of dout ∘ out
    dv = Pᵀ dout,  dk = dSᵀ q · scale,  dq = dS k · scale

A first kernel leaves what a row of queries needs of log-sum-exp and delta. Then a block of keys walks the queries of
all heads that share it, in their order, with scores transposed: rows are keys, so that P and dS are the left factors
that dv and dk ask for. dq is summed by a third kernel, in which a block of queries walks the keys, which costs two
products of seven; or by atomics beside dk, whose order, and last bits with it, are another in each run.
"""

from __future__ import annotations

import math
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.backward_configs import BackwardPlan, backward_plan
from kiln.kernels.attention.operands import Heads, heads_of, is_fetched
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, empty, operator, output, strides, tile_side

LOG2_E: kl.constexpr = kl.constexpr(1.4426950408889634)


# ---- blocks of the tokens of one head --------------------------------------------------------------------------------
@kiln.jit
def blocks_of(x: Heads, ROWS: kl.constexpr, SIZE: kl.constexpr):
    """The array as blocks of ROWS tokens of a head, where its elements are contiguous; else None."""
    if x.step is not None:
        return None
    return kl.make_tensor_descriptor(
        x.data,
        [x.batches, x.heads, x.tokens, x.size],
        [x.batch_stride, x.head_stride, x.token_stride, 1],
        [1, 1, ROWS, SIZE],
    )


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


# ---- what a row of queries needs -------------------------------------------------------------------------------------
@kiln.jit
def rows_kernel(out: Heads, dout: Heads, lse, lse_batch, lse_head, lse_token, rows, dq, padded, M: kl.constexpr,
                SIZE: kl.constexpr):  # fmt: skip
    """Log-sum-exp to base 2 and delta of each row, of all heads: ``rows`` is (2 · batch · heads, padded).
    What adds to ``dq`` finds zeros there.

    A row without a key, or beyond the last, gets a log-sum-exp of +inf: its weights are exp2(-inf) = 0 in any block.
    """
    of_all = kl.program_id(1)
    batch, head = of_all // dout.heads, of_all % dout.heads
    first = kl.program_id(0) * M
    token = first + kl.arange(0, M)
    there = token < dout.tokens
    y = load(out, blocks_of(out, M, SIZE), batch, head, first, M, SIZE).to(rows.dtype.element_ty)
    dy = load(dout, blocks_of(dout, M, SIZE), batch, head, first, M, SIZE).to(rows.dtype.element_ty)
    delta = kl.sum(y * dy, axis=1)
    at = lse + batch.to(kl.int64) * lse_batch + head * lse_head + token * lse_token
    sums = kl.load(at, mask=there, other=-float("inf")) * LOG2_E
    # Where sums overflowed, weights are no numbers.
    sums = kl.where(sums == float("inf"), float("nan"), kl.where(sums == -float("inf"), float("inf"), sums))
    row = of_all.to(kl.int64) * padded + token
    kl.store(rows + row, sums, mask=token < padded)
    kl.store(rows + kl.num_programs(1).to(kl.int64) * padded + row, delta, mask=token < padded)
    if dq is not None:
        columns = kl.arange(0, SIZE)[None, :]
        zeros = kl.zeros((M, SIZE), kl.float32)
        kl.store(dq + row[:, None] * SIZE + columns, zeros, mask=token[:, None] < padded)


# ---- dk and dv -------------------------------------------------------------------------------------------------------
@kiln.jit
def key_step(q: Heads, dout: Heads, q_blocks, dout_blocks, row_blocks, dq, key, value, dk, dv, batch, head, start, keys,
             shift, scale_log2, scale, padded, MASKED: kl.constexpr, M: kl.constexpr, SIZE: kl.constexpr):  # fmt: skip
    """Adds what the queries from ``start`` on give to dk and dv of a block of keys (and its to theirs, by atomics)."""
    of_all = batch * q.heads + head
    query = load(q, q_blocks, batch, head, start, M, SIZE)
    sums = row_blocks.load([of_all, start]).reshape(M)
    score = kl.dot(key, query.T)
    dy = load(dout, dout_blocks, batch, head, start, M, SIZE)
    delta = row_blocks.load([q.batches * q.heads + of_all, start]).reshape(M)
    dweight = kl.dot(value, dy.T)
    weight = exp2_flushed(score * scale_log2 - sums[None, :])
    if MASKED:
        last = start + shift + kl.arange(0, M)
        weight = kl.where(keys[:, None] <= last[None, :], weight, 0.0)
    dv = kl.dot(weight.to(dy.dtype), dy, dv)
    dscore = (weight * (dweight - delta[None, :])).to(query.dtype)
    dk = kl.dot(dscore, query, dk)
    if dq is not None:
        # What groups of warps multiply has 64 rows for each of them.
        at = dq + of_all.to(kl.int64) * padded * SIZE
        rows, columns = start + kl.arange(0, M), kl.arange(0, SIZE)
        if M >= SIZE:
            part = kl.dot(dscore.T, key)
            kl.atomic_add(at + rows[:, None] * SIZE + columns[None, :], part * scale, sem="relaxed")
        else:
            part = kl.dot(key.T, dscore)
            kl.atomic_add(at + columns[:, None] + rows[None, :] * SIZE, part * scale, sem="relaxed")
    return dk, dv


@kiln.jit
def keys_kernel(q: Heads, k: Heads, v: Heads, dout: Heads, dk: Heads, dv: Heads, rows, dq, scale_log2, scale,
                row_count, padded, together, CAUSAL: kl.constexpr, M: kl.constexpr, N: kl.constexpr,
                SIZE: kl.constexpr):  # fmt: skip
    """dk and dv of N keys of a head, from M queries a step."""
    of_all, block = turns(kl.cdiv(k.tokens, N), k.batches * k.heads, together)
    batch, k_head = of_all // k.heads, of_all % k.heads
    group = q.heads // k.heads
    first = block * N
    keys = first + kl.arange(0, N)
    shift = k.tokens - q.tokens
    # Queries from the first on that sees a key of the block; from the first that sees them all, nothing is masked.
    begin, common = 0, 0
    if CAUSAL:
        begin = kl.minimum(kl.maximum(first - shift, 0), q.tokens) // M * M
        common = kl.minimum(kl.cdiv(kl.maximum(first + N - 1 - shift, 0), M) * M, kl.cdiv(q.tokens, M) * M)
        common = kl.maximum(common, begin)
    q_blocks, dout_blocks = blocks_of(q, M, SIZE), blocks_of(dout, M, SIZE)
    row_blocks = kl.make_tensor_descriptor(rows, [row_count, padded], [padded, 1], [1, M])
    key = load(k, blocks_of(k, N, SIZE), batch, k_head, first, N, SIZE)
    value = load(v, blocks_of(v, N, SIZE), batch, k_head, first, N, SIZE)
    INSIDE: kl.constexpr = rows.dtype.element_ty
    dkey = kl.zeros((N, SIZE), INSIDE)
    dvalue = kl.zeros((N, SIZE), INSIDE)
    for head in range(k_head * group, k_head * group + group):
        if CAUSAL:
            for start in range(begin, common, M):
                dkey, dvalue = key_step(q, dout, q_blocks, dout_blocks, row_blocks, dq, key, value, dkey, dvalue, batch,
                                        head, start, keys, shift, scale_log2, scale, padded, True, M, SIZE)  # fmt: skip
        for start in range(common, q.tokens, M):
            dkey, dvalue = key_step(q, dout, q_blocks, dout_blocks, row_blocks, dq, key, value, dkey, dvalue, batch,
                                    head, start, keys, shift, scale_log2, scale, padded, False, M, SIZE)  # fmt: skip
    store(dk, batch, k_head, first, dkey * scale)
    store(dv, batch, k_head, first, dvalue)


@kiln.jit
def turns(blocks, heads, together):
    """Which head of all batches and which block of its tokens the program is for: so many heads take turns."""
    program = kl.program_id(0)
    first = program // (together * blocks) * together
    count = kl.minimum(heads - first, together)
    rest = program % (together * blocks)
    return first + rest % count, rest // count


# ---- dq --------------------------------------------------------------------------------------------------------------
@kiln.jit
def query_step(k: Heads, v: Heads, k_blocks, v_blocks, query, dy, sums, delta, dquery, batch, head, start, last,
               scale_log2, MASKED: kl.constexpr, N: kl.constexpr, SIZE: kl.constexpr):  # fmt: skip
    """Adds what the keys from ``start`` on give to dq of a block of queries."""
    key = load(k, k_blocks, batch, head, start, N, SIZE)
    score = kl.dot(query, key.T)
    value = load(v, v_blocks, batch, head, start, N, SIZE)
    dweight = kl.dot(dy, value.T)
    weight = exp2_flushed(score * scale_log2 - sums[:, None])
    if MASKED:
        weight = kl.where((start + kl.arange(0, N))[None, :] <= last, weight, 0.0)
    dscore = (weight * (dweight - delta[:, None])).to(key.dtype)
    return kl.dot(dscore, key, dquery)


@kiln.jit
def queries_kernel(q: Heads, k: Heads, v: Heads, dout: Heads, dq: Heads, rows, scale_log2, scale, padded, together,
                   CAUSAL: kl.constexpr, M: kl.constexpr, N: kl.constexpr, SIZE: kl.constexpr):  # fmt: skip
    """dq of M queries of a head, from N keys a step."""
    of_all, block = turns(kl.cdiv(q.tokens, M), q.batches * q.heads, together)
    if CAUSAL:
        block = kl.cdiv(q.tokens, M) - 1 - block  # the longest first
    batch, head = of_all // q.heads, of_all % q.heads
    k_head = head // (q.heads // k.heads)
    first = block * M
    shift = k.tokens - q.tokens
    tokens = first + kl.arange(0, M)
    # Keys that some query of the block sees, and those that all of them see.
    end, common = k.tokens, k.tokens
    if CAUSAL:
        end = kl.maximum(kl.minimum(k.tokens, first + M + shift), 0)
        common = kl.minimum(kl.maximum(first + shift + 1, 0), k.tokens)
    common = common // N * N
    last = (tokens + shift)[:, None] if CAUSAL else k.tokens - 1
    row = rows + of_all.to(kl.int64) * padded + tokens
    sums = kl.load(row, mask=tokens < padded, other=float("inf"))
    delta = kl.load(row + q.batches.to(kl.int64) * q.heads * padded, mask=tokens < padded, other=0.0)
    k_blocks, v_blocks = blocks_of(k, N, SIZE), blocks_of(v, N, SIZE)
    query = load(q, blocks_of(q, M, SIZE), batch, head, first, M, SIZE)
    dy = load(dout, blocks_of(dout, M, SIZE), batch, head, first, M, SIZE)
    INSIDE: kl.constexpr = rows.dtype.element_ty
    dquery = kl.zeros((M, SIZE), INSIDE)
    for start in range(0, common, N):
        dquery = query_step(k, v, k_blocks, v_blocks, query, dy, sums, delta, dquery, batch, k_head, start, last,
                            scale_log2, False, N, SIZE)  # fmt: skip
    for start in range(common, end, N):
        dquery = query_step(k, v, k_blocks, v_blocks, query, dy, sums, delta, dquery, batch, k_head, start, last,
                            scale_log2, True, N, SIZE)  # fmt: skip
    store(dq, batch, head, first, dquery * scale)


@kiln.jit
def round_kernel(sums, dq: Heads, padded, M: kl.constexpr, SIZE: kl.constexpr):
    """What atomics have summed, to dq's type and place."""
    of_all = kl.program_id(1)
    first = kl.program_id(0) * M
    rows, columns = first + kl.arange(0, M), kl.arange(0, SIZE)[None, :]
    at = sums + (of_all.to(kl.int64) * padded + rows)[:, None] * SIZE + columns
    value = kl.load(at, mask=(rows < padded)[:, None], other=0.0)
    store(dq, of_all // dq.heads, of_all % dq.heads, first, value)


# ---- the function ----------------------------------------------------------------------------------------------------
def _specs(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> tuple[Spec, ...]:
    return Spec(q.shape, q.dtype), Spec(k.shape, k.dtype), Spec(v.shape, v.dtype)


@operator(
    outputs=_specs,
    arrays={"q": "(batch, queries, heads, size)", "k": "(batch, tokens, kv_heads, size)",
            "v": "(batch, tokens, kv_heads, size)", "out": "(batch, queries, heads, size)",
            "lse": "(batch, heads, queries)", "dout": "(batch, queries, heads, size)"},
    types=(Types(q=FLOATS, k="q", v="q", out="q", lse=("float32",), dout="q", inside="float32", result="q"),
           Types(q=("float64",), k="q", v="q", out="q", lse="q", dout="q", inside="float64", result="q")),
)  # fmt: skip
def attention_backward(q: Any, k: Any, v: Any, out: Any, lse: Any, dout: Any, *, causal: bool = False,
                       softmax_scale: float | None = None, deterministic: bool = True,
                       plan: BackwardPlan | None = None) -> tuple[Any, Any, Any]:  # fmt: skip
    """Gradients ``(dq, dk, dv)`` of ``attention`` for ``dout``, that of its result.

    ``out`` and ``lse`` are what ``attention(q, k, v, return_lse=True)`` gave, ``causal`` and ``softmax_scale`` as they
    were there. Sums are float32 (of float64: float64); weights and their gradients are rounded to q's type before they
    are multiplied, as tensor cores need them. dk and dv are summed over the heads that share keys, in their order. A
    query that sees no key has no part in anything and gets zeros.

    Two runs give the same bits. Not so with ``deterministic=False``, where dq is summed by atomics: two products of
    seven fewer.
    """
    batch, q_tokens, heads, size = q.shape
    k_tokens, k_heads = k.shape[1], k.shape[2]
    if tuple(k.shape) != (batch, k_tokens, k_heads, size) or tuple(v.shape) != tuple(k.shape):
        raise ArgumentError(
            "k, v", f"expected shape ({batch}, tokens, heads, {size}), got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    for name, array in (("out", out), ("dout", dout)):
        if tuple(array.shape) != tuple(q.shape):
            raise ArgumentError(name, f"expected q's shape {tuple(q.shape)}, got {tuple(array.shape)}")
    if tuple(lse.shape) != (batch, heads, q_tokens):
        raise ArgumentError("lse", f"expected shape {(batch, heads, q_tokens)}, got {tuple(lse.shape)}")
    if size == 0:
        raise ArgumentError("q", f"expected heads of at least one element, got shape {tuple(q.shape)}")
    if k_heads == 0 or heads % k_heads:
        raise ArgumentError(
            "k", f"expected a number of heads that divides q's {heads} (grouped queries), got {k_heads}"
        )
    dq, dk, dv = (output(None, Spec(x.shape, x.dtype), x) for x in (q, k, v))
    if batch == 0:
        return dq, dk, dv
    scale = 1 / math.sqrt(size) if softmax_scale is None else softmax_scale
    side = tile_side(size)
    machine = machine_of(q)
    arrays = q, k, v, dout, dq, dk, dv
    operands = tuple(heads_of(x) for x in arrays)
    fetched = 0 not in q.shape and k_tokens > 0 and all(is_fetched(x) for x in operands)
    plan = plan or backward_plan(q_tokens, k_tokens, side, q.itemsize, fetched, causal, machine)
    if machine.gpu and not (fetched and plan.schedule):
        operands = tuple(heads_of(x, described=False) for x in arrays)
    q_, k_, v_, dout_, dq_, dk_, dv_ = operands
    padded = kiln.cdiv(max(q_tokens, 1), plan.m) * plan.m
    inside = "float64" if q.itemsize == 8 else "float32"
    rows = empty(Spec((2 * batch * heads, padded), inside), q)
    sums = None if deterministic else empty(Spec((batch * heads, padded, side), "float32"), q)
    if heads:
        rows_kernel[(kiln.cdiv(padded, plan.rows), batch * heads)](
            heads_of(out, described=False), heads_of(dout, described=False), lse, *strides(lse), rows, sums, padded,
            M=plan.rows, SIZE=side, **plan.row_options(machine),
        )  # fmt: skip
    if k_tokens:
        keys_kernel[(kiln.cdiv(k_tokens, plan.n) * batch * k_heads,)](
            q_, k_, v_, dout_, dk_, dv_, rows, sums, scale * LOG2_E.value, scale, 2 * batch * heads, padded,
            plan.together, CAUSAL=causal, M=plan.m, N=plan.n, SIZE=side, **plan.options(machine),
        )  # fmt: skip
    if q_tokens and heads and sums is not None:
        round_kernel[(kiln.cdiv(q_tokens, plan.rows), batch * heads)](
            sums, dq_, padded, M=plan.rows, SIZE=side, **plan.row_options(machine)
        )
    elif q_tokens and heads:
        queries_kernel[(kiln.cdiv(q_tokens, plan.dq_m) * batch * heads,)](
            q_, k_, v_, dout_, dq_, rows, scale * LOG2_E.value, scale, padded, plan.together, CAUSAL=causal,
            M=plan.dq_m, N=plan.dq_n, SIZE=side, **plan.options(machine, dq=True),
        )  # fmt: skip
    return dq, dk, dv
