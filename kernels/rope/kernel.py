"""Rotary position embedding of Q and K in one launch.

On a GPU a program rotates a group of one token's heads, and issues all its loads before it uses any; on the CPU it
rotates all heads of a token. "half" pairs element i with i + r/2 (Llama, Qwen, Granite); "interleaved" pairs 2i with 2i
+ 1 (GPT-J). Only the first r = 2 · cos.shape[-1] elements of a head rotate; the rest is copied.
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
    by_name,
    check_apart,
    check_value,
    is_array,
    is_integer,
    is_number,
    operator,
    output,
    show,
    strides,
    tile_side,
    type_name,
)
from kiln.kernels.views import Heads, heads_view, promise


@kiln.struct
class RopeForm:
    """How a program holds the heads of a token: HEADS of them (K_HEADS of K), each as HALF pairs and REST elements that
    do not rotate; PLAN of the kernel. SERIAL: all heads of Q, then all of K; otherwise one of GROUPS groups, of which
    the first Q_GROUPS belong to Q. WHOLE: heads and pairs fill the tiles. INTERLEAVED: the elements of a pair are
    adjacent."""

    INTERLEAVED: kl.constexpr
    Q_GROUPS: kl.constexpr
    GROUPS: kl.constexpr
    HEADS: kl.constexpr
    K_HEADS: kl.constexpr
    HALF: kl.constexpr
    REST: kl.constexpr
    WHOLE: kl.constexpr
    SERIAL: kl.constexpr


@kiln.struct
class Angles:
    """Tables of cosines and sines with ``rows`` positions of ``half`` pairs, and the tokens' positions in them:
    ``positions``, or ``offset`` plus the token."""

    cos: Any
    sin: Any
    positions: Any
    offset: Any
    cos_row: Any
    sin_row: Any
    position_batch: Any
    position_token: Any
    rows: Any
    half: Any
    OFFSET_IN_MEMORY: kl.constexpr

    @kiln.jit
    def of(self, batch, token, PLAN: kl.constexpr):
        """Cosines and sines of the token's position: float32 of shape [1, HALF]."""
        if self.positions is not None:
            position = kl.load(self.positions + batch * self.position_batch + token * self.position_token)
        elif self.OFFSET_IN_MEMORY:
            position = kl.load(self.offset) + token
        else:
            position = self.offset + token
        if self.positions is not None or self.OFFSET_IN_MEMORY:
            kl.device_assert((position >= 0) & (position < self.rows), "rope: a position outside the tables")
            position = position.to(kl.int32)
        angle = kl.arange(0, PLAN.HALF)[None, :]
        promise(PLAN.WHOLE, 0, PLAN.HALF, self.half)
        there = angle < self.half
        cosine = kl.load(self.cos + position * self.cos_row + angle, mask=there, other=0.0)
        sine = kl.load(self.sin + position * self.sin_row + angle, mask=there, other=0.0)
        return cosine.to(kl.float32), sine.to(kl.float32)


@kiln.struct
class Way:
    """Where the heads of one token are read (x) and written (y)."""

    x: Any
    y: Any
    x_head: Any
    x_step: Any
    y_head: Any
    y_step: Any
    heads: Any


@kiln.jit
def _way(x, y):
    return Way(x.data, y.data, x.head, x.step, y.head, y.step, x.heads)


