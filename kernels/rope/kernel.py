"""Rotary position embedding of Q and K in one launch: one program per token, all heads of both.

Everything is asked for before anything is used. The angles of a token are read once and serve every head. "half" pairs element i with i + r/2 (Llama, Qwen, Granite);
"interleaved" pairs 2i with 2i + 1 (GPT-J). Only the first r = 2 · cos.shape[-1] elements of a head
rotate; the rest is copied.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import Machine, machine_of, options
from kiln.kernels.operator import Spec, operator, output, strides, tile_side
from kiln.kernels.rows import read


@kiln.jit
def _head_mask(heads, columns, end, HEADS: kl.constexpr, WHOLE: kl.constexpr):
    """The mask of a tile of heads and columns; None if all of it is inside."""
    return None if WHOLE else (kl.arange(0, HEADS)[:, None] < heads) & (columns < end)


@kiln.jit
def _load_heads(x, x_head, x_step, heads, half, size, INTERLEAVED: kl.constexpr, HEADS: kl.constexpr,
                HALF: kl.constexpr, REST: kl.constexpr, WHOLE: kl.constexpr):  # fmt: skip
    """The first and second elements of the pairs of `heads` heads, and what does not rotate (None if all does)."""
    head = kl.arange(0, HEADS)[:, None]
    rest = None
    if INTERLEAVED:
        column = kl.arange(0, 2 * HALF)[None, :]
        pairs = read(x + head * x_head + column * x_step, _head_mask(heads, column, 2 * half, HEADS, WHOLE))
        first, second = kl.split(kl.reshape(pairs, (HEADS, HALF, 2)))
    else:
        column = kl.arange(0, HALF)[None, :]
        mask = _head_mask(heads, column, half, HEADS, WHOLE)
        source = x + head * x_head + column * x_step
        first = read(source, mask)
        second = read(source + half * x_step, mask)
    if REST > 0:
        tail = 2 * half + kl.arange(0, REST)[None, :]
        rest = read(x + head * x_head + tail * x_step, _head_mask(heads, tail, size, HEADS, False))
    return first.to(kl.float32), second.to(kl.float32), rest


@kiln.jit
def _store_heads(y, y_head, y_step, heads, half, size, first, second, rest, cos, sin, INTERLEAVED: kl.constexpr,
                 HEADS: kl.constexpr, HALF: kl.constexpr, REST: kl.constexpr, WHOLE: kl.constexpr):  # fmt: skip
    """Rotates pairs by angles of shape [1, HALF] and stores them."""
    head = kl.arange(0, HEADS)[:, None]
    left = (first * cos - second * sin).to(y.dtype.element_ty)
    right = (second * cos + first * sin).to(y.dtype.element_ty)
    if INTERLEAVED:
        column = kl.arange(0, 2 * HALF)[None, :]
        mask = _head_mask(heads, column, 2 * half, HEADS, WHOLE)
        kl.store(y + head * y_head + column * y_step, kl.reshape(kl.join(left, right), (HEADS, 2 * HALF)), mask=mask)
    else:
        column = kl.arange(0, HALF)[None, :]
        mask = _head_mask(heads, column, half, HEADS, WHOLE)
        target = y + head * y_head + column * y_step
        kl.store(target, left, mask=mask)
        kl.store(target + half * y_step, right, mask=mask)
    if REST > 0:
        tail = 2 * half + kl.arange(0, REST)[None, :]
        kl.store(y + head * y_head + tail * y_step, rest, mask=_head_mask(heads, tail, size, HEADS, False))


@kiln.jit
def rope_kernel(q, k, q_out, k_out, cos, sin, positions, offset,
                q_batch, q_token, q_head, q_step, k_batch, k_token, k_head, k_step,
                qo_batch, qo_token, qo_head, qo_step, ko_batch, ko_token, ko_head, ko_step,
                cos_row, sin_row, position_batch, position_token, q_heads, k_heads, half, size,
                OFFSET_IN_MEMORY: kl.constexpr, INTERLEAVED: kl.constexpr, Q_HEADS: kl.constexpr,
                K_HEADS: kl.constexpr, HALF: kl.constexpr, REST: kl.constexpr, Q_WHOLE: kl.constexpr,
                K_WHOLE: kl.constexpr):  # fmt: skip
    token = kl.program_id(0)
    batch = kl.program_id(1)
    # Heads first: the position may have to be read before the angles can be asked for.
    q_first, q_second, q_rest = _load_heads(q + batch * q_batch + token * q_token, q_head, q_step, q_heads, half, size,
                                            INTERLEAVED, Q_HEADS, HALF, REST, Q_WHOLE)  # fmt: skip
    if k is not None:
        k_first, k_second, k_rest = _load_heads(k + batch * k_batch + token * k_token, k_head, k_step, k_heads, half,
                                                size, INTERLEAVED, K_HEADS, HALF, REST, K_WHOLE)  # fmt: skip
    if positions is not None:
        position = kl.load(positions + batch * position_batch + token * position_token).to(kl.int32)
    elif OFFSET_IN_MEMORY:
        position = kl.load(offset).to(kl.int32) + token
    else:
        position = offset + token
    angle = kl.arange(0, HALF)[None, :]
    mask = None if K_WHOLE or Q_WHOLE else angle < half
    cosine = read(cos + position * cos_row + angle, mask, 0.0, "evict_last").to(kl.float32)
    sine = read(sin + position * sin_row + angle, mask, 0.0, "evict_last").to(kl.float32)
    _store_heads(q_out + batch * qo_batch + token * qo_token, qo_head, qo_step, q_heads, half, size, q_first, q_second,
                 q_rest, cosine, sine, INTERLEAVED, Q_HEADS, HALF, REST, Q_WHOLE)  # fmt: skip
    if k is not None:
        _store_heads(k_out + batch * ko_batch + token * ko_token, ko_head, ko_step, k_heads, half, size, k_first,
                     k_second, k_rest, cosine, sine, INTERLEAVED, K_HEADS, HALF, REST, K_WHOLE)  # fmt: skip


def rope_tables(positions: int, dim: int, base: float = 10000.0, dtype: Any = "float32") -> tuple[Any, Any]:
    """Cosines and sines for positions 0..positions-1 of ``dim`` rotated elements: two (positions, dim/2) arrays."""
    import numpy as np

    frequency = base ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
    angle = np.arange(positions, dtype=np.float64)[:, None] * frequency
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _launch_options(machine: Machine, programs: int, elements: int, itemsize: int) -> dict[str, Any]:
    """Warps for a program that rotates ``elements`` pairs: two 16-byte accesses of each half for a thread, one where
    programs are few."""
    if not machine.gpu:
        return options()
    each = max(1, 16 // itemsize) * (1 if programs < 2 * machine.processors else 2)
    warps = 1
    while warps < 16 and elements > 32 * warps * each:
        warps *= 2
    return options(num_warps=warps)


def _specs(q: Any, k: Any, *_: Any, **__: Any) -> tuple[Spec, ...]:
    return tuple(Spec(x.shape, x.dtype) for x in (q, k) if x is not None)


@operator(outputs=_specs)
def rope(q: Any, k: Any, cos: Any, sin: Any, *, positions: Any = None, offset: Any = 0, interleaved: bool = False,
         out: tuple[Any, Any] | None = None) -> tuple[Any, Any]:  # fmt: skip
    """Rotates ``q`` and ``k`` of shape (batch, tokens, heads, size); K may have fewer heads, or be None.

    ``cos`` and ``sin`` are (positions, r/2) tables, float32 or float16. A token's position is
    ``positions[batch, token]`` (or ``positions[token]``), else ``offset`` + token, where ``offset`` is an int or an
    integer array of one element. Any strides: views of one fused QKV are fine. ``out=(q, k)`` rotates in place. float32
    inside, one rounding.
    """
    batches, tokens, q_heads, size = q.shape
    half = cos.shape[-1]
    if 2 * half > size:
        raise ValueError(f"cos: expected at most {size // 2} columns (half of a head of {size}), got {half}")
    if tuple(cos.shape) != tuple(sin.shape) or strides(cos)[1] != 1 or strides(sin)[1] != 1:
        raise ValueError("sin: expected the shape of cos, both with contiguous rows")
    if k is not None and (k.shape[0], k.shape[1], k.shape[3]) != (batches, tokens, size):
        raise ValueError(f"k: expected shape ({batches}, {tokens}, heads, {size}), got {tuple(k.shape)}")
    q_out, k_out = out or (None, None)
    q_out = output(q_out, Spec(q.shape, q.dtype), q, "out[0]")
    k_out = None if k is None else output(k_out, Spec(k.shape, k.dtype), k, "out[1]")
    in_memory = not isinstance(offset, int)
    position_strides = (0, 0)
    if positions is not None:
        position_strides = (0, *strides(positions)) if positions.ndim == 1 else strides(positions)
    absent = (0, 0, 0, 0)
    rest = size - 2 * half
    k_heads = 0 if k is None else k.shape[2]
    q_side, k_side, half_side = (tile_side(q_heads, 1), tile_side(k_heads, 1) if k_heads else 1,
                                 tile_side(half, 1 if half < 16 else 16))  # fmt: skip
    rope_kernel[(tokens, batches)](
        q, k, q_out, k_out, cos, sin, positions, offset, *strides(q), *(absent if k is None else strides(k)),
        *strides(q_out), *(absent if k is None else strides(k_out)), strides(cos)[0], strides(sin)[0],
        *position_strides, q_heads, k_heads, half, size,
        OFFSET_IN_MEMORY=in_memory, INTERLEAVED=interleaved, Q_HEADS=q_side,
        K_HEADS=k_side, HALF=half_side,
        REST=tile_side(rest, 1 if rest < 16 else 16) if rest else 0,
        Q_WHOLE=q_side == q_heads and half_side == half, K_WHOLE=k_side == k_heads and half_side == half,
        **_launch_options(machine_of(q), tokens * batches, q_side * half_side, q.itemsize),
    )  # fmt: skip
    return q_out, k_out
