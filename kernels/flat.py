"""How much of a flat array a program takes: the launch policy of kernels that work element by element.

On a GPU a thread makes one 16-byte access to each array, or a few; small arrays give each thread and each program less,
until the programs cover the machine. On the CPU a program takes what its first-level cache holds.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.machine import Machine, is_dependent, is_streaming, options, with_options
from kiln.kernels.views import Tile

VECTOR_BYTES = 16
WARP = 32
# Programs that a multiprocessor holds at once.
RESIDENT = 32
# Arrays that are this many times what the L2 holds are read with the priority that it keeps longest: 0.5 to 2 % faster;
# smaller ones are 1 to 2 % slower with it. (Of rows that wait for an exchange fewer do: `rows.py`.)
STREAM_L2S = 4.0
# SwiGLU of 1×896 takes 1.08 µs by four programs of four warps and 1.13 by fourteen of one, of 1×1024 1.07 and 1.13.
FEW_PROGRAMS = 4
LARGEST_AXIS = 65535
LARGEST_NARROW = (1 << 31) - (1 << 20)


@dataclass(frozen=True)
class FlatPlan:
    """``block`` elements a program, held by ``num_warps`` warps of a GPU. ``streaming``: what it reads is several
    times what the L2 holds."""

    block: int
    num_warps: int = 4
    streaming: bool = False

    def grid(self, rows: int, n: int) -> tuple[int, ...]:
        """One program for each block of each row. Only the first axis of a grid reaches beyond 65535."""
        blocks = -(-n // self.block)
        return (blocks * rows,) if rows == 1 or rows > LARGEST_AXIS else (blocks, rows)

    def meta(self, rows: int, n: int, machine: Machine) -> dict[str, Any]:
        """PLAN, the constexpr argument of kernels whose programs take blocks of rows, and the launch options."""
        return with_options(_meta(self, rows, n, machine.gpu))

    def form(self, n: int) -> FlatForm:
        """PLAN of kernels whose programs take blocks of one array of ``n`` elements."""
        return FlatForm(self.block, "one row", n % self.block == 0, needs_wide_index(n))

    def options(self, machine: Machine) -> dict[str, Any]:
        return with_options(_options(self)) if machine.gpu else options()


def _options(plan: FlatPlan) -> dict[str, Any]:
    return {"num_warps": plan.num_warps, **({"streaming": True} if plan.streaming else {})}


@functools.lru_cache(maxsize=4096)
def _meta(plan: FlatPlan, rows: int, n: int, gpu: bool) -> dict[str, Any]:
    numbering = "one row" if rows == 1 else "along rows" if rows > LARGEST_AXIS else "two axes"
    form = FlatForm(plan.block, numbering, n % plan.block == 0)
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
) -> FlatPlan:
    """The plan for ``rows`` rows of ``n`` elements of ``itemsize`` bytes, ``accesses`` to an array by each thread.

    Every program of a dependent launch waits for the launch before, so that there each does twice as much.
    ``many_arrays``: an element moves so many bytes that programs of one warp are worth their start.
    ``read_bytes``: what a kernel reads once of all its arrays, to be read as a stream if that is much.
    """
    if not machine.gpu:
        return FlatPlan(cpu_block)
    streaming = is_streaming(read_bytes, machine, STREAM_L2S)
    return _gpu_plan(n, itemsize, machine, rows, accesses, is_dependent(), many_arrays, streaming)


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
) -> FlatPlan:
    vector = max(1, VECTOR_BYTES // itemsize)
    each, warps = vector * (max(accesses, 2) if dependent else accesses), 4
    # So little that a few programs take it by accesses of four bytes: more of them only have more to start.
    narrow = max(1, 4 // itemsize)
    if not dependent and rows * -(-n // (narrow * warps * WARP)) <= FEW_PROGRAMS:
        return FlatPlan(narrow * warps * WARP, warps, streaming)

    def programs() -> int:
        return rows * -(-n // (each * warps * WARP))

    # First fewer accesses a thread, then fewer threads a block, then narrower accesses, down to four bytes.
    while programs() < 2 * machine.processors and each > vector:
        each //= 2
    while programs() < machine.processors and warps > 1:
        warps //= 2
    while programs() < machine.processors and each * itemsize > 4:
        each //= 2
    # One warp a program where a multiprocessor then takes all of its programs at once.
    if many_arrays and rows * -(-n // (each * WARP)) <= RESIDENT * machine.processors:
        warps = 1
    # A row that ends inside a block leaves its last program idle: smaller blocks waste less. Twice as many programs,
    # each of which waits for the launch before, waste more (5120 columns in blocks of 2048 21.3 µs, of 1024 25.7).
    while rows > 1 and warps > 1 and n % (each * warps * WARP):
        idle = programs() * each * warps * WARP / (rows * n)
        if idle <= (1.4 if dependent and each > vector else 1.1):
            break
        if dependent and each > vector:
            each //= 2
        else:
            warps //= 2
    return FlatPlan(each * warps * WARP, warps, streaming)


@kiln.struct
class FlatForm:
    """Which BLOCK columns of a row a program takes; PLAN of the kernels that work element by element.

    NUMBERING of the programs: "one row", rows on the second of "two axes", or one after the other "along rows". FULL:
    the columns are all there. WIDE: columns are numbered in 64 bits (by `columns` alone).
    """

    BLOCK: kl.constexpr
    NUMBERING: kl.constexpr
    FULL: kl.constexpr
    WIDE: kl.constexpr = False

    @kiln.jit
    def columns(self):
        """The program's elements of one array."""
        program = kl.program_id(0).to(kl.int64) if self.WIDE else kl.program_id(0)
        return program * self.BLOCK + kl.arange(0, self.BLOCK)

    @kiln.jit
    def place(self, y):
        """The program's row of y, and its first column."""
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
        row, start = self.place(y)
        columns = start + kl.arange(0, self.BLOCK)
        mask = None if self.FULL else columns < y.columns
        return Tile(row, columns, mask, mask)

    @kiln.jit
    def pairs(self, y):
        """Two elements for each of them, side by side: those that an interleaved array has in their place."""
        row, start = self.place(y)
        columns = 2 * start + kl.arange(0, 2 * self.BLOCK)
        mask = None if self.FULL else columns < 2 * y.columns
        return Tile(row, columns, mask, mask)


def needs_wide_index(n: int) -> bool:
    """Whether an index of ``n`` elements, or of the block in which they end, passes 32 bits."""
    return n > LARGEST_NARROW