@kiln.struct
class Group:
    """Some heads of one token: their numbers, and pointers to the first element of each."""

    way: Way
    x: Any
    y: Any
    head: Any
    half: Any
    size: Any
    HEADS: kl.constexpr
    PLAN: kl.constexpr

    @kiln.jit
    def pairs(self):
        """The columns of the pairs (of their first elements, where pairs are not adjacent), and their mask."""
        WIDTH: kl.constexpr = 2 * self.PLAN.HALF if self.PLAN.INTERLEAVED else self.PLAN.HALF
        columns = 2 * self.half if self.PLAN.INTERLEAVED else self.half
        promise(self.PLAN.WHOLE, 0, WIDTH, columns)
        column = kl.arange(0, WIDTH)[None, :]
        return column, (self.head < self.way.heads) & (column < columns)

    @kiln.jit
    def rest(self):
        """The columns that do not rotate, and their mask."""
        column = 2 * self.half + kl.arange(0, self.PLAN.REST)[None, :]
        return column, (self.head < self.way.heads) & (column < self.size)

    @kiln.jit
    def load(self):
        """Both elements of each pair, and the elements that do not rotate (None if all do)."""
        x, step = self.x, self.way.x_step
        column, mask = self.pairs()
        if self.PLAN.INTERLEAVED:
            both = kl.load(x + column * step, mask=mask, other=0.0)
            first, second = kl.split(kl.reshape(both, (self.HEADS, self.PLAN.HALF, 2)))
        else:
            first = kl.load(x + column * step, mask=mask, other=0.0)
            second = kl.load(x + (self.half + column) * step, mask=mask, other=0.0)
        rest = None
        if self.PLAN.REST > 0:
            tail, inside = self.rest()
            rest = kl.load(x + tail * step, mask=inside, other=0.0)
        return first.to(kl.float32), second.to(kl.float32), rest

    @kiln.jit
    def store(self, values, angles):
        """Writes (a · cos - b · sin, b · cos + a · sin) for each pair (a, b), and the rest unchanged."""
        y, step, kind = self.y, self.way.y_step, self.y.dtype.element_ty
        first, second, rest = values
        cosine, sine = angles
        left = (first * cosine - second * sine).to(kind)
        right = (second * cosine + first * sine).to(kind)
        column, mask = self.pairs()
        if self.PLAN.INTERLEAVED:
            both = kl.reshape(kl.join(left, right), (self.HEADS, 2 * self.PLAN.HALF))
            kl.store(y + column * step, both, mask=mask)
        else:
            kl.store(y + column * step, left, mask=mask)
            kl.store(y + (self.half + column) * step, right, mask=mask)
        if self.PLAN.REST > 0:
            tail, inside = self.rest()
            kl.store(y + tail * step, rest, mask=inside)


@kiln.jit
def _group(way, first_head, half, size, HEADS: kl.constexpr, PLAN: kl.constexpr):
    """HEADS heads of one token, starting at ``first_head``."""
    promise(PLAN.WHOLE, first_head, HEADS, way.heads)
    head = first_head + kl.arange(0, HEADS)[:, None]
    return Group(way, way.x + head * way.x_head, way.y + head * way.y_head, head, half, size, HEADS, PLAN)


@kiln.jit
def rope_kernel(q: Heads, k: Heads | None, q_out: Heads, k_out: Heads | None, angles: Angles, size, PLAN: kl.constexpr):
    """(a, b) → (a · cos - b · sin, b · cos + a · sin) for the pairs of every head of Q and of K"""
    batch = kl.program_id(1)
    token = kl.program_id(0) if PLAN.SERIAL else kl.program_id(0) // PLAN.GROUPS
    q, q_out = q.at_token(batch, token), q_out.at_token(batch, token)
    if k is not None:
        k, k_out = k.at_token(batch, token), k_out.at_token(batch, token)
    if PLAN.SERIAL:
        turn = angles.of(batch, token, PLAN)
        group = _group(_way(q, q_out), 0, angles.half, size, PLAN.HEADS, PLAN)
        group.store(group.load(), turn)
        if k is not None:
            group = _group(_way(k, k_out), 0, angles.half, size, PLAN.K_HEADS, PLAN)
            group.store(group.load(), turn)
    else:
        place = kl.program_id(0) % PLAN.GROUPS
        way, first_head = _way(q, q_out), place * PLAN.HEADS
        if k is not None:
            # Selects addresses: Q's groups come first, then K's.
            if place >= PLAN.Q_GROUPS:
                way, first_head = _way(k, k_out), (place - PLAN.Q_GROUPS) * PLAN.HEADS
        # Load the heads first: the position may have to be read before the angles can be.
        group = _group(way, first_head, angles.half, size, PLAN.HEADS, PLAN)
        values = group.load()
        group.store(values, angles.of(batch, token, PLAN))


_PAIRS = range(2, 1 << 31, 2)
_TABLE_TYPES = ("float16", "float32", "float64", "bfloat16")


