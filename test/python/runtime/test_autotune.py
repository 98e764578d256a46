"""The tuner and heuristics: what they measure and keep, and what hooks see."""

from __future__ import annotations

import copy
import pickle

import fake_cuda
import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, knobs


def make(configs, measured=None, **options):
    """A kernel that stores its BLOCK, tuned by a stopwatch that reads times from `measured`."""
    launches = []

    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr):
        kl.store(out, kl.load(out) + BLOCK)

    if measured is not None:

        def do_bench(launch, quantiles):
            launch()
            block = tuned.last_block
            launches.append(block)
            return [measured[block]] * 3

        options["do_bench"] = do_bench
    tuned = kiln.autotune(configs=configs, key=["n"], **options)(kernel)
    real = kernel.run

    def run(*args, **kwargs):
        tuned.last_block = kwargs["BLOCK"]
        return real(*args, **kwargs)

    kernel.run = run
    tuned.launches = launches
    return tuned


def blocks(*sizes):
    return [kiln.Config({"BLOCK": size}) for size in sizes]


def test_the_fastest_is_chosen_once_for_each_key():
    tuned = make(blocks(16, 32, 64), {16: 3.0, 32: 1.0, 64: 2.0})
    out = np.zeros(1, np.int32)
    tuned[1](out, 5)
    assert tuned.launches == [16, 32, 64] and tuned.best_config.kwargs == {"BLOCK": 32}
    tuned[1](out, 5)
    assert len(tuned.launches) == 3
    tuned[1](out, 6)
    assert len(tuned.launches) == 6
    tuned[1](out.astype(np.int64), 6)
    assert len(tuned.launches) == 9, "an array's type is part of the key"


def test_arrays_are_reset_and_restored():
    out = np.full(1, 100, np.int32)
    make(blocks(16, 32), {16: 1.0, 32: 2.0}, restore_value=["out"])[1](out, 5)
    assert out[0] == 116, "only the last launch counts"
    make(blocks(16, 32), {16: 1.0, 32: 2.0}, reset_to_zero=["out"])[1](out, 5)
    assert out[0] == 16


def test_hooks_see_the_arguments():
    seen = []
    configs = blocks(16, 32)
    configs[0].pre_hook = lambda arguments: seen.append(("config", arguments["BLOCK"], arguments["n"]))
    tuned = make(
        configs,
        {16: 1.0, 32: 2.0},
        pre_hook=lambda arguments, reset_only: seen.append(("pre", arguments["n"])),
        post_hook=lambda arguments, exception: seen.append(("post", exception)),
    )
    tuned[1](np.zeros(1, np.int32), 5)
    compiled, measured, launched = seen[:1], seen[1:-1], seen[-1:]
    assert compiled == launched == [("config", 16, 5)]
    assert measured == [("config", 16, 5), ("pre", 5), ("post", None), ("pre", 5), ("post", None)]


def test_pruning():
    measured = {16: 3.0, 32: 2.0, 64: 1.0}
    tuned = make(blocks(16, 32, 64), measured, prune_configs_by={"early_config_prune": lambda c, args, **kw: c[:2]})
    tuned[1](np.zeros(1, np.int32), 5)
    assert tuned.launches == [16, 32]
    model = {"perf_model": lambda BLOCK, **kw: abs(BLOCK - 32), "top_k": 1}
    tuned = make(blocks(16, 32, 64), measured, prune_configs_by=model)
    tuned[1](np.zeros(1, np.int32), 5)
    assert tuned.launches == [32]
    tuned = make(blocks(16, 32), measured, prune_configs_by={"early_config_prune": lambda c, args, **kw: []})
    with pytest.raises(errors.LaunchError, match="got none of 2"):
        tuned[1](np.zeros(1, np.int32), 5)


