"""The method of bench/measure.py: plans, statistics, turns, errors. No GPU, no torch."""

import collections
import itertools
import math

import attention
import cases
import decode
import gemm
import measure
import pointers
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


def counted(count, found):
    """How often each peer has each place, and each other peer directly before it: in its round, and in all."""
    places = collections.Counter((place, peer) for order in found for place, peer in enumerate(order))
    within = collections.Counter(pair for order in found for pair in itertools.pairwise(order))
    turns = [peer for order in found for peer in order]
    everywhere = collections.Counter(itertools.pairwise(turns))
    others = list(itertools.permutations(range(count), 2))
    return (
        [places[at] for at in itertools.product(range(count), repeat=2)],
        [within[pair] for pair in others],
        [everywhere[pair] for pair in others],
        sum(everywhere[peer, peer] for peer in range(count)),
    )


def apart(counts):
    return max(counts) - min(counts)


@pytest.mark.parametrize("count", range(2, 10))
def test_a_whole_design_is_balanced(count):
    """Rows that only rotate one order give each peer a single predecessor; half the design of an odd count leaves half
    of the pairs out; and if only rounds count, the last peer of one begins the next."""
    whole = count if count % 2 == 0 else 2 * count
    found = measure.orders(count, whole)
    assert len({tuple(order) for order in found}) == whole
    places, within, everywhere, itself = counted(count, found)
    assert set(places) == {whole // count} and set(within) == {whole // count}
    assert apart(everywhere) <= 1 and itself == (1 if count == 2 else 0)


@pytest.mark.parametrize(("count", "rounds"), itertools.product(range(2, 10), range(1, 26)))
def test_any_number_of_rounds_is_nearly_balanced(count, rounds):
    """Rows in the order in which the design has them let peers follow themselves and come to be 3 apart; reversing one
    order every round gives the middle peer the same place in all."""
    found = measure.orders(count, rounds)
    assert len(found) == rounds and all(sorted(order) == list(range(count)) for order in found)
    assert found == measure.orders(count, rounds), "every run has the same order"
    places, within, everywhere, itself = counted(count, found)
    assert apart(places) <= 1 + count % 2 and apart(within) <= 2
    assert itself <= (rounds / 2 if count == 2 else 0)
    # Some pairs cannot meet between rounds.
    assert apart(everywhere) <= (2 if rounds <= 10 else 5)


def test_orders_of_one_and_of_none():
    assert measure.orders(1, 3) == [[0]] * 3 and measure.orders(0, 3) == measure.orders(4, 0) == []


def test_race_takes_turns():
    turns = []
    clock = itertools.count(1)

    def burst(name):
        def timed():
            turns.append(name)
            return float(next(clock))

        return timed

    times = measure.race({name: burst(name) for name in "abc"}, 3)
    assert turns == ["abc"[i] for order in measure.orders(3, 3) for i in order]
    assert times == {name: [i + 1.0 for i, turn in enumerate(turns) if turn == name] for name in "abc"}
    assert measure.race({}, 3) == {}


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

        def burst(self, replay, launches, replays, settle):
            assert settle == 50
            return lambda: (replay(), float(launches * replays))[1]

    launched = []
    # 400 us per launch: 5 in a graph of 2 ms, 13 replays (12.5) in a burst of 25 ms, 50 in the 100 ms before it.
    burst = measure.graph_burst(Device(), lambda: launched.append(1), 400.0)
    found = {"a": {"status": "ok", "burst": burst}, "b": measure.failed(ValueError("first line\nsecond"))}
    measure.race_ready(found, 3)
    assert found["a"]["times"] == [65.0] * 3 and len(launched) == 15
    assert found["b"] == {"status": "failed", "note": "ValueError: first line"}


# ---- rows by several methods -----------------------------------------------------------------------------------------
OLD = "graph-replay gemm v1: all arrays rotated past 3xL2, interleaved bursts, order reversed every round, median"


def test_the_method_says_which():
    ours = measure.method_of("gemm")
    assert ours.startswith("graph-replay gemm v2: ") and "after 100 ms untimed" in ours
    assert measure.mixed([ours, ours, ours.replace("median", "middle"), ""]) == measure.mixed([]) == []
    assert measure.mixed([ours, OLD]) == ["mixed       not comparable: graph-replay gemm v1, graph-replay gemm v2"]


@pytest.mark.parametrize("module", [gemm, attention, decode, pointers], ids=lambda module: module.__name__)
def test_files_of_rows_by_the_old_method_are_not_continued(module, tmp_path):
    """They are refused before a device is asked for."""
    kept = tmp_path / "old.csv"
    recorded = (measure.RESULTS / f"h200_{module.__name__}.csv").read_text(encoding="utf-8")
    kept.write_text(recorded.replace(f"{module.__name__} v2: ", f"{module.__name__} v1: "), encoding="utf-8")
    with pytest.raises(SystemExit, match=f"expected rows by graph-replay {module.__name__} v2, got others"):
        module.main(["--csv", str(kept)])


def test_a_file_by_another_method_is_not_continued(tmp_path):
    path, columns, ours = tmp_path / "rows.csv", ("kernel", "method"), measure.method_of("gemm")
    assert measure.kept(None, columns, ours) == measure.kept(str(path), columns, ours) == []
    measure.append(str(path), columns, [{"kernel": "a", "method": ours}])
    assert measure.kept(str(path), columns, ours) == [{"kernel": "a", "method": ours}]
    with pytest.raises(SystemExit, match="expected a file with the columns of this benchmark"):
        measure.kept(str(path), ("kernel", "method", "date"), ours)
    path.unlink()
    measure.append(str(path), columns, [{"kernel": "b", "method": OLD}])
    with pytest.raises(SystemExit, match="expected rows by graph-replay gemm v2, got others: name a new file"):
        measure.kept(str(path), columns, ours)
