"""Evaluates a program with numpy: values with the error that Kiln may make, memory, one instance after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .kinds import INT1, Array, Kind, Undefined, rounded, ulp
from .program import Block, Program, Var

LIMIT = 4096  # largest number of elements of a tile


class Value:
    """Data of a kind. `err` is None where Kiln must give exactly this value, else the largest error of each element.

    Only the sign of zero is never specified: operations that would expose it are Undefined.
    """

    __slots__ = ("data", "err", "kind")

    def __init__(self, kind: Kind, data: Any, err: Array | None = None):
        self.kind = kind
        self.data = np.asarray(data, kind.dtype)
        self.err = err
        if self.data.size > LIMIT:
            raise Undefined("more elements than a tile of the fuzzer may have")
        if err is not None:
            with np.errstate(all="ignore"):
                size = np.abs(self.data.astype(np.float64))
                err = np.broadcast_to(err, self.data.shape)
                # Once there is an error, any result is allowed close to overflow and for NaN.
                self.err = np.where(size + err <= kind.largest, err, np.inf)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def error(self) -> Array:
        return np.zeros(self.shape) if self.err is None else self.err

    def exact(self) -> Array:
        """The data of a value that must be exact."""
        if self.err is not None:
            raise Undefined("an exact value is needed")
        return self.data

    def moved(self, function: Any) -> Value:
        """The value with its elements rearranged."""
        return Value(self.kind, function(self.data), None if self.err is None else function(self.err))


def common_shape(*values: Value) -> tuple[int, ...]:
    """The shape that values broadcast to."""
    try:
        return np.broadcast_shapes(*(v.shape for v in values))
    except ValueError:
        raise Undefined("shapes that do not broadcast") from None


def inexact(kind: Kind, reference: Any, error: Any, ulps: float = 1.0) -> Value:
    """A float known to within `error`, plus roundings of some ulps on the way."""
    data = rounded(reference, kind)
    with np.errstate(all="ignore"):
        size = np.abs(data.astype(np.float64))
        total = np.asarray(error) * 1.0001 + ulps * ulp(size + np.where(np.isfinite(error), error, 0), kind)
    return Value(kind, data, np.where(np.isnan(total), np.inf, total))


def convert(v: Value, kind: Kind) -> Value:
    """The value converted to another kind, by the rules of `kl.cast`."""
    if kind == v.kind:
        return v
    if kind == INT1:
        return Value(INT1, v.exact() != 0)
    if kind.is_float:
        if v.kind.is_float:
            if v.err is None:
                return Value(kind, rounded(v.data, kind))
            if kind.precision >= v.kind.precision and kind.least <= v.kind.least:
                return Value(kind, rounded(v.data, kind), v.err)
            return inexact(kind, v.data, v.err)
        return Value(kind, rounded(v.data, kind))
    if v.kind.is_float:
        whole = np.trunc(v.exact().astype(np.longdouble))
        if not np.all((whole >= kind.low) & (whole <= kind.high)):
            raise Undefined("a float out of the integer's range")
        return Value(kind, whole.astype(kind.dtype))
    return Value(kind, v.data.astype(kind.dtype))


class Frame:
    """One running instance: its position in the grid, the values of variables, and the memory that all instances
    share."""

    def __init__(self, program: Program, memory: dict[str, Array], place: tuple[int, int]):
        self.program, self.memory, self.place = program, memory, place
        self.env: dict[Var, Value] = {}
        self.instance = place[0] * program.grid[1] + place[1]
        self.steps = 0

    def __getitem__(self, var: Var) -> Value:
        return self.env[var]

    def __setitem__(self, var: Var, value: Value) -> None:
        if value.kind != var.kind or value.shape != var.shape:
            raise Undefined("a variable changes its type")
        self.env[var] = value

    def run(self, block: Block, first: int = 0, last: int | None = None) -> None:
        from .operation import OPERATIONS

        for node in block.nodes[first:last]:
            self.steps += 1
            if self.steps > 3000:
                raise Undefined("runs too long")
            values = OPERATIONS[node.op].value(node, [self.env[a] for a in node.args], self)
            for var, value in zip(node.results, values, strict=True):
                self[var] = value


def places(grid: tuple[int, int]) -> list[tuple[int, int]]:
    return [(x, y) for x in range(grid[0]) for y in range(grid[1])]


@dataclass
class Expected:
    """Memory after the launch, and the largest error of each element (None: exact)."""

    memory: dict[str, Array]
    errors: dict[str, Array]


def evaluate(program: Program) -> Expected:
    """What the launch must leave in every buffer. Raises Undefined if that is not determined."""
    memory = {b.name: b.data.copy() for b in program.buffers}
    errors = {f"{b.name}!": np.zeros(b.data.size) for b in program.buffers if b.kind.is_float}
    memory.update(errors)
    for place in places(program.grid):
        Frame(program, memory, place).run(program.body)
    return Expected({b.name: memory[b.name] for b in program.buffers}, {name[:-1]: memory[name] for name in errors})
