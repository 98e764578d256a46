"""The threads of a launch: warps that run one after another, up to where each has to wait.

A warp runs until it waits, and the order of warps is drawn from a seed: what lacks a barrier sees old or new values
depending on the order, so a second order shows it. What is sent between blocks arrives as late as it may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from . import access, arithmetic, communication, conversion  # noqa: F401  (they register what instructions do)
from .memory import Global, Shared
from .operation import bind
from .ptx import SPECIAL, Fault, Instruction, Unsupported, parse

LANES = 32
# Instructions of all warps of one program: more is taken for a loop without an end.
LARGEST_RUN = 4_000_000
# These name every lane of a warp: a lane that comes early waits for the others.
TOGETHER = {"bar", "barrier", "shfl", "redux", "vote", "match", "activemask"}

VIEWS: dict[str, tuple[Any, int]] = {
    **{f"{k}{w}": (getattr(np, f"{n}{w}"), 1) for k, n in (("u", "uint"), ("b", "uint"), ("s", "int"))
       for w in (8, 16, 32, 64)},
    "f16": (np.float16, 1), "f32": (np.float32, 1), "f64": (np.float64, 1), "bf16": (ml_dtypes.bfloat16, 1),
    "f16x2": (np.float16, 2), "bf16x2": (ml_dtypes.bfloat16, 2), "f32x2": (np.float32, 2),
    "u16x2": (np.uint16, 2), "s16x2": (np.int16, 2), "pred": (np.bool_, 1),
}  # fmt: skip


@dataclass
class Warp:
    """32 threads. `counters` has one program counter for each lane only while they are at different places."""

    index: int
    block: int
    lanes: Any  # of all threads of the cluster: a slice while all are alive, else an array
    counter: int = 0
    counters: np.ndarray | None = None
    held: np.ndarray | None = None
    waiting: tuple[Any, ...] | None = None
    at: Instruction | None = None
    arrived: int = 0
    met: int = 0
    done: bool = False

    @property
    def size(self) -> int:
        return LANES if isinstance(self.lanes, slice) else len(self.lanes)

    def numbers(self) -> np.ndarray:
        return np.arange(self.lanes.start, self.lanes.stop) if isinstance(self.lanes, slice) else self.lanes


class Machine:
    """Runs one kernel. `order`: the seed of the order of warps; its negative is the opposite order."""

    def __init__(self, text: str, order: int = 1):
        self.kernel = parse(text)
        self.order = order
        if self.kernel.threads % LANES:
            raise Unsupported(f"{self.kernel.threads} threads are no whole number of warps")
        self.instructions = self.kernel.instructions
        for instruction in self.instructions:
            instruction.run = bind(instruction)
        self.threads = self.kernel.threads * self.kernel.cluster
        self.table = np.zeros((self.kernel.rows, self.threads), np.uint64)
        shape = (self.kernel.rows, self.threads, -1)
        self.views = {name: (v := self.table.view(dtype).reshape(shape), v[..., 0] if count == 1 else v[..., :count])[1]
                      for name, (dtype, count) in VIEWS.items()}  # fmt: skip
        for row, value in self.kernel.constants.items():
            self.table[row] = value
        self.memory = Global()
        self.arguments = np.zeros(0, np.uint8)
        self.steps = 0

    # --- what instructions ask for

    def read(self, kind: str, row: int, lanes: Any) -> np.ndarray:
        value = self.views[kind][row, lanes]
        return value.astype(np.float32) if kind.startswith("bf16") else value

    def write(self, kind: str, row: int | None, lanes: Any, value: Any) -> None:
        if row is not None:
            self.views[kind][row, lanes] = value

    def count(self, lanes: Any) -> int:
        return LANES if isinstance(lanes, slice) else len(lanes)

    # --- running

    def launch(self, grid: tuple[int, int, int], arguments: bytes, shared_bytes: int) -> None:
        """Runs every program of a grid counted in clusters, the first to its end, then the next."""
        if self.kernel.parameter_bytes > len(arguments):
            raise Fault(f"expected {self.kernel.parameter_bytes} bytes of arguments, got {len(arguments)}")
        self.arguments = np.frombuffer(arguments.ljust(len(arguments) + 16, b"\0"), np.uint8)
        with np.errstate(all="ignore"):
            for z in range(grid[2]):
                for y in range(grid[1]):
                    for x in range(grid[0]):
                        self._run_program((x, y, z), grid, shared_bytes)

    def _run_program(self, program: tuple[int, int, int], grid: tuple[int, int, int], shared_bytes: int) -> None:
        blocks, threads = self.kernel.cluster, self.kernel.threads
        self._set_special(program, grid)
        self.shared = Shared(blocks, shared_bytes)
        self.mailboxes: dict[tuple[int, int], communication.Mailbox] = {}
        self.on_the_way: list[communication.Message] = []
        self.program = program
        per_block = threads // LANES
        self.warps = [Warp(i, i // per_block, slice(i * LANES, (i + 1) * LANES)) for i in range(blocks * per_block)]
        dice = np.random.default_rng(abs(self.order))
        self.limit = self.steps + LARGEST_RUN
        while any(not warp.done for warp in self.warps):
            for index in dice.permutation(len(self.warps))[:: 1 if self.order > 0 else -1]:
                warp = self.warps[index]
                self.warp = warp
                if not warp.done and warp.waiting is None:
                    self._advance(warp)
            for block in range(blocks):
                if all(warp.done for warp in self.warps if warp.block == block):
                    self.shared.ended.add(block)
            # Everything, not only something, is delivered before anyone goes on: late enough to miss a wait.
            moved = communication.deliver(self)
            if not (self._open() or moved) and any(not warp.done for warp in self.warps):
                raise Fault(self._deadlock())

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

    def _advance(self, warp: Warp) -> None:
        """Runs a warp until it waits or ends."""
        instructions, predicates, end = self.instructions, self.views["pred"], len(self.instructions)
        while not warp.done and warp.waiting is None:
            lanes = warp.lanes if warp.counters is None else self._next_lanes(warp)
            at = warp.counter
            if at >= end:
                self._finish(warp, lanes)
                continue
            instruction = instructions[at]
            self.steps += 1
            if self.steps > self.limit:
                raise Fault(f"{instruction}: no end after {LARGEST_RUN} instructions{self._where(warp)}")
            if warp.counters is not None and instruction.name in TOGETHER and len(lanes) < warp.size:
                warp.held[lanes - warp.index * LANES] = True  # type: ignore[index]
                continue
            chosen = lanes
            if instruction.predicate is not None:
                # A row of predicates is a view: it is read before the instruction can write it.
                holds = predicates[instruction.predicate, lanes] != instruction.negated
                if not holds.all():
                    chosen = (np.arange(lanes.start, lanes.stop) if isinstance(lanes, slice) else lanes)[holds]
            self._go(warp, lanes, at + 1)
            if self.count(chosen) == 0:
                continue
            if instruction.name == "bra":
                self._go(warp, chosen, instruction.operands[0])
                continue
            if instruction.name in ("ret", "exit"):
                self._finish(warp, chosen)
                continue
            try:
                wait = instruction.run(self, chosen)
            except Fault as fault:
                raise Fault(f"{instruction}: {fault}{self._where(warp)}") from None
            except Exception as error:
                raise Fault(f"{instruction}: {type(error).__name__}: {error}{self._where(warp)}") from error
            if wait is not None:
                warp.waiting, warp.at = wait, instruction
                if wait[0] == "mailbox":
                    self._go(warp, chosen, at)

    def _next_lanes(self, warp: Warp) -> np.ndarray:
        """The lanes that are furthest back, and their place as the warp's: they meet the others where paths join."""
        first = warp.index * LANES
        alive = warp.numbers()
        counters, held = warp.counters, warp.held
        assert counters is not None and held is not None
        free = alive[~held[alive - first]]
        if len(free) == 0:
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
        else:
            if warp.counters is None:
                warp.counters, warp.held = np.full(LANES, warp.counter), np.zeros(LANES, bool)
            warp.lanes = left

    # --- meeting

    def _open(self) -> bool:
        """Lets go whoever has nothing left to wait for. Whether anyone was."""
        opened = False
        alive = [warp for warp in self.warps if not warp.done]
        for warp in [warp for warp in alive if warp.waiting is not None]:
            if warp.waiting is None:
                continue
            kind, *what = warp.waiting
            if kind == "barrier":
                block = [other for other in alive if other.block == warp.block]
                here = [other for other in block if other.waiting and other.waiting[:2] == ("barrier", what[0])]
                enough = sum(other.size for other in here) >= what[1] if what[1] else len(here) == len(block)
                for other in here if enough else []:
                    other.waiting = None
                    opened = True
            elif kind == "cluster":
                if all(other.arrived > warp.met for other in alive):
                    warp.met += 1
                    warp.waiting = None
                    opened = True
            elif kind == "mailbox" and self.mailboxes[what[0]].phase > what[1]:
                warp.waiting = None
                opened = True
        return opened

    def _deadlock(self) -> str:
        waits: dict[str, list[int]] = {}
        for warp in self.warps:
            if not warp.done:
                text = f"{warp.at}" + (f" ({self.mailboxes[warp.waiting[1]]})" if warp.waiting[0] == "mailbox" else "")  # type: ignore[index]
                waits.setdefault(text, []).append(warp.index)
        shown = "; ".join(f"warps {', '.join(map(str, warps))} at {text}" for text, warps in waits.items())
        return f"deadlock in program {self.program}: nobody can let these go on: {shown}"

    def _where(self, warp: Warp) -> str:
        return f" (program {self.program}, block {warp.block}, warp {warp.index})"
