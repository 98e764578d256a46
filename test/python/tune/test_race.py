"""The race on its own, on simulated clocks with seeds: which configuration wins, what it costs, how it ends. No test
uses a real clock."""

from __future__ import annotations

import math
import os
import random

import clocks
import pytest
from kiln.tune.race import Disqualified, Outcome, Rules, _t_quantile, quantiles, race

TRIALS = int(os.environ.get("KILN_FUZZ_RACES", "60"))


def field(seed: int, count: int) -> dict[int, float]:
    """True times of the contestants: the best takes 1; every third field has one that is 3 % slower, some tie."""
    rng = random.Random(seed)
    times = [1.0, *(math.exp(rng.uniform(0.0, 1.0)) for _ in range(count - 1))]
    if seed % 3 == 0:
        times[1] = 1.03
    rng.shuffle(times)
    return dict(enumerate(times))


def run(true: dict[int, float], clock: clocks.Clock, rules: Rules = Rules()) -> Outcome[int]:  # noqa: B008
    return race({name: lambda name=name: clock(true[name]) for name in true}, rules)


@pytest.mark.parametrize("count", [2, 8, 30])
@pytest.mark.parametrize("kind", clocks.ALL, ids=lambda kind: kind.__name__.lower())
def test_the_winner_is_within_two_percent_of_the_best(kind, count):
    """In 99 of 100 races. The test fails if intervals are half as wide, and on drifting clocks if rounds are not
    compared."""
    lost = [seed for seed in range(TRIALS) if (true := field(seed, count))[run(true, kind(seed)).winner] > 1.02]
    assert len(lost) <= TRIALS // 100, f"lost with seeds {lost}"


@pytest.mark.parametrize("kind", clocks.ALL, ids=lambda kind: kind.__name__.lower())
def test_a_race_costs_a_fraction_of_sampling_all_to_the_end(kind):
    """Exhaustive sampling takes as many samples of each contestant as the winner got. The test fails if no
    configuration drops out."""
    spent = exhaustive = 0
    for seed in range(20):
        outcome = run(field(seed, 30), kind(seed))
        spent += outcome.count
        exhaustive += len(outcome.standings) * outcome.rounds
    assert spent < 0.6 * exhaustive, f"{spent / exhaustive:.2f} of the samples"
    assert spent < 20 * 30 * 60, "some 100 are what a tuner without a race takes"


def test_a_slow_contestant_leaves_early_and_keeps_its_samples():
    true = {0: 1.0, **dict.fromkeys(range(1, 6), 2.0)}
    outcome = run(true, clocks.Quiet(1))
    assert outcome.winner == 0 and outcome.why == "alone" and outcome.rounds == Rules().least
    for name in range(1, 6):
        standing = outcome.standings[name]
        assert standing.out == outcome.rounds and standing.low > 1.5 and 1.9 < standing.time < 2.1
    assert outcome.standings[0].out == 0


def test_equally_good_contestants_end_the_race():
    outcome = run({0: 1.0, 1: 1.0, 2: 1.001}, clocks.Quiet(3))
    assert outcome.why == "decided" and outcome.rounds < 100
    assert sum(not standing.out for standing in outcome.standings.values()) > 1


def test_uniform_slowdowns_do_not_affect_the_result():
    """Each round takes three times as long as the one before: without ratios within a round, only the spread would be
    visible."""
    now = {"round": 0}

    def sample(true):
        return lambda: true * 3.0 ** (now["round"] % 20)

    def advance(_):
        now["round"] += 1

    outcome = race({name: sample(true) for name, true in {"a": 1.05, "b": 1.0, "c": 1.5}.items()}, Rules(), advance)
    assert outcome.winner == "b" and outcome.why == "alone" and outcome.rounds <= 8


def test_rounds_go_back_and_forth():
    order = []
    race({name: lambda name=name: order.append(name) or 1.0 for name in "abc"}, Rules(rounds=2, least=2))
    assert "".join(order) == "abccba"