def test_one_configuration_is_not_measured():
    tuned = make(blocks(16), {})
    out = np.zeros(1, np.int32)
    tuned[lambda meta: (meta["BLOCK"] // 16,)](out, 5)
    assert tuned.launches == [] and out[0] == 16


def test_configurations_that_do_not_fit_are_skipped():
    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr):
        kl.static_assert(BLOCK < 32)
        kl.store(out, BLOCK)

    out = np.zeros(1, np.int32)
    kiln.autotune(blocks(64, 16), key=["n"], warmup=1, rep=1)(kernel)[1](out, 5)
    assert out[0] == 16
    with pytest.raises(errors.LaunchError, match="compiles and fits, got none of 2"):
        kiln.autotune(blocks(64, 128), key=["n"], warmup=1, rep=1)(kernel)[1](out, 5)


def test_mistakes():
    with pytest.raises(errors.UsageError, match=r"expected the name of a parameter, got 'N'"):
        kiln.autotune(blocks(16), key=["N"])(make(blocks(16)).fn)
    with pytest.raises(errors.LaunchError, match="the tuner chooses it"):
        make(blocks(16, 32), {})[1](np.zeros(1, np.int32), 5, BLOCK=64)
    with pytest.raises(errors.UsageError, match="prune_configs_by"):
        make(blocks(16), prune_configs_by={"early_prune": None})


@pytest.mark.parametrize(
    "given, told",
    [
        ({"key": "n"}, r"expected key to be a list of names, got 'n'"),
        ({"restore_value": "out"}, r"expected restore_value to be a list of names, got 'out'"),
        ({"rep": "long"}, r"expected rep in milliseconds, 0 or more, got 'long'"),
        ({"warmup": -1}, r"expected warmup in milliseconds, 0 or more, got -1"),
        ({"timeout": 0}, r"expected timeout in seconds, above 0, got 0"),
        *(
            ({"prune_configs_by": {"top_k": k}}, rf"expected top_k to be how many .*, got {k!r}")
            for k in (0, -1, "2", True, 2.0)
        ),
    ],
)
def test_mistakes_in_what_the_tuner_is_given(given, told):
    with pytest.raises(errors.UsageError, match=told):
        kiln.autotune(**{"configs": blocks(16, 32), "key": ["n"], **given})(make(blocks(16)).fn)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"prune_configs_by": {"early_config_prune": lambda c, a, **k: None}}, "a list of kiln.Config, got None"),
        ({"prune_configs_by": {"early_config_prune": lambda c, a, **k: [5]}}, r"a list of kiln.Config, got \[5\]"),
        (
            {"prune_configs_by": {"perf_model": lambda **a: None, "top_k": 1}},
            "to return a time for BLOCK: 16.*got None",
        ),
        ({"reset_to_zero": ["n"]}, r"expected an array for 'n' \(because reset_to_zero names it\), got 5"),
        ({"restore_value": ["n"]}, r"expected an array for 'n' \(because restore_value names it\), got 5"),
        ({"do_bench": lambda launch, quantiles: []}, r"expected do_bench to return milliseconds.*got \[\]"),
        ({"do_bench": lambda launch, quantiles: "fast"}, "expected do_bench to return milliseconds.*got 'fast'"),
        ({"do_bench": lambda launch, quantiles: float("nan")}, "compiles and fits, got none of 2"),
    ],
)
def test_mistakes_in_what_the_users_functions_return(given, told):
    kernel = kiln.autotune(**{"configs": blocks(16, 32), "key": ["n"], "rep": 1, **given})(make(blocks(16)).fn)
    with pytest.raises(errors.LaunchError, match=told):
        kernel[1](np.zeros(1, np.int32), 5)


def test_a_configuration_that_the_model_cannot_judge_comes_last():
    expect = {16: float("nan"), 32: 2.0, 64: 1.0}
    model = {"perf_model": lambda BLOCK, **kw: expect[BLOCK], "top_k": 2}
    tuned = make(blocks(16, 32, 64), {32: 1.0, 64: 2.0}, prune_configs_by=model)
    tuned[1](np.zeros(1, np.int32), 5)
    assert sorted(tuned.launches) == [32, 64]


