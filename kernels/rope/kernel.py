"""Rotary position embedding of Q and K in one launch: one program per token, all heads of both.

The angles of a token are read once and serve every head. "half" pairs element i with i + r/2 (Llama, Qwen, Granite);
"interleaved" pairs 2i with 2i + 1 (GPT-J). Only the first r = 2 · cos.shape[-1] elements of a head
rotate; the rest is copied.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import Machine, machine_of, options
from kiln.kernels.operator import Spec, operator, output, strides, tile_side


@kiln.jit
def _rotate_heads(x, y, x_head, x_step, y_head, y_step, cos, sin, heads, half, size,
                  INTERLEAVED: kl.constexpr, HEADS: kl.constexpr, HALF: kl.constexpr, REST: kl.constexpr):  # fmt: skip
    """Rotates `heads` heads that start at `x` into `y`; cos and sin are float32 of shape [1, HALF]."""
    head = kl.arange(0, HEADS)[:, None]
    if INTERLEAVED:
        column = kl.arange(0, 2 * HALF)[None, :]
        mask = (head < heads) & (column < 2 * half)
        pairs = kl.load(x + head * x_head + column * x_step, mask=mask, other=0.0).to(kl.float32)
        first, second = kl.split(kl.reshape(pairs, (HEADS, HALF, 2)))
        rotated = kl.join(first * cos - second * sin, second * cos + first * sin)
        result = kl.reshape(rotated, (HEADS, 2 * HALF)).to(y.dtype.element_ty)
        kl.store(y + head * y_head + column * y_step, result, mask=mask)
    else:
        column = kl.arange(0, HALF)[None, :]
        mask = (head < heads) & (column < half)
        source = x + head * x_head + column * x_step
        target = y + head * y_head + column * y_step
        first = kl.load(source, mask=mask, other=0.0).to(kl.float32)
        second = kl.load(source + half * x_step, mask=mask, other=0.0).to(kl.float32)
        kl.store(target, (first * cos - second * sin).to(y.dtype.element_ty), mask=mask)
        kl.store(target + half * y_step, (second * cos + first * sin).to(y.dtype.element_ty), mask=mask)
    if REST > 0:
        tail = 2 * half + kl.arange(0, REST)[None, :]
        keep = (head < heads) & (tail < size)
        kl.store(y + head * y_head + tail * y_step, kl.load(x + head * x_head + tail * x_step, mask=keep), mask=keep)


@kiln.jit
def rope_kernel(q, k, q_out, k_out, cos, sin, positions, offset,
                q_batch, q_token, q_head, q_step, k_batch, k_token, k_head, k_step,
                qo_batch, qo_token, qo_head, qo_step, ko_batch, ko_token, ko_head, ko_step,
                cos_row, sin_row, position_batch, position_token, q_heads, k_heads, half, size,
                OFFSET_IN_MEMORY: kl.constexpr, INTERLEAVED: kl.constexpr, Q_HEADS: kl.constexpr,
                K_HEADS: kl.constexpr, HALF: kl.constexpr, REST: kl.constexpr):  # fmt: skip
    token = kl.program_id(0)
    batch = kl.program_id(1)
    if positions is not None:
        position = kl.load(positions + batch * position_batch + token * position_token).to(kl.int32)
    elif OFFSET_IN_MEMORY:
        position = kl.load(offset).to(kl.int32) + token
    else:
        position = offset + token
    angle = kl.arange(0, HALF)[None, :]
    cosine = kl.load(cos + position * cos_row + angle, mask=angle < half, other=0.0).to(kl.float32)
    sine = kl.load(sin + position * sin_row + angle, mask=angle < half, other=0.0).to(kl.float32)
    _rotate_heads(q + batch * q_batch + token * q_token, q_out + batch * qo_batch + token * qo_token, q_head, q_step,
                  qo_head, qo_step, cosine, sine, q_heads, half, size, INTERLEAVED, Q_HEADS, HALF, REST)  # fmt: skip
    if k is not None:
        _rotate_heads(k + batch * k_batch + token * k_token, k_out + batch * ko_batch + token * ko_token, k_head,
                      k_step, ko_head, ko_step, cosine, sine, k_heads, half, size, INTERLEAVED, K_HEADS, HALF,
                      REST)  # fmt: skip


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
    q_side, half_side = tile_side(q_heads, 1), tile_side(half, 1 if half < 16 else 16)
    rope_kernel[(tokens, batches)](
        q, k, q_out, k_out, cos, sin, positions, offset, *strides(q), *(absent if k is None else strides(k)),
        *strides(q_out), *(absent if k is None else strides(k_out)), strides(cos)[0], strides(sin)[0],
        *position_strides, q_heads, 0 if k is None else k.shape[2], half, size,
        OFFSET_IN_MEMORY=in_memory, INTERLEAVED=interleaved, Q_HEADS=q_side,
        K_HEADS=1 if k is None else tile_side(k.shape[2], 1), HALF=half_side,
        REST=tile_side(rest, 1 if rest < 16 else 16) if rest else 0,
        **_launch_options(machine_of(q), tokens * batches, q_side * half_side, q.itemsize),
    )  # fmt: skip
    return q_out, k_out
