"""The representation of a program: nodes over variables in blocks, buffers, parameters; its Python text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .kinds import Kind


class Var:
    """A value of the program, defined once: by a node, or as a parameter of a block (then `name` is set)."""

    def __init__(self, kind: Kind, shape: tuple[int, ...], name: str = ""):
        self.kind, self.shape, self.name = kind, shape, name

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def like(self, other: Var) -> bool:
        return self.kind == other.kind and self.shape == other.shape


@dataclass(eq=False)
class Block:
    """Nodes in order. The enclosing node creates the parameters."""

    params: list[Var] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[Var] = field(default_factory=list)


@dataclass(eq=False)
class Node:
    """One operation. `attrs` is plain data; for structured operations it also holds variables (see control.py)."""

    op: str
    args: list[Var]
    attrs: dict[str, Any]
    results: list[Var] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


@dataclass(eq=False)
class Buffer:
    """An array that the kernel is given. `role`: input (read only), scratch, atomic, output."""

    name: str
    kind: Kind
    data: np.ndarray
    role: str


@dataclass(eq=False)
class Program:
    """A kernel and its launch arguments."""

    seed: str
    grid: tuple[int, int]
    buffers: list[Buffer] = field(default_factory=list)
    scalars: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    body: Block = field(default_factory=Block)
    fused: bool = False  # whether products may be contracted with sums

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def parameters(self) -> list[str]:
        return [b.name for b in self.buffers] + list(self.scalars)


def walk(block: Block) -> Iterator[tuple[Block, Node]]:
    """Every node with its block, outer ones first."""
    for node in list(block.nodes):
        yield block, node
        for inner in node.blocks:
            yield from walk(inner)


class Renderer:
    """The text of a program. A node flagged `inline` that only the next node uses is written inside that node's
    line."""

    def __init__(self, program: Program):
        self.program = program
        self.functions: list[str] = []
        self.count = 0
        self.names: dict[Var, str] = {}
        self.pending: dict[Var, str] = {}
        self.uses: Counter[Var] = Counter(program.body.results)
        for _, node in walk(program.body):
            self.uses.update(used(node))
            for inner in node.blocks:
                self.uses.update(inner.results)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def name(self, var: Var) -> str:
        if var in self.pending:
            return self.pending.pop(var)
        if var not in self.names:
            self.names[var] = var.name or self.fresh("v")
        return self.names[var]

    def share(self, var: Var, name: str) -> None:
        self.names[var] = name

    def block(self, block: Block, first: int = 0, last: int | None = None) -> list[str]:
        from .operation import OPERATIONS

        nodes = block.nodes[first:last]
        lines: list[str] = []
        for place, node in enumerate(nodes):
            operation = OPERATIONS[node.op]
            following = nodes[place + 1] if place + 1 < len(nodes) else None
            inline = (
                operation.pure
                and node.attrs.get("inline")
                and following is not None
                and OPERATIONS[following.op].pure
                and self.uses[node.results[0]] == 1
                and following.args.count(node.results[0]) == 1
            )
            if inline:
                text = operation.text(node, [self.name(a) for a in node.args], self)
                self.pending[node.results[0]] = f"({text})"
                continue
            if operation.lines is not None:
                lines += operation.lines(node, self)
                continue
            text = operation.text(node, [self.name(a) for a in node.args], self)
            names = ", ".join(self.name(r) for r in node.results)
            lines.append(f"{names} = {text}" if names else text)
        return lines

    def signature(self) -> str:
        listed = self.program.parameters() + [f"{n}: kl.constexpr" for n in self.program.constants]
        return ", ".join(listed)

    def text(self) -> str:
        body = [INSTANCE, *self.block(self.program.body)]
        kernel = ["@kiln.jit", f"def kernel({self.signature()}):", *indent(body)]
        return "\n".join([*self.functions, *kernel]) + "\n"


# The instance's linear number in the grid, from which every program computes its addresses.
INSTANCE = "lin = kl.program_id(0) * kl.num_programs(1) + kl.program_id(1)"


def used(node: Node) -> list[Var]:
    """The variables that a node itself reads (not those its blocks read)."""
    found = [*node.args, *(v for v in node.attrs.values() if isinstance(v, Var))]
    return found + [v for b in node.attrs.values() if isinstance(b, Block) for v in b.results]


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def render(program: Program) -> str:
    return Renderer(program).text()