def test_results_are_kept_on_disk(tmp_path):
    with knobs.scope(cache=str(tmp_path)):
        kernel = make(blocks(16, 32), {16: 2.0, 32: 1.0}, cache_results=True)
        kernel[1](np.zeros(1, np.int32), 5)
        again = kiln.autotune(blocks(16, 32), key=["n"], cache_results=True, do_bench=lambda *a, **k: 1 / 0)(kernel.fn)
        again[1](np.zeros(1, np.int32), 5)
        assert again.best_config.kwargs == {"BLOCK": 32}
        other = kiln.autotune(blocks(16, 64), key=["n"], cache_results=True, do_bench=lambda *a, **k: 1 / 0)(kernel.fn)
        with pytest.raises(ZeroDivisionError):
            other[1](np.zeros(1, np.int32), 5)


def test_heuristics_follow_the_arguments():
    @kiln.heuristics({"EVEN": lambda args: args["n"] % 2 == 0, "BLOCK": lambda args: 16 if args["EVEN"] else 8})
    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr, EVEN: kl.constexpr):
        kl.store(out, BLOCK + EVEN)

    out = np.zeros(1, np.int32)
    kernel[1](out, 4)
    assert out[0] == 17
    kernel[lambda meta: (meta["BLOCK"],)](out, 5)
    assert out[0] == 8
    assert kernel.__name__ == "kernel"


def options_of(compiled):
    return {name: compiled.metadata["options"].get(name) for name in ("num_warps", "num_stages", "maxnreg")}


@pytest.mark.cpu
def test_heuristics_and_configs_set_launch_options():
    @kiln.heuristics({"num_warps": lambda args: 8 if args["n"] > 4 else 2, "maxnreg": lambda args: 64})
    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr):
        kl.store(out, BLOCK)

    out = np.zeros(1, np.int32)
    assert options_of(kernel[1](out, 4, 16)) == {"num_warps": 2, "num_stages": None, "maxnreg": 64}
    assert options_of(kernel[1](out, 5, 16)) == {"num_warps": 8, "num_stages": None, "maxnreg": 64}
    # Below a tuner, heuristics decide; above it they decide too, like a caller who passes an option.
    below = kiln.autotune([kiln.Config({"BLOCK": 16})], key=["n"])(kernel)
    assert options_of(below[1](out, 5)) == {"num_warps": 8, "num_stages": 3, "maxnreg": 64}
    tuned = kiln.autotune([kiln.Config({"BLOCK": 16, "num_warps": 1, "num_stages": 5})], key=["n"])(kernel.fn)
    assert options_of(tuned[1](out, 5)) == {"num_warps": 1, "num_stages": 5, "maxnreg": None}
    assert options_of(tuned[1](out, 5, num_warps=16)) == {"num_warps": 16, "num_stages": 5, "maxnreg": None}
    above = kiln.heuristics({"num_stages": lambda args: 2})(tuned)
    assert options_of(above[1](out, 5)) == {"num_warps": 1, "num_stages": 2, "maxnreg": None}
    assert kiln.Config({"num_warps": 8}) == kiln.Config({}, num_warps=8)


def test_a_heuristic_for_an_unknown_argument_is_reported():
    @kiln.heuristics({"BLOCK": lambda args: args["lenght"]})
    @kiln.jit
    def kernel(out, length, BLOCK: kl.constexpr):
        kl.store(out, BLOCK)

    with pytest.raises(errors.LaunchError, match=r"the heuristic for 'BLOCK' to read .* got 'lenght'") as caught:
        kernel[1](np.zeros(1, np.int32), 5)
    assert "did you mean 'length'?" in str(caught.value)


def test_the_log_has_the_time_of_every_configuration(caplog):
    with caplog.at_level("INFO", logger="kiln.autotune"):
        make(blocks(16, 32), {16: 2.0, 32: 1.0})[1](np.zeros(1, np.int32), 5)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split("takes")[1] for line in lines if "takes" in line] == [" 2.0000 ms", " 1.0000 ms"]
    assert "BLOCK: 16" in lines[0] and "best of 2" in lines[-1]


