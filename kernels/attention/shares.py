"""Keys of a block of queries in shares, one for each of several programs; the last to arrive combines them in order.

No program waits for another: each writes its share, then counts it, and whichever counts the last share reads all of
them back. So any order of programs gives the same bits.
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.attention.scores import finite
from kiln.kernels.counters import count_in
from kiln.kernels.fast import exp2_flushed

# Shares that the last program reads at once, times elements of a row: a thread holds half of those of a row.
READ_AHEAD: kl.constexpr = kl.constexpr(256)


@kiln.struct
class Shares:
    """The memory in which shares meet, COUNT places for each block of queries: the sums of values, the maximum and the
    sum of weights of each row, and how many shares have arrived. Counters are zero between launches."""

    sums: Any
    statistics: Any
    arrived: Any
    COUNT: kl.constexpr

    @kiln.jit
    def part(self):
        """Which share the program has."""
        return kl.program_id(1)

    @kiln.jit
    def of(self, walk):
        """The steps of the program's share of a walk, and how many shares have any (at least 1)."""
        steps = kl.cdiv(walk.end - walk.begin, walk.STEP)
        each = kl.maximum(kl.cdiv(steps, self.COUNT), 1)
        begin = walk.begin + self.part() * (each * walk.STEP)
        end = kl.minimum(begin + each * walk.STEP, walk.end)
        return walk._replace(begin=begin, end=end), kl.maximum(kl.cdiv(steps, each), 1)

    @kiln.jit
    def places(self, place, M: kl.constexpr, SIZE: kl.constexpr):
        """Pointers to a share's sums, in the layout in which tensor cores hold them, so that each thread stores its
        own: a warp has eight rows of eight columns, a thread pairs of columns; and to the maxima of its rows."""
        rows, columns = kl.arange(0, M)[:, None], kl.arange(0, SIZE)[None, :]
        start = self.sums + place.to(kl.int64) * (M * SIZE)
        sums = start + (rows // 8 * (SIZE * 8) + rows % 8 * 8) + columns % 8 + columns // 8 * 64
        return sums, self.statistics + place.to(kl.int64) * (2 * M) + kl.arange(0, M)

    @kiln.jit
    def combined(self, block, count, top, total, sums):
        """The maximum, the sum of weights and the sums of values of ``count`` shares."""
        TOGETHER: kl.constexpr = max(1, READ_AHEAD // sums.shape[1])
        top, total, sums = kl.full(top.shape, -float("inf"), top.dtype), kl.zeros_like(total), kl.zeros_like(sums)
        for first in range(0, count, TOGETHER):
            for i in kl.static_range(TOGETHER):
                inside = first + i < count
                at, of_rows = self.places(block * self.COUNT + first + i, *sums.shape)
                more = kl.load(of_rows, mask=inside, other=-float("inf"))
                best = kl.maximum(top, more)
                safe = finite(best)
                kept, share = exp2_flushed(top - safe), exp2_flushed(more - safe)
                total = total * kept + kl.load(of_rows + sums.shape[0], mask=inside, other=0.0) * share
                sums = sums * kept[:, None] + kl.load(at, mask=inside, other=0.0) * share[:, None]
                top = best
        return top, total, sums

    @kiln.jit
    def hand_in(self, block, count, top, total, sums):
        """Hands in the program's share of ``count`` for a block of queries. Returns the combination of all shares to
        the program that is last, and whether it is."""
        part = self.part()
        is_last = (count == 1) & (part == 0)
        if (count > 1) & (part < count):
            at, of_rows = self.places(block * self.COUNT + part, *sums.shape)
            kl.store(at, sums)
            kl.store(of_rows, top)
            kl.store(of_rows + sums.shape[0], total)
            is_last = count_in(self.arrived + block, count)
            if is_last:
                top, total, sums = self.combined(block, count, top, total, sums)
        return top, total, sums, is_last
