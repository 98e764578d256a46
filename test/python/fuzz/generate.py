"""Draws a program. Each node is evaluated as it is drawn; nodes without a defined value are discarded."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .evaluate import LIMIT, Frame, evaluate, places
from .kinds import BF16, BY_NAME, F16, F32, INT1, INT32, INT64, KINDS, Kind, Undefined
from .memory import fits, load_new, store_output
from .operation import OPERATIONS, load_all
from .program import Block, Node, Program, Var, used, walk
from .shapes import SIDES

load_all()
EFFECTS = ("store", "scratch", "block_store", "atomic")
MAKERS = [o for o in OPERATIONS.values() if o.weight]
SMALL = [s for s in SIDES if s <= 64]


class Generator:
    """The program so far, what each instance has computed, and the random generator."""

    def __init__(self, seed: str):
        self.draw = random.Random(seed)
        self.data = np.random.default_rng(self.draw.getrandbits(64))
        grid = self.draw.choice([(1, 1), (1, 1), (2, 1), (3, 1), (2, 2)])
        self.program = Program(seed, grid, fused=self.draw.random() < 0.2)
        memory: dict[str, Any] = {}
        self.frames = [Frame(self.program, memory, place) for place in places(grid)]
        self.scopes: list[list[Var]] = [[]]
        self.hidden: list[int] = [0]  # number of outer scopes that the innermost function does not see
        self.blocks = [self.program.body]
        self.depth = 0
        self.nodes = 0
        self.palette = [*self.draw.sample(KINDS, 3), INT32, self.draw.choice([F32, F32, F16, BF16])]
        self.shapes = [self.draw_shape() for _ in range(2)]

    # -- dice ---------------------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def kind(self) -> Kind:
        return self.draw.choice(self.palette)

    def draw_shape(self, rank: int | None = None) -> tuple[int, ...]:
        if rank is None:
            rank = self.draw.choices([0, 1, 2, 3, 4], [0.5, 4, 5, 2, 0.5])[0]
        if rank == 1:
            return (self.draw.choice(SIDES if self.chance(0.3) else [s for s in SIDES if s <= 256]),)
        while True:
            shape = tuple(self.draw.choice(SMALL) for _ in range(rank))
            if np.prod(shape) <= (LIMIT if self.chance(0.2) else 1024):
                return shape

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """One of the program's own shapes, one made of their sides, or a new one."""
        known = [s for s in self.shapes if rank is None or len(s) == rank]
        if known and self.chance(0.7):
            return self.draw.choice(known)
        sides = [s for shape in self.shapes for s in shape]
        if sides and self.chance(0.5):
            shape = tuple(self.draw.choice(sides) for _ in range(rank or self.draw.randrange(1, 3)))
            if np.prod(shape) <= LIMIT:
                return shape
        return self.draw_shape(rank)

    # -- parameters ---------------------------------------------------------------------------------------------------

    def scalar(self) -> tuple[str, Kind]:
        """A scalar parameter to compute with. Never 1, which becomes a constexpr and then promotes like a plain
        number."""
        value: Any = self.draw.choice([0, 2, 3, 7, 16, 48, -5, 1 << 40, 0.5, -2.25, 3.0, True, False])
        name = f"n{len(self.program.scalars)}"
        self.program.scalars[name] = value
        if isinstance(value, bool):
            return name, INT1
        return name, F32 if isinstance(value, float) else INT32 if abs(value) < 1 << 31 else INT64

    def number(self, value: int) -> str:
        """A scalar parameter that holds a count."""
        name = f"n{len(self.program.scalars)}"
        self.program.scalars[name] = value
        return name

    def constant(self, value: Any) -> str:
        name = f"C{len(self.program.constants)}"
        self.program.constants[name] = value
        return name

    # -- variables ----------------------------------------------------------------------------------------------------

    def visible(self) -> list[Var]:
        return [v for scope in self.scopes[self.hidden[-1] :] for v in scope]

    def pick(self, wanted: Callable[[Var], Any] | None = None) -> Var:
        """A variable; recent ones are more likely."""
        found = [v for v in self.visible() if wanted is None or wanted(v)]
        if not found:
            raise Undefined("no such variable")
        return found[int(len(found) * max(self.draw.random(), self.draw.random()))]

    def partner(self, a: Var, wanted: Callable[[Var], Any] | None = None) -> Var:
        """A variable whose shape broadcasts with that of `a`, loaded if there is none."""

        def together(v: Var) -> bool:
            try:
                return int(np.prod(np.broadcast_shapes(v.shape, a.shape))) <= LIMIT
            except ValueError:
                return False

        found = [v for v in self.visible() if together(v) and (wanted is None or wanted(v))]
        same = [v for v in found if v.shape == a.shape]
        if same and self.chance(0.6):
            return self.draw.choice(same)
        if found and self.chance(0.8):
            return self.draw.choice(found)
        shape = tuple(s if self.chance(0.7) else 1 for s in a.shape)
        shape = shape[self.draw.randrange(len(shape)) :] if shape and self.chance(0.3) else shape
        choices = [k for k in [*self.palette, a.kind, INT1] if wanted is None or wanted(Var(k, shape))]
        if not choices:
            raise Undefined("no such variable")
        return self.load(self.draw.choice(choices), shape)

    def load(self, kind: Kind, shape: tuple[int, ...]) -> Var:
        return load_new(self, kind, shape)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def emit(self, op: str, args: list[Var], attrs: dict[str, Any], blocks: list[Block] | None = None) -> list[Var]:
        """Evaluates a node in every instance and appends it. If that fails, raises Undefined and leaves everything as
        it was."""
        node = Node(op, list(args), attrs, [], blocks or [])
        effects = op in EFFECTS or any(n.op in EFFECTS for b in node.blocks for _, n in walk(b))
        with self.restored() if effects else contextlib.nullcontext() as keep:
            found = []
            for frame in self.frames:
                frame.steps = 0
                found.append(OPERATIONS[op].value(node, [frame[a] for a in args], frame))
            if effects:
                keep()
        node.results = [Var(v.kind, v.shape) for v in found[0]]
        for frame, values in zip(self.frames, found, strict=True):
            for var, value in zip(node.results, values, strict=True):
                frame[var] = value
        self.blocks[-1].nodes.append(node)
        self.scopes[-1] += node.results
        self.nodes += 1
        return node.results

    @contextlib.contextmanager
    def restored(self) -> Iterator[Callable[[], None]]:
        """Restores memory at the end, unless told to keep it."""
        memory = self.frames[0].memory
        saved = {name: data.copy() for name, data in memory.items()}
        kept = []
        try:
            yield lambda: kept.append(True)
        finally:
            if not kept:
                for name, data in saved.items():
                    memory[name][...] = data

    @contextlib.contextmanager
    def inside(self, block: Block, alone: bool = False) -> Iterator[None]:
        """Draws into a block. Its effects on memory are undone here; they happen when its node is evaluated."""
        self.scopes.append(list(block.params))
        self.hidden.append(len(self.scopes) - 1 if alone else self.hidden[-1])
        self.blocks.append(block)
        self.depth += 1
        try:
            with self.restored():
                yield
        finally:
            self.scopes.pop()
            self.hidden.pop()
            self.blocks.pop()
            self.depth -= 1

    def fill(self, count: int) -> None:
        """Draws `count` operations into the current block."""
        for _ in range(count):
            for _ in range(12):
                operation = self.draw.choices(MAKERS, [o.weight for o in MAKERS])[0]
                if self.depth >= 2 and operation.name in ("loop", "branch", "call"):
                    continue
                place = len(self.blocks[-1].nodes)
                try:
                    operation.make(self)
                    break
                except Undefined:
                    # Operands drawn before the failure stay: later operations may use them.
                    assert len(self.blocks[-1].nodes) >= place