def test_configs_compare_and_print():
    one, same, other = kiln.Config({"B": 1}, num_warps=8), kiln.Config({"B": 1}, num_warps=8), kiln.Config({"B": 2})
    assert one == same and hash(one) == hash(same) and one != other
    assert repr(one) == "Config({'B': 1}, num_warps=8, num_stages=3, num_ctas=1)"
    assert eval(repr(one), {"Config": kiln.Config}) == one
    scheduled = kiln.Config({"B": 1}, num_warps=8, schedule="pingpong", stages=4, consumers=2, cluster=2)
    assert scheduled != one and eval(repr(scheduled), {"Config": kiln.Config}) == scheduled
    assert scheduled.options() == {
        "num_warps": 8, "num_stages": 3, "schedule": "pingpong", "stages": 4, "consumers": 2, "cluster": 2
    }  # fmt: skip
    assert str(other) == "B: 2, num_warps: 4, num_stages: 3, num_ctas: 1"


def test_the_timings_of_every_configuration():
    tuned = make(blocks(16, 32), {16: 3.0, 32: 1.0})
    assert tuned.configs_timings == {}
    tuned[1](np.zeros(1, np.int32), 5)
    assert {c.kwargs["BLOCK"]: times for c, times in tuned.configs_timings.items()} == {16: [3.0] * 3, 32: [1.0] * 3}

    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr):
        kl.static_assert(BLOCK < 32)
        kl.store(out, BLOCK)

    tuned = kiln.autotune(blocks(64, 16), key=["n"], warmup=1, rep=1)(kernel)
    tuned[1](np.zeros(1, np.int32), 5)
    wide, narrow = (tuned.configs_timings[config] for config in tuned.configs)
    assert wide == [float("inf")] * 3 and len(narrow) == 3 and narrow[1] <= narrow[0] <= narrow[2]


def test_kept_results_keep_their_timings(tmp_path):
    with knobs.scope(cache=str(tmp_path)):
        make(blocks(16, 32), {16: 3.0, 32: 1.0}, cache_results=True)[1](np.zeros(1, np.int32), 5)
        again = make(blocks(16, 32), {}, cache_results=True)
        again[1](np.zeros(1, np.int32), 5)
    assert {c.kwargs["BLOCK"]: times for c, times in again.configs_timings.items()} == {16: [3.0] * 3, 32: [1.0] * 3}


@kiln.autotune(blocks(16, 32), key=["n"], warmup=1, rep=1)
@kiln.heuristics({"EVEN": lambda arguments: arguments["n"] % 2 == 0})
@kiln.jit
def found_by_name(out, n, EVEN: kl.constexpr, BLOCK: kl.constexpr):
    kl.store(out, EVEN)


@kiln.jit
def plain(out, n, BLOCK: kl.constexpr):
    kl.store(out, BLOCK)


retuned = kiln.autotune(blocks(16, 32), key=["n"], warmup=1, rep=1)(plain)
even = kiln.heuristics({"BLOCK": min})(plain)


@pytest.mark.parametrize("copied", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy, copy.copy])
def test_tuned_kernels_of_a_module_are_pickled_by_name(copied):
    for kernel in (found_by_name, retuned, even, plain):
        assert copied(kernel) is kernel


def test_tuned_kernels_outside_any_module_are_pickled_by_value():
    tuned = kiln.autotune(blocks(16, 32), key=["n"], warmup=1, rep=1)(plain)
    out = np.zeros(1, np.int32)
    tuned[1](out, 5)
    again = pickle.loads(pickle.dumps(tuned))
    assert again is not tuned and again.fn is plain and again.configs == tuned.configs
    assert again.cache == tuned.cache and again.configs_timings == tuned.configs_timings
    again.user_do_bench = lambda launch, quantiles: pytest.fail("measured again")
    again[1](out, 5)
    assert out[0] == tuned.best_config.kwargs["BLOCK"]
    with pytest.raises(errors.UserError, match=r"cannot pickle kernel .*<locals>.kernel"):
        pickle.dumps(make(blocks(16)))


