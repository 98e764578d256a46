"""Attention of one or a few new tokens per sequence over a KV cache, contiguous or paged, in one launch.

A sequence's cache is cut into shares that run in parallel; each program stores the result of its share with its maximum
and sum, and the last to arrive combines them in order, so the bits are always the same. Lengths live in memory: they
change every step, and neither recompile a kernel nor freeze in a graph. The queries that share a head of keys are the
rows of one tile.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.decode_configs import DecodePlan, decode_plan
from kiln.kernels.attention.kernel import LOG2_E
from kiln.kernels.attention.scores import finite
from kiln.kernels.counters import count_in, zeros
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import dependent_if_said, machine_of
from kiln.kernels.operator import FLOATS, Spec, Types, empty, operator, output, strides
from kiln.kernels.views import Heads, heads_view

LN_2: kl.constexpr = kl.constexpr(0.6931471805599453)


# ---- views -----------------------------------------------------------------------------------------------------------
@kiln.struct
class Lengths:
    """Cached tokens of each sequence, including the new ones; ``most``: the capacity of the cache. ``count``: the
    number of sequences, if shares are cut by the lengths of all."""

    data: Any
    step: Any
    most: Any
    count: Any = None

    @kiln.jit
    def of(self, batch):
        """The length as memory has it, and clamped to the cache."""
        stated = kl.load(self.data + batch * self.step)
        return stated, kl.maximum(kl.minimum(stated, self.most), 0).to(kl.int32)

    @kiln.jit
    def checked(self, batch):
        stated, length = self.of(batch)
        self.check(stated)
        return length

    @kiln.jit
    def check(self, stated):
        """Stops the program if the length exceeds the cache. Called after the last step, since before the first one
        copies would wait for the length to arrive."""
        kl.device_assert(
            (stated >= 0) & (stated <= self.most), "decode_attention: a length beyond max_length or the cache"
        )


@kiln.struct
class Pages:
    """Which of ``count`` pages holds which tokens: pages of SIZE tokens, page ``table[batch, token // SIZE]``. WHOLE: a
    step that begins at a multiple of its length never spans several pages. CHECKED: programs stop at a page that does
    not exist."""

    table: Any
    batch: Any
    step: Any
    count: Any
    SIZE: kl.constexpr
    CHECKED: kl.constexpr
    WHOLE: kl.constexpr = False

    @kiln.jit
    def check(self, page, mask):
        if self.CHECKED:
            there = (0 <= page) & (page < self.count)
            kl.device_assert(there | (mask == 0), "block_table: a page outside of the cache")

    @kiln.jit
    def entry(self, batch, token, mask, VOLATILE: kl.constexpr = False):
        """The numbers of the pages of tokens, one or a tile of them."""
        place = self.table + batch * self.batch + token // self.SIZE * self.step
        return kl.load(place, mask=mask, other=0, volatile=VOLATILE)

    @kiln.jit
    def before_waiting(self, batch, token, mask):
        """`entry` while the launch before may still write the table: some pages of the cache, whatever it holds."""
        return kl.minimum(kl.maximum(self.entry(batch, token, mask, True), 0), self.count - 1)

    @kiln.jit
    def of(self, batch, token, mask):
        """The pages of tokens, and the tokens' places in them."""
        page = self.entry(batch, token, mask).to(kl.int64)
        self.check(page, mask)
        return page, token % self.SIZE


@kiln.struct
class Parts:
    """The memory in which the shares of one sequence are combined: their results, the maximum and sum of each row, and
    how many have arrived. Counters are zero between launches."""

    sums: Any
    statistics: Any
    arrived: Any


# ---- parts of the kernel ---------------------------------------------------------------------------------------------
@kiln.jit
def share_of(part, begin, end, side, PLAN: kl.constexpr):
    """The tokens of one share of ``begin`` … ``end``, and how many shares there are (1 if there are no tokens).
    ``side``: tokens per share, if known. In turns: from the first token to the end, one step of every ``splits``."""
    if side is not None:
        first = begin + part * side
        return first, kl.minimum(first + side, end), kl.maximum(kl.cdiv(end - begin, side), 1)
    if PLAN.in_turns:
        count = kl.minimum(kl.cdiv(end - begin, PLAN.tokens), PLAN.splits)
        return begin + part * PLAN.tokens, end, kl.maximum(count, 1)
    steps = kl.cdiv(kl.cdiv(end - begin, PLAN.splits), PLAN.tokens)
    share = kl.maximum(steps * PLAN.tokens, kl.cdiv(PLAN.least, PLAN.tokens) * PLAN.tokens)
    first = begin + part * share
    return first, kl.minimum(first + share, end), kl.maximum(kl.cdiv(end - begin, share), 1)


@kiln.struct
class Work:
    """The work of a program: one share of a sequence's tokens, for a tile of rows. ``slot`` counts tiles; ``place``:
    the place in memory of the tile's first share; ``stated``: the length as memory has it; ``side``: tokens per share
    (None: by the length)."""

    slot: Any
    batch: Any
    head: Any
    block: Any
    part: Any
    place: Any
    stated: Any
    length: Any
    side: Any


@kiln.jit
def head_and_batch(slot, PLAN: kl.constexpr, HEADS: kl.constexpr):
    return slot // PLAN.blocks % HEADS, slot // PLAN.blocks // HEADS


@kiln.jit
def work_of(lengths: Lengths, PLAN: kl.constexpr, HEADS: kl.constexpr):
    slot, part = kl.program_id(0), kl.program_id(1)
    head, batch = head_and_batch(slot, PLAN, HEADS)
    if PLAN.sequences == 0:
        return Work(slot, batch, head, slot % PLAN.blocks, part, slot * PLAN.splits, *lengths.of(batch), None)
    # Every program computes its share from the lengths of all: shares are equally long, except the last of each
    # sequence.
    number = kl.arange(0, PLAN.sequences)
    there = number < lengths.count
    each = kl.load(lengths.data + number * lengths.step, mask=there, other=0)
    length = kl.minimum(kl.maximum(each, 0), lengths.most).to(kl.int32)
    side = kl.cdiv(kl.sum(kl.cdiv(length, PLAN.tokens)), PLAN.splits) * PLAN.tokens
    side = kl.maximum(side, kl.cdiv(PLAN.least, PLAN.tokens) * PLAN.tokens)
    ends = kl.cumsum(kl.where(there, kl.maximum(kl.cdiv(length, side), 1), 0))
    # A program beyond the number of shares gets an empty share of the last sequence.
    passed = (number < lengths.count - 1) & (ends <= part)
    before, batch = kl.max(kl.where(passed, ends, 0)), kl.sum(passed.to(kl.int32))
    place = slot * kl.num_programs(1) + before
    slot = (batch * HEADS + head) * PLAN.blocks + slot % PLAN.blocks
    return Work(slot, batch, head, slot % PLAN.blocks, part - before, place, *lengths.of(batch), side)


@kiln.jit
def walk_of(first, last, PLAN: kl.constexpr):
    """The range that a share's loop counts over, by PLAN.pace: steps if in turns, otherwise their first tokens."""
    return (0, kl.cdiv(last - first, PLAN.stride)) if PLAN.in_turns else (first, last)


@kiln.struct
class Rows:
    """The rows from ``first`` on that share a head of keys: the heads of its group, query after query."""

    batch: Any
    head: Any
    first: Any
    PLAN: kl.constexpr

    @kiln.jit
    def numbers(self, COUNT: kl.constexpr):
        return self.first + kl.arange(0, COUNT)[:, None]

    @kiln.jit
    def places(self, PLAN: kl.constexpr):
        """The row numbers, along the axis where scores have rows."""
        number = self.numbers(PLAN.rows)
        return number.T if PLAN.in_columns else number

    @kiln.jit
    def are_there(self, row):
        return row < self.PLAN.group * self.PLAN.queries

    @kiln.jit
    def of(self, x: Heads, row):
        """Pointers to the heads of queries or results."""
        place = row // self.PLAN.group * x.token + (self.head * self.PLAN.group + row % self.PLAN.group) * x.head
        return x.data + self.batch.to(kl.int64) * x.batch + place

    @kiln.jit
    def load(self, q: Heads, inside):
        row = self.numbers(self.PLAN.rows)
        mask = self.are_there(row) if inside is None else self.are_there(row) & inside
        return kl.load(self.of(q, row) + kl.arange(0, self.PLAN.side)[None, :] * q.step, mask=mask, other=0.0)

    @kiln.jit
    def store(self, y: Heads, lse, size, top, total, result):
        """Writes results and log-sum-exp (natural logarithms)."""
        row, column = self.numbers(result.shape[0]), kl.arange(0, self.PLAN.side)[None, :]
        value = (result / kl.where(total == 0.0, 1.0, total)).to(y.data.dtype.element_ty)
        kl.store(self.of(y, row) + column * y.step, value, mask=self.are_there(row) & (column < size))
        if lse is not None:
            # (batch, heads, queries)
            head = self.batch * y.heads + self.head * self.PLAN.group + row % self.PLAN.group
            place = head * self.PLAN.queries + row // self.PLAN.group
            kl.store(lse + place, (top + kl.log2(total)) * LN_2, mask=self.are_there(row))


@kiln.jit
def cached(x: Heads, batch, head, start, last, pages, place, inside, PLAN: kl.constexpr):
    """A step's heads of cached tokens, zero from ``last`` on; ``place``: where their pages are, if the cache is
    paged."""
    row, column = kl.arange(0, PLAN.tokens), kl.arange(0, PLAN.side)[None, :]
    mask = (start + row < last)[:, None] if inside is None else (start + row < last)[:, None] & inside
    data = x.data + head.to(kl.int64) * x.head
    if pages is None:
        # Only one address changes from step to step.
        data += batch.to(kl.int64) * x.batch + start.to(kl.int64) * x.token
        return kl.load(data + row[:, None] * x.token + column * x.step, mask=mask, other=0.0)
    if pages.WHOLE:
        data += place + (start % pages.SIZE).to(kl.int64) * x.token
        return kl.load(data + row[:, None] * x.token + column * x.step, mask=mask, other=0.0)
    if pages.SIZE > 1 and PLAN.tokens % pages.SIZE == 0:
        PAGES: kl.constexpr = PLAN.tokens // pages.SIZE
        place = kl.broadcast_to(place[:, None], (PAGES, pages.SIZE)).reshape(PLAN.tokens)
        return kl.load(data + (place + row % pages.SIZE * x.token)[:, None] + column * x.step, mask=mask, other=0.0)
    # The threads that copy a row may not be those that know its page. Then offsets move to them, which keys and values
    # share, and not the addresses of each.
    offset = (place + (start + row) % pages.SIZE * x.token)[:, None] + column * x.step
    return kl.load(data + offset, mask=mask, other=0.0)


@kiln.jit
def ask_for_rows(row, step, there, size, PLAN: kl.constexpr):
    """Asks for heads that begin at ``row`` [rows, 1]."""
    LINE: kl.constexpr = min(PLAN.side, 1024 // row.dtype.scalar.element_ty.primitive_bitwidth)
    column = kl.arange(0, PLAN.side // LINE)[None, :] * LINE
    kl.prefetch(row + column * step, mask=there & (column < size))


@kiln.jit
def ask_for_queries(q: Heads, size, PLAN: kl.constexpr, HEADS: kl.constexpr):
    """Asks for a program's queries, too, and then waits for the launch before."""
    slot = kl.program_id(0)
    head, batch = head_and_batch(slot, PLAN, HEADS)
    rows = Rows(batch, head, slot % PLAN.blocks * PLAN.rows, PLAN)
    row = rows.numbers(PLAN.rows)
    ask_for_rows(rows.of(q, row), q.step, rows.are_there(row), size, PLAN)
    kl.extra.cuda.gdc_wait()


@kiln.jit
def ask_for_first(q: Heads, caches, lengths: Lengths, size, pages, PLAN: kl.constexpr, HEADS: kl.constexpr):
    """Asks for the heads of a program's first step, before its launch waits for the launch before it, and before the
    length is known, on which the step does not depend. That launch may still append to them, or change the table: then
    this asked for the wrong pages."""
    if PLAN.asks:
        slot, token = kl.program_id(0), kl.program_id(1) * PLAN.tokens + kl.arange(0, PLAN.tokens)[:, None]
        head, batch = head_and_batch(slot, PLAN, HEADS)
        there = token < lengths.most
        if pages is not None:
            there = there & (pages.count > 0)
            page = pages.before_waiting(batch, token, there).to(kl.int64)
            token = token % pages.SIZE
        else:
            page = batch.to(kl.int64)
        for i in kl.static_range(2):
            cache = caches[i]
            row = cache.data + head.to(kl.int64) * cache.head + page * cache.batch + token.to(kl.int64) * cache.token
            ask_for_rows(row, cache.step, there, size, PLAN)
        ask_for_queries(q, size, PLAN, HEADS)


@kiln.jit
def pages_of(pages, batch, start, end, PLAN: kl.constexpr):
    """The pages of a step's tokens, if the cache is paged; arbitrary for tokens from ``end`` on."""
    if pages is None:
        return None
    if pages.WHOLE:
        return pages.entry(batch, start, start < end)
    if PLAN.tokens % pages.SIZE == 0:
        token = start + kl.arange(0, PLAN.tokens // pages.SIZE) * pages.SIZE
    else:
        token = start + kl.arange(0, PLAN.tokens)
    return pages.entry(batch, token, token < end)


@kiln.jit
def all_pages(pages, batch, first, end, PLAN: kl.constexpr):
    """The pages of each of PLAN.known steps from ``first`` on, in registers."""
    found = ()
    for step in kl.static_range(PLAN.known):
        found += (pages_of(pages, batch, first + step * PLAN.stride, end, PLAN),)
    return found


@kiln.jit
def page_at(pages, known, batch, turn, first, start, end, PLAN: kl.constexpr):
    """The pages of a step: looked up, or one of those ``known`` from ``first`` on."""
    if PLAN.known == 0:
        return pages_of(pages, batch, start, end, PLAN)
    page = known[0]
    for step in kl.static_range(1, PLAN.known):
        passed = turn >= step if PLAN.in_turns else start - first >= step * PLAN.tokens
        page = kl.where(passed, known[step], page)
    return page


@kiln.jit
def check_pages(pages, batch, start, last, PLAN: kl.constexpr):
    if pages is not None and pages.CHECKED:
        token = start + kl.arange(0, PLAN.tokens)
        pages.check(pages.entry(batch, token, token < last), token < last)


@kiln.jit
def places_of(page, x: Heads):
    """Where pages begin."""
    return None if page is None else page.to(kl.int64) * x.batch


@kiln.jit
def in_lanes(x, PLAN: kl.constexpr):
    """Splits rows into equal parts, one for each lane."""
    return x if PLAN.lanes == 1 and not PLAN.in_columns else x.reshape(PLAN.lanes, x.shape[0] // PLAN.lanes, x.shape[1])


@kiln.jit
def turned(x):
    """The transpose of a matrix, or of each of several."""
    return x.T if len(x.shape) == 2 else kl.permute(x, 0, 2, 1)


@kiln.jit
def is_seen(start, own, last, window, PLAN: kl.constexpr):
    """Which of a step's tokens the query of each row sees; ``own``: the row's own token."""
    token = start + kl.arange(0, PLAN.tokens)
    if PLAN.in_columns:
        token = token.reshape(PLAN.lanes, PLAN.tokens // PLAN.lanes, 1)
    else:
        token = turned(in_lanes(token[:, None], PLAN))
    own = own if PLAN.lanes == 1 and not PLAN.in_columns else own[None]
    seen = token < last
    if PLAN.queries > 1:
        seen = seen & (token <= own)
    return seen if window is None else seen & (token > own - window)


@kiln.jit
def nothing(PLAN: kl.constexpr):
    """The initial maximum, sum and result of rows, before any token."""
    if PLAN.in_columns:
        top = kl.full((PLAN.lanes, 1, PLAN.rows), -float("inf"), kl.float32)
        total = kl.zeros((PLAN.lanes, 8, PLAN.rows), kl.float32)
        return top, total, kl.zeros((PLAN.lanes, PLAN.side, PLAN.rows), kl.float32)
    SHAPE: kl.constexpr = (PLAN.rows,) if PLAN.lanes == 1 else (PLAN.lanes, PLAN.rows)
    top, total = kl.full((*SHAPE, 1), -float("inf"), kl.float32), kl.zeros((*SHAPE, 1), kl.float32)
    return top, total, kl.zeros((*SHAPE, PLAN.side), kl.float32)


@kiln.jit
def sums_of(weight, PLAN: kl.constexpr):
    """Sums of a step's weights; in columns, only over every eighth token, which stays within a thread."""
    if PLAN.in_columns:
        return kl.sum(weight.reshape(PLAN.lanes, weight.shape[1] // 8, 8, PLAN.rows), axis=1)
    return kl.sum(weight, axis=-1, keep_dims=True)


@kiln.jit
def upper(x):
    """The first eight of sixteen rows of each lane."""
    halves = kl.permute(x.reshape(x.shape[0], 2, 8, x.shape[2]), 0, 2, 3, 1)
    return kl.split(halves)[0]


@kiln.jit
def merged(top, total, result, PLAN: kl.constexpr):
    """Merges the maxima, sums and results of all lanes; only eight rows, if there are no more."""
    if PLAN.rows == 16 and PLAN.members <= 8 and PLAN.bits != 4:
        top, total, result = upper(top), upper(total), upper(result)
    ROWS: kl.constexpr = result.shape[1]
    best = kl.max(top, axis=0)
    share = exp2_flushed(top - finite(best)[None])
    # A warp holds eight rows of eight columns, a thread pairs of these: in an order in which a warp's numbers are
    # adjacent in the shared memory through which warps exchange them.
    result = kl.permute((result * share).reshape(PLAN.lanes, ROWS, PLAN.side // 8, 4, 2), 0, 2, 4, 1, 3)
    result = kl.permute(kl.sum(result, axis=0), 2, 0, 3, 1).reshape(ROWS, PLAN.side)
    return best, kl.sum(total * share, axis=0), result


@kiln.jit
def merged_columns(top, total, result, PLAN: kl.constexpr):
    """`merged` for queries as columns; returns rows."""
    best = kl.max(top, axis=0)
    share = exp2_flushed(top - finite(best)[None])
    total = kl.sum(kl.sum(total, axis=1, keep_dims=True) * share, axis=0)
    # A thread has pairs of columns of every eighth row: in the same order.
    result = kl.permute((result * share).reshape(PLAN.lanes, PLAN.side // 8, 8, 4, 2), 0, 1, 4, 2, 3)
    return best.T, total.T, kl.permute(kl.sum(result, axis=0), 3, 1, 0, 2).reshape(8, PLAN.side)


@kiln.jit
def hand_in(parts: Parts, work: Work, count, top, total, result, PLAN: kl.constexpr):
    """Stores one of ``count`` shares and counts it; returns whether it was the last. No program waits for another."""
    row, column = kl.arange(0, result.shape[0])[:, None], kl.arange(0, PLAN.side)[None, :]
    place = (work.place + work.part) * PLAN.members + row
    kl.store(parts.sums + place.to(kl.int64) * PLAN.side + column, result, mask=row < PLAN.members)
    both = kl.join(top, total).reshape(result.shape[0], 2)
    kl.store(parts.statistics + place * 2 + kl.arange(0, 2)[None, :], both, mask=row < PLAN.members)
    return count_in(parts.arrived + work.slot, count)


@kiln.jit
def handed_in(parts: Parts, work: Work, count, PLAN: kl.constexpr):
    """The shares of a sequence, added in order, ``PLAN.merged`` at a time."""
    top = kl.full((PLAN.members, 1), -float("inf"), kl.float32)
    total = kl.zeros((PLAN.members, 1), kl.float32)
    result = kl.zeros((PLAN.members, PLAN.side), kl.float32)
    SIDES: kl.constexpr = (PLAN.merged, PLAN.members)
    part = kl.arange(0, PLAN.merged)[:, None, None]
    place = part * PLAN.members + kl.arange(0, PLAN.members)[None, :, None]
    column, of_both = kl.arange(0, PLAN.side)[None, None, :], kl.arange(0, 2)[None, None, :]
    for first in range(0, count, PLAN.merged):
        there = part < count - first
        begin = (work.place + first).to(kl.int64) * PLAN.members
        values = kl.load(parts.sums + begin * PLAN.side + (place * PLAN.side + column), mask=there, other=0.0)
        both = kl.load(parts.statistics + begin * 2 + (place * 2 + of_both), mask=there, other=0.0)
        tops, totals = kl.split(both.reshape(*SIDES, 1, 2))
        # A share that is not there has a sum of zero. Asked by `there`, the first loads would be waited for before the
        # last were issued: the masks of all do not fit into a GPU's predicates.
        tops = kl.where(totals == 0.0, -float("inf"), tops)
        best = kl.maximum(top, kl.max(tops, axis=0))
        safe = finite(best)
        share, kept = exp2_flushed(tops - safe[None]), exp2_flushed(top - safe)
        total = total * kept + kl.sum(totals * share, axis=0)
        result = result * kept + kl.sum(values * share, axis=0)
        top = best
    return top, total, result


@kiln.jit
def deliver(rows: Rows, y: Heads, lse, size, parts: Parts, work: Work, count, top, total, result, PLAN: kl.constexpr):
    """Stores the result of one share of ``count``; if there are others, the last program to arrive adds them all."""
    if PLAN.splits == 1 and PLAN.sequences == 0:
        rows.store(y, lse, size, top, total, result)
    elif work.part < count:
        if count == 1:
            rows.store(y, lse, size, top, total, result)
        elif hand_in(parts, work, count, top, total, result, PLAN):
            top, total, result = handed_in(parts, work, count, PLAN)
            rows.store(y, lse, size, top, total, result)


# ---- the kernel ------------------------------------------------------------------------------------------------------
@kiln.jit
def decode_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    y: Heads,
    lse,
    lengths: Lengths,
    pages: Pages | None,
    parts: Parts,
    scale_log2,
    window,
    size,
    PLAN: kl.constexpr,
    HEADS: kl.constexpr,
):
    """``y = softmax(q kᵀ · scale) v``: a share of the cached tokens of one sequence and one head of keys."""
    ask_for_first(q, (k, v), lengths, size, pages, PLAN, HEADS)
    work = work_of(lengths, PLAN, HEADS)
    head, batch, length = work.head, work.batch, work.length
    if PLAN.alike:
        v = k._replace(data=v.data)
    # Query i is token length - queries + i, and sees itself and the ``window`` - 1 tokens before it.
    begin = 0
    if window is not None:
        begin = kl.maximum(length - PLAN.queries - window + 1, 0) // PLAN.tokens * PLAN.tokens
    first, last, count = share_of(work.part, begin, length, work.side, PLAN)
    inside = None if PLAN.whole else kl.arange(0, PLAN.side)[None, :] < size
    # Page numbers are read two steps ahead and turned into places one step ahead: a step waits only for its copies. Or
    # all are read in advance, before the queries, whose load the first copies follow.
    place, coming = None, None
    if PLAN.ahead:
        place = places_of(pages_of(pages, batch, first, lengths.most, PLAN), k)
        coming = pages_of(pages, batch, first + PLAN.stride, lengths.most, PLAN)
    known = all_pages(pages, batch, first, lengths.most, PLAN)
    rows = Rows(batch, head, work.block * PLAN.rows, PLAN)
    query = rows.load(q, inside)
    if PLAN.in_columns:
        query = kl.broadcast_to(query.T[None], (PLAN.lanes, PLAN.side, PLAN.rows))
    elif PLAN.lanes > 1:
        query = kl.broadcast_to(query[None], (PLAN.lanes, PLAN.rows, PLAN.side))
    own = length - PLAN.queries + rows.places(PLAN) // PLAN.group
    top, total, result = nothing(PLAN)
    first_turn, end = walk_of(first, last, PLAN)
    for turn in range(first_turn, end, PLAN.pace):
        start = first + turn * PLAN.stride if PLAN.in_turns else turn
        if PLAN.ahead:
            of_keys, of_values = place, place
        else:
            page = page_at(pages, known, batch, turn, first, start, lengths.most, PLAN)
            check_pages(pages, batch, start, last, PLAN)
            of_keys, of_values = places_of(page, k), places_of(page, v)
        key = in_lanes(cached(k, batch, head, start, last, pages, of_keys, inside, PLAN), PLAN)
        value = in_lanes(cached(v, batch, head, start, last, pages, of_values, inside, PLAN), PLAN)
        if PLAN.ahead:
            # After the step's copies, which need not wait for these.
            place = places_of(coming, k)
            coming = pages_of(pages, batch, start + 2 * PLAN.stride, lengths.most, PLAN)
        seen = is_seen(start, own, last, window, PLAN)
        score = kl.dot(key, query) if PLAN.in_columns else kl.dot(query, turned(key))
        score = kl.where(seen, score * scale_log2, -float("inf"))
        best = kl.maximum(top, kl.max(score, axis=PLAN.axis, keep_dims=True))
        safe = finite(best)
        weight, kept = exp2_flushed(score - safe), exp2_flushed(top - safe)
        total = total * kept + sums_of(weight, PLAN)
        if PLAN.in_columns:
            result = kl.dot(turned(value), weight.to(value.dtype), result * kept)
        else:
            result = kl.dot(weight.to(value.dtype), value, result * kept)
        top = best
    if PLAN.in_columns:
        top, total, result = merged_columns(top, total, result, PLAN)
    elif PLAN.lanes > 1:
        top, total, result = merged(top, total, result, PLAN)
    lengths.check(work.stated)
    deliver(rows, y, lse, size, parts, work, count, top, total, result, PLAN)


def _specs(q: Any, k: Any, v: Any, lengths: Any, *, return_lse: bool = False, **_: Any) -> tuple[Spec, ...]:
    y = Spec(q.shape, q.dtype)
    return (y, Spec(lse_shape(q), "float32")) if return_lse else (y,)


def lse_shape(q: Any) -> tuple[int, ...]:
    return tuple(q.shape[:2]) if q.ndim == 3 else (q.shape[0], q.shape[2], q.shape[1])


def queries_view(q: Any) -> Heads:
    """(batch, heads, size) or (batch, queries, heads, size)."""
    if q.ndim == 4:
        return heads_view(q)
    batch, head, step = strides(q)
    return Heads(q, batch, 0, head, step, q.shape[1])


def parts_of(tiles: int, batch: int, plan: DecodePlan, like: Any) -> Parts:
    """Memory for the shares of ``tiles`` tiles."""
    shares = plan.shares(tiles, batch)
    if shares == tiles:
        return Parts(None, None, None)
    rows = shares * plan.members
    sums, statistics = (empty(Spec((rows * width,), "float32"), like) for width in (plan.side, 2))
    return Parts(sums, statistics, zeros(tiles, like))


def check_cache(q: Any, k: Any, v: Any, lengths: Any, block_table: Any) -> None:
    """Refuses arrays that cannot be a cache for these queries."""
    batch, heads, size = q.shape[0], q.shape[-2], q.shape[-1]
    if tuple(v.shape) != tuple(k.shape) or k.shape[3] != size:
        raise ArgumentError(
            "k, v", f"expected equal shapes ending in {size}, got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if size == 0:
        raise ArgumentError("q", f"expected heads of at least one element, got shape {tuple(q.shape)}")
    if k.shape[2] == 0 or heads % k.shape[2]:
        raise ArgumentError(
            "k", f"expected a number of heads that divides q's {heads} (grouped queries), got {k.shape[2]}"
        )
    if tuple(lengths.shape) != (batch,):
        raise ArgumentError("lengths", f"expected shape ({batch},) (one per sequence), got {tuple(lengths.shape)}")
    if block_table is None and k.shape[0] != batch:
        raise ArgumentError("k, v", f"expected {batch} sequences (because q has them), got {k.shape[0]}")
    if block_table is not None and block_table.shape[0] != batch:
        raise ArgumentError("block_table", f"expected {batch} rows (one per sequence), got {block_table.shape[0]}")


@operator(
    outputs=_specs,
    arrays={
        "q": "(batch, heads, size) or (batch, queries, heads, size)",
        "k": "(batch, tokens, kv_heads, size)",
        "v": "(batch, tokens, kv_heads, size)",
        "lengths": "(batch)",
        "block_table": "(batch, pages)",
        "out": "(batch, heads, size) or (batch, queries, heads, size)",
    },
    types=(
        Types(
            q=FLOATS,
            k="q",
            v="q",
            lengths=("int32", "int64"),
            block_table=("int32", "int64"),
            out=FLOATS,
            inside="float32",
            result="q",
        ),
    ),
)
def decode_attention(
    q: Any,
    k: Any,
    v: Any,
    lengths: Any,
    *,
    block_table: Any = None,
    max_length: int | None = None,
    window: int | None = None,
    softmax_scale: float | None = None,
    splits: int | None = None,
    uneven: bool = False,
    return_lse: bool = False,
    plan: DecodePlan | None = None,
    out: Any = None,
) -> Any:
    """Attention of ``q`` (batch, heads, size) over a cache of which ``lengths[batch]`` tokens are filled.

    Contiguous: ``k``, ``v`` are (batch, tokens, kv_heads, size). Paged: (pages, page_size, kv_heads, size) and
    ``block_table`` (batch, pages per sequence) says which page holds which tokens. ``max_length`` bounds every length
    (default: the capacity of the cache or table); a longer one stops the kernel, as does, on the CPU, a page that the
    cache does not have. With ``q`` (batch, queries, heads, size) the last tokens of the cache are the queries' own:
    query i sees the first length - queries + i + 1. ``window``: each query sees only the last ``window`` of those. A
    query that sees nothing gives zeros and a log-sum-exp of -inf; log-sum-exp is float32 (batch, heads) or (batch,
    heads, queries). ``uneven``: all shares are equally long, computed from all lengths, which every program reads; for
    batches of few long and many short sequences. ``plan`` replaces the one chosen from the shape.
    """
    batch, heads, size = q.shape[0], q.shape[-2], q.shape[-1]
    queries = q.shape[1] if q.ndim == 4 else 1
    check_cache(q, k, v, lengths, block_table)
    if max_length is not None and max_length < 0:
        raise ArgumentError("max_length", f"expected a number of tokens, got {max_length}")
    if window is not None and window < 1:
        raise ArgumentError("window", f"expected at least one token, got {window}")
    page_size, k_heads = k.shape[1], k.shape[2]
    capacity = page_size if block_table is None else page_size * block_table.shape[1]
    length = capacity if max_length is None else min(max_length, capacity)
    group = heads // k_heads
    out = output(out, Spec(q.shape, q.dtype), q, "out", {"q": q, "k": k, "v": v}, ("q",))
    lse = empty(Spec(lse_shape(q), "float32"), q) if return_lse else None
    if 0 in q.shape:
        return (out, lse) if return_lse else out
    machine = machine_of(q)
    paged = block_table is not None
    early = False if uneven else dependent_if_said()
    plan = plan or decode_plan(batch, k_heads, group, queries, size, q.itemsize, length, machine, splits, paged, early)
    if uneven:
        plan = plan.evened(batch, k_heads, machine)
    if strides(k) != strides(v):
        plan = replace(plan, alike=False, ahead=False)
    plan = plan.of_call(length if paged else None, window)
    if plan.sequences and window is not None:
        raise ArgumentError("uneven", "expected no window (because it makes lengths even), got one")
    pages = None
    if block_table is not None:
        for name, cache in (("k", k), ("v", v)):
            if (page_size - 1) * abs(strides(cache)[1]) >= 1 << 31:
                raise ArgumentError(
                    name,
                    "expected pages whose tokens are fewer than 2^31 elements apart (because places in a page are "
                    f"counted in 32 bits), got {page_size} tokens with a stride of {strides(cache)[1]} elements",
                )
        whole = page_size % plan.tokens == 0
        pages = Pages(block_table, *strides(block_table), k.shape[0], page_size, not machine.gpu, whole)
    tiles = batch * k_heads * plan.blocks
    scale = 1 / math.sqrt(size) if softmax_scale is None else softmax_scale
    decode_kernel[plan.grid(batch, k_heads)](
        queries_view(q),
        heads_view(k),
        heads_view(v),
        queries_view(out),
        lse,
        Lengths(lengths, strides(lengths)[0], length, batch if plan.sequences else None),
        pages,
        parts_of(tiles, batch, plan, q),
        scale * LOG2_E,
        window,
        size,
        PLAN=plan,
        HEADS=k_heads,
        **plan.options(machine),
    )
    return (out, lse) if return_lse else out
