"""The race: samples several contestants in turn and stops as soon as it knows a winner. Knows no kernels and no clock.

It runs in rounds. Each round samples every remaining contestant once, so that a temporary slowdown of the machine
affects all of them alike; every second round runs backwards, so that drift within rounds favours no contestant. The
statistic is the logarithm of a contestant's time over the leader's in the same round: its noise is symmetric, and
common noise cancels. Its location is the Hodges-Lehmann estimate (the median of the means of all pairs), which is
robust to single slow samples; its interval is Wilcoxon's, which assumes only symmetric noise. That takes at least FEW
rounds; before, the interval is computed from the spread of the ratios with the t distribution, pooled over all rivals
while each has few.

- A rival is out when even the lower end of its interval is above the leader's time.
- The race is over when no rival can be faster than the leader by more than `tolerance`, when one contestant is left, or
  when the rounds or the time are spent.

Each interval misses its value with probability `miss`. The intervals are examined less often as rounds go by; in the
longest race some fifty times, so `miss` is far below the error probability wanted for the whole race.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Generic, TypeVar

import numpy as np

Name = TypeVar("Name", bound=Hashable)


class Disqualified(Exception):
    """Raised by a sampler to take its contestant out of the race, with the reason as message."""


@dataclass(frozen=True)
class Rules:
    """When a race ends.

    tolerance   a rival that is faster by at most this fraction counts as equal to the leader
    miss        probability that an interval misses its value
    freedom     the degrees of freedom needed before intervals are trusted
    rounds      the maximum number of rounds
    least       the minimum number of rounds
    seconds     the maximum time
    margin      a rival is out when it surely takes more than this multiple of the leader's time
    """

    tolerance: float = 0.01
    miss: float = 5e-4
    freedom: int = 10
    least: int = 4
    rounds: int = 400
    seconds: float = math.inf
    margin: float = 1.0


@dataclass
class Standing(Generic[Name]):
    """What the race knows of one contestant. `samples`: its times; `out`: the round after which it was dropped (0:
    still in); `low`, `high`: interval of its time over the leader's; `problem`: why it was disqualified."""

    name: Name
    samples: list[float] = field(default_factory=list)
    low: float = 0.0
    high: float = math.inf
    out: int = 0
    problem: BaseException | None = None

    @property
    def time(self) -> float:
        """The median of its samples; infinite without any."""
        return float(np.median(self.samples)) if self.samples and self.problem is None else math.inf


@dataclass
class Outcome(Generic[Name]):
    """A race that has ended. `winner` is None if every contestant was disqualified. `why`: "decided" (no other can be
    faster), "alone" (all others are out), "rounds" or "time" (that were spent), "interrupted", "nobody"."""

    winner: Name | None
    standings: dict[Name, Standing[Name]]
    rounds: int
    why: str

    @property
    def count(self) -> int:
        """Samples taken in all."""
        return sum(len(standing.samples) for standing in self.standings.values())


