"""Rotary position embedding of Q and K in one launch.

On a GPU a program rotates a group of one token's heads and asks for everything before it uses anything; on the CPU it
rotates all heads of a token. "half" pairs element i with i + r/2 (Llama, Qwen, Granite); "interleaved" pairs 2i with
2i + 1 (GPT-J). Only the first r = 2 · cos.shape[-1] elements of a head rotate; the rest is copied.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.machine import Machine, machine_of, options
from kiln.kernels.operator import (
    FLOATS,
    Spec,
    Types,
    check_apart,
    is_array,
    operator,
    output,
    show,
    strides,
    tile_side,
    type_name,
)
from kiln.kernels.rows import read


@kiln.jit
def _angles(cos, sin, positions, offset, token, batch, cos_row, sin_row, position_batch, position_token, rows, half,
            OFFSET_IN_MEMORY: kl.constexpr, HALF: kl.constexpr, WHOLE: kl.constexpr):  # fmt: skip
    """Cosines and sines of the token's position: float32 of shape [1, HALF]."""
    if positions is not None:
        position = kl.load(positions + batch * position_batch + token * position_token)
    elif OFFSET_IN_MEMORY:
        position = kl.load(offset) + token
    else:
        position = offset + token
    if positions is not None or OFFSET_IN_MEMORY:
        kl.device_assert((position >= 0) & (position < rows), "rope: a position outside the tables")
        position = position.to(kl.int32)
    angle = kl.arange(0, HALF)[None, :]
    mask = None if WHOLE else angle < half
    cosine = read(cos + position * cos_row + angle, mask)
    sine = read(sin + position * sin_row + angle, mask)
    return cosine.to(kl.float32), sine.to(kl.float32)


@kiln.jit
def _load_group(q, k, q_out, k_out, group, q_head, q_step, k_head, k_step, qo_head, qo_step, ko_head, ko_step, q_heads,
                k_heads, half, size, INTERLEAVED: kl.constexpr, Q_GROUPS: kl.constexpr, HEADS: kl.constexpr,
                HALF: kl.constexpr, REST: kl.constexpr, WHOLE: kl.constexpr):  # fmt: skip
    """Both elements of a group's pairs, what does not rotate (None if all does), and where the result goes."""
    x, y, x_head, x_step, y_head, y_step, heads = q, q_out, q_head, q_step, qo_head, qo_step, q_heads
    first_head = group * HEADS
    if k is not None:
        # A choice between addresses: Q's groups come first, then K's.
        if group >= Q_GROUPS:
            x, y, x_head, x_step, y_head, y_step, heads = k, k_out, k_head, k_step, ko_head, ko_step, k_heads
            first_head = (group - Q_GROUPS) * HEADS
    head = first_head + kl.arange(0, HEADS)[:, None]
    x += head * x_head
    y += head * y_head
    inside = None if WHOLE else head < heads
    if INTERLEAVED:
        column = kl.arange(0, 2 * HALF)[None, :]
        mask = None if WHOLE else inside & (column < 2 * half)
        first, second = kl.split(kl.reshape(read(x + column * x_step, mask), (HEADS, HALF, 2)))
    else:
        column = kl.arange(0, HALF)[None, :]
        mask = None if WHOLE else inside & (column < half)
        first = read(x + column * x_step, mask)
        second = read(x + (half + column) * x_step, mask)
    rest = None
    if REST > 0:
        tail = 2 * half + kl.arange(0, REST)[None, :]
        rest = read(x + tail * x_step, (head < heads) & (tail < size))
    return first.to(kl.float32), second.to(kl.float32), rest, y, y_step, mask, head, heads


@kiln.jit
def _store_group(first, second, rest, y, y_step, mask, head, heads, cosine, sine, half, size,
                 INTERLEAVED: kl.constexpr, HEADS: kl.constexpr, HALF: kl.constexpr,
                 REST: kl.constexpr):  # fmt: skip
    left = (first * cosine - second * sine).to(y.dtype.element_ty)
    right = (second * cosine + first * sine).to(y.dtype.element_ty)
    if INTERLEAVED:
        column = kl.arange(0, 2 * HALF)[None, :]
        kl.store(y + column * y_step, kl.reshape(kl.join(left, right), (HEADS, 2 * HALF)), mask=mask)
    else:
        column = kl.arange(0, HALF)[None, :]
        kl.store(y + column * y_step, left, mask=mask)
        kl.store(y + (half + column) * y_step, right, mask=mask)
    if REST > 0:
        tail = 2 * half + kl.arange(0, REST)[None, :]
        kl.store(y + tail * y_step, rest, mask=(head < heads) & (tail < size))


