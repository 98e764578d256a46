"""The finals: sustained load on the GPU decides between configurations that are equal in a short race."""

from __future__ import annotations

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.tune import clock, compiling, tuning
from kiln.tune.race import Disqualified
from kiln.tune.tuning import Tuning
from tuned_kernels import blocks, kept_times


@kiln.jit
def fill(x, n, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    kl.store(x + at, BLOCK, mask=at < n)


@pytest.fixture(autouse=True, params=["after each other", "beside compiles"])
def order(request, monkeypatch):
    if request.param == "beside compiles":
        monkeypatch.setattr(Tuning, "_can_overlap", lambda self, configs: len(configs) > 1)
        monkeypatch.setattr(compiling, "processors", lambda: 4)


def tune(*sizes, **options):
    tuned = kiln.autotune(blocks(*sizes), key=["n"], **options)(fill)
    tuned[1](np.zeros(512, np.int32), 5)
    return tuned


def winner(tuned):
    return tuned.best_config.kwargs["BLOCK"]


def times(tuned):
    return {config.kwargs["BLOCK"]: values[0] for config, values in tuned.configs_timings.items()}


def test_the_fastest_in_bursts_wins(told):
    told.times = {16: 1.0, 32: 1.05, 64: 1.5}
    told.sustained = {16: 1.4, 32: 1.2, 64: 0.1}
    tuned = tune(16, 32, 64)
    assert winner(tuned) == 32 and set(told.bursts) == {16, 32}, "who is far behind is not in"
    assert told.bursts[0] == 16 and told.bursts.count(16) == told.bursts.count(32) + 1, "one heats the GPU"
    assert times(tuned) == pytest.approx({16: 1.4, 32: 1.2, 64: 2.1}, rel=0.02), "the others at the same pace"
    assert kept_times() == 3
    told.bursts.clear()
    assert winner(tune(16, 32, 64)) == 32 and told.bursts == [], "the times are kept"


def test_four_at_most_run_in_turns_within_their_time(told):
    told.times = {16: 1.0, 32: 1.01, 64: 1.02, 128: 1.03, 256: 1.04}
    told.sustained = {16: 1.4, 32: 1.3, 64: 1.2, 128: 1.1, 256: 0.1}
    assert winner(tune(16, 32, 64, 128, 256)) == 128
    bursts = told.bursts[1:]
    rounds = [bursts[i : i + 4] for i in range(0, len(bursts), 4)]
    assert len(rounds) <= tuning.FINAL_ROUNDS and all(set(turn) == {16, 32, 64, 128} for turn in rounds)


def test_short_and_very_long_launches_have_none(told):
    told.sustained = {16: 1.0, 32: 0.1}
    for scale in (tuning.FINAL_LEAST_MS / 2, 2 * clock.SUSTAINED_MS):
        told.times = {16: scale, 32: 1.05 * scale}
        tuned = kiln.autotune(blocks(16, 32), key=["n"], cache_results=False)(fill)
        tuned[1](np.zeros(512, np.int32), 5)
        assert winner(tuned) == 16 and told.bursts == []


def test_a_new_configuration_is_compared_with_kept_burst_times(told):
    """Its time in the race alone would have won; the bursts of the others are not repeated."""
    told.times, told.sustained = {16: 1.0, 32: 1.05}, {16: 1.4, 32: 1.2}
    assert winner(tune(16, 32)) == 32
    told.times, told.sustained = {16: 9.0, 32: 9.0, 64: 1.0}, {16: 9.0, 32: 9.0, 64: 1.3}
    told.bursts.clear()
    tuned = tune(16, 32, 64)
    assert set(told.bursts) == {64} and winner(tuned) == 32
    assert times(tuned) == pytest.approx({16: 1.4, 32: 1.2, 64: 1.3}, rel=0.02)


def test_failing_in_a_burst_disqualifies(told):
    told.times = {16: 1.0, 32: 1.05, 64: 1.08}
    told.sustained = {16: Disqualified("hangs"), 32: 1.2, 64: 1.3}
    tuned = tune(16, 32, 64)
    assert winner(tuned) == 32 and times(tuned)[16] == float("inf")


def test_an_interrupt_leaves_the_winner_of_the_race(told):
    told.times = {16: 1.0, 32: 1.05}
    told.sustained = {16: KeyboardInterrupt(), 32: KeyboardInterrupt()}
    tuned = tune(16, 32)
    assert winner(tuned) == 16 and kept_times() == 0
