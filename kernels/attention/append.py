"""RoPE on new queries and keys, and the writes of keys and values into a cache, in one launch.

`append` writes the cache that `decode_attention` reads, `append_quantized` the one that `decode_quantized` reads: one
new token or a whole prompt, whose 16-bit keys and values need never all be in memory. A sequence's ``lengths`` counts
its tokens including the new ones, the last of which are written: new token i of ``tokens`` has place and position
length - tokens + i (none if that is negative: the prompts of a batch end together).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.decode import Lengths, Pages
from kiln.kernels.attention.quantized import BLOCK, GROUP, Codes, check_quantized, codes_of
from kiln.kernels.machine import Machine, machine_of, options
from kiln.kernels.operator import FLOATS, Spec, Types, operator, output, strides, tile_side
from kiln.kernels.views import Heads, heads_view

# The largest step of four-bit codes: keys are multiplied by 2^12 times it, in float16.
MOST_STEP: kl.constexpr = kl.constexpr(15.0)


@kiln.struct
class Angles:
    """Tables of cosines and sines with ``rows`` positions of ``half`` pairs."""

    cos: Any
    sin: Any
    cos_row: Any
    sin_row: Any
    rows: Any
    half: Any
    INTERLEAVED: kl.constexpr


@dataclass(frozen=True)
class AppendPlan:
    """``heads`` of one token per program, ``side`` elements each; all heads are ``q_groups`` and ``k_groups`` of
    these."""

    heads: int
    side: int
    q_groups: int
    k_groups: int
    num_warps: int = 4
    bits: int = 16
    size: int = 0

    def options(self, machine: Machine) -> dict[str, Any]:
        return options(num_warps=self.num_warps) if machine.gpu else options()


@kiln.jit
def turned_by(x, step, angles, position, column, mask):
    """Elements of heads at ``column``, in float32: a · cos - b · sin and b · cos + a · sin for pairs (a, b); elements
    after the pairs are unchanged."""
    value = kl.load(x + column * step, mask=mask, other=0.0).to(kl.float32)
    if angles is None:
        return value
    pairs = column < 2 * angles.half
    if angles.INTERLEAVED:
        is_first, angle, other = column % 2 == 0, column // 2, column ^ 1
    else:
        is_first = column < angles.half
        angle, other = kl.where(is_first, column, column - angles.half), kl.where(is_first, angles.half, -angles.half)
        other = column + other
    known = mask & pairs
    partner = kl.load(x + other * step, mask=known, other=0.0).to(kl.float32)
    cosine = kl.load(angles.cos + position * angles.cos_row + angle, mask=known, other=1.0).to(kl.float32)
    sine = kl.load(angles.sin + position * angles.sin_row + angle, mask=known, other=0.0).to(kl.float32)
    return kl.where(pairs, value * cosine + kl.where(is_first, -partner, partner) * sine, value)


@kiln.jit
def checked(position, angles):
    if angles is not None:
        kl.device_assert(position < angles.rows, "append: a position outside the tables")
        return kl.minimum(position, angles.rows - 1)
    return position


@kiln.jit
def move(x: Heads, y, y_step, y_head, batch, token, first, angles, position, size, PLAN: kl.constexpr):
    """Copies some heads of a token from x, rotated by angles, to the heads that begin at y."""
    head, column = (first + kl.arange(0, PLAN.heads))[:, None], kl.arange(0, PLAN.side)[None, :]
    mask = (head < x.heads) & (column < size) & (position >= 0)
    start = x.at_token(batch.to(kl.int64), token.to(kl.int64)).data + head * x.head
    value = turned_by(start, x.step, angles, checked(position, angles), column, mask)
    kl.store(y + head.to(kl.int64) * y_head + column * y_step, value.to(y.dtype.element_ty), mask=mask)


@kiln.jit
def place_of(x: Heads, pages, batch, position):
    """Where a cache holds the heads of a token."""
    if pages is None:
        return x.at_token(batch.to(kl.int64), position.to(kl.int64)).data
    page, token = pages.of(batch, position, position >= 0)
    return x.at_token(page, token.to(kl.int64)).data


@kiln.jit
def append_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    y: Heads,
    k_cache: Heads,
    v_cache: Heads,
    lengths: Lengths,
    pages: Pages | None,
    angles: Angles | None,
    tokens,
    size,
    PLAN: kl.constexpr,
):
    """Writes rotated queries to y, and rotated keys and values to the cache, for some heads of one token."""
    GROUPS: kl.constexpr = PLAN.q_groups + 2 * PLAN.k_groups
    token, group, batch = kl.program_id(0) // GROUPS, kl.program_id(0) % GROUPS, kl.program_id(1)
    position = lengths.checked(batch) - tokens + token
    if group < PLAN.q_groups:
        to = y.at_token(batch.to(kl.int64), token.to(kl.int64))
        first = group * PLAN.heads
        move(q, to.data, y.step, y.head, batch, token, first, angles, position, size, PLAN)
    elif group < PLAN.q_groups + PLAN.k_groups:
        to, first = place_of(k_cache, pages, batch, position), (group - PLAN.q_groups) * PLAN.heads
        move(k, to, k_cache.step, k_cache.head, batch, token, first, angles, position, size, PLAN)
    else:
        to, first = place_of(v_cache, pages, batch, position), (group - PLAN.q_groups - PLAN.k_groups) * PLAN.heads
        move(v, to, v_cache.step, v_cache.head, batch, token, first, None, position, size, PLAN)


# ---- quantised -------------------------------------------------------------------------------------------------------
@kiln.struct
class Group:
    """32 tokens of one head: the place of the first in the sequence, and which tokens are new: those from ``begin`` to
    before ``end``, which are the tokens of x from ``begin`` on."""

    x: Heads
    batch: Any
    head: Any
    first: Any
    begin: Any
    end: Any

    @kiln.jit
    def places(self):
        return self.first + kl.arange(0, GROUP)[:, None]

    @kiln.jit
    def are_new(self):
        place = self.places()
        return (place >= self.begin) & (place < self.end) & (place >= 0)

    @kiln.jit
    def load(self, recent, of_all, angles, HALF: kl.constexpr, PLAN: kl.constexpr):
        """The first or second half of the channels in float32; tokens that are not new come from ``recent``, if any."""
        x, place = self.x, self.places()
        column = HALF * (PLAN.size // 2) + kl.arange(0, PLAN.size // 2)[None, :]
        new = self.are_new() & (column < PLAN.size)
        token = kl.maximum(place - self.begin, 0).to(kl.int64)
        start = x.data + self.batch.to(kl.int64) * x.batch + self.head * x.head + token * x.token
        value = turned_by(start, x.step, angles, checked(kl.where(self.are_new(), place, 0), angles), column, new)
        if recent is None:
            return value
        old = recent + (of_all.to(kl.int64) * GROUP + place - self.first) * PLAN.size + column
        kept = kl.load(old, mask=(place < self.begin) & (column < PLAN.size), other=0.0)
        # Rounded like the recent tokens: a token's codes must not depend on when its group became complete.
        value = value.to(recent.dtype.element_ty).to(kl.float32)
        return kl.where(place < self.begin, kept.to(kl.float32), value)


@kiln.jit
def lane_bytes(codes: Codes, of_all, place, inside, channel, KEYS: kl.constexpr, PLAN: kl.constexpr):
    """The address of the byte of a token (if ``inside``) and a channel (of four bits, of the first half) in a head's
    block."""
    CHANNELS: kl.constexpr = PLAN.size * PLAN.bits // 8
    token = place % BLOCK
    if KEYS:
        lane = token % 8 * 4 + channel // 2 % 4
        byte = channel % 2 + channel // 8 % 2 * 2 + channel // 16 * 4 + token // 8 * (CHANNELS // 4)
    else:
        lane = channel % 8 * 4 + token // 2 % 4
        of_token = token % 2 + token // 8 * 2 if PLAN.bits == 8 else token // 8 + token % 2 * 2
        byte = of_token + channel // 8 * 4
    block = codes.number(of_all, place // BLOCK, inside)
    return codes.data + (block * 32 + lane) * (CHANNELS // 2) + byte


@kiln.jit
def place_of_token(codes: Codes, of_all, place, inside):
    """The index of a head's token in the array."""
    return codes.number(of_all, place // BLOCK, inside) * BLOCK + place % BLOCK


@kiln.jit
def whole_of(x, step):
    """How many steps it is to the nearest multiple. Exact halves are common, so an approximate quotient would give
    every machine a different cache."""
    return kl.floor(kl.div_rn(x, step) + 0.5)


@kiln.jit
def store_eight(codes: Codes, of_all, group: Group, low, high, KEYS: kl.constexpr, PLAN: kl.constexpr):
    """Stores eight-bit codes of the new tokens, and their scales."""
    new, place, column = group.are_new(), group.places(), kl.arange(0, PLAN.size // 2)[None, :]
    most = kl.maximum(kl.max(kl.abs(low), axis=1, keep_dims=True), kl.max(kl.abs(high), axis=1, keep_dims=True))
    scale = kl.minimum(most * (1.0 / 127), 65504.0).to(kl.float16)
    kl.store(codes.ranges + place_of_token(codes, of_all, place, new), scale, mask=new)
    scale = scale.to(kl.float32)
    scale = kl.where(scale == 0.0, 1.0, scale)
    low, high = kl.clamp(whole_of(low, scale), -127.0, 127.0), kl.clamp(whole_of(high, scale), -127.0, 127.0)
    at = lane_bytes(codes, of_all, place, new, column, KEYS, PLAN)
    kl.store(at, (low + 128.0).to(kl.uint8), mask=new & (column < PLAN.size))
    at = lane_bytes(codes, of_all, place, new, column + PLAN.size // 2, KEYS, PLAN)
    kl.store(at, (high + 128.0).to(kl.uint8), mask=new & (column < PLAN.size))


@kiln.jit
def word_of(least, most):
    """The word for numbers from least to most: step (rounded up) and zero."""
    furthest = kl.maximum(kl.abs(least), kl.abs(most))
    step = kl.minimum(kl.maximum((most - least) * (1.0 / 15), furthest * (1.0 / 120)), MOST_STEP)
    bits = (step.to(kl.float16).to(kl.uint16, bitcast=True).to(kl.int32) + 127) >> 7
    zero = whole_of(least, unit(step_of(bits)))
    return bits, kl.clamp(zero, -128.0, 127.0)


@kiln.jit
def step_of(bits):
    return (bits << 7).to(kl.uint16).to(kl.float16, bitcast=True).to(kl.float32)


@kiln.jit
def unit(step):
    return kl.where(step == 0.0, 1.0, step)


@kiln.jit
def store_word(at, bits, zero, mask):
    kl.store(at, (bits * 256 + zero.to(kl.int32) + 128).to(kl.uint16).to(at.dtype.element_ty, bitcast=True), mask=mask)


@kiln.jit
def code_of(x, bits, zero):
    return kl.clamp(whole_of(x, unit(step_of(bits))) - zero, 0.0, 15.0).to(kl.int32)


@kiln.jit
def store_four(codes: Codes, of_all, group: Group, low, high, KEYS: kl.constexpr, PLAN: kl.constexpr):
    """Stores four-bit codes of a complete group, and the words that give their meaning."""
    place, column = group.places(), kl.arange(0, PLAN.size // 2)[None, :]
    whole = column < PLAN.size
    if KEYS:
        low_bits, low_zero = word_of(kl.min(low, axis=0, keep_dims=True), kl.max(low, axis=0, keep_dims=True))
        high_bits, high_zero = word_of(kl.min(high, axis=0, keep_dims=True), kl.max(high, axis=0, keep_dims=True))
        first = codes.number(of_all, group.first // BLOCK, group.first >= 0) * BLOCK
        at = codes.ranges + first // GROUP * PLAN.size + column
        store_word(at, low_bits, low_zero, whole)
        store_word(at + PLAN.size // 2, high_bits, high_zero, whole)
    else:
        least = kl.minimum(kl.min(low, axis=1, keep_dims=True), kl.min(high, axis=1, keep_dims=True))
        most = kl.maximum(kl.max(low, axis=1, keep_dims=True), kl.max(high, axis=1, keep_dims=True))
        low_bits, low_zero = word_of(least, most)
        high_bits, high_zero = low_bits, low_zero
        store_word(codes.ranges + place_of_token(codes, of_all, place, place >= 0), low_bits, low_zero, place >= 0)
    code = code_of(low, low_bits, low_zero) + code_of(high, high_bits, high_zero) * 16
    kl.store(lane_bytes(codes, of_all, place, place >= 0, column, KEYS, PLAN), code.to(kl.uint8), mask=whole)


@kiln.jit
def store_recent(codes: Codes, of_all, group: Group, angles, PLAN: kl.constexpr):
    """Stores the new tokens of an incomplete group unchanged."""
    for half in kl.static_range(2):
        value = group.load(None, of_all, angles, half, PLAN)
        column = half * (PLAN.size // 2) + kl.arange(0, PLAN.size // 2)[None, :]
        at = codes.recent + (of_all.to(kl.int64) * GROUP + group.places() - group.first) * PLAN.size + column
        kl.store(at, value.to(codes.recent.dtype.element_ty), mask=group.are_new() & (column < PLAN.size))


@kiln.jit
def store_group(codes: Codes, of_all, group: Group, last, angles, KEYS: kl.constexpr, PLAN: kl.constexpr):
    """Stores a group's codes. The group's first program also writes the tokens of the incomplete ``last`` group: it is
    the only one that has read the previous recent tokens."""
    if PLAN.bits == 8:
        low, high = group.load(None, of_all, angles, 0, PLAN), group.load(None, of_all, angles, 1, PLAN)
        store_eight(codes, of_all, group, low, high, KEYS, PLAN)
    else:
        if group.first + GROUP <= group.end:
            low = group.load(codes.recent, of_all, angles, 0, PLAN)
            high = group.load(codes.recent, of_all, angles, 1, PLAN)
            store_four(codes, of_all, group, low, high, KEYS, PLAN)
        if group.first <= kl.maximum(group.begin, 0):
            store_recent(codes, of_all, group._replace(first=last), angles, PLAN)


@kiln.jit
def append_quantized_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    y: Heads,
    k_cache: Codes,
    v_cache: Codes,
    lengths: Lengths,
    angles: Angles | None,
    tokens,
    groups,
    PLAN: kl.constexpr,
):
    """Writes rotated queries to y, some heads of one token, or codes of rotated keys or values of one head and
    group."""
    program, batch = kl.program_id(0), kl.program_id(1)
    length = lengths.checked(batch)
    begin = length - tokens
    if program < tokens * PLAN.q_groups:
        token, first = program // PLAN.q_groups, program % PLAN.q_groups * PLAN.heads
        to = y.at_token(batch.to(kl.int64), token.to(kl.int64))
        move(q, to.data, y.step, y.head, batch, token, first, angles, begin + token, PLAN.size, PLAN)
    else:
        program -= tokens * PLAN.q_groups
        head, number = program // groups % k.heads, program % groups
        of_all = batch * k.heads + head
        first = (kl.maximum(begin, 0) // GROUP + number) * GROUP
        # Complete groups stay in their codes: the group after them begins the recent tokens.
        last = length // GROUP * GROUP
        if first < length:
            if program < groups * k.heads:
                store_group(k_cache, of_all, Group(k, batch, head, first, begin, length), last, angles, True, PLAN)
            else:
                store_group(v_cache, of_all, Group(v, batch, head, first, begin, length), last, None, False, PLAN)


# ---- functions -------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=1024)
def append_plan(q_heads: int, k_heads: int, size: int, bits: int, machine: Machine) -> AppendPlan:
    side = tile_side(size)
    heads = tile_side(max(q_heads, k_heads), 1)
    while machine.gpu and heads > 1 and heads * side > 1024:
        heads = -(-heads // 2)
    heads = tile_side(heads, 1)
    warps = 4 if bits < 16 else max(1, min(4, heads * side // 256))
    return AppendPlan(heads, side, -(-q_heads // heads), -(-k_heads // heads), 1 << warps.bit_length() - 1, bits, size)


def _angles(cos: Any, sin: Any, size: int, interleaved: bool) -> Angles | None:
    if (cos is None) != (sin is None):
        raise ArgumentError("sin", "expected tables of both, or of neither (because pairs are turned by both), got one")
    if cos is None:
        return None
    if 2 * cos.shape[-1] > size:
        raise ArgumentError("cos", f"expected at most {size // 2} columns (half of a head), got {cos.shape[-1]}")
    if tuple(cos.shape) != tuple(sin.shape) or strides(cos)[1] != 1 or strides(sin)[1] != 1:
        raise ArgumentError(
            "sin",
            f"expected the shape of cos, both with contiguous rows, got shapes {tuple(cos.shape)} and "
            f"{tuple(sin.shape)} with strides {strides(cos)} and {strides(sin)}",
        )
    return Angles(cos, sin, strides(cos)[0], strides(sin)[0], cos.shape[0], cos.shape[1], interleaved)


def _check_new(q: Any, k: Any, v: Any, lengths: Any) -> None:
    batch, tokens, _, size = q.shape
    if (k.shape[0], k.shape[1], k.shape[3]) != (batch, tokens, size) or tuple(v.shape) != tuple(k.shape):
        raise ArgumentError(
            "k, v", f"expected shape ({batch}, {tokens}, heads, {size}), got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if tuple(lengths.shape) != (batch,):
        raise ArgumentError("lengths", f"expected shape ({batch},) (one per sequence), got {tuple(lengths.shape)}")


_NEW = {
    "q": "(batch, tokens, heads, size)",
    "k": "(batch, tokens, kv_heads, size)",
    "v": "(batch, tokens, kv_heads, size)",
}
_TABLES = {"lengths": "(batch)", "cos": "(positions, half)", "sin": "(positions, half)"}


@operator(
    outputs=lambda q, *_, **__: (Spec(q.shape, q.dtype),),
    mutates=("k_cache", "v_cache"),
    arrays={
        **_NEW,
        "k_cache": "(batch, capacity, kv_heads, size)",
        "v_cache": "(batch, capacity, kv_heads, size)",
        **_TABLES,
        "block_table": "(batch, pages)",
        "out": "(batch, tokens, heads, size)",
    },
    types=(
        Types(
            q=FLOATS,
            k="q",
            v="q",
            k_cache=FLOATS,
            v_cache="k_cache",
            lengths=("int32", "int64"),
            cos=FLOATS,
            sin="cos",
            block_table=("int32", "int64"),
            out=FLOATS,
            inside="float32",
            result="q",
        ),
    ),
)
def append(
    q: Any,
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    lengths: Any,
    cos: Any = None,
    sin: Any = None,
    *,
    block_table: Any = None,
    interleaved: bool = False,
    out: Any = None,
) -> Any:
    """Rotates queries as ``rope`` does, and writes rotated keys, and values, to the cache (see `append.py` for the
    places).

    The cache is ``decode_attention``'s: (batch, capacity, kv_heads, size), or with ``block_table`` (pages, page_size,
    kv_heads, size). Without ``cos`` and ``sin`` nothing is rotated. ``out`` may be q. A length beyond the cache, or a
    position beyond the tables, stops the kernel; on the CPU so does a page that the cache does not have. Arithmetic is
    float32, with one rounding to the type written.
    """
    _check_new(q, k, v, lengths)
    batch, tokens, heads, size = q.shape
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if tuple(cache.shape[2:]) != tuple(k.shape[2:]) or (block_table is None and cache.shape[0] != batch):
            raise ArgumentError(
                name, f"expected shape ({batch}, capacity, {k.shape[2]}, {size}), got {tuple(cache.shape)}"
            )
    page_size = k_cache.shape[1]
    if v_cache.shape[1] != page_size:
        raise ArgumentError("v_cache", f"expected {page_size} tokens (because k_cache has), got {v_cache.shape[1]}")
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    if 0 in q.shape:
        return out
    machine = machine_of(q)
    plan = append_plan(heads, k.shape[2], size, 16, machine)
    capacity = page_size if block_table is None else page_size * block_table.shape[1]
    pages = None
    if block_table is not None:
        pages = Pages(block_table, *strides(block_table), k_cache.shape[0], page_size, not machine.gpu)
    append_kernel[(tokens * (plan.q_groups + 2 * plan.k_groups), batch)](
        heads_view(q),
        heads_view(k),
        heads_view(v),
        heads_view(out),
        heads_view(k_cache),
        heads_view(v_cache),
        Lengths(lengths, strides(lengths)[0], capacity),
        pages,
        _angles(cos, sin, size, interleaved),
        tokens,
        size,
        PLAN=plan,
        **plan.options(machine),
    )
    return out


@operator(
    outputs=lambda q, *_, **__: (Spec(q.shape, q.dtype),),
    mutates=("k_cache", "v_cache", "k_ranges", "v_ranges", "k_recent", "v_recent"),
    arrays={
        **_NEW,
        "k_cache": "(batch, kv_heads, blocks, 32, bytes)",
        "v_cache": "(batch, kv_heads, blocks, 32, bytes)",
        "k_ranges": "(batch, kv_heads, tokens) or (batch, kv_heads, groups, size)",
        "v_ranges": "(batch, kv_heads, tokens)",
        **_TABLES,
        "k_recent": "(batch, kv_heads, 32, size)",
        "v_recent": "(batch, kv_heads, 32, size)",
        "block_table": "(batch, pages)",
        "out": "(batch, tokens, heads, size)",
    },
    types=tuple(
        Types(
            q=FLOATS,
            k="q",
            v="q",
            k_cache=("uint8",),
            v_cache=("uint8",),
            k_ranges=words,
            v_ranges="k_ranges",
            lengths=("int32", "int64"),
            cos=FLOATS,
            sin="cos",
            **recent,
            block_table=("int32", "int64"),
            out=FLOATS,
            inside="float32",
            result="q",
        )
        for words, recent in ((("float16",), {}), (("int16", "uint16"), {"k_recent": FLOATS, "v_recent": "k_recent"}))
    ),
)
def append_quantized(
    q: Any,
    k: Any,
    v: Any,
    k_cache: Any,
    v_cache: Any,
    k_ranges: Any,
    v_ranges: Any,
    lengths: Any,
    cos: Any = None,
    sin: Any = None,
    *,
    k_recent: Any = None,
    v_recent: Any = None,
    block_table: Any = None,
    interleaved: bool = False,
    out: Any = None,
) -> Any:
    """``append`` to a quantised cache, contiguous or paged, which ``quantized_cache`` makes and ``decode_quantized``
    reads."""
    _check_new(q, k, v, lengths)
    bits, capacity = check_quantized(
        q, k_cache, v_cache, k_ranges, v_ranges, lengths, k_recent, v_recent, block_table, k.shape[2]
    )
    batch, tokens, heads, size = q.shape
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    if 0 in q.shape:
        return out
    machine = machine_of(q)
    plan = append_plan(heads, k.shape[2], size, bits, machine)
    groups = -(-tokens // 32) + 1
    append_quantized_kernel[(tokens * plan.q_groups + 2 * k.shape[2] * groups, batch)](
        heads_view(q),
        heads_view(k),
        heads_view(v),
        heads_view(out),
        codes_of(k_cache, k_ranges, k_recent, block_table, GROUP.value),
        codes_of(v_cache, v_ranges, v_recent, block_table, GROUP.value),
        Lengths(lengths, strides(lengths)[0], capacity),
        _angles(cos, sin, size, interleaved),
        tokens,
        groups,
        PLAN=plan,
        **plan.options(machine),
    )
    return out