@kiln.jit
def rope_kernel(q, k, q_out, k_out, cos, sin, positions, offset,
                q_batch, q_token, q_head, q_step, k_batch, k_token, k_head, k_step,
                qo_batch, qo_token, qo_head, qo_step, ko_batch, ko_token, ko_head, ko_step,
                cos_row, sin_row, position_batch, position_token, rows, q_heads, k_heads, half, size,
                OFFSET_IN_MEMORY: kl.constexpr, INTERLEAVED: kl.constexpr, Q_GROUPS: kl.constexpr,
                GROUPS: kl.constexpr, HEADS: kl.constexpr, HALF: kl.constexpr, REST: kl.constexpr,
                WHOLE: kl.constexpr, SERIAL: kl.constexpr, K_HEADS: kl.constexpr):  # fmt: skip
    batch = kl.program_id(1)
    token = kl.program_id(0) if SERIAL else kl.program_id(0) // GROUPS
    # A step at a time: the sum of a wide and a narrow product would have wrapped in the narrow one.
    q = q + batch * q_batch + token * q_token
    q_out = q_out + batch * qo_batch + token * qo_token
    if k is not None:
        k = k + batch * k_batch + token * k_token
        k_out = k_out + batch * ko_batch + token * ko_token
    if SERIAL:
        cosine, sine = _angles(cos, sin, positions, offset, token, batch, cos_row, sin_row, position_batch,
                               position_token, rows, half, OFFSET_IN_MEMORY, HALF, WHOLE)  # fmt: skip
        first, second, rest, y, y_step, mask, head, heads = _load_group(
            q, None, q_out, None, 0, q_head, q_step, 0, 1, qo_head, qo_step, 0, 1, q_heads, 0, half, size, INTERLEAVED,
            1, HEADS, HALF, REST, WHOLE)  # fmt: skip
        _store_group(first, second, rest, y, y_step, mask, head, heads, cosine, sine, half, size, INTERLEAVED, HEADS,
                     HALF, REST)  # fmt: skip
        if k is not None:
            first, second, rest, y, y_step, mask, head, heads = _load_group(
                k, None, k_out, None, 0, k_head, k_step, 0, 1, ko_head, ko_step, 0, 1, k_heads, 0, half, size,
                INTERLEAVED, 1, K_HEADS, HALF, REST, WHOLE)  # fmt: skip
            _store_group(first, second, rest, y, y_step, mask, head, heads, cosine, sine, half, size, INTERLEAVED,
                         K_HEADS, HALF, REST)  # fmt: skip
    else:
        # Heads first: the position may have to be read before the angles can be asked for.
        first, second, rest, y, y_step, mask, head, heads = _load_group(
            q, k, q_out, k_out, kl.program_id(0) % GROUPS, q_head, q_step, k_head, k_step, qo_head, qo_step, ko_head,
            ko_step, q_heads, k_heads, half, size, INTERLEAVED, Q_GROUPS, HEADS, HALF, REST, WHOLE)  # fmt: skip
        cosine, sine = _angles(cos, sin, positions, offset, token, batch, cos_row, sin_row, position_batch,
                               position_token, rows, half, OFFSET_IN_MEMORY, HALF, WHOLE)  # fmt: skip
        _store_group(first, second, rest, y, y_step, mask, head, heads, cosine, sine, half, size, INTERLEAVED, HEADS,
                     HALF, REST)  # fmt: skip


