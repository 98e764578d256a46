"""Tile sizes and splits by shape."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from kiln.kernels.machine import CPU, Machine, options


@dataclass(frozen=True)
class AttentionPlan:
    """``m`` queries and ``n`` keys per step.

    schedule   "attention" (copies by a producer; ``consumers`` groups of four warps, each with its own queries), or
               "simple" (all of ``num_warps`` warps copy and multiply)
    stages     slots of the rings that keys and values arrive in
    together   heads that take turns, because a cache holds their keys and values
    around     processors that programs go to in turn, every second round from the last to the first (0: always in the
               same direction): programs come longest first, and the first processor would get the longest of each round
    parts      parts of a row's sum, private to threads until the end
    pack       heads that share keys, as rows of one tile
    splits     programs that share the keys of a block of queries
    in_turn    groups issue the products of a step in turn, so that softmax of one runs under products of another
    guess      steps without a mask try the maximum of the steps before; where that was too low, warps do theirs again
    early      the launch may begin while the one before it ends
    """

    m: int
    n: int
    schedule: str = "simple"
    stages: int = 4
    consumers: int = 2
    num_warps: int = 4
    together: int = 1
    around: int = 0
    parts: int = 1
    pack: int = 1
    splits: int = 1
    in_turn: bool = False
    guess: bool = True
    early: bool = False

    def options(self, machine: Machine) -> dict[str, Any]:
        if not machine.gpu:
            return options()
        if self.schedule == "attention":
            # Arrays that share storage get no schedule: then this many warps compute the products unscheduled.
            schedule = "pingpong" if self.in_turn and self.consumers > 1 else "attention"
            early = {"pdl": True} if self.early else {}
            return options(schedule=schedule, stages=self.stages, consumers=self.consumers, num_warps=8, **early)
        return options(num_warps=self.num_warps)


@functools.lru_cache(maxsize=1024)
def prefill_plan(
    q_tokens: int,
    k_tokens: int,
    sizes: tuple[int, int],
    itemsize: int,
    fetched: bool = False,
    causal: bool = False,
    machine: Machine = CPU,
    side: int = 0,
    beside: int = 0,
    group: int = 1,
    terms: str = "",
    heads: int = 64,
    share: int = 1,
    left: int | None = None,
    widest: int = 128,
    turns: bool = True,
    ragged: bool = False,
) -> AttentionPlan:
    """For heads of ``size`` elements (padded) of ``itemsize`` bytes, and their values; ``fetched``: the copy engine
    reads all arrays; ``side``: the side of a mask's blocks, which tiles divide; ``beside``: bytes of bias per score;
    ``group``: heads that may be rows of one tile; ``terms``: a "tilt" of scores keeps a number for each key of a step
    in registers, others ("capped", "sloped" or "some"), like windows that end after a query, need a few; ``heads``:
    over all batches, ``share`` of which have the same keys; ``left``: how far back queries see; ``widest``: the most
    keys of a step for three groups (0: two groups at most), below 128 without spreading few programs; ``turns``:
    whether groups may issue in turn; ``ragged``: sequences are concatenated.

    Sums, scores and what is loaded for the next step stay in registers: wide heads leave room for fewer keys.
    """
    pack = packed(q_tokens, group, machine)
    if pack > 1:
        q_tokens, fetched = q_tokens * pack, False
    even = side + beside > 0
    plan = _prefill_plan(q_tokens, k_tokens, sizes, itemsize, fetched, causal, machine, even, terms)
    plan = dataclasses.replace(plan, pack=pack)
    if beside and machine.gpu:
        # Biases either pass through shared memory, with two tiles of them, or need an address each; both take
        # registers. Those of 16 bits leave room for 96 keys, or 80 in a window (where 64 spill), unless other terms or
        # wide heads take more.
        most = 128 // beside
        if beside == 2 and not side and widest == 128 and max(sizes) <= 128:
            most = 96 if left is None else 80
        plan = dataclasses.replace(plan, n=min(plan.n, most if plan.schedule == "attention" else 32))
    if side:
        plan = dataclasses.replace(plan, m=math.gcd(plan.m, side), n=math.gcd(plan.n, side))
    if plan.schedule == "attention":
        lengths = Lengths(q_tokens, k_tokens, k_tokens if left is None else left, causal)
        plans = [plan]
        if not even:
            # Blocks of 192 queries may leave too much unused.
            sides = keys_of_three(sizes, terms) if max(sizes) <= 64 or left is None else ()
            plans += [dataclasses.replace(plan, m=192, n=n, consumers=3) for n in sides if n <= widest]
        orders = [order(lengths, (p.m, p.n), heads, share, sum(sizes) * itemsize, machine) for p in plans]
        paces = _THREE_GROUPS[max(sizes) > 64, causal]
        pace = [one.steps * (paces[p.n] if p.consumers == 3 else 1.0) for one, p in zip(orders, plans, strict=True)]
        best = pace.index(min(pace))
        plan = dataclasses.replace(plans[best], together=orders[best].together, around=orders[best].around)
        in_turn = turns and not beside and gains_by_turns(sizes, causal, terms, side > 0)
        # What mends a guess takes a few registers more than these leave.
        full = (max(sizes) > 64 and side and terms) or (terms == "sloped" and plan.consumers == 3)
        guess = sizes[1] <= 128 and not full
        plan = dataclasses.replace(plan, in_turn=in_turn, guess=guess)
        if widest == 128 and not (side or ragged):
            # Few programs of windows, terms and biases were not timed with turns.
            plan = spread(plan, lengths, heads, sizes, machine, turns and left is None and not (terms or even))
    return plan


def keys_of_three(sizes: tuple[int, int], terms: str = "") -> tuple[int, ...]:
    """Keys per step worth comparing for three groups, which hide softmax better than two.

    Softmax takes as long as products of 64 elements. Blocks of 96 keys match the ends of blocks of queries; a tilt
    takes registers. Wider heads were timed without terms only, where steps have as many keys as registers hold; with
    the 80 of heads of 128, two groups are as fast."""
    if max(sizes) <= 64:
        return (80,) if terms == "tilt" else (128, 96)
    return (keys_in_registers(sizes[1]),) if max(sizes) <= 112 and not terms else ()


def keys_in_registers(v_size: int) -> int:
    """The most keys per step for three groups: a thread has 160 registers, 128 of them for scores, weights and sums."""
    return (128 - v_size // 2) * 4 // 3 // 16 * 16


def gains_by_turns(sizes: tuple[int, int], causal: bool, terms: str = "", listed: bool = False) -> bool:
    """Whether groups should issue in turn where there are more programs than processors; ``listed``: a block mask says
    which blocks they see.

    Heads of more than 64 elements gain, with values of at most 128, unless scores are capped and have no tilt (both
    together were not timed); wider ones than 192 lose. Of causal heads of 64, those with a block mask gain only if
    terms are applied, too; with all keys, terms and windows were not timed. Nor were smaller heads."""
    if max(sizes) > 64:
        return max(sizes) <= 192 and sizes[1] <= 128 and terms != "capped"
    return sizes == (64, 64) and ((not listed or terms != "") if causal else not (listed or terms))


def packed(q_tokens: int, group: int, machine: Machine) -> int:
    """Heads of a group in one tile: all of them, if each alone would fill at most half of the smallest tile. On a GPU
    only a plan can request it: it has not been timed yet."""
    return group if not machine.gpu and q_tokens <= 8 and group in (2, 4, 8, 16) else 1


def _prefill_plan(
    q_tokens: int,
    k_tokens: int,
    sizes: tuple[int, int],
    itemsize: int,
    fetched: bool,
    causal: bool,
    machine: Machine,
    even: bool,
    terms: str,
) -> AttentionPlan:
    """``even``: sides must be powers of two."""
    size = max(sizes)
    if not machine.gpu:
        block_m = 64 if q_tokens > 32 else 32 if q_tokens > 16 else 16
        return AttentionPlan(block_m, 64 if k_tokens > 32 else 32)
    together = heads_together(q_tokens, k_tokens, sizes, itemsize, machine) if causal else 1
    capabilities = _capabilities(machine)
    tensor_cores = itemsize == 2 and all(side % 16 == 0 and side <= 256 for side in sizes)
    if tensor_cores and "warpgroup_mma" in capabilities:
        if fetched and q_tokens > 64:
            if size <= 128:
                # A tilt's registers are missing if heads are wide.
                keys = 112 if terms == "tilt" and size > 64 and not even else 128
                return AttentionPlan(128, keys, "attention", parts=4)
            # The most that shared memory and the registers of 128 queries hold with wide heads.
            keys = 96 if causal else 112
            if sizes[1] > 128:
                keys = 96 if causal and not terms else 80
            return AttentionPlan(128, 64 if even else keys, "attention", parts=4)
        # Groups of four warps have 64 queries each; with at most 64 elements, registers suffice for two blocks per
        # processor.
        block_m, block_n = 128 if q_tokens > 64 else 64, 64 if size <= 128 else 32
        warps = block_m // 16
    elif tensor_cores and "warp_mma" in capabilities:
        # Each warp holds its own operands: all queries of 16 rows, and some keys at a time.
        block_m = 128 if q_tokens > 64 and 64 < size <= 128 else 64
        block_n = 64 if size <= 64 else 32 if size <= 128 else 16
        warps = 8 if size > 128 else block_m // 16
    else:
        # With heads of 128 elements, a thread has 32 accumulators.
        block_m, block_n = 64 if q_tokens > 32 else 32 if q_tokens > 16 else 16, 32 if size <= 128 else 16
        warps = max(2, block_m // 8)
    return AttentionPlan(block_m, block_n, num_warps=warps, together=together)


def heads_together(q_tokens: int, k_tokens: int, sizes: tuple[int, int], itemsize: int, machine: Machine) -> int:
    """How many causal heads take turns. Their programs differ in length, the longest first, and processors get them in
    order: with few heads, one processor would get longer ones each time. Keys and values of many heads leave the L2;
    with long sequences, whose programs share them while they run, that costs little."""
    in_cache = machine.l2_bytes // 2 // (k_tokens * sum(sizes) * itemsize)
    even = 16 * machine.processors * 128 // max(q_tokens, 128)
    return max(1, in_cache, min(even, 48))


# What a program takes besides its steps (the first one's softmax, the last one's product, results), in steps of 128
# keys; how many operations of the products pass while a byte comes from memory; and what that costs, and what a step
# more than the mean of the busiest processor costs, both in steps. At the power limit traffic takes clock, and idle
# processors give some back: fitted to 56 orders of causal heads of 64 and 128, 4096 and 16384 tokens, on an H200.
_BESIDE_STEPS, _OPERATIONS_A_BYTE, _FELT, _UNEVEN = 1.6, 150, 0.5, 0.65
# The time of 128 keys with three groups relative to two, by whether heads have more than 64 elements and are causal,
# and by keys per step: exponentials of 192 queries against products. A step of fewer keys takes more than its
# share; 80 were timed with a tilt. And what a causal program of three groups takes besides its steps: it masks more.
_THREE_GROUPS = {
    (False, False): {128: 1.29, 96: 1.32, 80: 1.335},
    (False, True): {128: 1.35, 96: 1.37, 80: 1.335},
    (True, False): {112: 1.40, 96: 1.40},
    (True, True): {112: 1.27, 96: 1.27},
}
_BESIDE_STEPS_OF_THREE = 3.0


class Order(NamedTuple):
    """``steps``: the time, in steps of 128 keys; ``together``, ``around``: see AttentionPlan."""

    steps: float
    together: int
    around: int


class Lengths(NamedTuple):
    """Numbers of queries and keys. A query sees at most the keys up to its own if ``causal``, otherwise all."""

    queries: int
    keys: int
    seen: int
    causal: bool = True


@functools.lru_cache(maxsize=4096)
def order(lengths: Lengths, tile: tuple[int, int], heads: int, group: int, row_bytes: int, machine: Machine) -> Order:
    """The best order for programs that processors take one by one, the longest first.

    ``row_bytes``: bytes of a key and its value, which ``group`` of the ``heads`` (over all batches) share. A program
    takes as long as it has steps, and the launch more than the mean of all processors where one has more; keys and
    values that do not stay in the L2 until the next program reads them cost a read from memory. All possible orders are
    evaluated.
    """
    import numpy as np

    (m, n), keys, processors = tile, lengths.keys, machine.processors
    blocks = -(-lengths.queries // m)
    last = np.arange(blocks, 0, -1) * m + (keys - lengths.queries) if lengths.causal else np.full(blocks, keys)
    steps = -(-np.clip(np.minimum(last, keys), 0, lengths.seen + m) // n) * (n / 128)
    beside = _BESIDE_STEPS_OF_THREE if lengths.causal and m > 128 else _BESIDE_STEPS
    if heads * blocks <= processors:
        return Order(float(steps.max()) + beside, 1, 0)
    held = group * (machine.l2_bytes // 2 // max(1, keys * row_bytes))
    turns = {t for t in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, held, heads) if 1 < t <= heads} if lengths.causal else ()
    best = Order(math.inf, 1, 0)
    for together in (1, *sorted(turns)):
        # Outside the cache, only programs that run at the same time read the same keys once.
        walked = heads * keys / 128
        if together > held:
            walked = heads * float(steps.sum()) * min(1.0, together / processors)
        memory = walked / group * _OPERATIONS_A_BYTE / m / processors
        whole, rest = divmod(heads, together)
        programs = np.concatenate([np.tile(np.repeat(steps, together), whole), np.repeat(steps, rest)]) + beside
        rest = len(programs) % processors
        table = np.pad(programs, (0, -len(programs) % processors)).reshape(-1, processors)
        for around in (0, processors) if lengths.causal else (0,):
            if around:
                shortest = table[-1, : rest or None].copy()
                table[1::2] = table[1::2, ::-1]
                if rest and len(table) % 2 == 0:
                    table[-1] = 0
                    table[-1, :rest] = shortest[::-1]
            of_each = table.sum(axis=0)
            mean = float(of_each.mean())
            time = mean + _UNEVEN * (float(of_each.max()) - mean)
            best = min(best, Order(max(time, memory) + _FELT * memory, together, around))
    return best


# A launch of few programs on an H200, in microseconds, fitted to 118 timed ones with heads of 64: the launch, what each
# group of a program takes besides its steps, what each program adds; a step of 128 keys by one group, by two, and by
# two in turn; handing in a share of the keys, and how many bytes the last program reads back in a microsecond.
_LAUNCH_US, _BESIDE_US, _PROGRAM_US = 2.1, 0.87, 0.009
_ONE_US, _TWO_US, _IN_TURN_US = 0.76, 1.39, 1.14
_HAND_IN_US, _BYTES_A_US = 1.6, 165e3
# What an element of a head adds to a group's step: heads of other sizes were not timed with few programs.
_ELEMENT_US = 0.3 / 64
# What shares must promise, as launches with shares are not repeated from a record.
_WORTH = 0.98


def tiles_of(plan: AttentionPlan, lengths: Lengths, heads: int) -> int:
    return heads * -(-lengths.queries // plan.m)


def walks(plan: AttentionPlan, lengths: Lengths) -> list[int]:
    """Steps of each block of queries, the last of which sees the most keys."""
    blocks, ends = range(1, -(-lengths.queries // plan.m) + 1), lengths.keys
    seen = [min(ends, i * plan.m + ends - lengths.queries) if lengths.causal else ends for i in blocks]
    return [max(1, -(-min(keys, lengths.seen + plan.m) // plan.n)) for keys in seen]


def useful_splits(steps: int, most: int) -> list[int]:
    """Numbers of shares, ``most`` at most, of which each makes the longest share shorter than the one before."""
    return sorted({n for n in (-(-steps // each) for each in range(1, steps + 1)) if n <= max(1, most)})


def few_us(plan: AttentionPlan, lengths: Lengths, heads: int, sizes: tuple[int, int]) -> float:
    """The time of a launch whose programs all run at the same time."""
    groups, steps = plan.consumers, walks(plan, lengths)
    step = _ONE_US if groups == 1 else _IN_TURN_US if plan.in_turn else _TWO_US
    step += groups * _ELEMENT_US * (max(sizes) - 64)
    # Shares without a step end at once.
    shares = [-(-walk // -(-walk // plan.splits)) for walk in steps]
    us = _LAUNCH_US + groups * _BESIDE_US + heads * sum(shares) * _PROGRAM_US
    us += -(-steps[-1] // plan.splits) * step * plan.n / 128
    if plan.splits > 1:
        us += _HAND_IN_US + shares[-1] * plan.m * sizes[1] * 4 / _BYTES_A_US
    return us


def is_few(plan: AttentionPlan, lengths: Lengths, heads: int, sizes: tuple[int, int], machine: Machine) -> bool:
    """Whether all programs of a plan of two groups, for heads of at most 128 elements, run at the same time."""
    return max(sizes) <= 128 and plan.consumers == 2 and tiles_of(plan, lengths, heads) <= machine.processors


def spread(
    plan: AttentionPlan, lengths: Lengths, heads: int, sizes: tuple[int, int], machine: Machine, turns: bool
) -> AttentionPlan:
    """For few programs, the plan that should be the fastest: with two groups, in turn if ``turns`` allows it, or one,
    and one or several programs for the keys of a block of queries. Several were not timed with turns. What such a
    launch takes to begin is much of its time, so it begins early. Other plans stay as they are."""
    if not is_few(plan, lengths, heads, sizes, machine):
        return plan
    plan = dataclasses.replace(plan, early=True)
    best = dataclasses.replace(plan, in_turn=turns)
    for tile in (best, dataclasses.replace(plan, m=64, consumers=1, in_turn=False)):
        most = machine.processors // tiles_of(tile, lengths, heads)
        for splits in useful_splits(walks(tile, lengths)[-1], most) if most else ():
            tried = dataclasses.replace(tile, splits=splits, in_turn=tile.in_turn and splits == 1)
            worth = _WORTH if splits > 1 and best.splits == 1 else 1.0
            if few_us(tried, lengths, heads, sizes) < worth * few_us(best, lengths, heads, sizes):
                best = tried
    return best


# The most keys per step that one and two groups' registers hold, found by compiling.
_MOST_KEYS = 176


def candidates(
    q_tokens: int,
    k_tokens: int,
    sizes: tuple[int, int],
    itemsize: int,
    causal: bool,
    machine: Machine,
    heads: int = 64,
    share: int = 1,
) -> list[AttentionPlan]:
    """Plans worth timing for plain attention of arrays that the copy engine reads, the default first: tiles of other
    sides, each in the best order that `order` knows; for the default's tile, other orders and fewer slots; where there
    are few programs, other numbers of shares."""
    default = prefill_plan(q_tokens, k_tokens, sizes, itemsize, True, causal, machine, heads=heads, share=share)
    if default.schedule != "attention":
        sides = sorted({default.m // 2, default.m, 2 * default.m} - {8})
        steps = sorted({max(16, default.n // 2), default.n, 2 * default.n})
        if machine.gpu:  # more would not stay in registers
            sides, steps = [m for m in sides if m <= default.m], [n for n in steps if n <= default.n]
        found = [dataclasses.replace(default, m=m, n=n) for m in sides for n in steps]
        return list(dict.fromkeys([default, *found]))
    lengths, row_bytes = Lengths(q_tokens, k_tokens, k_tokens, causal), sum(sizes) * itemsize
    two = dataclasses.replace(default, m=128, n=128, consumers=2)
    few = is_few(two, lengths, heads, sizes, machine)

    def tile(m: int, n: int) -> AttentionPlan:
        best = order(lengths, (m, n), heads, share, row_bytes, machine)
        turns = {"together": best.together, "around": best.around}
        in_turn = m > 64 and (few or gains_by_turns(sizes, causal))
        return dataclasses.replace(default, m=m, n=n, consumers=m // 64, splits=1, in_turn=in_turn, **turns)

    found = [default]
    if max(sizes) <= 128:
        for m in (128, 192, 64):
            most = keys_in_registers(sizes[1]) if m == 192 else _MOST_KEYS
            found += [tile(m, n) for n in range(64, most + 1, 16 if m > 64 else 32)]
    for one in (tile(128, 128), tile(64, 128)) if few else ():
        steps, most = walks(one, lengths)[-1], machine.processors // tiles_of(one, lengths, heads)
        found += [dataclasses.replace(one, splits=splits) for splits in useful_splits(steps, most)[-4:]]
        if one.m == 64:
            # Two programs per multiprocessor: steps of 64 keys, or short rings (masks take too many registers for two).
            for half in (tile(64, 64), *(() if causal else (dataclasses.replace(one, stages=2),))):
                splits = useful_splits(walks(half, lengths)[-1], 2 * most)[-2:]
                found += [dataclasses.replace(half, splits=n) for n in splits]
    if causal and not few:  # the order of programs that all run at once does not matter
        turns = ((1, 0), (1, machine.processors), (heads, 0), (heads, machine.processors))
        found += [dataclasses.replace(default, together=together, around=around) for together, around in turns]
    found += [dataclasses.replace(default, stages=stages) for stages in (2, 3)]
    if default.consumers > 1:
        found.append(dataclasses.replace(default, in_turn=not default.in_turn))
    return list(dict.fromkeys(found))


@functools.lru_cache(maxsize=64)
def _capabilities(machine: Machine) -> frozenset[str]:
    from kiln import _kiln

    return frozenset(_kiln.target(machine.target)["capabilities"])
