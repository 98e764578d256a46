"""What is required of Kiln and whether a recorded row meets it; plain arithmetic on records.

A row's peers are everything but Kiln and the ceiling kernel; its ceiling is the fastest of all except Kiln. Speeds:

    asked:  Kiln ≥ min(1.05 × best peer, 0.97 × ceiling)  and  Kiln ≥ 0.99 × best peer
    mean:   geometric mean of Kiln / best peer ≥ 1.10, over all rows but AdamW 1M
    some rows also have a least TB/s or a most µs
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

OVER_PEER, OF_CEILING, LEAST_OF_PEER, MEAN = 1.05, 0.97, 0.99, 1.10
NOT_PEERS = ("kiln", "kiln+pdl", "kiln-lists", "ceiling")

Record = dict[str, Any]


def microseconds(record: Record, peer: str, mode: str = "cold") -> float | None:
    """The median of a peer that was measured, else None."""
    found = record["peers"].get(peer)
    return found[mode]["median"] if found and found["status"] == "ok" and mode in found else None


def best_peer(record: Record) -> tuple[str, float] | None:
    times = {name: microseconds(record, name) for name in record["peers"] if name not in NOT_PEERS}
    measured = {name: time for name, time in times.items() if time is not None}
    if not measured:
        return None
    name = min(measured, key=measured.__getitem__)
    return name, measured[name]


@dataclass(frozen=True)
class Verdict:
    """How one of Kiln's variants did in one row. Ratios are of speeds: above 1, Kiln is faster."""

    name: str
    variant: str
    us: float
    tbs: float
    spread: float
    peer: str | None = None
    over_peer: float | None = None
    of_ceiling: float | None = None
    misses: tuple[str, ...] = field(default_factory=tuple)
    # What was missed, in a word or two: the peer that is too fast, the absolute figure.
    limits: tuple[str, ...] = field(default_factory=tuple)

    @property
    def passes(self) -> bool:
        return not self.misses


def judge(record: Record, variant: str = "kiln") -> Verdict | None:
    """The verdict on a row, or None if Kiln was not measured there."""
    us = microseconds(record, variant)
    if us is None:
        return None
    case, misses, limits = record["case"], [], []
    tbs = (case["reads"] + case["writes"]) / us / 1e6
    summary = record["peers"][variant]["cold"]
    best, ceiling = best_peer(record), microseconds(record, "ceiling")
    over = best[1] / us if best else None
    top = min((time for time in (ceiling, best[1] if best else None) if time is not None), default=None)
    of = top / us if top is not None else None
    if over is not None:
        if over < LEAST_OF_PEER:
            misses.append(f"{over:.2f} of {best[0]}")
        elif over < OVER_PEER and of is not None and of < OF_CEILING:
            misses.append(f"{over:.2f} of {best[0]}, {of:.2f} of the ceiling")
        limits += [best[0]] if misses else []
    if case["least_tbs"] is not None and tbs < case["least_tbs"]:
        misses.append(f"{tbs:.2f} of {case['least_tbs']} TB/s")
        limits.append(f"{case['least_tbs']} TB/s")
    if case["most_us"] is not None and us > case["most_us"]:
        misses.append(f"{us:.2f} for {case['most_us']} µs")
        limits.append(f"{case['most_us']} µs")
    return Verdict(case["name"], variant, us, tbs, (summary["p75"] - summary["p25"]) / 2 / us,
                   best[0] if best else None, over, of, tuple(misses), tuple(limits))  # fmt: skip


def geometric_mean(values: Iterable[float]) -> float | None:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


@dataclass(frozen=True)
class Overall:
    variant: str
    rows: int
    passed: int
    mean: float | None
    mean_of_ceiling: float | None


def overall(records: Iterable[Record], variant: str = "kiln") -> Overall:
    """Counts and means over the rows in which Kiln was measured."""
    records = list(records)
    verdicts = [(record, judge(record, variant)) for record in records]
    judged = [(record, verdict) for record, verdict in verdicts if verdict is not None]
    counted = [verdict for record, verdict in judged if record["case"]["in_mean"]]
    return Overall(variant, len(judged), sum(verdict.passes for _, verdict in judged),
                   geometric_mean(v.over_peer for v in counted if v.over_peer is not None),
                   geometric_mean(v.of_ceiling for v in counted if v.of_ceiling is not None))  # fmt: skip
