"""The threads of a launch: warps that run one after another, up to where each has to wait.

The order of warps is drawn from a seed: code that lacks a barrier sees old or new values depending on the order, so a
second order exposes it. Orders 1 and -1 let each warp run until it waits, in opposite orders of warps; other orders
also take turns at random. Asynchronous work (copies, messages) arrives as late as possible in order 1, at once in order
-1, and at random in others.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from . import (  # noqa: F401  (they register what instructions do)
    access,
    arithmetic,
    barriers,
    communication,
    conversion,
    copies,
    fragments,
    native,
    products,
)
from .memory import Global, Shared
from .operation import Flight, Wait, bind
from .ordering import Clocks, Order
from .ptx import SPECIAL, Address, Fault, Instruction, Kernel, Unsupported, parse

LANES = 32
# Largest number of instructions of all warps of one program; more counts as an endless loop.
LARGEST_RUN = 4_000_000
# A warp's turn, in instructions: a warp that spins on memory lets others run.
TURN = 20_000
# Types that numpy computes with as float32.
BFLOATS = ("bf16", "bf16x2")
# How often all waits may give up without progress.
PATIENCE = 8
# The length of a turn in a random order.
SHORT_TURN = 400
# These name lanes of a warp: a lane that arrives early waits for the others.
TOGETHER = {"bar", "barrier", "shfl", "redux", "vote", "match", "activemask", "elect", "wgmma", "setmaxnreg", "mma",
            "ldmatrix", "stmatrix", "movmatrix"}  # fmt: skip
# Kernels with these instructions record who writes and reads each byte of shared memory.
ASYNCHRONOUS = {"cp", "wgmma"}
# Instructions whose first operand is not written.
WITHOUT_RESULT = {"st", "red", "bar", "barrier", "wgmma", "cp", "prefetch", "bra", "stmatrix", "fence"}

VIEWS: dict[str, tuple[Any, int]] = {
    **{f"{k}{w}": (getattr(np, f"{n}{w}"), 1) for k, n in (("u", "uint"), ("b", "uint"), ("s", "int"))
       for w in (8, 16, 32, 64)},
    "f16": (np.float16, 1), "f32": (np.float32, 1), "f64": (np.float64, 1), "bf16": (ml_dtypes.bfloat16, 1),
    "f16x2": (np.float16, 2), "bf16x2": (ml_dtypes.bfloat16, 2), "f32x2": (np.float32, 2),
    "u16x2": (np.uint16, 2), "s16x2": (np.int16, 2), "pred": (np.bool_, 1),
}  # fmt: skip


@dataclass
class Warp:
    """32 threads. `counters` has one program counter per lane only while lanes have diverged."""

    index: int
    block: int
    lanes: Any  # of all threads of the cluster: a slice while all are alive, else an array
    number: int = 0  # in its block
    counter: int = 0
    counters: np.ndarray | None = None
    held: np.ndarray | None = None
    waits: list[Wait] = field(default_factory=list)
    stuck: bool = False
    impatient: bool = False
    tried: set[tuple[int, int, int]] = field(default_factory=set)
    arrived: int = 0
    met: int = 0
    done: bool = False
    products: products.Products = field(default_factory=lambda: products.Products())
    registers: int = 0
    adjusted: list[str] = field(default_factory=list)
    copies: int = 0  # groups of cp.async that it has closed
    waited: bool = False  # for the previous launch

    @property
    def size(self) -> int:
        return LANES if isinstance(self.lanes, slice) else len(self.lanes)

    def numbers(self) -> np.ndarray:
        return np.arange(self.lanes.start, self.lanes.stop) if isinstance(self.lanes, slice) else self.lanes

    def mask(self, lanes: Any) -> int:
        return 0xFFFFFFFF if isinstance(lanes, slice) else sum(1 << int(lane) % LANES for lane in lanes)


@functools.lru_cache(64)
def prepared(text: str) -> tuple[Kernel, np.ndarray]:
    """The kernel with the functions of its instructions, which keep nothing of a run; and what runs without them."""
    kernel = parse(text)
    for instruction in kernel.instructions:
        instruction.run = bind(instruction)
    _find_product_registers(kernel.instructions)
    return kernel, native.steps(kernel.instructions)


def _find_product_registers(instructions: list[Instruction]) -> None:
    """Notes which instructions touch registers that a product in flight may hold."""
    held = {row for ins in instructions if "mma_async" in ins.modifiers
            for operand in ins.operands[:2] if isinstance(operand, tuple) for row in operand}  # fmt: skip
    for ins in instructions if held else []:
        groups = [rows_of(operand) for operand in ins.operands]
        results = groups[:1] if ins.name not in WITHOUT_RESULT else []
        ins.writes = tuple(held.intersection(*results)) if results else ()
        ins.reads = tuple(held.intersection(row for group in groups[len(results) :] for row in group))


class Machine:
    """Runs one kernel. `order`: the seed of the order of warps; its negative is the opposite order."""

    def __init__(self, text: str, order: int = 1):
        self.kernel, self.native_steps = prepared(text)
        self.order = order
        if self.kernel.threads % LANES:
            raise Unsupported(f"{self.kernel.threads} threads are no whole number of warps")
        self.instructions = self.kernel.instructions
        # A kernel that never waits is not launched to overlap another.
        self.waits_for_grid = any(ins.name == "griddepcontrol" and "wait" in ins.modifiers for ins in self.instructions)
        self.marked = any(instruction.name in ASYNCHRONOUS for instruction in self.instructions)
        self.threads = self.kernel.threads * self.kernel.cluster
        self.table = np.zeros((self.kernel.rows, self.threads), np.uint64)
        shape = (self.kernel.rows, self.threads, -1)
        self.views = {name: (v := self.table.view(dtype).reshape(shape), v[..., 0] if count == 1 else v[..., :count])[1]
                      for name, (dtype, count) in VIEWS.items()}  # fmt: skip
        for row, value in self.kernel.constants.items():
            self.table[row] = value
        # A write by another program while this one runs: before which turn of a warp, and the number that the first
        # argument then points at. Loops also let the others run.
        self.meanwhile: tuple[int, int] | None = None
        self.scattered = False  # programs run in an order seeded by `order`
        self.skips = False  # warps skip phases of mbarriers that others wait for
        self.memory = Global()
        self.arguments = np.zeros(0, np.uint8)
        self.steps = 0
        self.native = native.run  # None: everything runs in Python
        self.is_native = (self.native_steps[:, 0] != 0).tolist()
        self.context = native.Context(self.native_steps.ctypes.data, self.table.ctypes.data, self.threads)

    # --- what instructions ask for

    def read(self, kind: str, row: int, lanes: Any) -> np.ndarray:
        value = self.views[kind][row, lanes]
        return value.astype(np.float32) if kind in BFLOATS else value

    def write(self, kind: str, row: int | None, lanes: Any, value: Any) -> None:
        if row is not None:
            self.views[kind][row, lanes] = value

    def all_lanes(self, lanes: Any) -> Any:
        """The lanes, in a form that can be combined with an index of rows."""
        return np.arange(lanes.start, lanes.stop) if isinstance(lanes, slice) else lanes

    def count(self, lanes: Any) -> int:
        return LANES if isinstance(lanes, slice) else len(lanes)

    # --- running

    def launch(self, grid: tuple[int, int, int], arguments: bytes, shared_bytes: int) -> None:
        """Runs every program of a grid counted in clusters, one after the other, each to its end; or in any order."""
        if self.kernel.parameter_bytes > len(arguments):
            raise Fault(f"expected {self.kernel.parameter_bytes} bytes of arguments, got {len(arguments)}")
        self.arguments = np.frombuffer(arguments.ljust(len(arguments) + 16, b"\0"), np.uint8)
        self.context.arguments = self.arguments.ctypes.data
        programs = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
        if self.scattered:
            chosen = np.random.default_rng(abs(self.order)).permutation(len(programs))
            programs = [programs[i] for i in chosen[:: 1 if self.order > 0 else -1]]
        with np.errstate(all="ignore"):
            for program in programs:
                self._run_program(program, grid, shared_bytes)

    def _run_program(self, program: tuple[int, int, int], grid: tuple[int, int, int], shared_bytes: int) -> None:
        blocks, threads = self.kernel.cluster, self.kernel.threads
        self._set_special(program, grid)
        self.shared = Shared(blocks, shared_bytes, self.marked)
        self.mbarriers: dict[tuple[int, int], barriers.Mbarrier] = {}
        self.named: dict[tuple[int, int], barriers.NamedBarrier] = {}
        self.cluster_barrier = barriers.ClusterBarrier()
        self.flights: list[Flight] = []
        self.bulk_groups: dict[int, int] = {}
        self.bulk_reads: dict[int, tuple[int, int, Instruction]] = {}
        self.program = program
        per_block = threads // LANES
        self.warps = [
            Warp(i, i // per_block, slice(i * LANES, (i + 1) * LANES), i % per_block, registers=self.kernel.registers)
            for i in range(blocks * per_block)
        ]
        self.free_registers = [0] * blocks
        self.clocks = Clocks(len(self.warps))
        self.ordering = Order(self.clocks)
        self.changes, self.changed, self.patience = 0, -1, 0
        self.dice = np.random.default_rng(abs(self.order))
        self.limit = self.steps + LARGEST_RUN
        at_random = abs(self.order) > 1
        turns = 0
        while any(not warp.done for warp in self.warps):
            moved = False
            for index in self.dice.permutation(len(self.warps))[:: 1 if self.order > 0 else -1]:
                warp = self.warps[index]
                if warp.done or warp.stuck:
                    continue
                self.warp, moved = warp, True
                turns += 1
                if self.meanwhile is not None and turns == self.meanwhile[0]:
                    self._write_to_first_argument(self.meanwhile[1])
                self._advance(warp, int(self.dice.integers(1, SHORT_TURN)) if at_random else TURN)
                self._land(lambda flight: not flight.late)
                if at_random:
                    self._open()
            for block in range(blocks):
                if block not in self.shared.ended and all(warp.done for warp in self.warps if warp.block == block):
                    self._end(block)
            if self._open() or moved:
                continue
            if self.flights:
                # No warp can continue before something arrives. One arrival may not be enough, nor must they come in
                # the order of issue.
                chosen = self.flights[int(self.dice.integers(len(self.flights)))] if at_random else None
                self._land(lambda flight, chosen=chosen: chosen is None or flight is chosen)
                self._open()
            elif any(not warp.done for warp in self.warps):
                self._lose_patience()
        self._land(lambda flight: True)

    # --- what works beside the warps

    def depart(self, flight: Flight) -> None:
        flight.late = self.order == 1 or (self.order != -1 and bool(self.dice.integers(2)))
        self.flights.append(flight)

    def _land(self, which: Callable[[Flight], bool]) -> None:
        for flight in [flight for flight in self.flights if which(flight)]:
            self.finish(flight)

    def finish(self, flight: Flight) -> None:
        self.flights.remove(flight)
        self.changes += 1
        self.arrive(flight, flight.read)
        self.arrive(flight, flight.land)

    def arrive(self, flight: Flight, step: Callable[[], None] | None) -> None:
        try:
            if step is not None:
                step()
        except Fault as fault:
            raise Fault(f"{flight.instruction}: on arrival: {fault} (program {self.program})") from None

    def _end(self, block: int) -> None:
        """The block's threads have exited, and its memory is gone."""
        copies.check_end(self, block)
        products.check_end(self, block)
        self.shared.ended.add(block)
        self.changes += 1

    def _write_to_first_argument(self, number: int) -> None:
        address = self.arguments[:8].view(np.uint64)
        for block, which in self.memory.parts(address, 4):
            block.store(address[which], 4, np.array([number], np.uint32))
        self.changes += 1

    def _set_special(self, program: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
        number = np.arange(self.threads)
        block = number // self.kernel.threads
        size = self.kernel.cluster
        values: dict[str, Any] = {
            "%tid.x": number % self.kernel.threads, "%ntid.x": self.kernel.threads, "%ntid.y": 1, "%ntid.z": 1,
            "%ctaid.x": program[0] * size + block, "%nctaid.x": grid[0] * size,
            "%clusterid.x": program[0], "%nclusterid.x": grid[0],
            "%cluster_ctaid.x": block, "%cluster_ctarank": block,
            "%cluster_nctaid.x": size, "%cluster_nctarank": size,
            "%laneid": number % LANES, "%smid": 0, "%warpid": number % self.kernel.threads // LANES,
        }  # fmt: skip
        for axis, name in ((1, "y"), (2, "z")):
            for kind in ("cta", "cluster"):
                values[f"%{kind}id.{name}"], values[f"%n{kind}id.{name}"] = program[axis], grid[axis]
        for row, name in enumerate(SPECIAL):
            self.table[row] = values.get(name, 0)
        self.blocks = block

    def _advance(self, warp: Warp, turn: int) -> None:
        """Runs a warp until it waits or ends, or until its turn is over."""
        instructions, predicates, end = self.instructions, self.views["pred"], len(self.instructions)
        over = self.steps + turn
        # Branches back are also where others may run, if there are any.
        run_native = self.native if self.meanwhile is None else None
        is_native, context = self.is_native, ctypes.addressof(self.context)
        while not warp.done and not warp.stuck and self.steps < over:
            lanes = warp.lanes if warp.counters is None else self._next_lanes(warp)
            if lanes is None:
                break
            at = warp.counter
            if at >= end:
                self._finish(warp, lanes)
                continue
            if is_native[at] and run_native and warp.counters is None and isinstance(lanes, slice):
                most = min(over, self.limit) - self.steps
                ran, warp.counter = divmod(run_native(context, at, most, lanes.start), 1 << 32)
                if ran:
                    self.steps += ran
                    continue
            instruction = instructions[at]
            self.steps += 1
            if self.steps > self.limit:
                raise Fault(f"{instruction}: no end after {LARGEST_RUN} instructions{self._where(warp)}")
            if warp.counters is not None and instruction.name in TOGETHER and len(lanes) < warp.size:
                lanes = self._gather(warp, instruction, lanes, at)
                if lanes is None:
                    continue
            chosen = lanes
            if instruction.predicate is not None:
                # A row of predicates is a view: it is read before the instruction can write it.
                holds = predicates[instruction.predicate, lanes] != instruction.negated
                count = np.count_nonzero(holds)
                if count < len(holds):
                    chosen = self.all_lanes(lanes)[holds] if count else None
            if warp.counters is None:
                warp.counter = at + 1
            else:
                self._go(warp, lanes, at + 1)
            if chosen is None:
                continue
            if instruction.name == "bra":
                self._go(warp, chosen, instruction.operands[0])
                if self.meanwhile is not None and instruction.operands[0] <= at:
                    return
                continue
            if instruction.name in ("ret", "exit"):
                self._finish(warp, chosen)
                continue
            try:
                if instruction.reads or instruction.writes:
                    warp.products.check(instruction, self.steps)
                wait = instruction.run(self, chosen)
            except Fault as fault:
                raise Fault(f"{instruction}: {fault}{self._where(warp)}") from None
            except Exception as error:
                raise Fault(f"{instruction}: {type(error).__name__}: {error}{self._where(warp)}") from error
            if wait is not None:
                if not isinstance(wait, Wait):
                    break  # the turn is over
                wait.lanes = chosen
                if wait.again:
                    self._go(warp, chosen, at)
                self._park(warp, wait)

    def _park(self, warp: Warp, wait: Wait) -> None:
        warp.waits.append(wait)
        if warp.counters is None:
            warp.stuck = True
        else:
            warp.held[slice(0, LANES) if isinstance(wait.lanes, slice) else wait.lanes - warp.index * LANES] = True  # type: ignore[index]

    def _gather(self, warp: Warp, instruction: Instruction, lanes: np.ndarray, at: int) -> np.ndarray | None:
        """The lanes that have reached an instruction, once all lanes that it names have; until then they are held."""
        first = warp.index * LANES
        warp.held[lanes - first] = True  # type: ignore[index]
        row = communication.mask_row(instruction)
        if row is None:
            return None
        here = warp.numbers()
        here = here[(warp.counters[here - first] == at) & warp.held[here - first]]  # type: ignore[index]
        if warp.mask(here) & int(self.read("u32", row, here)[0]) != int(self.read("u32", row, here)[0]) & warp.mask(
            warp.numbers()
        ):
            return None
        warp.held[here - first] = False  # type: ignore[index]
        return here

    def _next_lanes(self, warp: Warp) -> Any:
        """The lanes that are furthest back, whose position becomes the warp's: they meet the others where paths
        join."""
        first = warp.index * LANES
        alive = warp.numbers()
        counters, held = warp.counters, warp.held
        assert counters is not None and held is not None
        free = alive[~held[alive - first]]
        if len(free) == 0:
            if warp.waits:
                warp.stuck = True
                return None
            places = np.unique(counters[alive - first])
            if len(places) > 1:
                texts = "; ".join(str(self.instructions[p]) for p in places)
                raise Fault(f"lanes of a warp wait for each other at different places: {texts}{self._where(warp)}")
            held[:] = False
            free = alive
        warp.counter = int(counters[free - first].min())
        chosen = free[counters[free - first] == warp.counter]
        if len(chosen) == len(alive):
            warp.counters = warp.held = None
            return warp.lanes
        return chosen

    def _go(self, warp: Warp, lanes: Any, to: int) -> None:
        """Moves lanes of a warp."""
        if warp.counters is None:
            if self.count(lanes) == warp.size:
                warp.counter = to
                return
            warp.counters = np.full(LANES, warp.counter)
            warp.held = np.zeros(LANES, bool)
        first = warp.index * LANES
        warp.counters[slice(0, LANES) if isinstance(lanes, slice) else lanes - first] = to

    def _finish(self, warp: Warp, lanes: Any) -> None:
        left = np.setdiff1d(warp.numbers(), np.arange(lanes.start, lanes.stop) if isinstance(lanes, slice) else lanes)
        if len(left) == 0:
            warp.done = True
            self.changes += 1
            barriers.on_exit(self, warp)
        else:
            if warp.counters is None:
                warp.counters, warp.held = np.full(LANES, warp.counter), np.zeros(LANES, bool)
            warp.lanes = left

    # --- barriers

    def _open(self) -> bool:
        """Releases all warps whose wait is over; returns whether there were any."""
        opened = False
        for warp in self.warps:
            for wait in [wait for wait in warp.waits if wait.is_over()]:
                self._let_go(warp, wait)
                wait.on_end()
                opened = True
        return opened

    def _let_go(self, warp: Warp, wait: Wait) -> None:
        warp.waits.remove(wait)
        warp.stuck = False
        if warp.held is not None:
            warp.held[slice(0, LANES) if isinstance(wait.lanes, slice) else wait.lanes - warp.index * LANES] = False

    def _lose_patience(self) -> None:
        """A try_wait may give up, and the rest of its code may make progress. If that does not help, nothing ever
        will."""
        waiting = [warp for warp in self.warps if any(wait.again for wait in warp.waits)]
        if self.changes != self.changed:
            self.changed, self.patience = self.changes, PATIENCE
        if not waiting or self.patience == 0:
            raise Fault(self._deadlock())
        self.patience -= 1
        for warp in waiting:
            warp.impatient = True
            for wait in [wait for wait in warp.waits if wait.again]:
                self._let_go(warp, wait)

    def _deadlock(self) -> str:
        waits: dict[str, list[int]] = {}
        for warp in self.warps:
            for wait in warp.waits:
                state = wait.state()
                waits.setdefault(f"{wait.at}" + (f" ({state})" if state else ""), []).append(warp.index)
        shown = "; ".join(f"warps {', '.join(map(str, warps))} at {text}" for text, warps in waits.items())
        return f"deadlock in program {self.program}: nobody can let these go on: {shown}"

    def _where(self, warp: Warp) -> str:
        return f" (program {self.program}, block {warp.block}, warp {warp.number})"


def rows_of(operand: Any) -> tuple[int, ...]:
    """The registers of an operand."""
    if isinstance(operand, Address):
        return (operand.row, *operand.coordinates)
    if isinstance(operand, tuple):
        return tuple(row for row in operand if row is not None)
    return (operand,) if isinstance(operand, int) else ()
