"""Decoding over a cache of eight or four bits per element, as `append` writes it (CACHE.md has the formats).

Codes lie in the order in which tensor cores read them: a lane loads adjacent bytes and widens them in its registers.
What codes are multiplied by is folded into scores and weights if it is one number per token, and into keys if it is one
per channel. The last tokens of a four-bit cache, fewer than a group, are 16 bits wide.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.decode import (
    Lengths,
    Pages,
    Parts,
    Rows,
    ask_for_queries,
    deliver,
    in_lanes,
    is_seen,
    lse_shape,
    merged,
    merged_columns,
    nothing,
    parts_of,
    queries_view,
    share_of,
    sums_of,
    turned,
    walk_of,
    work_of,
)
from kiln.kernels.attention.decode_configs import (
    LEAST_SPLIT,
    LONG_SHARE,
    LONGEST_OF_LANES,
    SHARED,
    WARPS,
    DecodePlan,
    begins_early,
    even_splits,
    fewest_splits,
    fills,
    fit_beside,
    in_pairs,
    merging,
    short_alone,
)
from kiln.kernels.attention.kernel import LOG2_E
from kiln.kernels.attention.scores import finite
from kiln.kernels.attention.widening import (
    SMALLER,
    anything,
    factors,
    fours,
    fours_and_bytes,
    fours_of_pairs,
    numbers,
    product,
    product_less,
    step_and_zero,
    steps_and_zeros,
    sum_of,
    widened,
)
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import Machine, dependent_if_said, machine_of
from kiln.kernels.operator import (
    FLOATS,
    Spec,
    Types,
    by_name,
    check_value,
    empty,
    is_array,
    is_contiguous,
    is_integer,
    is_torch,
    listed,
    operator,
    output,
    strides,
    tile_side,
    type_name,
    upload,
)
from kiln.kernels.views import Heads

BLOCK: kl.constexpr = kl.constexpr(16)
GROUP: kl.constexpr = kl.constexpr(32)
# Caches hold a multiple of this many tokens, so that whole steps can be read.
MULTIPLE = 128
# Weights times the steps of values may reach float16's smallest numbers, so they are scaled up by this.
LARGER: kl.constexpr = kl.constexpr(16.0)


# ---- tiles of the cache ----------------------------------------------------------------------------------------------
@kiln.struct
class Codes:
    """Keys or values of (batch, head): blocks of codes; ``ranges``: the scales or words that give codes their meaning;
    the ``recent`` tokens (None with eight bits). With ``pages`` the arrays hold pages instead of sequences, of
    ``blocks`` blocks and HEADS heads each."""

    data: Any
    ranges: Any
    recent: Any
    blocks: Any
    pages: Any = None
    HEADS: kl.constexpr = 1

    @kiln.jit
    def number(self, of_all, block, inside):
        """The index of a head's block, or of the blocks of a tile; that of the very first if not inside."""
        if self.pages is None:
            return of_all.to(kl.int64) * self.blocks + block
        page, token = self.pages.of(of_all // self.HEADS, block * BLOCK, inside)
        return (page * self.HEADS + of_all % self.HEADS) * self.blocks + token // BLOCK

    @property
    @kiln.jit
    def run(self):
        """Whether the blocks of a step are adjacent."""
        return True if self.pages is None else self.pages.WHOLE

    @kiln.jit
    def load(self, of_all, start, last, PLAN: kl.constexpr, PAIRS: kl.constexpr = False):
        """The bytes of a step, or pairs of them: one row for each lane and block."""
        WIDTH: kl.constexpr = PLAN.size * PLAN.bits // 16 // (2 if PAIRS else 1)
        data = self.data.to(kl.pointer_type(kl.uint16)) if PAIRS else self.data
        row, column = kl.arange(0, PLAN.tokens * 2)[:, None], kl.arange(0, WIDTH)[None, :]
        if self.run:
            first = self.number(of_all, start // BLOCK, start < last) * (32 * WIDTH)
            return kl.load(data + first + (row * WIDTH + column))
        block = start // BLOCK + row // 32
        first = self.number(of_all, block, block * BLOCK < last) * (32 * WIDTH)
        return kl.load(data + first + (row % 32 * WIDTH + column))

    @kiln.jit
    def ask_for_first(self, most, PLAN: kl.constexpr, IN_GROUPS: kl.constexpr):
        """As `decode.ask_for_first`, for the codes of a program's first step and what gives them their meaning, of
        groups or of tokens."""
        of_all, block = kl.program_id(0) // PLAN.blocks, kl.arange(0, PLAN.tokens // BLOCK)[:, None]
        block += kl.program_id(1) * (PLAN.tokens // BLOCK)
        there = block * BLOCK < most
        if self.pages is None:
            number = of_all.to(kl.int64) * self.blocks + block
        else:
            there = there & (self.pages.count > 0)
            page = self.pages.before_waiting(of_all // self.HEADS, block * BLOCK, there).to(kl.int64)
            number = (page * self.HEADS + of_all % self.HEADS) * self.blocks + block % self.blocks
        BYTES: kl.constexpr = BLOCK * PLAN.size * PLAN.bits // 8
        kl.prefetch(self.data + number * BYTES + kl.arange(0, BYTES // 128)[None, :] * 128, mask=there)
        kl.prefetch(self.ranges + number * (BLOCK * PLAN.size // GROUP if IN_GROUPS else BLOCK), mask=there)

    @kiln.jit
    def of_tokens(self, of_all, start, last, PLAN: kl.constexpr):
        """The scales or words of a step's tokens: [1, tokens]."""
        if self.run:
            if self.pages is None:
                first = of_all.to(kl.int64) * (self.blocks * BLOCK) + start
            else:
                first = self.number(of_all, start // BLOCK, start < last) * BLOCK
            found = kl.load(self.ranges + first + kl.arange(0, PLAN.tokens)[None, :])
        else:
            block = start // BLOCK + kl.arange(0, PLAN.tokens // BLOCK)[:, None]
            first = self.number(of_all, block, block * BLOCK < last) * BLOCK
            found = kl.load(self.ranges + first + kl.arange(0, BLOCK)[None, :]).reshape(1, PLAN.tokens)
        return found if PLAN.bits == 8 else found.to(kl.uint16, bitcast=True)

    @kiln.jit
    def of_groups(self, of_all, start, last, HIGH: kl.constexpr, PLAN: kl.constexpr):
        """The words of half of the channels of a step's groups: [groups, size / 2]."""
        HALF: kl.constexpr = PLAN.size // 2
        group, column = kl.arange(0, PLAN.tokens // GROUP)[:, None], HIGH * HALF + kl.arange(0, HALF)[None, :]
        if self.run:
            if self.pages is None:
                place = (of_all.to(kl.int64) * (self.blocks * BLOCK // GROUP) + start // GROUP) * PLAN.size
            else:
                place = self.number(of_all, start // BLOCK, start < last) * BLOCK // GROUP * PLAN.size
            return kl.load(self.ranges + place + (group * PLAN.size + column)).to(kl.uint16, bitcast=True)
        token = start + group * GROUP
        place = self.number(of_all, token // BLOCK, token < last) * BLOCK // GROUP * PLAN.size
        return kl.load(self.ranges + place + column).to(kl.uint16, bitcast=True)


@kiln.jit
def keys_of(x, PLAN: kl.constexpr):
    """Rows of lanes as [tokens, channels]: lane 4 r + c has token r and channels 2 c, 2 c + 1 of every eight."""
    BLOCKS: kl.constexpr = PLAN.tokens // BLOCK
    HIGH: kl.constexpr = x.shape[1] // 8
    x = x.reshape(BLOCKS, 8, 4, 2, HIGH, 2, 2)
    return kl.permute(x, 0, 3, 1, 4, 5, 2, 6).reshape(PLAN.tokens, HIGH * 16)


@kiln.jit
def values_of(x, PLAN: kl.constexpr):
    """Rows of lanes as [tokens, channels]: lane 4 r + c has tokens 2 c, 2 c + 1 and channel r of every eight."""
    BLOCKS: kl.constexpr = PLAN.tokens // BLOCK
    HIGH: kl.constexpr = x.shape[1] // 4
    x = x.reshape(BLOCKS, 8, 4, HIGH, 2, 2)
    return kl.permute(x, 0, 4, 2, 5, 3, 1).reshape(PLAN.tokens, HIGH * 8)


@kiln.jit
def values_of_pairs(first, second, PLAN: kl.constexpr):
    """`values_of` for rows of the first bytes of pairs, and of the second ones, of tokens eight further."""
    BLOCKS: kl.constexpr = PLAN.tokens // BLOCK
    HIGH: kl.constexpr = first.shape[1] // 2
    x = kl.join(first, second).reshape(BLOCKS, 8, 4, HIGH, 2, 2)
    return kl.permute(x, 0, 5, 2, 4, 3, 1).reshape(PLAN.tokens, HIGH * 8)


@kiln.jit
def side_by_side(low, high):
    """Concatenates the channels of the low and of the high bits."""
    if len(low.shape) == 3:
        both = kl.permute(kl.join(low, high), 0, 1, 3, 2)
        return both.reshape(low.shape[0], low.shape[1], 2 * low.shape[2])
    both = kl.permute(kl.join(low, high), 0, 2, 1)
    return both.reshape(low.shape[0], 2 * low.shape[1])


@kiln.jit
def halves(x, PLAN: kl.constexpr):
    """Splits what `side_by_side` concatenated, for each lane."""
    return kl.split(kl.permute(x.reshape(PLAN.lanes, PLAN.rows, 2, PLAN.size // 2), 0, 1, 3, 2))


@kiln.jit
def across(x, PLAN: kl.constexpr):
    """[1, tokens], shaped to combine with scores."""
    return x if PLAN.lanes == 1 else x.reshape(PLAN.lanes, 1, PLAN.tokens // PLAN.lanes)


@kiln.jit
def keys(k: Codes, of_all, start, last, PLAN: kl.constexpr):
    """A step's keys, without the multiplier that is applied to scores."""
    if PLAN.bits == 8:
        return keys_of(numbers(k.load(of_all, start, last, PLAN)), PLAN)
    low, high = fours(k.load(of_all, start, last, PLAN))
    low_words, high_words = k.of_groups(of_all, start, last, 0, PLAN), k.of_groups(of_all, start, last, 1, PLAN)
    return side_by_side(_of_groups(low, low_words, 0, PLAN), _of_groups(high, high_words, 1, PLAN))


@kiln.jit
def _of_groups(codes, words, HIGH: kl.constexpr, PLAN: kl.constexpr):
    """Half of the channels of keys, widened with their words."""
    GROUPS: kl.constexpr = PLAN.tokens // GROUP
    codes = keys_of(codes, PLAN).reshape(GROUPS, GROUP, PLAN.size // 2)
    factor, zero = factors(words, HIGH)
    return widened(codes, factor[:, None, :], zero[:, None, :]).reshape(PLAN.tokens, PLAN.size // 2)


@kiln.jit
def values(v: Codes, of_all, start, last, PLAN: kl.constexpr):
    """A step's values, without the multiplier that is applied to weights, and scaled as by `fours`."""
    if PLAN.bits == 8:
        return values_of(numbers(v.load(of_all, start, last, PLAN)), PLAN)
    low, high, later_low, later_high = fours_of_pairs(v.load(of_all, start, last, PLAN, True))
    return side_by_side(values_of_pairs(low, later_low, PLAN), values_of_pairs(high, later_high, PLAN))


@kiln.jit
def unit_of_values(PLAN: kl.constexpr):
    """The multiplier of sums of `values`."""
    if PLAN.bits == 8:
        return 1.0 / LARGER
    return kl.where(kl.arange(0, PLAN.size) < PLAN.size // 2, 16777216.0 / LARGER, 1048576.0 / LARGER)


@kiln.jit
def of_lanes(words, PLAN: kl.constexpr):
    """The words of groups for each lane; lanes may share a group."""
    GROUPS: kl.constexpr = words.shape[0]
    if GROUPS == PLAN.lanes:
        return words
    shared = kl.broadcast_to(words[:, None, :], (GROUPS, PLAN.lanes // GROUPS, words.shape[1]))
    return shared.reshape(PLAN.lanes, words.shape[1])


@kiln.jit
def scores_of_four(k: Codes, of_all, start, last, low_queries, high_queries, PLAN: kl.constexpr):
    """Scores of a step's four-bit keys, unscaled: queries are columns, and absorb the multipliers of keys."""
    TOKENS: kl.constexpr = PLAN.tokens // PLAN.lanes
    low, both = fours_and_bytes(k.load(of_all, start, last, PLAN))
    key = in_lanes(side_by_side(keys_of(low, PLAN), keys_of(both, PLAN)), PLAN)
    low_step, low_zero = steps_and_zeros(of_lanes(k.of_groups(of_all, start, last, 0, PLAN), PLAN), 0)
    high_step, high_zero = steps_and_zeros(of_lanes(k.of_groups(of_all, start, last, 1, PLAN), PLAN), 1)
    # q_low · low + q_high · high is q_high · (low + high) + (q_low - q_high) · low.
    of_both = product(high_queries, high_step[:, None, :])
    of_low = product_less(low_queries, low_step[:, None, :], of_both)
    columns = turned(side_by_side(of_low, of_both))
    zeros = side_by_side(low_zero, sum_of(low_zero, high_zero))[:, None, :]
    if TOKENS == 16:
        return kl.dot(key, columns, kl.dot(kl.broadcast_to(zeros, (PLAN.lanes, 16, PLAN.size)), columns))
    # Eight rows are enough, of sixteen.
    zeros = kl.broadcast_to(zeros, (PLAN.lanes, 8, PLAN.size))
    rows = kl.permute(kl.join(zeros, anything(zeros)), 0, 3, 1, 2).reshape(PLAN.lanes, 16, PLAN.size)
    beside, _ = kl.split(kl.permute(kl.dot(rows, columns).reshape(PLAN.lanes, 2, 8, PLAN.rows), 0, 2, 3, 1))
    beside = kl.broadcast_to(beside[:, None], (PLAN.lanes, TOKENS // 8, 8, PLAN.rows))
    return kl.dot(key, columns, beside.reshape(PLAN.lanes, TOKENS, PLAN.rows))


@kiln.jit
def ask_for_first(q: Heads, k: Codes, v: Codes, lengths: Lengths, PLAN: kl.constexpr, HEADS: kl.constexpr):
    if PLAN.asks:
        k.ask_for_first(lengths.most, PLAN, PLAN.bits == 4)
        v.ask_for_first(lengths.most, PLAN, False)
        ask_for_queries(q, PLAN.size, PLAN, HEADS)


# ---- the kernel ------------------------------------------------------------------------------------------------------
@kiln.jit
def decode_quantized_kernel(
    q: Heads,
    k: Codes,
    v: Codes,
    y: Heads,
    lse,
    lengths: Lengths,
    parts: Parts,
    scale_log2,
    PLAN: kl.constexpr,
    HEADS: kl.constexpr,
):
    """``y = softmax(q kᵀ · scale) v``: a share of the cached tokens of one sequence and one head of keys."""
    ask_for_first(q, k, v, lengths, PLAN, HEADS)
    work = work_of(lengths, PLAN, HEADS)
    of_all, length = work.slot // PLAN.blocks, work.length
    rows = Rows(work.batch, work.head, work.block * PLAN.rows, PLAN)
    whole = length if PLAN.bits == 8 else length // GROUP * GROUP
    first, last, count = share_of(work.part, 0, whole, work.side, PLAN)
    own = length - PLAN.queries + rows.numbers(PLAN.rows) // PLAN.group
    query = rows.load(q, None).to(kl.float16)
    queries = query if PLAN.lanes == 1 else kl.broadcast_to(query[None], (PLAN.lanes, PLAN.rows, PLAN.size))
    top, total, result = nothing(PLAN)
    offset = kl.zeros(total.shape, kl.float32)
    first_turn, end = walk_of(first, last, PLAN)
    for turn in range(first_turn, end, PLAN.pace):
        start = first + turn * PLAN.stride if PLAN.in_turns else turn
        key = in_lanes(keys(k, of_all, start, last, PLAN), PLAN)
        value = in_lanes(values(v, of_all, start, last, PLAN), PLAN)
        word = across(v.of_tokens(of_all, start, last, PLAN), PLAN)
        if PLAN.bits == 8:
            step = word.to(kl.float32)
            score = kl.dot(queries, turned(key)) * (across(k.of_tokens(of_all, start, last, PLAN), PLAN) * scale_log2)
        else:
            step, zero = step_and_zero(word)
            step = step.to(kl.float32)
            score = kl.dot(queries, turned(key)) * (scale_log2 / SMALLER)
        seen = is_seen(start, own, last, None, PLAN)
        score = kl.where(seen, score, -float("inf"))
        best = kl.maximum(top, kl.max(score, axis=-1, keep_dims=True))
        safe = finite(best)
        weight, kept = exp2_flushed(score - safe), exp2_flushed(top - safe)
        total = total * kept + kl.sum(weight, axis=-1, keep_dims=True)
        if PLAN.bits == 4:
            offset = offset * kept + kl.sum(weight * (step * zero), axis=-1, keep_dims=True)
        result = kl.dot((weight * (step * LARGER)).to(kl.float16), value, result * kept)
        top = best
    result = result * unit_of_values(PLAN) + offset
    if PLAN.lanes > 1:
        top, total, result = merged(top, total, result, PLAN)
    if PLAN.bits == 4:
        if work.part == count - 1:
            top, total, result = with_recent(
                query, k, v, of_all, length - whole, own - whole, scale_log2, top, total, result, PLAN
            )
    lengths.check(work.stated)
    deliver(rows, y, lse, PLAN.size, parts, work, count, top, total, result, PLAN)


@kiln.jit
def decode_in_columns_kernel(
    q: Heads,
    k: Codes,
    v: Codes,
    y: Heads,
    lse,
    lengths: Lengths,
    parts: Parts,
    scale_log2,
    PLAN: kl.constexpr,
    HEADS: kl.constexpr,
):
    """As `decode_quantized_kernel`, with queries as columns of the products, where eight are enough. The multipliers of
    four-bit keys go into the queries."""
    ask_for_first(q, k, v, lengths, PLAN, HEADS)
    work = work_of(lengths, PLAN, HEADS)
    of_all, length = work.slot // PLAN.blocks, work.length
    rows = Rows(work.batch, work.head, work.block * PLAN.rows, PLAN)
    whole = length if PLAN.bits == 8 else length // GROUP * GROUP
    first, last, count = share_of(work.part, 0, whole, work.side, PLAN)
    own = length - PLAN.queries + rows.numbers(PLAN.rows) // PLAN.group
    own_column = length - PLAN.queries + rows.places(PLAN) // PLAN.group
    query = rows.load(q, None).to(kl.float16)
    TOKENS: kl.constexpr = PLAN.tokens // PLAN.lanes
    queries = kl.broadcast_to(query[None], (PLAN.lanes, PLAN.rows, PLAN.size))
    top, total, result = nothing(PLAN)
    offset = kl.zeros((PLAN.lanes, 8, PLAN.rows), kl.float32)
    # What scores are multiplied by along with the subtraction of their maximum: by a positive number, so that the
    # maximum stays the greatest.
    scale = 1.0
    if PLAN.bits == 4:
        # Both halves of the channels are scaled alike: 2^-22 of their meaning.
        scale = kl.maximum(kl.abs(scale_log2) * 4194304.0, 1e-30)
        sign = kl.where(scale_log2 < 0.0, -1.0, 1.0)
        low_queries, high_queries = halves(queries, PLAN)
        low_queries = (low_queries * (4.0 * sign)).to(kl.float16)
        high_queries = (high_queries * (0.25 * sign)).to(kl.float16)
    first_turn, end = walk_of(first, last, PLAN)
    for turn in range(first_turn, end, PLAN.pace):
        start = first + turn * PLAN.stride if PLAN.in_turns else turn
        value = in_lanes(values(v, of_all, start, last, PLAN), PLAN)
        word = v.of_tokens(of_all, start, last, PLAN).reshape(PLAN.lanes, TOKENS, 1)
        if PLAN.bits == 8:
            key = in_lanes(keys(k, of_all, start, last, PLAN), PLAN)
            step = word.to(kl.float32)
            of_keys = k.of_tokens(of_all, start, last, PLAN).reshape(PLAN.lanes, TOKENS, 1)
            score = kl.dot(key, turned(queries)) * (of_keys * scale_log2)
        else:
            step, zero = step_and_zero(word)
            step = step.to(kl.float32)
            score = scores_of_four(k, of_all, start, last, low_queries, high_queries, PLAN)
        score = kl.where(is_seen(start, own_column, last, None, PLAN), score, -float("inf"))
        best = kl.maximum(top, kl.max(score, axis=1, keep_dims=True))
        safe = finite(best) * scale
        weight, kept = exp2_flushed(score * scale - safe), exp2_flushed(top * scale - safe)
        total = total * kept + sums_of(weight, PLAN)
        if PLAN.bits == 4:
            offset = offset * kept + sums_of(weight * (step * zero), PLAN)
        result = kl.dot(kl.permute(value, 0, 2, 1), (weight * (step * LARGER)).to(kl.float16), result * kept)
        top = best
    offset = kl.sum(offset, axis=1, keep_dims=True)
    if PLAN.bits == 8:
        result = result * unit_of_values(PLAN) + offset
    else:
        result = result * unit_of_values(PLAN)[None, :, None] + offset
    top, total, result = merged_columns(top * scale, total, result, PLAN)
    if PLAN.bits == 4:
        if (work.part == count - 1) & (length > whole):
            top, total, result = with_recent(
                query, k, v, of_all, length - whole, own - whole, scale_log2, top, total, result, PLAN
            )
    lengths.check(work.stated)
    deliver(rows, y, lse, PLAN.size, parts, work, count, top, total, result, PLAN)


@kiln.jit
def with_recent(query, k: Codes, v: Codes, of_all, count, own, scale_log2, top, total, result, PLAN: kl.constexpr):
    """The result including the tokens of the incomplete group."""
    row, column = kl.arange(0, GROUP)[:, None], kl.arange(0, PLAN.size)[None, :]
    place, there = (of_all.to(kl.int64) * GROUP + row) * PLAN.size + column, row < count
    key = kl.load(k.recent + place, mask=there, other=0.0).to(kl.float16)
    value = kl.load(v.recent + place, mask=there, other=0.0).to(kl.float16)
    if PLAN.in_columns:
        token = kl.arange(0, GROUP)[:, None]
        seen = (token < count) & (token <= own.T)
        score = kl.where(seen, kl.dot(key, query.T) * scale_log2, -float("inf"))
        best = kl.maximum(top.T, kl.max(score, axis=0, keep_dims=True))
        safe = finite(best)
        weight, kept = exp2_flushed(score - safe), exp2_flushed(top.T - safe)
        total = total.T * kept + kl.sum(weight, axis=0, keep_dims=True)
        return best.T, total.T, kl.dot(value.T, weight.to(kl.float16), result.T * kept).T
    token = kl.arange(0, GROUP)[None, :]
    seen = (token < count) & (token <= own)
    score = kl.where(seen, kl.dot(query, key.T) * scale_log2, -float("inf"))
    best = kl.maximum(top, kl.max(score, axis=1, keep_dims=True))
    safe = finite(best)
    weight, kept = exp2_flushed(score - safe), exp2_flushed(top - safe)
    total = total * kept + kl.sum(weight, axis=1, keep_dims=True)
    return best, total, kl.dot(weight.to(kl.float16), value, result * kept)


# ---- functions -------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=1024)
def quantized_plan(
    batch: int,
    k_heads: int,
    group: int,
    queries: int,
    size: int,
    bits: int,
    length: int,
    machine: Machine,
    paged: bool = False,
    dependent: bool | None = None,
) -> DecodePlan:
    """For ``batch`` sequences of at most ``length`` tokens. ``dependent``: whether launches begin before the last one
    ends, if the target lets them (None: where that is faster)."""
    rows = group * queries
    # Each lane has its own groups of keys.
    lanes = WARPS if tile_side(rows) * size <= 2048 else 1
    tile = min(tile_side(rows), 64)
    tiles = batch * k_heads * -(-rows // tile)
    # Queries as columns, if eight are enough and there are registers for them: half as many sums to rescale.
    in_columns = machine.gpu and rows <= 8 and lanes == WARPS
    tokens = MULTIPLE
    if in_columns:
        tile = 8
        # Few short shares: half as many tokens for each warp.
        if length <= LONG_SHARE and tiles * -(-length // 64) <= machine.processors and not paged:
            tokens = 64
    slot = tokens * size * bits // 4 + tokens * 8 * (8 // bits)
    plan = DecodePlan(tile, tokens, size, size, group, queries, lanes, 1, max(LEAST_SPLIT, tokens), 0, WARPS, bits=bits)
    # Two programs per multiprocessor (with four bits three, if shares are very long), so that each widens codes during
    # the other's waits, if shares are long enough to hide the cost of handing in more of them.
    workers = machine.processors if machine.gpu else 4
    # With eight bits one, with four slots, if launches can begin early (pages were not timed).
    ready = size == 128 and in_columns and bits == 8 and not paged and begins_early(machine, dependent, True)
    alone = fewest_splits(even_splits(tiles, workers), length, tokens)
    one = ready and fills(4 * slot, machine) and alone > 1 and tiles * alone <= workers
    one = one and length // alone <= LONGEST_OF_LANES
    if in_columns and bits == 4 and tiles < 2 * workers and tiles * length >= 3 * workers * 8 * LONG_SHARE:
        workers *= 3
    elif tiles * length >= 2 * workers * LONG_SHARE and not one:
        workers *= 2
    splits = fewest_splits(even_splits(tiles, workers), length, tokens)
    whole = ready and splits > 1 and short_alone(tiles, length, machine)
    splits = 1 if whole else splits
    # A third slot is worth its memory for whole sequences, unless they are short.
    stages = max(2, min(3, SHARED // 2 // slot)) if machine.gpu else 0
    if in_columns and (bits == 4 or splits > 1 or length <= LONG_SHARE):
        stages = 2
    # Programs that fit at once four to a multiprocessor, or that are short, get few enough registers for it. Of more,
    # three for each with a third slot.
    registers, programs = 0, tiles * splits
    if in_columns and bits == 4 and programs > 3 * machine.processors:
        if programs <= 4 * machine.processors or (splits == 1 and length <= 2 * LONG_SHARE):
            registers, stages = 128, 2
        elif length > 2 * LONG_SHARE:
            registers, stages = 168, 3
    # Warps wait for one another where two share a group of keys. With eight bits, long whole sequences gain nothing.
    by_lanes = in_columns and (tokens == MULTIPLE if bits == 4 else splits > 1 or whole)
    in_turns = machine.gpu and splits > 1 and not paged
    schedule = "lanes" if by_lanes else "simple"
    early = begins_early(machine, dependent, size == 128 and not in_pairs(programs, machine))
    # As in `decode_plan`: no room for programs of the next launch.
    apart = one and early and by_lanes and not fit_beside(-(-length // (splits * tokens)), programs, machine)
    stages = 4 if apart else stages
    plan = replace(plan, stages=stages, splits=splits, in_turns=in_turns, registers=registers, schedule=schedule)
    plan = replace(plan, apart=apart)
    # Whole sequences of eight bits begin at different times, and other programs run until then (measured: 64 x 512 21.4
    # instead of 20.8 us).
    asks = early and (bits == 4 or programs <= machine.processors)
    return merging(replace(plan, early=early, asks=asks))


def _specs(q: Any, *_: Any, return_lse: bool = False, **__: Any) -> tuple[Spec, ...]:
    y = Spec(q.shape, q.dtype)
    return (y, Spec(lse_shape(q), "float32")) if return_lse else (y,)


@operator(
    outputs=_specs,
    arrays={
        "q": "(batch, heads, size) or (batch, queries, heads, size)",
        "k": "(batch, kv_heads, blocks, 32, bytes)",
        "v": "(batch, kv_heads, blocks, 32, bytes)",
        "k_ranges": "(batch, kv_heads, tokens) or (batch, kv_heads, groups, size)",
        "v_ranges": "(batch, kv_heads, tokens)",
        "lengths": "(batch)",
        "k_recent": "(batch, kv_heads, 32, size)",
        "v_recent": "(batch, kv_heads, 32, size)",
        "block_table": "(batch, pages)",
        "out": "(batch, heads, size) or (batch, queries, heads, size)",
    },
    types=(
        Types(
            q=FLOATS,
            k=("uint8",),
            v=("uint8",),
            k_ranges=("float16",),
            v_ranges=("float16",),
            lengths=("int32", "int64"),
            block_table=("int32", "int64"),
            out=FLOATS,
            inside="float32, factors of products in float16",
            result="q",
        ),
        Types(
            q=FLOATS,
            k=("uint8",),
            v=("uint8",),
            k_ranges=("int16", "uint16"),
            v_ranges="k_ranges",
            lengths=("int32", "int64"),
            k_recent="q",
            v_recent="q",
            block_table=("int32", "int64"),
            out=FLOATS,
            inside="float32, factors of products in float16",
            result="q",
        ),
    ),
)
def decode_quantized(
    q: Any,
    k: Any,
    v: Any,
    k_ranges: Any,
    v_ranges: Any,
    lengths: Any,
    *,
    k_recent: Any = None,
    v_recent: Any = None,
    block_table: Any = None,
    max_length: int | None = None,
    softmax_scale: float | None = None,
    uneven: bool = False,
    return_lse: bool = False,
    plan: DecodePlan | None = None,
    out: Any = None,
) -> Any:
    """``decode_attention`` over a quantised cache, which ``quantized_cache`` makes and ``append_quantized`` fills.

    The cache has eight bits per element without recent tokens, four with them. Products are of float16 numbers: queries
    and decoded keys and values must be within its range; sums are float32. Paged: the arrays have pages instead of
    sequences (except recent tokens), and ``block_table`` (batch, pages per sequence) says which page holds which
    tokens.
    """
    batch, heads, size = q.shape[0], q.shape[-2], q.shape[-1]
    queries = q.shape[1] if q.ndim == 4 else 1
    k_heads = k.shape[1]
    bits, capacity = check_quantized(q, k, v, k_ranges, v_ranges, lengths, k_recent, v_recent, block_table, k_heads)
    if max_length is not None and max_length < 0:
        raise ArgumentError("max_length", f"expected a number of tokens, got {max_length}")
    length = capacity if max_length is None else min(max_length, capacity)
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    lse = empty(Spec(lse_shape(q), "float32"), q) if return_lse else None
    if 0 in q.shape:
        return (out, lse) if return_lse else out
    machine = machine_of(q)
    paged = block_table is not None
    group, early = heads // k_heads, False if uneven else dependent_if_said()
    plan = plan or quantized_plan(batch, k_heads, group, queries, size, bits, length, machine, paged, early)
    if uneven:
        plan = plan.evened(batch, k_heads, machine)
    plan = plan.of_call(length if paged else None, None)
    tiles = batch * k_heads * plan.blocks
    scale = 1 / math.sqrt(size) if softmax_scale is None else softmax_scale
    kernel = decode_in_columns_kernel if plan.in_columns else decode_quantized_kernel
    kernel[plan.grid(batch, k_heads)](
        queries_view(q),
        codes_of(k, k_ranges, k_recent, block_table, plan.tokens),
        codes_of(v, v_ranges, v_recent, block_table, plan.tokens),
        queries_view(out),
        lse,
        Lengths(lengths, strides(lengths)[0], length, batch if plan.sequences else None),
        parts_of(tiles, batch, plan, q),
        scale * LOG2_E,
        PLAN=plan,
        HEADS=k_heads,
        **plan.options(machine),
    )
    return (out, lse) if return_lse else out


def codes_of(codes: Any, ranges: Any, recent: Any, block_table: Any, tokens: int) -> Codes:
    """``tokens``: tokens of a step, which lies in one page or several."""
    if block_table is None:
        return Codes(codes, ranges, recent, codes.shape[2])
    side = codes.shape[2] * 16
    checked = not machine_of(codes).gpu
    pages = Pages(block_table, *strides(block_table), codes.shape[0], side, checked, side % tokens == 0)
    return Codes(codes, ranges, recent, codes.shape[2], pages, codes.shape[1])


def check_quantized(
    q: Any,
    k: Any,
    v: Any,
    k_ranges: Any,
    v_ranges: Any,
    lengths: Any,
    k_recent: Any,
    v_recent: Any,
    block_table: Any,
    k_heads: int,
) -> tuple[int, int]:
    """Refuses arrays that cannot be a cache for these queries. Returns the bits and the tokens of the cache, or of a
    sequence's pages."""
    batch, heads, size = q.shape[0], q.shape[-2], q.shape[-1]
    bits, blocks = 8 if k_recent is None else 4, k.shape[2]
    if size % 32:
        raise ArgumentError("q", f"expected heads of a multiple of 32 elements, got {size}")
    multiple = MULTIPLE if block_table is None else 16 if bits == 8 else 32
    if blocks == 0 or blocks % (multiple // 16):
        raise ArgumentError("k", f"expected blocks for a multiple of {multiple} tokens, got {16 * blocks}")
    if k_heads == 0 or heads % k_heads:
        raise ArgumentError("k", f"expected a number of heads that divides q's {heads}, got {k_heads}")
    for name, array, shape in zip(
        ("k", "v", "k_ranges", "v_ranges", "k_recent", "v_recent"),
        (k, v, k_ranges, v_ranges, k_recent, v_recent),
        cache_shapes(batch if block_table is None else k.shape[0], blocks * 16, k_heads, size, bits, batch),
        strict=True,
    ):
        got = None if array is None else tuple(array.shape)
        if got != shape:
            because = f"because k has {blocks} blocks of {bits} bits"
            raise ArgumentError(name, f"expected shape {shape} ({because}), got {got}")
        if array is not None and not is_contiguous(array):
            raise ArgumentError(name, "expected a contiguous array, got one with strides")
    if tuple(lengths.shape) != (batch,):
        raise ArgumentError("lengths", f"expected shape ({batch},) (one per sequence), got {tuple(lengths.shape)}")
    if block_table is None:
        return bits, blocks * 16
    if block_table.shape[0] != batch:
        raise ArgumentError("block_table", f"expected {batch} rows (one per sequence), got {block_table.shape[0]}")
    return bits, blocks * 16 * block_table.shape[1]


def cache_shapes(
    batch: int, tokens: int, k_heads: int, size: int, bits: int, sequences: int
) -> list[tuple[int, ...] | None]:
    """Shapes of k, v, their ranges (for ``count`` sequences or pages) and the recent tokens of sequences."""
    codes = (batch, k_heads, tokens // 16, 32, size * bits // 16)
    of_tokens = (batch, k_heads, tokens)
    if bits == 8:
        return [codes, codes, of_tokens, of_tokens, None, None]
    recent = (sequences, k_heads, 32, size)
    return [codes, codes, (batch, k_heads, tokens // 32, size), of_tokens, recent, recent]


class QuantizedCache(NamedTuple):
    """The arrays of a cache: what `append_quantized` writes and `decode_quantized` reads."""

    k: Any
    v: Any
    k_ranges: Any
    v_ranges: Any
    k_recent: Any
    v_recent: Any


@by_name
def quantized_cache(
    batch: int, tokens: int, k_heads: int, size: int, bits: int, like: Any, pages: int | None = None
) -> QuantizedCache:
    """A cache for so many tokens of each sequence (rounded up to a multiple of 128), of the library and on the device
    of ``like``, whose type the last tokens of a four-bit cache have. With ``pages`` there are so many, of so many
    tokens each (rounded up to a multiple of 32, of eight bits of 16), for all sequences.

    Shapes and types; others are refused::

        batch           an integer, at least 0
        tokens, pages   an integer, at least 1 (pages: or None)
        k_heads         an integer, at least 1
        size            a multiple of 32
        bits            4 or 8
        like            an array of float16, bfloat16, float32

        inside          zeros
        result          a QuantizedCache: k, v of uint8; k_ranges, v_ranges of float16, of four bits int16; k_recent,
                        v_recent as like, of eight bits None
    """
    for name, number, least in (("batch", batch, 0), ("tokens", tokens, 1), ("k_heads", k_heads, 1)):
        check_value(name, number, f"an integer, at least {least}", is_integer(number) and number >= least)
    fits = is_integer(size) and size > 0 and size % 32 == 0
    check_value("size", size, "a multiple of 32 (because codes lie as tensor cores take them)", fits)
    check_value("bits", bits, "4 or 8", is_integer(bits) and bits in (4, 8))
    fits = pages is None or (is_integer(pages) and pages >= 1)
    check_value("pages", pages, "an integer, at least 1, or None (because sequences have places of their own)", fits)
    fits = is_array(like) and type_name(like.dtype) in FLOATS
    check_value("like", like, f"an array of {listed(FLOATS)} (because recent tokens are kept in its type)", fits)
    multiple = MULTIPLE if pages is None else 128 // bits
    tokens = -(-tokens // multiple) * multiple
    shapes = cache_shapes(batch if pages is None else pages, tokens, k_heads, size, bits, batch)
    words = "float16" if bits == 8 else "int16"
    types = ("uint8", "uint8", words, words, like.dtype, like.dtype)
    return QuantizedCache(
        *(None if s is None else _cleared(Spec(s, t), like) for s, t in zip(shapes, types, strict=True))
    )


def _cleared(spec: Spec, like: Any) -> Any:
    """Zeros: what lies after a sequence is multiplied by zero, so it must be finite."""
    if is_torch(like):
        return empty(spec, like).zero_()
    import numpy

    return upload(numpy.zeros(spec.shape, spec.dtype), like)