def rope_tables(positions: int, dim: int, base: float = 10000.0, dtype: Any = "float32") -> tuple[Any, Any]:
    """Cosines and sines for positions 0..positions-1 of ``dim`` rotated elements: two (positions, dim/2) arrays."""
    import numpy as np

    frequency = base ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
    angle = np.arange(positions, dtype=np.float64)[:, None] * frequency
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _group_of_heads(
    q_heads: int, k_heads: int, half_side: int, tokens: int, itemsize: int, machine: Machine
) -> tuple[int, int]:
    """How many heads a program rotates, and by how many warps.

    A power of two that divides both numbers of heads, if that is not too small: so many that a thread makes two 16-byte
    accesses of each half, or one where programs are few.
    """
    few = tokens * (q_heads + k_heads) * half_side * itemsize < machine.processors << 13
    each = max(1, 16 // itemsize) * (1 if few else 2)
    most = max(1, 64 * each // half_side)
    least = max(1, 32 * each // half_side)
    common = math.gcd(q_heads, k_heads) if k_heads else q_heads
    heads = max(1, common & -common)
    while heads > most:
        heads //= 2
    if heads < least:
        heads = min(tile_side(max(q_heads, k_heads), 1), least)
    return heads, max(1, min(16, heads * half_side // (32 * each)))


def _specs(q: Any, k: Any, *_: Any, **__: Any) -> tuple[Spec, ...]:
    return tuple(Spec(x.shape, x.dtype) for x in (q, k) if x is not None)


def _check_positions(positions: Any, offset: Any, batches: int, tokens: int, rows: int) -> bool:
    """Checks what is known before the launch of where tokens are; whether the offset is in memory."""
    if positions is not None:
        if tuple(positions.shape) not in ((tokens,), (batches, tokens)):
            raise ArgumentError(
                "positions",
                f"expected shape ({tokens},) or ({batches}, {tokens}) (because q has them), got "
                f"{tuple(positions.shape)}",
            )
        return False
    if isinstance(offset, numbers.Integral) and not isinstance(offset, bool):
        if tokens and not 0 <= offset <= rows - tokens:
            raise ArgumentError(
                "offset",
                f"expected a number from 0 to {rows - tokens} (because cos has {rows} rows, for {tokens} tokens), got "
                f"{offset}",
            )
        return False
    if not is_array(offset) or math.prod(offset.shape) != 1 or type_name(offset.dtype) not in ("int32", "int64"):
        raise ArgumentError(
            "offset", f"expected an integer, or an array of one int32 or int64 (the first position), got {show(offset)}"
        )
    return True


@operator(
    outputs=_specs,
    arrays={"q": "(batch, tokens, heads, size)", "k": "(batch, tokens, kv_heads, size)", "cos": "(positions, half)",
            "sin": "(positions, half)", "positions": "(tokens) or (batch, tokens)",
            "out[0]": "(batch, tokens, heads, size)", "out[1]": "(batch, tokens, kv_heads, size)"},
    types=(Types(q=FLOATS, k="q", cos=FLOATS, sin="cos", positions=("int32", "int64"),
                 **{"out[0]": FLOATS, "out[1]": FLOATS}, inside="float32", result="q, k"),),
)  # fmt: skip
def rope(q: Any, k: Any | None, cos: Any, sin: Any, *, positions: Any = None, offset: Any = 0,
         interleaved: bool = False, out: tuple[Any, Any] | None = None) -> tuple[Any, Any]:  # fmt: skip
    """Rotates ``q`` and ``k`` of shape (batch, tokens, heads, size); K may have fewer heads, or be None.

    ``cos`` and ``sin`` are (positions, r/2) tables. A token's position is ``positions[batch, token]`` (or
    ``positions[token]``), else ``offset`` + token, where ``offset`` is an int or an integer array of one element; one
    outside the tables stops the kernel. Any strides: views of one fused QKV are fine. ``out=(q, k)`` rotates in place.
    float32 inside, one rounding.
    """
    batches, tokens, q_heads, size = q.shape
    half = cos.shape[-1]
    if 2 * half > size:
        raise ArgumentError("cos", f"expected at most {size // 2} columns (half of a head of {size}), got {half}")
    if tuple(cos.shape) != tuple(sin.shape) or strides(cos)[1] != 1 or strides(sin)[1] != 1:
        raise ArgumentError(
            "sin",
            f"expected the shape of cos, both with contiguous rows, got shapes {tuple(cos.shape)} and "
            f"{tuple(sin.shape)} with strides {strides(cos)} and {strides(sin)}",
        )
    if k is not None and (k.shape[0], k.shape[1], k.shape[3]) != (batches, tokens, size):
        raise ArgumentError("k", f"expected shape ({batches}, {tokens}, heads, {size}), got {tuple(k.shape)}")
    in_memory = _check_positions(positions, offset, batches, tokens, cos.shape[0])
    given = out or (None, None)
    tables = {"cos": cos, "sin": sin}
    q_out = output(given[0], Spec(q.shape, q.dtype), q, "out[0]", {"q": q, "k": k, **tables}, ("q",))
    k_out = None
    if k is not None:
        k_out = output(given[1], Spec(k.shape, k.dtype), k, "out[1]", {"k": k, "q": q, **tables}, ("k",))
        if given[0] is not None and given[1] is not None:
            check_apart("out[1]", k_out, "out[0]", q_out)
    elif given[1] is not None:
        raise ArgumentError("out[1]", f"expected None (because k is None), got {show(given[1])}")
    position_strides = (0, 0)
    if positions is not None:
        position_strides = (0, *strides(positions)) if positions.ndim == 1 else strides(positions)
    absent = (0, 0, 0, 0)
    rest = size - 2 * half
    k_heads = 0 if k is None else k.shape[2]
    half_side = tile_side(half, 1 if half < 16 else 16)
    machine = machine_of(q)
    serial = not machine.gpu
    if serial:
        heads, k_side, warps = tile_side(q_heads, 1), tile_side(max(k_heads, 1), 1), 1
    else:
        heads, warps = _group_of_heads(q_heads, k_heads, half_side, tokens * batches, q.itemsize, machine)
        k_side = heads
    q_groups, k_groups = -(-q_heads // heads), -(-k_heads // k_side)
    rope_kernel[(tokens if serial else tokens * (q_groups + k_groups), batches)](
        q, k, q_out, k_out, cos, sin, positions, offset, *strides(q), *(absent if k is None else strides(k)),
        *strides(q_out), *(absent if k is None else strides(k_out)), strides(cos)[0], strides(sin)[0],
        *position_strides, cos.shape[0], q_heads, k_heads, half, size, OFFSET_IN_MEMORY=in_memory,
        INTERLEAVED=interleaved, Q_GROUPS=q_groups, GROUPS=q_groups + k_groups, HEADS=heads, HALF=half_side,
        REST=tile_side(rest, 1 if rest < 16 else 16) if rest else 0,
        WHOLE=q_heads % heads == 0 and k_heads % k_side == 0 and half_side == half,
        SERIAL=serial, K_HEADS=k_side, **(options() if serial else options(num_warps=warps)),
    )  # fmt: skip
    return q_out, k_out
