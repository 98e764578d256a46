"""How much of a flat array a program takes: the launch policy of elementwise kernels.

On a GPU a thread makes one 16-byte access to each array, or a few; for small arrays, threads and programs take less
until the programs cover the machine. On the CPU a program takes what the first-level cache holds.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import Machine, is_dependent, is_streaming, options, with_options
from kiln.kernels.operator import tile_side
from kiln.kernels.rows import rows_tile
from kiln.kernels.views import Tile, promise

VECTOR_BYTES = 16
WARP = 32
# Programs that a multiprocessor holds at once.
RESIDENT = 32
# Arrays this many times the size of the L2 are read with the priority that it keeps longest: 0.5 to 2 % faster; smaller
# ones would be 1 to 2 % slower. (For rows that wait for an exchange the threshold is lower: `rows.py`.)
STREAM_L2S = 4.0
# Arrays that cannot give every multiprocessor a program of four warps use programs of eight warps with narrow accesses,
# down to one element (µs: SwiGLU of 1×1536 1.56 instead of 1.67 by programs of one warp, of 44×896 1.81 instead of
# 1.89, of 130×896 2.0 instead of 2.07).
SMALL_WARPS = 8
# Programs let the next launch begin one at a time, 0.6 ns apart, so each should move about 4 KB. Eight warps take these
# elements sooner than four (bias + GELU of 130×896 1.24 instead of 1.63 µs, of 777×896 1.87 instead of 2.16). Blocks of
# 1024 are only for rows that would leave most of a larger one idle (4096×5120 by blocks of 2048 21.6, of 1024 26.3);
# when there are so many of those, beginning early loses (4096×896 6.1 instead of 5.5). Many programs of rows do better
# with twice the elements per thread (1024×4096 5.1 instead of 5.3), those of one array with eight warps (SwiGLU of
# 777×7168 9.0 instead of 9.6).
DEPENDENT_WARPS = 8
MANY_PROGRAMS = 8
DEPENDENT_IDLE = 1.75
# The idle share of a block from which smaller blocks are tried, and by how much they have to be less idle.
MOST_IDLE = 1.1
LARGEST_AXIS = 65535
LARGEST_NARROW = (1 << 31) - (1 << 20)


@dataclass(frozen=True)
class FlatPlan:
    """``block`` elements of each of ``rows`` rows per program, held by ``num_warps`` warps of a GPU. ``streaming``: the
    reads are several times the size of the L2. ``early``: the next launch may begin before this one ends."""

    block: int
    num_warps: int = 4
    streaming: bool = False
    rows: int = 1
    early: bool = True

    def grid(self, rows: int, n: int) -> tuple[int, ...]:
        """One program per block of each row, or per group of whole rows. Only the first axis of a grid can exceed
        65535."""
        if self.rows > 1:
            return (-(-rows // self.rows),)
        blocks = -(-n // self.block)
        return (blocks * rows,) if rows == 1 or rows > LARGEST_AXIS else (blocks, rows)

    def meta(self, rows: int, n: int, machine: Machine) -> dict[str, Any]:
        """The constexpr argument PLAN, for kernels whose programs take blocks of rows, and the launch options."""
        return with_options(_meta(self, rows, n, machine.gpu), self.early)

    def form(self, n: int) -> FlatForm:
        """PLAN for kernels whose programs take blocks of one array of ``n`` elements."""
        return FlatForm(self.block, "one row", n % self.block == 0, needs_wide_index(n))

    def options(self, machine: Machine) -> dict[str, Any]:
        return with_options(_options(self), self.early) if machine.gpu else options()


def _options(plan: FlatPlan) -> dict[str, Any]:
    return {"num_warps": plan.num_warps, **({"streaming": True} if plan.streaming else {})}


@functools.lru_cache(maxsize=4096)
def _meta(plan: FlatPlan, rows: int, n: int, gpu: bool) -> dict[str, Any]:
    if plan.rows > 1:
        numbering = "whole rows"
    else:
        numbering = "one row" if rows == 1 else "along rows" if rows > LARGEST_AXIS else "two axes"
    form = FlatForm(plan.block, numbering, n % plan.block == 0, False, plan.rows, rows % plan.rows == 0)
    return {"PLAN": form, **(_options(plan) if gpu else {})}


def plan(
    n: int,
    itemsize: int,
    machine: Machine,
    *,
    rows: int = 1,
    accesses: int = 1,
    cpu_block: int = 2048,
    many_arrays: bool = False,
    read_bytes: int = 0,
    whole_rows: bool = False,
) -> FlatPlan:
    """The plan for ``rows`` rows of ``n`` elements of ``itemsize`` bytes; each thread makes ``accesses`` to each array.

    ``many_arrays``: each element moves so many bytes that programs of one warp are worth starting.
    ``read_bytes``: bytes that the kernel reads once, over all its arrays; streamed if they are many.
    ``whole_rows``: a program may take several rows if they are short.
    """
    if not machine.gpu:
        return FlatPlan(cpu_block)
    streaming = is_streaming(read_bytes, machine, STREAM_L2S)
    return _gpu_plan(n, itemsize, machine, rows, accesses, is_dependent(), many_arrays, streaming, whole_rows)


@functools.lru_cache(maxsize=4096)
def _gpu_plan(
    n: int,
    itemsize: int,
    machine: Machine,
    rows: int,
    accesses: int,
    dependent: bool,
    many_arrays: bool,
    streaming: bool,
    whole_rows: bool,
) -> FlatPlan:
    vector = max(1, VECTOR_BYTES // itemsize)
    each, warps = vector * accesses, 4
    if dependent and many_arrays:
        each = vector * max(accesses, 2)
    elif dependent:
        each, warps = vector, DEPENDENT_WARPS

    def programs() -> int:
        return rows * -(-n // (each * warps * WARP))

    def idle(block: int) -> float:
        return -(-n // block) * block / n

    # Rows short enough for a program to take several, as long as there are enough programs.
    short, several = tile_side(n, vector), 1
    while whole_rows and 2 * several * short <= each * warps * WARP and rows >= 4 * several * machine.processors:
        several *= 2
    if dependent and several > 1 and rows // several >= MANY_PROGRAMS * machine.processors:
        warps //= 2
    # Threads take equal numbers of whole accesses, or of half ones; fewer warps then need enough programs (bias + GELU
    # of 4096×896 4.65 instead of 5.45 µs).
    even = warps
    while even > 1 and several * short % (even * WARP * max(1, vector // 2)):
        even //= 2
    if several > 1 and (even == warps or rows >= 8 * several * machine.processors):
        return FlatPlan(short, even, streaming, several)
    if dependent and not many_arrays:
        mostly_idle = rows > 1 and idle(each * warps * WARP) > DEPENDENT_IDLE
        many = programs() >= MANY_PROGRAMS * machine.processors
        if programs() < 2 * machine.processors or mostly_idle:
            each = max(1, each // 2)
        elif many and rows > 1:
            warps //= 2
            each *= 2
        return FlatPlan(each * warps * WARP, warps, streaming, early=not (many and mostly_idle))
    while programs() < 2 * machine.processors and each > vector:
        each //= 2
    if programs() < machine.processors:
        each, warps = max(1, vector // 2), SMALL_WARPS
        while programs() < machine.processors and each > 1:
            each //= 2
        return FlatPlan(each * warps * WARP, warps, streaming)
    # One warp per program where each multiprocessor can then hold all of its programs at once.
    if many_arrays and rows * -(-n // (each * WARP)) <= RESIDENT * machine.processors:
        warps = 1
    # A row that ends inside a block leaves its last program partly idle; use smaller blocks if they waste less. Blocks
    # of less than one access for each of four warps pay only if all run at once (bias + GELU of 4096×3584 16.1 µs by
    # blocks of 1024, 19.1 by blocks of 512).
    block, smaller = each * warps * WARP, each * warps * WARP // 2
    while rows > 1 and smaller >= each * WARP and idle(block) > MOST_IDLE:
        if smaller < vector * 4 * WARP and rows * -(-n // smaller) > RESIDENT * machine.processors:
            break
        if idle(smaller) < idle(block):
            block = smaller
        smaller //= 2
    return FlatPlan(block, block // (each * WARP), streaming)


@kiln.struct
class FlatForm:
    """Which BLOCK columns of a row a program takes; PLAN of the elementwise kernels.

    NUMBERING says how programs are numbered: "one row"; "two axes", with rows on the second axis; "along rows", row
    after row; or "whole rows", ROWS of them per program. FULL: no column is missing; EVEN: no row is missing. WIDE:
    column indices have 64 bits (only in `columns`).
    """

    BLOCK: kl.constexpr
    NUMBERING: kl.constexpr
    FULL: kl.constexpr
    WIDE: kl.constexpr = False
    ROWS: kl.constexpr = 1
    EVEN: kl.constexpr = True

    @kiln.jit
    def columns(self):
        """The program's elements of one array."""
        program = kl.program_id(0).to(kl.int64) if self.WIDE else kl.program_id(0)
        return program * self.BLOCK + kl.arange(0, self.BLOCK)

    @kiln.jit
    def place(self, y):
        """The program's row of y and its first column there."""
        if self.NUMBERING == "one row":
            row = 0
            start = kl.program_id(0) * self.BLOCK
        elif self.NUMBERING == "two axes":
            row = kl.program_id(1)
            start = kl.program_id(0) * self.BLOCK
        else:
            blocks = kl.cdiv(y.columns, self.BLOCK)
            row = kl.program_id(0) // blocks
            start = kl.program_id(0) % blocks * self.BLOCK
        return row, start

    @kiln.jit
    def tile(self, y):
        """The program's elements of y."""
        if self.NUMBERING == "whole rows":
            return rows_tile(y, self.ROWS, self.BLOCK, self.FULL, self.EVEN)
        row, start = self.place(y)
        columns = start + kl.arange(0, self.BLOCK)
        promise(self.FULL, start, self.BLOCK, y.columns)
        mask = columns < y.columns
        return Tile(row, columns, mask, mask)

    @kiln.jit
    def pairs(self, y):
        """The tile of an interleaved array: two adjacent elements for each element of `tile`."""
        row, start = self.place(y)
        first, size = 2 * start, 2 * y.columns
        columns = first + kl.arange(0, 2 * self.BLOCK)
        promise(self.FULL, first, 2 * self.BLOCK, size)
        mask = columns < size
        return Tile(row, columns, mask, mask)


def needs_wide_index(n: int) -> bool:
    """Whether indices below ``n``, rounded up to a whole block, need more than 32 bits."""
    return n > LARGEST_NARROW
