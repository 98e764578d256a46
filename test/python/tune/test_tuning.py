"""Successive tunings: what is compiled, measured and kept, and which hooks are called."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, hooks, knobs
from kiln.tune import compiling
from kiln.tune.race import Disqualified
from tuned_kernels import blocks, fill, kept_times


def tune(configs, kernel=fill, **options):
    return kiln.autotune(configs, key=["n"], **options)(kernel)


def out(length=64):
    return np.zeros(length, np.int32)


def sampled(told):
    return set(told.sampled)


# ---- what is measured ------------------------------------------------------------------------------------------------
def test_the_fastest_is_chosen_by_a_race(told):
    told.times = {16: 3.0, 32: 1.0, 64: 2.0}
    tuned = tune(blocks(16, 32, 64))
    x = out()
    tuned[1](x, 5)
    assert tuned.best_config.kwargs == {"BLOCK": 32} and (x[:5] == 32).all() and (x[5:] == 0).all()
    medians = {config.kwargs["BLOCK"]: times[0] for config, times in tuned.configs_timings.items()}
    assert medians == pytest.approx(told.times, rel=0.01)
    low, high = zip(*(times[1:] for times in tuned.configs_timings.values()), strict=True)
    assert all(a <= b for a, b in zip(low, high, strict=True))


def test_one_configuration_that_hangs_or_dies_costs_itself(told, caplog):
    told.times = {16: Disqualified("hangs"), 32: 2.0, 64: 1.0}
    with caplog.at_level("INFO", logger="kiln.autotune"):
        tuned = tune(blocks(16, 32, 64))
        tuned[1](out(), 5)
    assert tuned.best_config.kwargs == {"BLOCK": 64}
    assert tuned.configs_timings[tuned.configs[0]] == [float("inf")] * 3
    assert kept_times() == 2, "who knows why, outside of a process of its own"
    assert "BLOCK: 16, num_warps: 4, num_stages: 3, num_ctas: 1 is left out: hangs" in caplog.text


def test_an_interrupt_launches_the_best_so_far(told, caplog):
    told.times = {16: 2.0, 32: 1.0, 64: KeyboardInterrupt()}
    tuned = tune(blocks(16, 32, 64))
    tuned[1](out(), 5)
    assert tuned.best_config.kwargs == {"BLOCK": 32}
    assert "interrupted; the best so far is used" in caplog.text
    assert kept_times() == 0, "of a race that was not run to its end"
    told.times = {16: KeyboardInterrupt(), 32: 1.0}
    with pytest.raises(KeyboardInterrupt):
        tune(blocks(16, 32))[1](out(), 6)


def test_a_mistake_in_the_kernel_is_raised(told):
    """It does not count as a configuration that does not fit."""

    @kiln.jit
    def kernel(x, n, BLOCK: kl.constexpr):
        kl.store(x + kl.arange(0, BLOCK), undefined_name)  # noqa: F821

    with pytest.raises(errors.CompilationError, match="undefined_name"):
        tune(blocks(16, 32), kernel)[1](out(), 5)
    assert told.sampled == []


def test_an_option_unknown_to_the_kernel_is_reported_at_the_launch(told):
    with pytest.raises(errors.LaunchError, match="expected a parameter or a launch option, got 'BLOK'") as caught:
        tune([kiln.Config({"BLOK": 16}), kiln.Config({"BLOK": 32})])[1](out(), 5)
    assert caught.value.caller.file == __file__, "though it was met on another thread"


def test_configurations_that_fail_to_compile_cost_only_themselves(told, caplog):
    @kiln.jit
    def kernel(x, n, BLOCK: kl.constexpr):
        kl.static_assert(BLOCK < 64, "too wide")
        kl.store(x, BLOCK)

    told.times = {16: 2.0, 32: 1.0}
    with caplog.at_level("INFO", logger="kiln.autotune"):
        tuned = tune(blocks(16, 64, 32), kernel)
        tuned[1](out(), 5)
    assert sampled(told) == {16, 32} and tuned.best_config.kwargs == {"BLOCK": 32}
    assert "BLOCK: 64" in caplog.text and "too wide" in caplog.text


def test_arrays_are_as_a_single_launch_leaves_them():
    @kiln.jit
    def kernel(x, y, n, BLOCK: kl.constexpr):
        kl.store(x, kl.load(x) + BLOCK)
        kl.store(y, kl.load(y) + BLOCK)

    x, y = np.full(1, 100, np.int64), np.full(1, 100, np.int64)
    tuned = tune(blocks(16, 32), kernel, restore_value=["x"], reset_to_zero=["y"], rep=1)
    tuned[1](x, y, 5)
    best = tuned.best_config.kwargs["BLOCK"]
    assert x[0] == 100 + best and y[0] == best


def test_hooks_surround_each_measured_launch():
    calls = []
    tuned = tune(blocks(16, 32), rep=0.1, pre_hook=lambda arguments, reset_only: calls.append("pre"),
                 post_hook=lambda arguments, exception: calls.append("post"))  # fmt: skip
    tuned[1](out(), 5)
    assert calls == ["pre", "post"] * (len(calls) // 2) and len(calls) >= 4


def test_configurations_with_the_same_code_are_measured_once(told):
    """On the CPU target the number of warps makes no difference."""
    told.times = {16: 2.0, 32: 1.0}
    configs = [*blocks(16, 32, num_warps=4), *blocks(16, 32, num_warps=8)]
    tuned = tune(configs)
    tuned[1](out(), 5)
    assert len(told.sampled) <= 2 * 12 and len(tuned.configs_timings) == 4
    times = [tuned.configs_timings[config] for config in configs]
    assert times[0] == times[2] and times[1] == times[3] and times[0] != times[1]


# ---- code ------------------------------------------------------------------------------------------------------------
def test_configurations_compile_in_threads(told, monkeypatch):
    """Two compiles wait for each other: one after the other, they would never finish."""
    monkeypatch.setattr(compiling, "processors", lambda: 2)
    met, real = threading.Barrier(2, timeout=60), fill.run

    def run(*args, warmup=False, **kwargs):
        if warmup:
            met.wait()
        return real(*args, warmup=warmup, **kwargs)

    monkeypatch.setattr(fill, "run", run)
    told.times = {16: 2.0, 32: 1.0}
    tune(blocks(16, 32))[1](out(), 5)
    assert not met.broken and sampled(told) == {16, 32}


def test_compiles_in_threads_see_the_switches_of_the_launch():
    seen = {}

    def compile(config):
        seen[config] = knobs.check, knobs.num_threads, threading.current_thread().name
        return config

    configs = blocks(16, 32, 64)
    with knobs.scope(check="bounds", num_threads=3):
        codes, refused = compiling.compile_all(configs, compile, threads=2)
    assert list(codes) == configs and refused == {}
    assert {values[:2] for values in seen.values()} == {("bounds", 3)}
    assert all(name.startswith("kiln-tune") for *_, name in seen.values())


def test_the_first_configurations_mistake_is_raised():
    def compile(config):
        raise errors.CompilationError(f"mistake of {config.kwargs['BLOCK']}")

    for _ in range(5):
        with pytest.raises(errors.CompilationError, match="mistake of 16"):
            compiling.compile_all(blocks(16, 32, 64), compile, threads=3)


def test_hooks_of_compiles_are_called_on_the_thread_that_launches(told):
    told.times = {16: 1.0, 32: 2.0}
    threads = set()
    hook = hooks.compile_start.add(lambda event: threads.add(threading.get_ident()))
    try:
        tune(blocks(16, 32), kiln.jit(fill.fn))[1](out(), 7)
    finally:
        hooks.compile_start.remove(hook)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("config,given,told_why", [
    (kiln.Config({}, num_warps=64), {}, "2048 threads of a block, of 1024"),
    (kiln.Config({}, cluster=32), {}, "32 blocks of a cluster, of 16"),
    (kiln.Config({}, num_ctas=32), {}, "32 blocks of a cluster, of 16"),
    (kiln.Config({}, maxnreg=512), {}, "512 registers of a thread, of 255"),
    (kiln.Config({}, num_warps=32, cluster=16, maxnreg=255), {}, ""),
    (kiln.Config({}, num_warps=64), {"num_warps": 8}, ""),
])  # fmt: skip
def test_misfits_are_detected_before_compiling(config, given, told_why):
    assert compiling.find_misfit(config, given, "sm_90a") == told_why
    assert compiling.find_misfit(config, given, "cpu") == ""


def test_misfits_are_not_compiled(monkeypatch, told, caplog):
    monkeypatch.setattr(compiling, "find_misfit", lambda config, *_: "too large" if config.num_warps > 4 else "")
    told.times = {16: 1.0, 32: 2.0}
    compiled = []
    hook = hooks.compile_start.add(lambda event: compiled.append(event.options["num_warps"]))
    try:
        with caplog.at_level("INFO", logger="kiln.autotune"):
            tune([*blocks(16, 32), *blocks(64, num_warps=8)], kiln.jit(fill.fn))[1](out(), 5)
    finally:
        hooks.compile_start.remove(hook)
    assert compiled == [4, 4] and "BLOCK: 64, num_warps: 8, num_stages: 3, num_ctas: 1 is left out" in caplog.text


class FakeCode:
    """The attributes of a compiled kernel that `spilled` reads."""

    def __init__(self, words, kind="cuda"):
        self.n_spills, self.loaded = words, object()
        self.metadata = {kind: {}}


def test_spilling_configurations_are_dropped_unless_all_spill():
    a, b, c = blocks(16, 32, 64)
    assert compiling.spilled({a: FakeCode(0), b: FakeCode(8), c: FakeCode(4)}) == {b: 8, c: 4}
    assert compiling.spilled({a: FakeCode(2), b: FakeCode(8)}) == {}
    assert compiling.spilled({a: FakeCode(0), b: FakeCode(8, "cpu")}) == {}, "the CPU's stack is no spill"


# ---- what is kept ----------------------------------------------------------------------------------------------------
def again(configs, **options):
    """A tuner as in a new process: it knows only the kernel's source."""
    return tune(configs, kiln.jit(fill.fn), **options)


