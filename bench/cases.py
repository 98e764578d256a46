"""What a benchmark row is, and what a family (norm.py, softmax.py, …) must provide.

A family is a module with `NAME`, `CASES` and four functions; `FAMILIES` lists them in the order they run:

    inputs(case, make)      dict of arrays, each with a leading axis of sets; `make.normal(...)` fills them
    outputs(case)           [(shape, dtype), …] of one launch; () if the operation works in place
    reference(case, arrays) float64 outputs of one set, as a tuple
    peers(case, tools)      dict of peer name → function that builds a `Peer` (imports and compiles only then)

and, if the operation works in place, `MUTATES`: names of the arrays that it changes, in the order of its outputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

FAMILIES = ("norm", "softmax", "activation", "rope", "adamw")

# Everything a row can be measured with. "kiln" is joined by "kiln+pdl" (programmatic dependent launch) and, for AdamW,
# "kiln-lists"; "cuda" by "cuda-naive". "ceiling" moves the same bytes and computes nothing.
PEERS = ("kiln", "torch", "inductor", "quack", "triton", "cuda", "ceiling")
VARIANTS = {"kiln": ("kiln", "kiln+pdl", "kiln-lists"), "cuda": ("cuda", "cuda-naive")}


def with_variants(peers: Sequence[str]) -> set[str]:
    return {variant for name in peers for variant in VARIANTS.get(name, (name,))}


Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One row of the tables: an operation at a size.

    ``reads`` and ``writes`` are the fewest bytes a launch can move; ``footprint`` the bytes it touches (less than their
    sum for an in-place operation). ``streams`` is the mix that the ceiling moves: arrays read, arrays written, and the
    bytes of one of them. ``reported`` is the best peer's figure in the reference table, ``least_tbs`` and ``most_us``
    are absolute requirements.
    """

    family: str
    kernel: str
    shape: tuple[int, ...]
    reads: int
    writes: int
    streams: tuple[int, int, int]
    dtype: str = "float16"
    footprint: int = 0
    size: str = ""
    reported: str = ""
    least_tbs: float | None = None
    most_us: float | None = None
    in_mean: bool = True
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "footprint", self.footprint or self.reads + self.writes)
        object.__setattr__(self, "size", self.size or "×".join(map(str, self.shape)))

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.size}"

    @property
    def traffic(self) -> int:
        return self.reads + self.writes

    def tbs(self, microseconds: float) -> float:
        """Terabytes per second of a launch that takes this long."""
        return self.traffic / microseconds / 1e6


@dataclass(frozen=True)
class Peer:
    """A way to compute a row. ``launch(arrays, outs)`` enqueues one launch on the current stream and returns the
    outputs: those it was given if ``takes_outputs``, else new ones (``outs`` is then None). ``prepare(arrays)`` is
    called once for every set, before anything is timed, for what a user of the peer would prepare only once."""

    launch: Callable[[Arrays, Any], tuple[Any, ...]]
    takes_outputs: bool = True
    note: str = ""
    prepare: Callable[[Arrays], None] | None = None


class Unavailable(Exception):
    """A peer that this machine or this row does not have; the message says why."""


def family(name: str) -> ModuleType:
    if name not in FAMILIES:
        raise ValueError(f"expected one of {', '.join(FAMILIES)}, got {name!r}")
    return importlib.import_module(name)


def select(names: Sequence[str], only: str = "") -> list[Case]:
    """The cases of these families, or of all, whose name has a word beginning with each word of ``only``.

    "rms_norm 2048x" are the RMSNorms of 2048 rows; x may be written for ×.
    """

    # "x" also occurs in names (softmax), so both sides are compared with every x replaced.
    def words(text: str) -> list[str]:
        return text.replace("x", "×").split()

    found = [case for name in (names or FAMILIES) for case in family(name).CASES]
    return [case for case in found if all(any(w.startswith(o) for w in words(case.name)) for o in words(only))]


def named(name: str) -> Case:
    """The case of this name; raises `KeyError`."""
    return {case.name: case for case in select([])}[name]


def relative_to(table: dict[tuple[int, ...], float], shape: tuple[int, ...], unit: str = "TB/s") -> str:
    """The reference table's figure for a shape as text, or ""."""
    return f"{table[shape]:.2f} {unit}" if shape in table else ""
