"""The method of bench/measure.py: plans, statistics, turns, errors. No GPU, no torch."""

import itertools
import math

import cases
import measure
import pytest

L2 = 60 << 20


@pytest.mark.parametrize("case", cases.select([]), ids=lambda case: case.name)
def test_sets_outsize_the_cache(case):
    plan = measure.plan(case.footprint, case.traffic, L2)
    assert plan.sets * case.footprint >= 3 * L2
    assert plan.sets >= 2
    # No more sets than needed: memory for the outputs of every peer must remain.
    assert (plan.sets - 1) * case.footprint < 3 * L2 or plan.sets == 2
    assert plan.launches % plan.sets == 0
    # A graph lasts at least 1.5 ms and a burst 4 ms at 4 TB/s.
    launch_us = 1.5 + case.traffic / 4e6
    assert plan.launches * launch_us >= 1500
    assert plan.replays * plan.launches * launch_us >= 4000


def test_sets_are_bounded():
    assert measure.plan(64, 64, L2).sets == measure.MOST_SETS
    assert measure.plan(64, 64, L2, most_sets=8).sets == 8
    with pytest.raises(ValueError, match="positive"):
        measure.plan(0, 10, L2)


def test_summary():
    found = measure.summarize([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (found.median, found.p25, found.p75, found.least, found.most, found.rounds) == (3, 2, 4, 1, 5, 5)
    assert found.spread == pytest.approx(1 / 3)
    assert measure.summarize([1.0, 2.0]).median == 1.5


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [0.0], [-1.0], [math.inf]])
def test_summary_refuses_what_is_no_time(values):
    with pytest.raises(ValueError, match="positive times"):
        measure.summarize(values)


def test_race_takes_turns_and_reverses_the_order():
    turns = []
    clock = itertools.count(1)

    def burst(name):
        def timed():
            turns.append(name)
            return float(next(clock))

        return timed

    times = measure.race({name: burst(name) for name in "abc"}, 3)
    assert "".join(turns) == "abccbaabc"
    assert times == {"a": [1.0, 6.0, 7.0], "b": [2.0, 5.0, 8.0], "c": [3.0, 4.0, 9.0]}


def test_a_slow_machine_slows_every_peer_alike():
    """Peers of the same speed on a machine that gets slower with every burst: medians must not order them."""
    clock = itertools.count(100)
    times = measure.race({name: lambda: float(next(clock)) for name in "abcd"}, 9)
    medians = [measure.summarize(values).median for values in times.values()]
    assert max(medians) / min(medians) < 1.03


def test_allowed_error():
    assert measure.allowed_error(2e-4, "float16") == 4e-4
    # A result that is exact in torch need not be exact elsewhere, but being off by a whole rounding is too much.
    assert 0 < measure.allowed_error(0.0, "float16") < measure.ROUNDOFF["float16"] / 2


def test_rows_are_those_of_the_reference_table():
    rows = {case.name: case for case in cases.select([])}
    assert len(rows) == len(cases.select([])) == 50
    counts = {name: len(cases.family(name).CASES) for name in cases.FAMILIES}
    assert counts == {"norm": 26, "softmax": 3, "activation": 12, "rope": 5, "adamw": 4}
    # Bytes counted by hand: x in, y out, one weight; two of each; p, g, m, v in and p, m, v out.
    assert rows["rms_norm 2048×896"].traffic == 2 * 2048 * 896 * 2 + 896 * 2
    assert rows["residual_rms_norm 2048×896"].traffic == 4 * 2048 * 896 * 2 + 896 * 2
    assert rows["swiglu 16384×18944"].traffic == 3 * 16384 * 18944 * 2
    assert rows["rope 8192×32×128"].traffic == 2 * 8192 * 32 * 128 * 2 + 2 * 8192 * 64 * 4
    assert rows["adamw 50M"].traffic == 28 * 50_000_000
    assert rows["adamw 50M"].footprint == 16 * 50_000_000
    assert rows["rms_norm 1×4096"].most_us == 1.60
    assert [name for name, case in rows.items() if not case.in_mean] == ["adamw 1M"]
    assert {name: case.least_tbs for name, case in rows.items() if case.least_tbs} == {
        "rms_norm 4096×131072": 4.2, "softmax 4096×4096": 3.8, "softmax 8192×32768": 4.2, "softmax 2048×131072": 4.2,
        "bias_gelu 2048×16384": 4.0, "adamw 50M": 4.0,
    }  # fmt: skip


@pytest.mark.parametrize("case", cases.select([]), ids=lambda case: case.name)
def test_the_ceiling_moves_what_the_row_moves(case):
    reads, writes, size = case.streams
    assert size % 16 == 0
    # Except for vectors and tables, which are small.
    assert 0.96 <= (reads + writes) * size / case.traffic <= 1.0 or case.shape == (1, 4096)
    assert writes * size == case.writes


def test_select():
    assert cases.select(["softmax"])[0].name == "softmax 4096×4096"
    assert {case.kernel for case in cases.select([], "rms_norm")} == {"rms_norm"}
    assert [case.name for case in cases.select([], "1x4096 layer_norm")] == ["layer_norm 1×4096"]
    assert len(cases.select(["norm"], "2048x")) == 13
    with pytest.raises(ValueError, match="expected one of norm"):
        cases.select(["gemm"])


def test_a_peer_that_raises_leaves_the_others_in_the_race():
    class Device:
        def capture(self, enqueue):
            return enqueue

        def burst(self, replay, launches, replays):
            return lambda: (replay(), float(launches * replays))[1]

    launched = []
    # 400 us per launch: 5 in a graph of 2 ms, 13 replays (12.5) in a burst of 25 ms.
    burst = measure.graph_burst(Device(), lambda: launched.append(1), 400.0)
    found = {"a": {"status": "ok", "burst": burst}, "b": measure.failed(ValueError("first line\nsecond"))}
    measure.race_ready(found, 3)
    assert found["a"]["times"] == [65.0] * 3 and len(launched) == 15
    assert found["b"] == {"status": "failed", "note": "ValueError: first line"}
