"""Attention of one new token per sequence over a KV cache, contiguous or paged.

The cache is cut into splits that run side by side (one token offers too few programs otherwise); each leaves a partial
result with its maximum and sum, and a second launch combines them in order. Lengths live in memory: they change every
step, and neither recompile a kernel nor freeze in a graph. The heads that share a KV head are one tile.
"""

from __future__ import annotations

import math
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.configs import decode_splits, decode_tile
from kiln.kernels.attention.kernel import LOG2_E
from kiln.kernels.machine import machine_of, options
from kiln.kernels.operator import FLOATS, Spec, Types, empty, operator, output, strides, tile_side


@kiln.jit
def decode_kernel(q, k, v, table, lengths, partial, statistics, scale_log2, q_batch, q_head, q_step,
                  k_batch, k_token, k_head, k_step, v_batch, v_token, v_head, v_step, length_step, table_batch,
                  table_step, most, page_size, k_heads, group, size, split_tokens, splits, PAGED: kl.constexpr,
                  GROUP: kl.constexpr, BLOCK_N: kl.constexpr, SIZE: kl.constexpr):  # fmt: skip
    head = kl.program_id(0) % k_heads
    batch = kl.program_id(0) // k_heads
    split = kl.program_id(1)
    length = kl.load(lengths + batch * length_step)
    kl.device_assert((length >= 0) & (length <= most), "decode_attention: a length beyond max_length or the cache")
    length = kl.minimum(length, most).to(kl.int32)
    members = kl.arange(0, GROUP)
    columns = kl.arange(0, SIZE)
    inside = columns[None, :] < size
    q_at = q + batch * q_batch + (head * group + members[:, None]) * q_head + columns[None, :] * q_step
    query = kl.load(q_at, mask=(members[:, None] < group) & inside, other=0.0)
    first = split * split_tokens
    last = kl.minimum(first + split_tokens, length)
    top = kl.full((GROUP,), -float("inf"), kl.float32)
    total = kl.zeros((GROUP,), kl.float32)
    result = kl.zeros((GROUP, SIZE), kl.float32)
    for start in range(first, last, BLOCK_N):
        keys = start + kl.arange(0, BLOCK_N)
        seen = keys < last
        if PAGED:
            page = kl.load(table + batch * table_batch + keys // page_size * table_step, mask=seen, other=0).to(
                kl.int64
            )
            token = (keys % page_size).to(kl.int64)
            k_row, v_row = page * k_batch + token * k_token, page * v_batch + token * v_token
        else:
            first_row, token = batch.to(kl.int64), keys.to(kl.int64)
            k_row, v_row = first_row * k_batch + token * k_token, first_row * v_batch + token * v_token
        present = seen[:, None] & inside
        key = kl.load(k + head * k_head + k_row[:, None] + columns[None, :] * k_step, mask=present, other=0.0)
        score = kl.where(seen[None, :], kl.dot(query, kl.trans(key)) * scale_log2, -float("inf"))
        new_top = kl.maximum(top, kl.max(score, axis=1))
        weight = kl.exp2(score - new_top[:, None])
        correction = kl.exp2(top - new_top)
        total = total * correction + kl.sum(weight, axis=1)
        value = kl.load(v + head * v_head + v_row[:, None] + columns[None, :] * v_step, mask=present, other=0.0)
        result = kl.dot(weight.to(value.dtype), value, result * correction[:, None])
        top = new_top
    row = ((batch * k_heads + head) * group + members) * splits + split
    mask = members < group
    kl.store(partial + row[:, None] * size + columns[None, :], result, mask=mask[:, None] & inside)
    kl.store(statistics + row * 2, top, mask=mask)
    kl.store(statistics + row * 2 + 1, total, mask=mask)


@kiln.jit
def combine_kernel(partial, statistics, y, lse, y_batch, y_head, y_step, heads, size, splits,
                   SPLITS: kl.constexpr, SIZE: kl.constexpr):  # fmt: skip
    head = kl.program_id(0)
    batch = kl.program_id(1)
    row = (batch * heads + head) * splits
    split = kl.arange(0, SPLITS)
    mask = split < splits
    top = kl.load(statistics + (row + split) * 2, mask=mask, other=-float("inf"))
    total = kl.load(statistics + (row + split) * 2 + 1, mask=mask, other=0.0)
    best = kl.max(top, axis=0)
    safe = kl.where(best == -float("inf"), 0.0, best)
    share = kl.exp2(top - safe)
    whole = kl.sum(share * total, axis=0)
    columns = kl.arange(0, SIZE)
    parts = kl.load(partial + (row + split[:, None]) * size + columns[None, :],
                    mask=mask[:, None] & (columns[None, :] < size), other=0.0)  # fmt: skip
    result = kl.sum(parts * share[:, None], axis=0) / kl.where(whole == 0.0, 1.0, whole)
    y_at = y + batch * y_batch + head * y_head + columns * y_step
    kl.store(y_at, result.to(y.dtype.element_ty), mask=columns < size)
    if lse is not None:
        kl.store(lse + batch * heads + head, (best + kl.log2(whole)) * 0.6931471805599453)