GPU_PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
from kiln.tune import clock
made = []
real = clock.EventClock.__init__
clock.EventClock.__init__ = lambda self, *a, **k: made.append(1) or real(self, *a, **k)

tuned = kiln.autotune([kiln.Config({"BLOCK": block}, num_warps=warps) for block in (32, 64) for warps in (2, 4)]
                      + [kiln.Config({"BLOCK": 128}, cluster=32)], key=["n"])(double)
x, y = CudaArray(np.arange(64, dtype=np.float32)), CudaArray(np.zeros(64, np.float32))
before = len(launches())
tuned[2](x, y, 64)
assert len(made) == 4 and len(launches()) - before >= 4 * 3
times = [ms[0] for ms in tuned.configs_timings.values()]
assert times == [1.5] * 4 + [float("inf")], times
assert tuned.best_config in tuned.configs[:4]
assert "32 blocks of a cluster, of" in str(tuned._refused[tuned.configs[4]])

again = kiln.autotune(tuned.configs, key=["n"])(double)
made.clear()
again[2](x, y, 64)
assert made == [] and list(again.configs_timings.values())[:4] == list(tuned.configs_timings.values())[:4]
print("tuned")
"""


@pytest.mark.skipif(not fake_cuda.library(), reason="the driver without a GPU is not built")
def test_on_a_gpu_marks_in_the_stream_are_read(tmp_path):
    """Uses a driver without a GPU, on which every launch takes 1.5 ms."""
    assert fake_cuda.run(tmp_path, GPU_PROGRAM, fake_cuda.DOUBLE, KILN_CACHE=str(tmp_path / "cache")) == "tuned\n"


# -- launches of keys that are known, which run no Python ----------------------------------------------------------


class Watched:
    """Counts how often the tuner is asked for a configuration."""

    def __init__(self, tuned):
        self.asked, find = 0, tuned._find

        def ask(*args):
            self.asked += 1
            return find(*args)

        tuned._find = ask


def make_plain(configs, measured, **options):
    """As `make`, but with no Python function wrapped around the kernel."""

    @kiln.jit
    def kernel(out, n, BLOCK: kl.constexpr):
        kl.store(out, kl.load(out) + BLOCK)

    order = [config.kwargs["BLOCK"] for config in configs]

    def do_bench(launch, quantiles):
        launch()
        return [measured[order[do_bench.calls.pop(0)]]] * 3

    do_bench.calls = [*range(len(configs))] * 20
    tuned = kiln.autotune(configs=configs, key=["n"], do_bench=do_bench, cache_results=False, **options)(kernel)
    return tuned, Watched(tuned)


def test_a_key_is_asked_for_once():
    tuned, watched = make_plain(blocks(16, 32), {16: 2.0, 32: 1.0})
    out = np.zeros(1, np.int32)
    tuned[1](out, 5)
    for _ in range(3):
        out[:] = 0
        tuned[1](out, 5)
        assert out[0] == 32 and tuned.best_config is tuned.configs[1]
    assert watched.asked == 1
    out[:] = 0
    tuned[1](n=5, out=out)
    assert out[0] == 32 and watched.asked == 2, "given by name it is a call of its own, of a key that is known"
    tuned[1](n=5, out=out)
    assert watched.asked == 2


def test_whatever_the_key_holds_is_asked_for():
    tuned, watched = make_plain(blocks(16, 32), {16: 2.0, 32: 1.0})
    out = np.zeros(1, np.int32)
    calls = [
        (out, 5),
        (out, 6),
        (out.astype(np.int64), 5),
        (out.astype(np.float32), 5),
        (out, True),
        (out, 5.0),
    ]
    for number, args in enumerate(calls, 1):
        tuned[1](*args)
        tuned[1](*args)
        assert watched.asked == number
    assert len(tuned.cache) >= 4


def test_a_tuner_that_is_told_to_forget_forgets():
    tuned, _ = make_plain(blocks(16, 32), {16: 2.0, 32: 1.0})
    out = np.zeros(1, np.int32)

    def launched():
        out[:] = 0
        tuned[1](out, 5)
        return int(out[0])

    assert launched() > 0 and launched() == 32
    (key,) = tuned.cache
    tuned.cache[key] = tuned.configs[0]
    assert launched() == 16
    tuned.cache.clear()
    assert launched() > 0 and launched() == 32, "measured again"
    tuned.cache = {key: tuned.configs[0]}
    assert launched() == 16
    tuned.cache.pop(key)
    launched()
    assert launched() == 32
    tuned.cache.update({key: tuned.configs[0]})
    assert launched() == 16 and tuned.best_config is tuned.configs[0]


def test_reading_a_configuration_may_drop_cached_answers():
    """A read of freed memory if the launch does not hold the answers meanwhile; found in a build with sanitizers."""
    meanwhile = []

    class Curious(kiln.Config):
        def __getattribute__(self, name):
            while name == "_launch" and meanwhile:
                meanwhile.pop()()
            return super().__getattribute__(name)

    def choose_the_first():
        (key,) = tuned.cache
        tuned.cache[key] = tuned.configs[0]

    tuned, _ = make_plain([Curious({"BLOCK": 16}), Curious({"BLOCK": 32})], {16: 2.0, 32: 1.0})
    out = np.zeros(1, np.int32)
    for _ in range(3):
        tuned[1](out, 5)
    for _ in range(10):
        meanwhile.append(choose_the_first)
        tuned[1](out, 5)
        out[0] = 0
        tuned[1](out, 5)
        assert out[0] == 16


def test_a_modified_configuration_is_launched_as_modified():
    tuned, _ = make_plain(blocks(16, 32), {16: 2.0, 32: 1.0})
    out = np.zeros(1, np.int32)
    tuned[1](out, 5)

    def launched():
        out[:] = 0
        tuned[1](out, 5)
        return int(out[0])

    assert launched() == 32
    best = tuned.configs[1]
    best.kwargs["BLOCK"] = 64
    assert launched() == 64
    best.kwargs = {"BLOCK": 8}
    assert launched() == 8
    seen = []
    best.pre_hook = lambda arguments: seen.append(arguments["BLOCK"])
    assert (launched(), launched()) == (8, 8) and seen == [8, 8]
    best.pre_hook = None
    assert launched() == 8 and len(seen) == 2


def test_launches_beyond_the_fast_path_go_through_python():
    tuned, _ = make_plain(blocks(16, 32), {16: 2.0, 32: 1.0})
    out = np.zeros(1, np.int32)
    tuned[1](out, 5)
    tuned[1](out, 5)
    seen = []
    tuned.fn.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs["BLOCK"]))
    tuned[1](out, 5)
    assert seen == [32]
    tuned.fn.pre_run_hooks.clear()
    tuned[1](out, 5)
    assert seen == [32]
    with pytest.raises(errors.LaunchError, match="expected no value for 'BLOCK'"):
        tuned[1](out, 5, BLOCK=16)


def test_fields_of_structs_are_keys():
    @kiln.struct
    class Rows:
        data: object
        rows: object

    @kiln.jit
    def kernel(x: Rows, BLOCK: kl.constexpr):
        kl.store(x.data, BLOCK + x.rows)

    times = iter([2.0, 1.0, 1.0, 2.0])

    def do_bench(launch, quantiles):
        launch()
        return [next(times)] * 3

    tuned = kiln.autotune(blocks(16, 32), key=["x.rows"], do_bench=do_bench, cache_results=False)(kernel)
    watched = Watched(tuned)
    out = np.zeros(1, np.int32)
    for rows, block in ((3, 32), (3, 32), (4, 16), (4, 16), (3, 32)):
        tuned[1](Rows(out, rows))
        assert out[0] == rows + block
    assert watched.asked == 2