def needed(program: Program) -> None:
    """Removes everything without effect or use, including parameters."""
    while True:
        uses: set[Var] = set()
        for _, node in walk(program.body):
            uses.update(used(node))
            for block in node.blocks:
                uses.update(block.results)
        removed = False
        for block, node in walk(program.body):
            inner = any(n.op in EFFECTS for b in node.blocks for _, n in walk(b))
            if node.op not in EFFECTS and not inner and not any(r in uses for r in node.results):
                if any(isinstance(n.attrs.get("place"), int) and block in n.blocks for _, n in walk(program.body)):
                    owner = next(n for _, n in walk(program.body) if block in n.blocks)
                    if block.nodes.index(node) < owner.attrs["place"]:
                        owner.attrs["place"] -= 1
                block.nodes.remove(node)
                removed = True
        if not removed:
            break
    text = repr([n.attrs for _, n in walk(program.body)])
    program.buffers = [b for b in program.buffers if f"'{b.name}'" in text]
    program.scalars = {n: v for n, v in program.scalars.items() if f"'{n}'" in text}
    program.constants = {n: v for n, v in program.constants.items() if f"'{n}'" in text}


def generate(seed: str) -> Program:
    """The program of a seed, the same in every run. Raises Undefined for the few seeds that give none."""
    g = Generator(seed)
    for _ in range(g.draw.randrange(2, 5)):
        g.load(g.kind(), g.shape())
    g.fill(g.draw.randrange(4, 14))
    uses = {v for _, n in walk(g.program.body) for v in used(n)}
    outputs = [v for v in g.scopes[0] if v not in uses]
    spare = [v for v in g.scopes[0] if v in uses]
    outputs += g.draw.sample(spare, min(len(spare), 2))
    for var in outputs[-8:]:
        store_output(g, var)
    needed(g.program)
    evaluate(g.program)
    return g.program


__all__ = ["BY_NAME", "EFFECTS", "Generator", "fits", "generate", "needed"]