def _specs(q: Any, k: Any, v: Any, lengths: Any, *, return_lse: bool = False, **_: Any) -> tuple[Spec, ...]:
    y = Spec(q.shape, q.dtype)
    return (y, Spec(q.shape[:2], "float32")) if return_lse else (y,)


@operator(
    outputs=_specs,
    arrays={"q": "(batch, heads, size)", "k": "(batch, tokens, kv_heads, size)",
            "v": "(batch, tokens, kv_heads, size)", "lengths": "(batch)", "block_table": "(batch, pages)",
            "out": "(batch, heads, size)"},
    types=(Types(q=FLOATS, k="q", v="q", lengths=("int32", "int64"), block_table=("int32", "int64"), out=FLOATS,
                 inside="float32", result="q"),),
)  # fmt: skip
def decode_attention(q: Any, k: Any, v: Any, lengths: Any, *, block_table: Any = None, max_length: int | None = None,
                     softmax_scale: float | None = None, splits: int | None = None, return_lse: bool = False,
                     out: Any = None) -> Any:  # fmt: skip
    """Attention of ``q`` (batch, heads, size) over a cache of which ``lengths[batch]`` tokens are filled.

    Contiguous: ``k``, ``v`` are (batch, tokens, kv_heads, size). Paged: (pages, page_size, kv_heads, size) and
    ``block_table`` (batch, pages per sequence) says which page holds which tokens. ``max_length`` bounds every length
    (default: what the cache or table can hold); a longer one stops the kernel. A sequence of length 0 gives zeros and a
    log-sum-exp of -inf.
    """
    batch, heads, size = q.shape
    page_size, k_heads = k.shape[1], k.shape[2]
    if tuple(v.shape) != tuple(k.shape) or k.shape[3] != size:
        raise ArgumentError(
            "k, v", f"expected equal shapes ending in {size}, got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if max_length is not None and max_length < 0:
        raise ArgumentError("max_length", f"expected a number of tokens, got {max_length}")
    if size == 0:
        raise ArgumentError("q", f"expected heads of at least one element, got shape {tuple(q.shape)}")
    if k_heads == 0 or heads % k_heads:
        raise ArgumentError(
            "k", f"expected a number of heads that divides q's {heads} (grouped queries), got {k_heads}"
        )
    if tuple(lengths.shape) != (batch,):
        raise ArgumentError("lengths", f"expected shape ({batch},) (one per sequence), got {tuple(lengths.shape)}")
    if block_table is None and k.shape[0] != batch:
        raise ArgumentError("k, v", f"expected {batch} sequences (because q has them), got {k.shape[0]}")
    if block_table is not None and block_table.shape[0] != batch:
        raise ArgumentError("block_table", f"expected {batch} rows (one per sequence), got {block_table.shape[0]}")
    capacity = page_size if block_table is None else page_size * block_table.shape[1]
    length = capacity if max_length is None else min(max_length, capacity)
    block_n = decode_tile(machine_of(q))
    splits = max(1, decode_splits(batch * k_heads, length) if splits is None else splits)
    split_tokens = max(1, kiln.cdiv(kiln.cdiv(length, splits), block_n)) * block_n
    splits = max(1, kiln.cdiv(length, split_tokens))
    group = heads // k_heads
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    lse = empty(Spec((batch, heads), "float32"), q) if return_lse else None
    partial = empty(Spec((batch, heads, splits, size), "float32"), q)
    statistics = empty(Spec((batch, heads, splits, 2), "float32"), q)
    scale = (1 / math.sqrt(size) if softmax_scale is None else softmax_scale) * LOG2_E
    decode_kernel[(batch * k_heads, splits)](
        q, k, v, block_table, lengths, partial, statistics, scale, *strides(q), *strides(k), *strides(v),
        *strides(lengths), *((0, 0) if block_table is None else strides(block_table)), length, page_size, k_heads,
        group, size, split_tokens, splits, PAGED=block_table is not None, GROUP=tile_side(group, 1), BLOCK_N=block_n,
        SIZE=tile_side(size), **options(),
    )  # fmt: skip
    combine_kernel[(heads, batch)](
        partial, statistics, out, lse, *strides(out), heads, size, splits,
        SPLITS=tile_side(splits, 1), SIZE=tile_side(size), **options(),
    )  # fmt: skip
    return (out, lse) if return_lse else out
