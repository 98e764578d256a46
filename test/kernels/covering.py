"""Covering arrays: few rows in which every two values of different factors meet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]


def covering(factors: Mapping[str, Sequence[Any]], also: Iterable[Row] = (), seed: int = 0) -> list[Row]:
    """Rows with one value of each factor; values are hashable. Each row of ``also``, which may leave factors open, is
    part of one of them. The same arguments give the same rows."""
    rng = random.Random(seed)
    names = list(factors)
    missing = {
        pair
        for one, other in itertools.combinations(names, 2)
        for pair in itertools.product(((one, x) for x in factors[one]), ((other, x) for x in factors[other]))
    }

    def pairs(row: Row) -> set[Any]:
        return set(itertools.combinations(((name, row[name]) for name in names if name in row), 2))

    def filled(row: Row) -> Row:
        """The row with the open factors chosen, one after the other, for the most pairs that are still missing."""
        rest = [name for name in names if name not in row]
        for name in rng.sample(rest, len(rest)):
            values = rng.sample(list(factors[name]), len(factors[name]))
            row = row | {name: max(values, key=lambda x: len(pairs(row | {name: x}) & missing))}
        return {name: row[name] for name in names}

    rows: list[Row] = []
    wanted = list(also)
    while wanted or missing:
        start = wanted.pop(0) if wanted else dict(min(missing, key=str))
        row = max((filled(start) for _ in range(8)), key=lambda x: len(pairs(x) & missing))
        missing -= pairs(row)
        rows.append(row)
    return rows


def parametrize(metafunc: Any, name: str, rows: Sequence[Row], here: Sequence[Row]) -> None:
    """All rows on a GPU; on the CPU, which takes seconds for many of them, those in ``here``."""
    if name in metafunc.fixturenames:
        chosen = rows if metafunc.config.getoption("--device") == "cuda" else here
        metafunc.parametrize(name, chosen, ids=lambda row: "-".join(str(x).replace(" ", "") for x in row.values()))