def _is_table_type(dtype: Any) -> bool:
    import numpy as np

    try:
        return type_name(np.dtype(dtype)) in _TABLE_TYPES
    except TypeError:
        return False


@by_name
def rope_tables(positions: int, dim: int, base: float = 10000.0, dtype: Any = "float32") -> tuple[Any, Any]:
    """Cosines and sines for positions 0..positions-1 of ``dim`` rotated elements: two (positions, dim/2) arrays.

    Shapes and types; others are refused::

        positions  an integer, at least 0
        dim        an even integer, at least 2
        base       a number above 0
        dtype      float16, float32, float64, bfloat16 (from ml_dtypes)

        inside     float64
        result     numpy arrays of dtype
    """
    import numpy as np

    check_value("positions", positions, "an integer, at least 0", is_integer(positions) and positions >= 0)
    check_value(
        "dim", dim, "an even integer, at least 2 (because elements turn in pairs)", is_integer(dim) and dim in _PAIRS
    )
    check_value("base", base, "a number above 0", is_number(base) and 0 < base < math.inf)
    check_value("dtype", dtype, f"a float type of numpy's ({', '.join(_TABLE_TYPES)})", _is_table_type(dtype))
    frequency = base ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
    angle = np.arange(positions, dtype=np.float64)[:, None] * frequency
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _group_of_heads(
    q_heads: int, k_heads: int, half_side: int, tokens: int, itemsize: int, machine: Machine
) -> tuple[int, int]:
    """How many heads a program rotates, and with how many warps.

    The number of heads is a power of two that divides both head counts, if that is not too small: enough for a thread
    to make two 16-byte accesses to each half, or one where programs are few.
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
    """Checks what is known about positions before the launch; returns whether the offset is in memory."""
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
    arrays={
        "q": "(batch, tokens, heads, size)",
        "k": "(batch, tokens, kv_heads, size)",
        "cos": "(positions, half)",
        "sin": "(positions, half)",
        "positions": "(tokens) or (batch, tokens)",
        "out[0]": "(batch, tokens, heads, size)",
        "out[1]": "(batch, tokens, kv_heads, size)",
    },
    types=(
        Types(
            q=FLOATS,
            k="q",
            cos=FLOATS,
            sin="cos",
            positions=("int32", "int64"),
            **{"out[0]": FLOATS, "out[1]": FLOATS},
            inside="float32",
            result="q, k",
        ),
    ),
    repeatable=True,
)
def rope(
    q: Any,
    k: Any | None,
    cos: Any,
    sin: Any,
    *,
    positions: Any = None,
    offset: Any = 0,
    interleaved: bool = False,
    out: tuple[Any, Any] | None = None,
) -> tuple[Any, Any]:
    """Rotates ``q`` and ``k`` of shape (batch, tokens, heads, size); K may have fewer heads, or be None.

    ``cos`` and ``sin`` are (positions, r/2) tables. A token's position is ``positions[batch, token]`` (or
    ``positions[token]``), else ``offset`` + token, where ``offset`` is an int or an integer array of one element; a
    position outside the tables stops the kernel. Any strides: views of one fused QKV are fine. ``out=(q, k)`` rotates
    in place. Arithmetic is float32, with one rounding to the type of the output.
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
    plan = RopeForm(
        interleaved,
        q_groups,
        q_groups + k_groups,
        heads,
        k_side,
        half_side,
        tile_side(rest, 1 if rest < 16 else 16) if rest else 0,
        q_heads % heads == 0 and k_heads % k_side == 0 and half_side == half,
        serial,
    )
    angles = Angles(
        cos, sin, positions, offset, strides(cos)[0], strides(sin)[0], *position_strides, cos.shape[0], half, in_memory
    )
    rope_kernel[(tokens if serial else tokens * (q_groups + k_groups), batches)](
        heads_view(q),
        heads_view(k),
        heads_view(q_out),
        heads_view(k_out),
        angles,
        size,
        PLAN=plan,
        **(options() if serial else options(num_warps=warps)),
    )
    return q_out, k_out