PROGRAM = """
import sys
import numpy as np
import kiln
import kiln.language as kl
from kiln.tune.tuning import Tuning

measured = []
real = Tuning._race
Tuning._race = lambda self, configs, progress: measured.extend(configs) or real(self, configs, progress)

@kiln.autotune([kiln.Config({"BLOCK": block}) for block in map(int, sys.argv[1].split(","))], key=["n"], rep=1)
@kiln.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
@kiln.jit
def kernel(x, n, EVEN: kl.constexpr, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n + EVEN)

kernel[1](np.zeros(64, np.int32), 7)
print([config.kwargs["BLOCK"] for config in measured])
"""


def test_processes_share_times(tmp_path, cache):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(configs):
        command = [sys.executable, str(tmp_path / "program.py"), configs]
        environment = {**os.environ, "KILN_CACHE": str(cache)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert run("16,32") == "[16, 32]"
    assert run("16,32") == "[]"
    assert run("32,64") == "[64]"


def test_times_are_kept_for_the_next_process(told):
    told.times = {16: 2.0, 32: 1.0}
    again(blocks(16, 32))[1](out(), 5)
    told.sampled.clear()
    other = again(blocks(16, 32))
    other[1](out(), 5)
    assert told.sampled == [] and other.best_config.kwargs == {"BLOCK": 32}
    assert {c.kwargs["BLOCK"]: t[0] for c, t in other.configs_timings.items()} == pytest.approx(told.times, rel=0.01)
    other[1](out(), 6)
    assert sampled(told) == {16, 32}, "another key"


def test_a_new_configuration_costs_the_time_of_one(told):
    told.times = {16: 2.0, 32: 1.5, 64: 1.0}
    again(blocks(16, 32))[1](out(), 5)
    told.sampled.clear()
    other = again(blocks(16, 32, 64))
    other[1](out(), 5)
    assert sampled(told) == {64} and other.best_config.kwargs == {"BLOCK": 64}
    told.sampled.clear()
    fewer = again(blocks(32, 16))
    fewer[1](out(), 5)
    assert told.sampled == [] and fewer.best_config.kwargs == {"BLOCK": 32}


def test_misfits_are_not_tried_again(told, caplog):
    compiled = []

    def tuned():
        @kiln.jit
        def kernel(x, n, BLOCK: kl.constexpr):
            kl.static_assert(BLOCK < 64, "too wide")
            kl.store(x, BLOCK)

        real = kernel.run
        kernel.run = lambda *a, **k: compiled.append(k["BLOCK"]) or real(*a, **k)
        return tune(blocks(16, 64), kernel)

    told.times = {16: 2.0}
    tuned()[1](out(), 5)
    assert sorted(compiled)[-1] == 64 and kept_times() == 2
    compiled.clear()
    told.sampled.clear()
    again = tuned()
    with caplog.at_level("INFO", logger="kiln.autotune"):
        again[1](out(), 5)
    assert set(compiled) == {16} and told.sampled == []
    assert "BLOCK: 64, num_warps: 4, num_stages: 3, num_ctas: 1 is left out" in caplog.text
    assert again.configs_timings[again.configs[1]] == [float("inf")] * 3


def test_if_nothing_fits_all_are_tried_again(told):
    """The error repeats what the compiler says."""

    def tuned():
        @kiln.jit
        def kernel(x, n, BLOCK: kl.constexpr):
            kl.static_assert(BLOCK < 16, "too wide")
            kl.store(x, BLOCK)

        return tune(blocks(16, 64), kernel)

    said = []
    for _ in range(2):
        with pytest.raises(errors.LaunchError, match="got none of 2") as caught:
            tuned()[1](out(), 5)
        said.append(str(caught.value))
    assert said[0] == said[1] and "static assertion failed: too wide" in said[0] and "^" in said[0]


def test_nothing_is_kept_if_disabled(told):
    told.times = {16: 2.0, 32: 1.0}
    tune(blocks(16, 32), cache_results=False)[1](out(), 5)
    tune(blocks(16, 32), do_bench=lambda launch, quantiles: [1.0])[1](out(), 5)
    assert kept_times() == 0, "a function of the user's says who knows what"
    tune(blocks(16, 32), do_bench=lambda launch, quantiles: [1.0], cache_results=True)[1](out(), 5)
    assert kept_times() == 2
    with knobs.scope(cache="off"):
        told.sampled.clear()
        again(blocks(16, 32))[1](out(), 6)
        again(blocks(16, 32))[1](out(), 6)
        assert len(told.sampled) > 12 and tune(blocks(16, 32)).keeps_times


def test_times_of_other_kinds_of_arguments_are_not_used(told):
    told.times = {16: 2.0, 32: 1.0}
    again(blocks(16, 32))[1](out(), 5)
    whole = np.zeros(65, np.int32)
    for x, n in ((out().astype(np.int64), 5), (whole[1:], 5)):
        told.sampled.clear()
        again(blocks(16, 32))[1](x, n)
        assert sampled(told) == {16, 32}, "another type; an address that 16 does not divide"


def test_times_of_another_source_are_not_used(told):
    told.times = {16: 2.0, 32: 1.0}
    sources = [f"def scale(x, n, BLOCK: kl.constexpr):\n    kl.store(x, n * {factor})\n" for factor in (2, 3)]
    for source in (*sources, sources[0]):
        told.sampled.clear()
        names = {"kl": kl}
        exec(source, names)
        tune(blocks(16, 32), kiln.jit(source=source)(names["scale"]))[1](out(), 5)
        if source is sources[1]:
            assert sampled(told) == {16, 32}
    assert told.sampled == [], "the first is known still"


def test_times_of_another_device_build_or_switch_are_not_used(told, monkeypatch):
    from kiln import _kiln
    from kiln.tune import tuning

    told.times = {16: 2.0, 32: 1.0}
    again(blocks(16, 32))[1](out(), 5)

    def measured_again():
        told.sampled.clear()
        again(blocks(16, 32))[1](out(), 5)
        return sampled(told) == {16, 32}

    assert not measured_again()
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "device_identity", lambda device, threads: {"name": "another"})
        assert measured_again()
    with monkeypatch.context() as patch:
        real = _kiln.toolchain()
        patch.setattr(_kiln, "toolchain", lambda: {**real, "build": "another"})
        assert measured_again()
    with knobs.scope(check="bounds"):
        assert measured_again()
    assert not measured_again()


