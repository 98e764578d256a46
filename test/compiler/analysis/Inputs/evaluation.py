"""Ops of random tile programs and their values in wrapping integers.

Each op is a `Step` that renders itself as IR and computes its value in numpy; a step records every value it had, in
every iteration. Undefined results (division by zero, a shift past the width) have no value, nor does anything that
depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

np.seterr(all="ignore")
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "p2": 64, "p4": 64}
NAMES = {"p2": "!tile.ptr<f16>", "p4": "!tile.ptr<f32>"}
SHAPES = [(16,), (32,), (96,), (12,), (64,), (1,), (4, 16), (8, 12), (16, 1), (1, 32), (2, 3, 8), (24, 4)]


class Type(NamedTuple):
    element: str
    shape: tuple[int, ...] | None  # None: a scalar

    def __str__(self) -> str:
        element = NAMES.get(self.element, self.element)
        if self.shape is None:
            return element
        return f"tensor<{'x'.join(map(str, self.shape))}x{element}>"

    @property
    def bits(self) -> int:
        return BITS[self.element]


def wrap(values: Any, bits: int) -> np.ndarray:
    """The low bits of int64 values, as signed numbers."""
    values = np.asarray(values, dtype=np.int64)
    if bits == 64:
        return values
    shift = np.int64(64 - bits)
    return (values << shift) >> shift


def unsigned(values: np.ndarray, bits: int) -> np.ndarray:
    values = values.astype(np.uint64)
    return values if bits == 64 else values & np.uint64((1 << bits) - 1)


def truncated(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient and remainder rounded towards zero."""
    q = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return q, a - q * b


class Undefined(Exception):
    pass


def signed_division(op: str, a: np.ndarray, b: np.ndarray, bits: int) -> np.ndarray:
    low = -(1 << (bits - 1))
    if (b == 0).any() or ((a == low) & (b == -1)).any() or (a == -(1 << 63)).any() or (b == -(1 << 63)).any():
        raise Undefined
    if op == "floordivsi":
        return a // b
    q, r = truncated(a, b)
    return q if op == "divsi" else r


def binary(op: str, a: np.ndarray, b: np.ndarray, bits: int) -> np.ndarray:
    ua, ub = unsigned(a, bits), unsigned(b, bits)
    if op in ("divsi", "remsi", "floordivsi"):
        return wrap(signed_division(op, a, b, bits), bits)
    if op in ("divui", "remui"):
        if (ub == 0).any():
            raise Undefined
        return wrap((ua // ub if op == "divui" else ua % ub).astype(np.int64), bits)
    if op in ("shli", "shrsi", "shrui"):
        if (ub >= bits).any():
            raise Undefined
        if op == "shli":
            return wrap((ua << ub).astype(np.int64), bits)
        return wrap(a >> b if op == "shrsi" else (ua >> ub).astype(np.int64), bits)
    table: dict[str, Callable[[], np.ndarray]] = {
        "addi": lambda: a + b,
        "subi": lambda: a - b,
        "muli": lambda: a * b,
        "andi": lambda: a & b,
        "ori": lambda: a | b,
        "xori": lambda: a ^ b,
        "minsi": lambda: np.minimum(a, b),
        "maxsi": lambda: np.maximum(a, b),
        "minui": lambda: np.where(ua < ub, a, b),
        "maxui": lambda: np.where(ua > ub, a, b),
    }
    return wrap(table[op](), bits)


def compare(predicate: str, a: np.ndarray, b: np.ndarray, bits: int) -> np.ndarray:
    if predicate[0] == "u":
        a, b = unsigned(a, bits), unsigned(b, bits)
    relation = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }[predicate if predicate in ("eq", "ne") else predicate[1:]]
    return wrap(relation(a, b).astype(np.int64), 1)


Env = dict[str, Any]


class Step:
    """One op with one checked result."""

    def __init__(self, text: str, name: str, type_: Type, run: Callable[[Env], np.ndarray]):
        self.text, self.name, self.type, self.run = text, name, type_, run
        self.seen: list[np.ndarray] = []

    def execute(self, env: Env) -> None:
        try:
            env[self.name] = self.run(env)
            self.seen.append(env[self.name])
        except (Undefined, KeyError):
            env.pop(self.name, None)

    def lines(self) -> list[str]:
        return [self.text]

    def claims(self) -> list[list[Step]]:
        return [[self]]


class Region:
    """An op with regions: `results` are pseudo steps for the yielded values."""

    def __init__(
        self,
        head: str,
        bodies: list[tuple[list[Any], str]],
        tail: str,
        results: list[Step],
        arguments: list[Step],
        run: Callable[[Region, Env], None],
    ):
        self.head, self.bodies, self.tail, self.results, self.arguments, self.run = (
            head,
            bodies,
            tail,
            results,
            arguments,
            run,
        )

    def execute(self, env: Env) -> None:
        self.run(self, env)

    def lines(self) -> list[str]:
        out = [self.head]
        if not self.bodies:
            return out
        for number, (body, end) in enumerate(self.bodies):
            if number:
                out.append("} else {" if self.head.find("scf.if") >= 0 else "} do {")
                if "^bb0" in self.tail and number == 1:
                    out.append(self.tail.split("|")[1])
            for step in body:
                out += step.lines()
            out.append(end)
        return [*out, "}" + self.tail.split("|")[0]]

    def claims(self) -> list[list[Step]]:
        inner = [claim for body, _ in self.bodies for step in body for claim in step.claims()]
        return inner + [group for group in (self.results, self.arguments) if group]


def bind(steps: list[Step], values: list[Any], env: Env) -> None:
    for step, value in zip(steps, values, strict=False):
        if value is None:
            env.pop(step.name, None)
        else:
            env[step.name] = value
            step.seen.append(value)


class Silent(Step):
    def __init__(self, text: str):
        super().__init__(text, "", Type("i1", None), lambda env: np.zeros(()))

    def execute(self, env: Env) -> None:
        pass

    def claims(self) -> list[list[Step]]:
        return []


def legal(side: int) -> bool:
    while side % 2 == 0:
        side //= 2
    return side <= 31
