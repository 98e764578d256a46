"""Races during compiles: compiled configurations race while others still compile, and latecomers have no
disadvantage."""

from __future__ import annotations

import threading

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors
from kiln.tune import compiling
from kiln.tune.tuning import Tuning
from tuned_kernels import blocks, kept_times


@pytest.fixture(autouse=True)
def overlap(monkeypatch):
    """Enables overlap, as on a GPU."""
    monkeypatch.setattr(Tuning, "_can_overlap", lambda self, configs: True)
    monkeypatch.setattr(compiling, "processors", lambda: 4)


@pytest.fixture
def late(monkeypatch):
    """`late[block] = condition`: the compile of this configuration waits for the condition."""
    waits: dict[int, threading.Event] = {}
    real = Tuning._compile_one

    def compile_one(self, config):
        if config.kwargs["BLOCK"] in waits:
            assert waits[config.kwargs["BLOCK"]].wait(timeout=60), "no race while it compiled"
        return real(self, config)

    monkeypatch.setattr(Tuning, "_compile_one", compile_one)
    return waits


@pytest.fixture
def races(monkeypatch):
    """The BLOCKs of each race, and what to do after it."""

    class Races(list):
        after = staticmethod(lambda: None)

    found, real = Races(), Tuning._race_of

    def race_of(self, runners, *rest):
        found.append([config.kwargs["BLOCK"] for config in runners])
        result = real(self, runners, *rest)
        found.after()
        return result

    monkeypatch.setattr(Tuning, "_race_of", race_of)
    return found


def make_kernel():
    @kiln.jit
    def fill(x, n, BLOCK: kl.constexpr):
        at = kl.arange(0, BLOCK)
        kl.store(x + at, BLOCK, mask=at < n)

    return fill


def tune(*sizes, kernel=None):
    tuned = kiln.autotune(blocks(*sizes), key=["n"])(kernel or make_kernel())
    tuned[1](np.zeros(256, np.int32), 5)
    return tuned


def winner(tuned):
    return tuned.best_config.kwargs["BLOCK"]


def times(tuned):
    return {config.kwargs["BLOCK"]: values[0] for config, values in tuned.configs_timings.items()}


def test_a_race_is_run_while_one_compiles(told, late, races):
    told.times = {16: 3.0, 32: 2.0, 64: 1.0, 128: 4.0}
    late[64] = threading.Event()
    races.after = lambda: late[64].set() if sum(16 in race or 32 in race for race in races) else None
    tuned = tune(16, 32, 64, 128)
    assert winner(tuned) == 64 and times(tuned) == pytest.approx(told.times, rel=0.04) and kept_times() == 4
    assert 64 not in races[0] and 64 in races[-1]


def test_contestants_far_behind_do_not_run_again(told, late, races):
    told.times = {16: 1.0, 32: 9.0, 64: 1.001}
    late[64], late[32] = threading.Event(), threading.Event()
    races.after = lambda: (late[32].set(), late[64].set() if [16, 32] in races else None)
    tuned = tune(16, 32, 64)
    assert races[:3] == [[16], [16, 32], [16, 64]] and winner(tuned) in (16, 64)
    assert set(map(tuple, map(sorted, races[3:]))) <= {(16, 64)}, "those that are alike run to the end"


def test_a_slower_machine_does_not_change_the_order(told, late, races):
    """The machine slows down between two races, which must not let a beaten configuration win."""
    told.times = {16: 1.0, 32: 1.1, 64: 2.0}
    late[64] = threading.Event()

    def slower():
        if any({16, 32} <= set(race) for race in races) and not late[64].is_set():
            for block in told.times:
                told.times[block] *= 1.5
            late[64].set()

    races.after = slower
    tuned = tune(16, 32, 64)
    assert winner(tuned) == 16
    assert times(tuned) == pytest.approx({16: 1.5, 32: 1.65, 64: 3.0}, rel=0.02)


def test_spilling_configurations_run_only_if_all_spill(told, late, races, monkeypatch):
    told.times = {16: 3.0, 32: 2.0, 64: 1.0}
    sizes = {}
    monkeypatch.setattr(compiling, "words_spilled", lambda code: sizes.get(code.parameters[-1].value, 0))
    sizes.update({64: 8})
    tuned = tune(16, 32, 64)
    assert winner(tuned) == 32 and 64 not in set(told.sampled)
    assert times(tuned)[64] == float("inf")
    sizes.update({16: 4, 32: 2})
    assert winner(tune(16, 32, 64)) == 64 and races[-1] != []


def test_the_same_code_is_measured_once(told, races):
    told.times = {16: 2.0, 32: 1.0}
    configs = [*blocks(16, 32, num_warps=4), *blocks(16, 32, num_warps=8)]
    tuned = kiln.autotune(configs, key=["n"])(make_kernel())
    tuned[1](np.zeros(256, np.int32), 5)
    values = [tuned.configs_timings[config] for config in configs]
    assert values[0] == values[2] and values[1] == values[3]
    assert all(len(race) == len(set(race)) for race in races)


def test_mistakes_are_raised(told):
    @kiln.jit
    def kernel(x, n, BLOCK: kl.constexpr):
        kl.store(x + kl.arange(0, BLOCK), undefined_name)  # noqa: F821

    with pytest.raises(errors.CompilationError, match="undefined_name"):
        tune(16, 32, kernel=kernel)
    assert told.sampled == []


def test_a_misfit_costs_only_itself(told):
    @kiln.jit
    def kernel(x, n, BLOCK: kl.constexpr):
        kl.static_assert(BLOCK < 64)
        at = kl.arange(0, BLOCK)
        kl.store(x + at, BLOCK, mask=at < n)

    told.times = {16: 2.0, 32: 1.0}
    tuned = tune(16, 32, 64, kernel=kernel)
    assert winner(tuned) == 32 and times(tuned)[64] == float("inf")


def test_an_interrupt_takes_the_best_so_far(told, late, races):
    told.times = {16: 2.0, 32: 1.0, 64: KeyboardInterrupt()}
    late[64] = threading.Event()
    races.after = lambda: late[64].set() if any({16, 32} <= set(race) for race in races) else None
    tuned = tune(16, 32, 64)
    assert winner(tuned) == 32 and kept_times() == 0


def test_configurations_with_host_work_do_not_race(monkeypatch):
    monkeypatch.undo()
    kernel = kiln.autotune(blocks(16, 32), key=["n"], rep=1)(make_kernel())
    tuning = Tuning(kernel, (5,), (np.zeros(256, np.int32), 5), {}, 1)
    assert not tuning._can_overlap(kernel.configs), "the CPU computes what it would be measured by"