def test_a_drift_inside_the_rounds_favours_nobody():
    """Each sample takes 1 % longer than the one before: a contestant that always came last would seem slower by 4 %."""
    taken = {"samples": 0}

    def sample(true):
        def one():
            taken["samples"] += 1
            return true * 1.01 ** (taken["samples"] % 200)

        return one

    outcome = race(
        {name: sample(true) for name, true in {"a": 1.02, "b": 1.03, "c": 1.05, "d": 1.02, "e": 1.0}.items()}
    )
    assert outcome.winner == "e"


def test_disqualified_contestants_are_named_and_cost_only_themselves():
    samples = {"good": 0, "late": 0}

    def bad():
        raise Disqualified("does not fit")

    def late():
        samples["late"] += 1
        if samples["late"] == 3:
            raise Disqualified("hangs")
        return 0.5

    def good():
        samples["good"] += 1
        return 1.0 + samples["good"] % 2 / 1000

    outcome = race({"bad": bad, "late": late, "good": good})
    assert outcome.winner == "good", "who led and was disqualified has not won"
    assert str(outcome.standings["bad"].problem) == "does not fit" and outcome.standings["bad"].time == math.inf
    assert str(outcome.standings["late"].problem) == "hangs" and outcome.standings["late"].out == 3
    clock, taken = clocks.Noisy(2), {"a": 0, "b": 0}

    def until_20(name):
        taken[name] += 1
        if name == "a" and taken[name] > 20:
            raise Disqualified("hangs")
        return clock(0.999 if name == "a" else 1.0)

    left = race({name: lambda name=name: until_20(name) for name in "ab"})
    assert left.rounds == 21 and left.winner == "b" and left.why == "alone", "between two looks, too"
    nobody = race({"bad": bad})
    assert nobody.winner is None and nobody.why == "nobody" and nobody.count == 0


def test_an_interrupt_keeps_the_best_so_far():
    def race_until(sample: int):
        taken = {"samples": 0}

        def one(true):
            def sampler():
                taken["samples"] += 1
                if taken["samples"] > sample:
                    raise KeyboardInterrupt
                return true

            return sampler

        return race({"a": one(2.0), "b": one(1.0), "c": one(3.0)})

    assert race_until(4).winner == "b" and race_until(4).why == "interrupted"
    assert race_until(2).winner == "b", "in the first round: of those that have a time"
    with pytest.raises(KeyboardInterrupt):
        race_until(0)


def test_time_ends_a_race_but_not_its_first_rounds():
    spent = {"seconds": 0.0}
    clock = clocks.Noisy(5)

    def sample(true):
        def one():
            spent["seconds"] += 1.0
            return clock(true)

        return one

    outcome = race({"a": sample(1.0), "b": sample(1.0)}, Rules(seconds=60.0), elapsed=lambda: spent["seconds"])
    assert outcome.why == "time" and outcome.rounds == 30 and outcome.winner is not None
    spent["seconds"] = 0.0
    outcome = race({"a": sample(1.0), "b": sample(1.0)}, Rules(seconds=1.0), elapsed=lambda: spent["seconds"])
    assert outcome.rounds == Rules().least


def test_races_are_reproducible():
    first, again = (run(field(7, 12), clocks.Spiky(7)) for _ in range(2))
    assert first.winner == again.winner and first.count == again.count and first.rounds == again.rounds
    assert [s.samples for s in first.standings.values()] == [s.samples for s in again.standings.values()]


@pytest.mark.parametrize("freedom,expected", [(8, 3.355387), (10, 3.169273), (30, 2.749996), (120, 2.617421)])
def test_quantiles_of_students_distribution(freedom, expected):
    """Two-sided 99 %, from tables."""
    assert _t_quantile(0.995, freedom) == pytest.approx(expected, rel=0.01)


def test_quantiles():
    assert quantiles([3.0, 1.0, 2.0, 4.0, 5.0], (0.5, 0.2, 0.8)) == pytest.approx([3.0, 1.8, 4.2])
