"""The derivative of a jit function with respect to its first argument: differentiates the function's ops one by one.

    value, slope = with_derivative(function, score, batch, head, q, kv)

The ops that the front end emits for the call are recorded, and followed from the argument to the result: each op that
depends on the argument contributes its derivative (forward mode, one number for each element). Only elementwise ops
have one. Loads, indices and comparisons have a zero derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kiln.errors import CompilationError
from kiln.frontend.emission import current
from kiln.frontend.emitter import Emitter, Step
from kiln.language import values
from kiln.language.builtin import builtin

LN2 = math.log(2.0)


@builtin
def with_derivative(function: Any, first: Any, *others: Any) -> Any:
    """``function(first, *others)``, and its derivative with respect to ``first`` for each element (zero where it does
    not depend on ``first``).

    Differentiates sums, products, quotients, powers, the functions of `kl.math`, absolute values, extrema and
    selections by `kl.where`. For equal operands of an extremum the first one counts; the absolute value has slope 0 at
    0. No branch, loop, reduction or other function of several elements may depend on ``first``.
    """
    emitter = current()
    with emitter.noting() as steps:
        value = emitter.call(values.unwrap(function), [first, *others])
    if not isinstance(value, values.tensor) or not value.type.scalar.is_floating():
        raise CompilationError(f"expected a function that returns floats (because it is differentiated), got {value}")
    slope = Tape(emitter, first.handle).follow(steps).get(value.handle)
    if slope is None:
        slope = emitter.constant(value.type.mlir, 0.0)
    return values.tuple([value, values.tensor(slope, value.type)])


@dataclass
class Place:
    """One step: ``x`` its operands, ``dx`` their derivatives (None: zero), ``y`` its result."""

    tape: Tape
    step: Step
    x: list[int]
    dx: list[int | None]
    y: int
    kind: str

    def op(self, name: str, *operands: int) -> int:
        return self.tape.emitter.op1(name, list(operands), [self.kind])

    def number(self, value: float) -> int:
        return self.tape.emitter.constant(self.kind, value)

    def times(self, slope: int | None, factor: int) -> int | None:
        return None if slope is None else self.op("arith.mulf", slope, factor)

    def scaled(self, slope: int | None, factor: float) -> int | None:
        return self.times(slope, self.number(factor)) if slope is not None else None

    def plus(self, one: int | None, other: int | None) -> int | None:
        if one is None or other is None:
            return one if other is None else other
        return self.op("arith.addf", one, other)

    def minus(self, one: int | None, other: int | None) -> int | None:
        return one if other is None else self.plus(one, self.op("arith.negf", other))

    def over(self, slope: int | None, divisor: int) -> int | None:
        return None if slope is None else self.op("arith.divf", slope, divisor)

    def choose(self, condition: int, one: int | None, other: int | None) -> int:
        slopes = [self.number(0.0) if slope is None else slope for slope in (one, other)]
        return self.tape.emitter.op1("arith.select", [condition, *slopes], [self.kind])

    def compare(self, how: str, one: int, other: int) -> int:
        kind = self.kind
        mask = kind[: kind.rindex("x") + 1] + "i1>" if kind.startswith("tensor<") else "i1"
        return self.tape.emitter.op1("arith.cmpf", [one, other], [mask], {"predicate": f"{_PREDICATES[how]} : i64"})


_PREDICATES = {"ogt": 2, "oge": 3, "olt": 4, "ole": 5}


class Tape:
    """Derivatives by handle; those that are missing are zero."""

    def __init__(self, emitter: Emitter, first: int):
        self.emitter = emitter
        self.slopes = {first: emitter.constant(emitter.type_of(first), 1.0)}

    def follow(self, steps: list[Step]) -> dict[int, int]:
        for step in steps:
            reached = [self.slopes.get(handle) for handle in step.operands]
            if step.name in _FLAT or all(slope is None for slope in reached):
                continue
            rule = rule_of(step)
            if rule is None or not step.outermost:
                where = "" if step.outermost else " in a branch, a loop or a function of single elements"
                raise CompilationError(
                    f"expected operations of single elements on what is differentiated, got {step.name}{where}",
                    hint="choose by kl.where; sums over a tile have no derivative here",
                )
            kind = self.emitter.type_of(step.results[0])
            slope = rule(Place(self, step, step.operands, reached, step.results[0], kind))
            if slope is not None:
                self.slopes[step.results[0]] = slope
        return self.slopes


# ---- the rules -------------------------------------------------------------------------------------------------------
Rule = Callable[[Place], "int | None"]


def rule_of(step: Step) -> Rule | None:
    if step.name == "tile.inline_asm":
        instruction = step.attrs["assembly"].strip('"').split(" ")[0]
        return _INSTRUCTIONS.get(instruction)
    return _RULES.get(step.name)


# Piecewise constant, or not real-valued.
_FLAT = frozenset(
    ("arith.cmpf", "arith.fptosi", "arith.fptoui", "math.floor", "math.ceil", "math.trunc", "math.round",
     "math.roundeven")
)  # fmt: skip


def _same(p: Place) -> int:
    """An op that only moves or converts elements does the same to their derivatives."""
    return p.tape.emitter.op1(p.step.name, [p.dx[0], *p.x[1:]], [p.kind], dict(p.step.attrs))  # type: ignore[list-item]


def _product(p: Place) -> int | None:
    return p.plus(p.times(p.dx[0], p.x[1]), p.times(p.dx[1], p.x[0]))


def _remainder(p: Place) -> int | None:
    if p.dx[1] is not None:
        raise CompilationError("expected a divisor that does not depend on what is differentiated, in a remainder")
    return p.dx[0]


def _power(p: Place) -> int | None:
    base, exponent = p.x
    below = p.op("math.powf", base, p.op("arith.subf", exponent, p.number(1.0)))
    by_base = p.times(p.times(p.dx[0], exponent), below)
    return p.plus(by_base, p.times(p.times(p.dx[1], p.op("math.log", base)), p.y) if p.dx[1] is not None else None)


def _extremum(how: str) -> Rule:
    return lambda p: p.choose(p.compare(how, p.x[0], p.x[1]), p.dx[0], p.dx[1])


def _absolute(p: Place) -> int:
    zero = p.number(0.0)
    slope = p.dx[0]
    assert slope is not None
    falling = p.choose(p.compare("olt", p.x[0], zero), p.op("arith.negf", slope), None)
    return p.choose(p.compare("ogt", p.x[0], zero), slope, falling)


def _erf(p: Place) -> int | None:
    bell = p.op("math.exp", p.op("arith.negf", p.op("arith.mulf", p.x[0], p.x[0])))
    return p.scaled(p.times(p.dx[0], bell), 2.0 / math.sqrt(math.pi))


def _square(p: Place, x: int) -> int:
    return p.op("arith.mulf", x, x)


def _angle(p: Place) -> int | None:
    y, x = p.x
    across = p.minus(p.times(p.dx[0], x), p.times(p.dx[1], y))
    return p.over(across, p.op("arith.addf", _square(p, x), _square(p, y)))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("tile.broadcast", "tile.splat", "tile.unsplat", "tile.expand_dims", "tile.reshape", "tile.trans", "tile.hint",
         "arith.extf", "arith.truncf"),
        _same,
    ),
    "arith.addf": lambda p: p.plus(p.dx[0], p.dx[1]),
    "arith.subf": lambda p: p.minus(p.dx[0], p.dx[1]),
    "arith.mulf": _product,
    "arith.divf": lambda p: p.over(p.minus(p.dx[0], p.times(p.dx[1], p.y)), p.x[1]),
    "arith.negf": lambda p: p.minus(None, p.dx[0]),
    "arith.remf": _remainder,
    "arith.select": lambda p: p.choose(p.x[0], p.dx[1], p.dx[2]),
    "arith.maximumf": _extremum("oge"),
    "arith.maxnumf": _extremum("oge"),
    "arith.minimumf": _extremum("ole"),
    "arith.minnumf": _extremum("ole"),
    "math.absf": _absolute,
    "math.fma": lambda p: p.plus(p.plus(p.times(p.dx[0], p.x[1]), p.times(p.dx[1], p.x[0])), p.dx[2]),
    "math.exp": lambda p: p.times(p.dx[0], p.y),
    "math.exp2": lambda p: p.scaled(p.times(p.dx[0], p.y), LN2),
    "math.log": lambda p: p.over(p.dx[0], p.x[0]),
    "math.log2": lambda p: p.scaled(p.over(p.dx[0], p.x[0]), 1.0 / LN2),
    "math.sqrt": lambda p: p.scaled(p.over(p.dx[0], p.y), 0.5),
    "math.rsqrt": lambda p: p.scaled(p.times(p.times(p.dx[0], _square(p, p.y)), p.y), -0.5),
    "math.cbrt": lambda p: p.scaled(p.over(p.dx[0], _square(p, p.y)), 1.0 / 3.0),
    "math.sin": lambda p: p.times(p.dx[0], p.op("math.cos", p.x[0])),
    "math.cos": lambda p: p.minus(None, p.times(p.dx[0], p.op("math.sin", p.x[0]))),
    "math.tanh": lambda p: p.minus(p.dx[0], p.times(p.dx[0], _square(p, p.y))),
    "math.erf": _erf,
    "math.atan2": _angle,
    "math.powf": _power,
}  # fmt: skip

# Instructions that the library emits as inline assembly.
_INSTRUCTIONS: dict[str, Rule] = {
    "ex2.approx.ftz.f32": _RULES["math.exp2"],
    "rcp.approx.ftz.f32": lambda p: p.minus(None, p.times(p.dx[0], _square(p, p.y))),
}
