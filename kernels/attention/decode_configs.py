"""How a cache is cut for decoding."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

from kiln.kernels.machine import Machine, options
from kiln.kernels.operator import tile_side

# Bytes of shared memory per multiprocessor that rings may take.
SHARED = 200 << 10
# With so many bytes, a multiprocessor has no room for a second program.
MORE_THAN_HALF = 114 << 10
# Fewer cached tokens than this do not deserve their own program: handing in takes longer than reading them.
LEAST_SPLIT = 64
# Tokens of a share that takes longer than handing it in.
LONG_SHARE = 512
# Tokens of a share, more of which copy rows at once instead of by lanes.
LONGEST_OF_LANES = 16 * LONG_SHARE
# Steps of a program in waves that look up pages, more of which are read by two programs at once, not three.
LEAST_PAIRED = 6
# Steps of a program, and tokens of a sequence, whose pages are all looked up before the first step: each is a register
# and a selection, and of long sequences a line of the table.
MOST_KNOWN, LONGEST_KNOWN = 32, 32 * LONG_SHARE


@dataclass(frozen=True)
class DecodePlan:
    """A launch of decode: ``rows`` (queries times the heads of a group, padded) against ``tokens`` of the cache per
    step. Eight rows are columns of the products.

    lanes      parts of a step's tokens, each with its own running maximum and sum: one per warp, so that no warp waits
               for
               another before the end
    side       elements of a head, padded
    group      heads of queries that share a head of keys; ``queries`` of each sequence
    splits     most programs that share a sequence; no share is shorter than ``least`` tokens
    stages     slots of the ring that keys and values arrive in, where tensor cores multiply
    merged     parts that the last program loads at once
    bits       bits of an element of the cache (16: or more)
    in_turns   programs that share a sequence take its steps in turns; otherwise a run of steps each
    sequences  sequences of the batch, or slightly more, if shares are equally long: ``splits`` for each head, and at
               most
               one more for each sequence (0: each sequence has ``splits``)
    alike      keys and values have the same strides: their offsets are computed once
    ahead      pages of a step are looked up two steps ahead, once for keys and values, which are alike
    known      pages of all steps, of which there are at most so many, are looked up before the first (0: they are not)
    registers  most registers per thread (0: the assembler's choice, which may spill for more programs than memory
               needs)
    schedule   `lanes`: each warp copies what it multiplies, and waits for no other; `simple`: all copy for all
    apart      all programs run at once, and none of the next launch fits beside one of them
    early      the launch may begin while the one before it ends
    asks       a program asks for its first step before its launch waits for the launch before it
    """

    rows: int
    tokens: int
    size: int
    side: int
    group: int
    queries: int = 1
    lanes: int = 1
    splits: int = 1
    least: int = LEAST_SPLIT
    stages: int = 0
    num_warps: int = 4
    merged: int = 8
    bits: int = 16
    in_turns: bool = False
    sequences: int = 0
    alike: bool = True
    ahead: bool = False
    registers: int = 0
    schedule: str = "simple"
    apart: bool = False
    known: int = 0
    early: bool = False
    asks: bool = False

    @property
    def blocks(self) -> int:
        """The number of tiles of rows."""
        return -(-self.group * self.queries // self.rows)

    @property
    def in_columns(self) -> bool:
        """Whether queries are columns of the products: tensor cores take eight columns but sixteen rows."""
        return self.rows == 8

    @property
    def axis(self) -> int:
        """The dimension of scores that counts tokens."""
        return 1 if self.in_columns else -1

    @property
    def stride(self) -> int:
        """Tokens from one step of a program to its next."""
        return self.tokens * (self.splits if self.in_turns else 1)

    @property
    def pace(self) -> int:
        """What a loop over a program's steps counts by: steps or tokens."""
        return 1 if self.in_turns else self.tokens

    def grid(self, batch: int, k_heads: int) -> tuple[int, int]:
        if self.sequences:
            return k_heads * self.blocks, self.splits + batch
        return batch * k_heads * self.blocks, self.splits

    def of_call(self, paged: int | None, window: int | None) -> DecodePlan:
        """The plan for a call; ``paged``: the most tokens of a sequence, if the cache is paged. It asks for the first
        step only where that depends on no length, and knows all pages only if it knows those of all steps."""
        in_order = self.in_turns or (self.splits == 1 and not self.sequences)
        knows = in_order and paged is not None and self.known * self.stride >= paged
        known = self.known if knows else 0
        return replace(self, known=known, asks=self.asks and in_order and window is None)

    def shares(self, tiles: int, batch: int) -> int:
        """The most shares handed in for ``tiles`` tiles of a batch."""
        return tiles // batch * (self.splits + batch) if self.sequences else tiles * self.splits

    def evened(self, batch: int, k_heads: int, machine: Machine) -> DecodePlan:
        """With equally long shares: two for each processor, so that one begun late costs half as much: three
        slots leave room for both."""
        splits = max(1, 2 * (machine.processors if machine.gpu else 4) // (k_heads * self.blocks))
        merged = merged_at_once(self) if self.stages else self.merged
        sequences = 1 << max(0, batch - 1).bit_length()
        stages = min(self.stages, 3)
        return replace(
            self,
            sequences=sequences,
            splits=splits,
            merged=merged,
            in_turns=False,
            stages=stages,
            ahead=self.ahead or self.known > 0,
            known=0,
            apart=False,
            early=False,
        )

    @property
    def members(self) -> int:
        """The rows of a tile in use, slightly rounded up."""
        return min(self.rows, tile_side(self.group * self.queries, 1))

    @property
    def whole(self) -> bool:
        """Whether heads fill the tiles."""
        return self.size == self.side

    def options(self, machine: Machine) -> dict[str, Any]:
        if not machine.gpu:
            return options()
        chosen: dict[str, Any] = {"num_warps": self.num_warps}
        if self.stages:
            chosen |= {"schedule": self.schedule, "stages": self.stages}
        if self.registers:
            chosen["maxnreg"] = self.registers
        if self.apart:
            chosen["single_wave"] = True
        if self.early:
            chosen["pdl"] = True
        return options(**chosen)


# Most rows of one tile, and elements of a result that a warp holds: 64 registers per thread.
MOST_ROWS = 64
WARP_ELEMENTS = 2048
WARPS = 4


@functools.lru_cache(maxsize=1024)
def decode_plan(
    batch: int,
    k_heads: int,
    group: int,
    queries: int,
    size: int,
    itemsize: int,
    length: int,
    machine: Machine,
    splits: int | None = None,
    paged: bool = False,
    dependent: bool | None = None,
) -> DecodePlan:
    """For ``batch`` sequences of at most ``length`` tokens. ``dependent``: whether launches begin before the last one
    ends, if the target lets them (None: where that is faster)."""
    side, rows = tile_side(size), group * queries
    if not machine.gpu or itemsize > 2:
        return _without_tensor_cores(batch * k_heads, group, queries, size, length, machine, splits)
    tile = min(tile_side(rows), MOST_ROWS)
    # One lane per warp, if a warp's registers hold the result of one.
    fitting = max(1, WARPS * WARP_ELEMENTS // (tile * side))
    lanes = min(WARPS, 1 << fitting.bit_length() - 1)
    tokens = 16 * WARPS if side <= 128 else 8 * WARPS
    slot = 2 * tokens * side * itemsize
    four_fit = fits(4 * slot, machine)
    # One program per multiprocessor: its ring keeps memory busy, and more shares cost more to hand in.
    tiles = batch * k_heads * -(-rows // tile)
    most = max(1, -(-length // LEAST_SPLIT))
    alone = even_splits(tiles, machine.processors)
    shares = max(1, fewest_splits(min(alone, most), length, tokens) if splits is None else splits)
    # With pages two, if shares are long or few: addresses take longer to arrive, and each program hides the other's
    # wait. But one with four slots, if launches can begin early (heads of other sizes were not timed).
    ready = size == 128 and lanes == WARPS and four_fit and begins_early(machine, dependent, True)
    one = ready and tiles * shares <= machine.processors and length // shares <= LONGEST_OF_LANES
    many = tiles * length >= 2 * machine.processors * LONG_SHARE or 1 < alone <= 3
    doubled = paged and many and not one
    if doubled and splits is None:
        shares = fewest_splits(min(even_splits(tiles, 2 * machine.processors), most), length, tokens)
    early = begins_early(machine, dependent, size == 128 and not in_pairs(tiles * shares, machine))
    # With four slots, half of the processors read memory as fast as all, and nothing is handed in; so does a third what
    # launches that begin early have mostly asked for already.
    half = 0.9 * machine.processors <= 2 * tiles <= machine.processors and length <= LONGEST_OF_LANES
    late = four_fit and lanes == WARPS and length >= LONG_SHARE and not early
    third = ready and short_alone(tiles, length, machine)
    if splits is None and not paged and (third or (half and (ready or late))):
        shares = 1
    steps = -(-length // (shares * tokens))
    # One wave of programs, or more sequences than processors.
    single, crowded = tiles * shares <= machine.processors, tiles > machine.processors and shares == 1
    # Two slots let three programs of a processor run at once, three slots two, whose last wave may be the fuller one of
    # several (only where launches begin early; heads of other sizes were not timed).
    two, three = (filled(tiles, count * machine.processors) for count in (2, 3))
    several = tiles > 2 * machine.processors and two >= three
    paired = paged and early and crowded and several and size == 128 and lanes == WARPS and steps > LEAST_PAIRED
    # Long programs, and more than run at once unless they look up pages, read memory faster if a row is copied at once,
    # not in halves.
    at_once = not crowded or tiles <= 3 * machine.processors
    suits = at_once or paired or (paged and length <= 2 * LONG_SHARE)
    by_lanes = suits and lanes == WARPS and length // shares <= LONGEST_OF_LANES
    deep = by_lanes and single and four_fit and (early or not paged)
    # If the next launch begins early, its programs should find no room beside these: some processors would get two of
    # them and others none.
    apart = early and deep and fills(4 * slot, machine) and not fit_beside(steps, tiles * shares, machine)
    # Of more programs than processors, which hide each other's waits, more fit with two slots. Of late programs, whose
    # pages are looked up two steps ahead, more would be filled late.
    if paired:
        stages = 3
    elif crowded or doubled or (steps <= (4 if paged else 2) and not apart):
        stages = 2
    else:
        four = deep and (apart or shares > 1 or 2 * tiles <= machine.processors)
        stages = 4 if four else max(2, min(3, SHARED // 2 // slot))
    # Queries as columns take fewer instructions, but more of them wait for others.
    most_rows = 4 if steps <= 2 and not apart else 2
    narrow = by_lanes and size == 128 and rows <= most_rows and not (paged or crowded)
    # Steps in turns were never slower in eight rows, and up to 3 % faster: concurrent programs read one run of memory.
    # Looking pages up ahead costs a program with few steps more than it saves, unless there are only two slots.
    looks = shares > 1 or (crowded and (not paired or steps > 3 * LEAST_PAIRED))
    plan = DecodePlan(tile, tokens, size, side, group, queries, lanes, shares, LEAST_SPLIT, stages, WARPS)
    known = steps if paged and early and single and steps <= MOST_KNOWN and length <= LONGEST_KNOWN else 0
    ahead = paged and not known and looks
    plan = replace(plan, in_turns=shares > 1, ahead=ahead, known=known, apart=apart)
    plan = replace(plan, early=early, asks=early and (single or not paged))
    plan = merging(replace(plan, rows=8 if narrow else tile, schedule="lanes" if by_lanes else "simple"))
    if splits is None and ready and half and 2 * tokens < length <= LONG_SHARE and fills(6 * slot, machine):
        return widened(plan, tile, length)
    return plan


def widened(plan: DecodePlan, rows: int, length: int) -> DecodePlan:
    """One program of twice as many warps for each sequence, which looks up all of its pages first: for a few steps,
    they begin sooner."""
    plan = replace(plan, rows=rows, splits=1, merged=1, in_turns=False, ahead=False, schedule="lanes", apart=True)
    plan = replace(plan, tokens=2 * plan.tokens, lanes=2 * plan.lanes, num_warps=2 * plan.num_warps, stages=3)
    return replace(plan, known=-(-length // plan.tokens) if plan.known else 0)


def candidates(
    batch: int,
    k_heads: int,
    group: int,
    queries: int,
    size: int,
    itemsize: int,
    length: int,
    machine: Machine,
    paged: bool = False,
) -> list[DecodePlan]:
    """Plans worth timing, the default first: more and fewer shares and slots, steps in turns and in runs, the other
    schedule, other numbers of tokens per step, lanes and warps, and queries as columns or as rows."""
    default = decode_plan(batch, k_heads, group, queries, size, itemsize, length, machine, paged=paged)
    most = max(1, -(-length // max(default.least, default.tokens)))
    shares = [default.splits * 2, default.splits // 2, default.splits + 1, default.splits * 3 // 2]
    found = [default]
    for splits in shares:
        if 1 <= splits <= most:
            turns = {"in_turns": splits > 1 and default.stages > 0}
            found.append(replace(default, splits=splits, ahead=default.ahead and splits > 1, **turns))
    if not default.stages:  # no tensor cores: a loop without slots
        found += [replace(default, tokens=tokens) for tokens in (default.tokens // 2, default.tokens * 2)]
        return list(dict.fromkeys(found))
    if default.splits > 1:
        found.append(replace(default, in_turns=not default.in_turns))
    if default.lanes == default.num_warps:
        other = "simple" if default.schedule == "lanes" else "lanes"
        found += [replace(default, schedule=other, stages=stages) for stages in (2, 3)]
    forms = [default]
    if group * queries <= 8 and default.lanes == default.num_warps == WARPS and size == 128:
        forms.append(replace(default, rows=24 - default.rows if default.rows in (8, 16) else 8))
    for form in forms:
        tokens, lanes, warps = form.tokens, form.lanes, form.num_warps
        found.append(form)
        found += [replace(form, stages=stages) for stages in (2, 3, 4, 6)]
        # Half as many programs, of twice as many warps, each with a lane, and twice as many of half.
        for factor in (0.5, 2.0):
            sides = int(tokens * factor), int(lanes * factor), int(warps * factor)
            if lanes == warps and form.rows > 8 and sides[0] <= 128:
                splits = max(1, min(most, int(form.splits / factor)))
                changed = replace(form, tokens=sides[0], lanes=sides[1], num_warps=sides[2], stages=3, splits=splits)
                found.append(replace(changed, in_turns=form.in_turns and splits > 1))
    rings = ((plan, plan.stages * 2 * plan.tokens * plan.side * itemsize) for plan in found)
    tiles = batch * k_heads * default.blocks
    fitting = [settled(plan, tiles, ring, length, machine) for plan, ring in rings if ring <= SHARED]
    return list(dict.fromkeys([default, *map(merging, fitting)]))


def settled(plan: DecodePlan, tiles: int, ring: int, length: int, machine: Machine) -> DecodePlan:
    """What a change of the number of programs, or of their rings, means for launches that begin early, and for pages
    that are all looked up in advance."""
    programs = tiles * plan.splits
    early = plan.early and not in_pairs(programs, machine)
    apart = early and programs <= machine.processors and ring > MORE_THAN_HALF
    steps = -(-length // (plan.splits * plan.tokens))
    known = steps if plan.known and steps <= MOST_KNOWN and (plan.in_turns or plan.splits == 1) else 0
    ahead = plan.ahead or (plan.known > 0 and known == 0 and plan.splits > 1)
    return replace(plan, early=early, apart=apart, asks=early and plan.asks, known=known, ahead=ahead)


def merging(plan: DecodePlan) -> DecodePlan:
    """The plan with as many parts merged at once as there are, rounded up to a power of two, if registers hold these:
    the last program would load more for nothing."""
    return replace(plan, merged=min(merged_at_once(plan), 1 << (plan.splits - 1).bit_length()))


def merged_at_once(plan: DecodePlan) -> int:
    """The number of parts that a program's registers hold."""
    return 1 << max(0, (plan.num_warps * WARP_ELEMENTS // (plan.members * plan.side)).bit_length() - 1)


def begins_early(machine: Machine, dependent: bool | None, faster: bool) -> bool:
    """Whether a launch begins before the one before it ends: as asked for, or where that is ``faster``."""
    from kiln import _kiln

    asked = faster if dependent is None else dependent
    return asked and machine.gpu and "pdl" in _kiln.target(machine.target)["capabilities"]


def fits(ring: int, machine: Machine) -> bool:
    """Whether so many bytes of slots fit into a program's shared memory."""
    from kiln import _kiln

    return machine.gpu and ring < _kiln.target(machine.target)["limits"]["max_shared_bytes"]


def fills(ring: int, machine: Machine) -> bool:
    """Whether so many bytes of slots fit, and leave no room for a second program."""
    return ring > MORE_THAN_HALF and fits(ring, machine)


def short_alone(tiles: int, length: int, machine: Machine) -> bool:
    """Whether one program reads a short sequence sooner than two or three that hand in, if launches begin early."""
    return 1 < machine.processors // tiles <= 3 and length <= LONG_SHARE


def fit_beside(steps: int, programs: int, machine: Machine) -> bool:
    """Whether two launches do well beside each other: of one step each, on half of the processors."""
    return steps == 1 and 2 * programs <= machine.processors


def in_pairs(programs: int, machine: Machine) -> bool:
    """Whether processors have about two programs each, which leave room for more: with those of a launch that begins
    early, some have three or four, and others one."""
    return machine.processors < programs < 2.5 * machine.processors


def filled(programs: int, places: int) -> float:
    """How full waves of programs are on average."""
    return programs / places / -(-programs // places)


def even_splits(tiles: int, workers: int) -> int:
    """The fewest shares per tile with which programs fill whole waves of workers to at least nine tenths."""
    most = max(1, workers // tiles)
    if tiles < workers:
        return most
    return next((n for n in range(1, 5) if filled(tiles * n, workers) >= 0.9), 4)


def fewest_splits(splits: int, length: int, tokens: int) -> int:
    """As few shares as take no more steps of ``tokens`` each than ``splits`` would; one at least, and no more than
    there are steps."""
    steps = max(1, -(-length // tokens))
    return -(-steps // -(-steps // splits))


def _without_tensor_cores(
    tiles: int, group: int, queries: int, size: int, length: int, machine: Machine, splits: int | None
) -> DecodePlan:
    """Products by multiply-adds: tiles as small as the problem."""
    tokens, least = (32, 256) if machine.gpu else (64, 256)
    shares = max(1, min(-(-256 // max(tiles, 1)), length // least)) if splits is None else max(1, splits)
    rows = min(tile_side(group * queries, 1), 16)
    return DecodePlan(
        rows, tokens, size, tile_side(size), group, queries, splits=shares, least=1 if splits else least, merged=4
    )