def race(
    samplers: Mapping[Name, Callable[[], float]],
    rules: Rules = Rules(),  # noqa: B008 - frozen
    watch: Callable[[Outcome[Name]], Any] | None = None,
    elapsed: Callable[[], float] = lambda: 0.0,
) -> Outcome[Name]:
    """Runs the race. A sampler gives one time (in any unit, above zero), or raises `Disqualified`.

    `watch` is called after each round with the standings; `elapsed` returns the seconds spent so far.
    KeyboardInterrupt, in a sampler or in `watch`, ends the race with the best so far; it propagates if no contestant
    has a time yet.
    """
    standings: dict[Name, Standing[Name]] = {name: Standing(name) for name in samplers}
    running = list(standings.values())
    outcome: Outcome[Name] = Outcome(None, standings, 0, "rounds")
    look = 1
    try:
        while True:
            outcome.rounds += 1
            for standing in running if outcome.rounds % 2 else running[::-1]:
                try:
                    standing.samples.append(samplers[standing.name]())
                except Disqualified as problem:
                    standing.problem, standing.out = problem, outcome.rounds
            running = [standing for standing in running if standing.problem is None]
            if not running:
                outcome.winner, outcome.why = None, "nobody"
                return outcome
            last = outcome.rounds >= rules.rounds
            late = outcome.rounds >= rules.least and elapsed() >= rules.seconds
            decided, leader = False, standings.get(outcome.winner)  # type: ignore[arg-type]
            if outcome.rounds >= look or last or late or leader is None or leader.problem is not None:
                look = outcome.rounds + max(1, outcome.rounds // 8)
                decided = _judge(running, rules)
                outcome.winner = running[0].name
                for standing in running:
                    standing.out = outcome.rounds if standing.low > rules.margin else 0
                running = [standing for standing in running if not standing.out]
            if watch is not None:
                watch(outcome)
            if len(running) == 1 and outcome.rounds >= min(rules.least, rules.rounds):
                outcome.why = "alone"
            elif decided and len(running) > 1:
                outcome.why = "decided"
            elif late:
                outcome.why = "time"
            elif not last:
                continue
            return outcome
    except KeyboardInterrupt:
        outcome.why = "interrupted"
        timed = [standing for standing in running if standing.samples and standing.problem is None]
        if outcome.winner is None and timed:
            outcome.winner = min(timed, key=lambda standing: standing.time).name
        if outcome.winner is None:
            raise
        return outcome


def _judge(running: list[Standing[Any]], rules: Rules) -> bool:
    """Sorts the contestants, the leader first, and updates their intervals; returns whether the leader has won."""
    rounds = min(len(standing.samples) for standing in running)
    logs = np.log([standing.samples[:rounds] for standing in running])
    level = logs - np.median(logs, axis=0)
    order = np.argsort([float(np.median(_means_of_pairs(row))) for row in level], kind="stable")
    running[:] = [running[i] for i in order]
    logs = logs[order]
    running[0].low = running[0].high = 1.0
    intervals = _intervals(logs[1:] - logs[0], rules)
    for standing, (low, high) in zip(running[1:], intervals, strict=True):
        standing.low, standing.high = math.exp(low), math.exp(min(high, 700.0))
    return all(low > -math.log1p(rules.tolerance) for low, _ in intervals)


# From this number of rounds on, intervals are Wilcoxon's.
FEW = 16
# Before that: the weight of the pooled spread in the spread of one contestant, in rounds.
PRIOR = 6
# The minimum relative spread of samples: differences that no clock resolves.
RESOLUTION = 1e-3


def _means_of_pairs(values: Any) -> Any:
    first, second = _pairs(len(values))
    return (values[first] + values[second]) / 2


@functools.lru_cache(maxsize=8)
def _pairs(count: int) -> tuple[Any, Any]:
    """Each pair once, and each with itself."""
    return np.triu_indices(count)


def _intervals(ratios: Any, rules: Rules) -> list[tuple[float, float]]:
    """The interval of each row's location."""
    rivals, rounds = ratios.shape
    if rounds >= FEW:
        z = NormalDist().inv_cdf(1 - rules.miss / 2)
        place = int(rounds * (rounds + 1) / 4 - z * math.sqrt(rounds * (rounds + 1) * (2 * rounds + 1) / 24))
        place = max(0, place)
        found = []
        for row in ratios:
            means = _means_of_pairs(row)
            ends = np.partition(means, (place, len(means) - 1 - place))
            found.append((float(ends[place]) - RESOLUTION, float(ends[len(means) - 1 - place]) + RESOLUTION))
        return found
    if rivals * (rounds - 1) < rules.freedom or rounds < rules.least:
        return [(-math.inf, math.inf)] * rivals
    locations = np.array([float(np.median(_means_of_pairs(row))) for row in ratios])
    squares = ((ratios - locations[:, None]) ** 2).sum(axis=1)
    # The spread depends more on the machine than on the contestant.
    common = np.mean(squares) / (rounds - 1)
    spread = (squares + PRIOR * common) / (rounds - 1 + PRIOR)
    freedom = min(rivals * (rounds - 1), rounds - 1 + PRIOR)
    halves = _t_quantile(1 - rules.miss / 2, freedom) * np.sqrt(spread / rounds + RESOLUTION**2)
    return [(float(place - half), float(place + half)) for place, half in zip(locations, halves, strict=True)]


def _t_quantile(probability: float, freedom: int) -> float:
    """A quantile of Student's distribution, expanded about the normal one: within 3 % from 8 degrees of freedom on."""
    z = NormalDist().inv_cdf(probability)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def quantiles(samples: Sequence[float], at: Sequence[float]) -> list[float]:
    """Quantiles by linear interpolation between the nearest ranks."""
    return [float(value) for value in np.quantile(np.asarray(samples, dtype=float), at)]
