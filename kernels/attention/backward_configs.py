"""Tile sizes of attention's backward by shape."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

from kiln.kernels.attention.configs import Lengths, _capabilities, order
from kiln.kernels.machine import CPU, Machine, options

# Tokens of a causal window from which dq is made along with dk: programs of fewer steps are faster without.
LEAST_WINDOW = 512


@dataclass(frozen=True)
class BackwardPlan:
    """``n`` keys walk the queries, ``m`` per step; for dq ``dq_m`` queries walk the keys, ``dq_n`` per step.

    schedule   "streams" (copies by a producer; ``consumers`` groups of four warps), or none, where all of
               ``num_warps`` warps load and multiply
    rotated    whether a step's scores begin under the last products of the step before
    stages     slots of the rings of what is walked
    rows       queries per program, in kernels that only read or write rows
    together   heads that take turns, because a cache holds what they walk
    around     processors that programs go to in turn, every second round from the last to the first (0: always in the
               same direction); ``dq_around``: the same for dq
    atomics    whether dq is summed in memory along with dk, part by part, where any order is allowed
    in_turns   whether also where two runs are to give the same bits: blocks of keys then add in order
    """

    m: int
    n: int
    dq_m: int
    dq_n: int
    schedule: str | None = None
    stages: int = 2
    consumers: int = 2
    dq_stages: int = 2
    dq_consumers: int = 2
    num_warps: int = 4
    dq_warps: int = 4
    rows: int = 64
    together: int = 1
    around: int = 0
    dq_around: int = 0
    atomics: bool = True
    in_turns: bool = False
    rotated: bool = False

    def parts_turned(self, size: int) -> bool:
        """Whether dq's part of a step has the elements of a head as rows: where there are more of them than queries, or
        where the groups of warps, which take 64 rows each, cannot share the queries."""
        return self.m < size or (self.schedule is not None and self.m % (64 * self.consumers) != 0)

    def options(self, machine: Machine, dq: bool = False) -> dict[str, Any]:
        if not machine.gpu:
            return options()
        if self.schedule:
            stages, consumers = (self.dq_stages, self.dq_consumers) if dq else (self.stages, self.consumers)
            schedule = "rotated" if self.rotated and not dq else self.schedule
            return options(schedule=schedule, stages=stages, consumers=consumers, num_warps=8)
        return options(num_warps=self.dq_warps if dq else self.num_warps)

    def row_options(self, machine: Machine) -> dict[str, Any]:
        return options(num_warps=4) if machine.gpu else options()


def even_heads(heads: int, least: int) -> int:
    """The fewest heads to run together, at least ``least``, of which the last ones are at least as many, if any."""
    fitting = (count for count in range(least, heads) if heads % count == 0 or heads % count >= least)
    return next(fitting, heads)


@functools.lru_cache(maxsize=1024)
def backward_plan(
    q_tokens: int,
    k_tokens: int,
    sizes: tuple[int, int],
    itemsize: int,
    fetched: bool = False,
    causal: bool = False,
    machine: Machine = CPU,
    plain: bool = True,
    crowded: bool = False,
    along: str | None = "in turns",
    heads: int = 1,
    sharing: int = 1,
    window: int | None = None,
) -> BackwardPlan:
    """For heads of ``size`` elements (padded) of ``itemsize`` bytes, and their values; ``fetched``: the copy engine
    reads all arrays; ``plain``: no terms are applied to scores, and no window ends to the left; ``crowded``: terms
    take more than the spare registers; ``along``: how dq may be summed along with dk, "in turns" or "in any order"
    (None: not at all); ``heads``: heads of queries, over all batches, of which ``sharing`` share a head of keys;
    ``window``: tokens that a window reaches back, where it is all that is not plain."""
    side = max(sizes)

    def block(tokens: int) -> int:
        return 64 if tokens > 32 else 32 if tokens > 16 else 16

    m, n = block(q_tokens), block(k_tokens)
    if not machine.gpu:
        return BackwardPlan(m, n, m, n)
    # Programs of causal heads differ in length, the longest first: with few heads, one processor would get longer ones
    # in each round. What many heads walk leaves the L2, which costs little for long sequences: programs share it while
    # they run.
    tokens = max(q_tokens, k_tokens, 128)
    even = min(16 * machine.processors * 128 // tokens, 48) if causal else 1
    together = max(1, machine.l2_bytes // 2 // (2 * tokens * side * itemsize), even)
    capabilities = _capabilities(machine)
    tensor_cores = itemsize == 2 and side % 16 == 0 and side <= 256
    rows = max(8, 1 << (8192 // side).bit_length() - 1)

    def ordered(plan: BackwardPlan) -> BackwardPlan:
        """Causal programs in the order of forward attention with as many rows per block: the lengths of blocks of keys
        are those of blocks of queries in reverse. With heads of 64, dq's kernel has no registers for it."""
        if not causal or side <= 64:
            return plan
        lengths = Lengths(q_tokens, k_tokens, k_tokens)
        best = order(lengths, (plan.n, plan.m), heads, 1, 2 * side * itemsize, machine)
        return dataclasses.replace(plan, together=best.together, around=best.around, dq_around=best.around)

    if tensor_cores and "warpgroup_mma" in capabilities and fetched and side <= 128 and q_tokens > 64:
        # More queries per step leave no registers for sums of 64 keys by 128 elements; with 64 elements there is room,
        # and products of few columns wait for shared memory.
        blocks, in_turns = -(-max(k_tokens, 1) // 128), along == "in turns"
        walkers = max(1, heads // sharing)
        # Fewer than two programs for each processor mostly wait for each other's turns: seven products are faster.
        close = in_turns and walkers * blocks < 2 * machine.processors
        # Other windows than causal ones gain with few tokens, too (256 and 1024 were timed), but only in any order.
        reaches = window is not None and (window >= LEAST_WINDOW if causal else not in_turns)
        if (plain or reaches) and along and sizes in ((64, 64), (128, 128)) and not close:
            # dq's part of a step has elements as rows, 64 for each group, where there are fewer queries. Where dq is
            # made apart, other groups' products fill gaps, and beginning the next step's scores early costs 2 to 4 %.
            m, dq_n = (64, 64) if side > 64 else (128, 160)
            if causal:
                # Queries, their gradients and sums of dq of the heads that run together stay in the L2. The last heads,
                # too, take as long as their longest program; but in turns the shortest programs begin.
                near = max(1, machine.l2_bytes * 3 // 8 // (tokens * side * 4 * itemsize))
                least = -(-machine.processors * 2 // blocks)
                count = min(near, walkers) if in_turns else even_heads(walkers, max(near, least))
                if reaches and side <= 64:
                    count = even_heads(walkers, 16)  # of all that they walk, only the windows are in the L2 at once
            else:
                # As few as keep all processors busy, twice as many in turns.
                count = even_heads(walkers, max(1, round(machine.processors * (2 if in_turns else 1) / blocks)))
            five = BackwardPlan(m, 128, 128, dq_n, "streams", rows=rows, together=count, rotated=True)
            if reaches and not causal:
                # Both ends take registers.
                five = dataclasses.replace(five, m=64, rotated=side <= 64)
            return dataclasses.replace(five, in_turns=in_turns)
        long = side <= 64 and not causal and min(q_tokens, k_tokens) >= 16384
        m, dq_n = (64, 64) if side > 64 else (96, 160 if plain else 128)
        if crowded:
            m, dq_n = (32, 64) if side > 64 else (64, 64)
        plan = BackwardPlan(m, 128, 128, dq_n, "streams", rows=rows, together=together, atomics=False)
        if plain and long:
            # Three groups hide exponentials better than two, and waste more at the ends of blocks.
            plan = dataclasses.replace(plan, m=48, n=192, consumers=3, dq_m=192, dq_n=80, dq_consumers=3)
        return ordered(plan)
    # A thread holds its part of two sums of keys, of scores twice, and of the operands.
    if tensor_cores and "warp_mma" in capabilities:
        m, n = 64 if side <= 64 else 32, 64 if side <= 128 else 32
        return BackwardPlan(m, n, n, m, num_warps=8, dq_warps=4 if side <= 64 else 8, rows=rows, together=together)
    m = n = 32 if side <= 64 else 16
    return BackwardPlan(m, n, n, m, num_warps=4, dq_warps=4, rows=rows, together=together)