def test_a_kept_time_of_other_code_is_not_used(told):
    """A value computed by a heuristic is not in the kernel's source, but in its code."""
    factor = {"value": 2}

    def make():
        @kiln.jit
        def kernel(x, n, FACTOR: kl.constexpr, BLOCK: kl.constexpr):
            kl.store(x, n * FACTOR)

        return kiln.heuristics({"FACTOR": lambda arguments: factor["value"]})(kernel)

    told.times = {16: 2.0, 32: 1.0}
    tune(blocks(16, 32), make())[1](out(), 5)
    told.sampled.clear()
    tune(blocks(16, 32), make())[1](out(), 5)
    assert told.sampled == []
    factor["value"] = 3
    told.times = {16: 1.0, 32: 2.0}
    tuned = tune(blocks(16, 32), make())
    tuned[1](out(), 5)
    assert sampled(told) == {16, 32} and tuned.best_config.kwargs == {"BLOCK": 16}
    told.sampled.clear()
    for value, block in ((2, 32), (3, 16)):
        factor["value"] = value
        tuned = tune(blocks(16, 32), make())
        tuned[1](out(), 5)
        assert told.sampled == [] and tuned.best_config.kwargs == {"BLOCK": block}, "both are known by now"


def test_hooks_of_configurations_are_compared_by_code(told):
    told.times = {16: 2.0, 32: 1.0}

    def configs(hook):
        return [kiln.Config({"BLOCK": size}, pre_hook=hook) for size in (16, 32)]

    def one(arguments):
        arguments["out"][0] = 1

    def same(arguments):
        arguments["out"][0] = 1

    def other(arguments):
        arguments["out"][0] = 2

    same.__qualname__, other.__qualname__ = one.__qualname__, one.__qualname__
    again(configs(one))[1](out(), 5)
    told.sampled.clear()
    again(configs(same))[1](out(), 5)
    assert told.sampled == []
    again(configs(other))[1](out(), 5)
    assert sampled(told) == {16, 32}
