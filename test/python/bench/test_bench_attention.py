"""bench/attention.py, bench/decode.py and what they share (bench/beside.py) without a GPU: rows, sets, the errors that
peers may have, tuning, files and reports."""

import csv
import itertools
import json
import math
import pathlib
import sys
import types

import attention
import beside
import decode
import measure
import pytest
from cases import Unavailable
from gemm import Tuned

L2 = 60 << 20
RESULTS = pathlib.Path(beside.__file__).parent / "results"


def groups(rows):
    return {group: [row for row in rows if row.group == group] for group in {row.group for row in rows}}


# ---- rows ------------------------------------------------------------------------------------------------------------
def test_rows_of_attention():
    every = attention.rows()
    assert len({row.name for row in every}) == len(every)
    found = groups(every)
    assert {group: len(rows) for group, rows in found.items()} == {
        "forward": 12, "grouped": 6, "backward": 8, "flex": 12, "small": 24}  # fmt: skip
    assert {(r.heads, r.tokens, r.causal) for r in found["small"]} == set(
        itertools.product((1, 2, 4, 8), (512, 1024, 2048), (False, True))
    )
    assert all(r.batch == 1 and r.size == 64 for r in found["small"])
    assert [r.tokens for r in found["grouped"]] == [512, 1024, 2048, 4096, 8192, 16384]
    assert all(r.batch * r.tokens == 16384 for group in ("forward", "backward", "flex") for r in found[group])
    assert {(r.kind, r.size, r.tokens) for r in found["flex"]} == set(
        itertools.product(("window", "alibi"), (64, 128), (4096, 8192, 16384))
    )
    # Every peer of a row is one that its bench has.
    for row in every:
        bench = attention.BackwardBench if row.backward else attention.Bench
        assert all(hasattr(bench, name.replace("-", "_")) for name in row.peers)
        assert ("math" in row.peers) == (row.group == "small")


def test_rows_keep_the_names_of_recorded_ones():
    for module, family in ((attention, "attention"), (decode, "decode")):
        with open(RESULTS / f"h200_{family}.csv", newline="", encoding="utf-8") as file:
            recorded = {line["kernel"] for line in csv.DictReader(file)}
        assert recorded <= {row.name for row in module.rows()}


def test_columns_are_those_of_the_other_families():
    with open(RESULTS / "h200.csv", newline="", encoding="utf-8") as file:
        others = set(csv.DictReader(file).fieldnames)
    assert set(beside.COLUMNS) - others == {"tflops", "over_kiln"}
    assert {"warm_us", "warm_tb_per_s", "error", "allowed_error", "sets", "bytes"} <= set(beside.COLUMNS)


def test_rows_of_decode():
    found = groups(decode.rows())
    assert {(r.batch, r.tokens) for r in found["grouped"]} == {
        (1, 512), (1, 4096), (1, 32768), (8, 512), (8, 4096), (8, 32768), (64, 512), (64, 4096)}  # fmt: skip
    assert [(r.batch, r.tokens, r.heads) for r in found["mha"]] == [(1, n, 8) for n in (512, 1024, 2048)]
    assert all(set(decode.SDPA) <= set(row.peers) for row in found["mha"])
    row = decode.Row(8, 4096)
    assert row.bytes_of("kiln") == row.bytes_of("cudnn") == 2 * 2 * 8 * 4096 * 8 * 128
    assert row.bytes_of("kiln-int8") == 8 * 4096 * 8 * (2 * 128 + 4)
    assert row.bytes_of("kiln-int4") == 8 * 4096 * 8 * (128 + 10)


def test_operations_are_those_of_visible_scores():
    for row in attention.rows(shrink=64):
        seen = sum(
            not row.causal or (key <= query and (row.left is None or query - key <= row.left))
            for query, key in itertools.product(range(row.tokens), repeat=2)
        )
        if row.causal and row.left is None:  # half, as is usual
            seen = row.tokens**2 / 2
        assert row.flops_of("kiln") == 2 * (5 if row.backward else 2) * row.batch * row.heads * row.size * seen
    (row,) = [r for r in attention.rows() if r.name == "flex_window D=64 causal 16384"]
    assert row.flops_of("kiln-causal") == 4 * 32 * 64 * 16384**2 / 2 > 7 * row.flops_of("kiln-flex")


@pytest.mark.parametrize("row", attention.rows(), ids=lambda row: row.name)
def test_sets_outsize_the_cache(row):
    arrays = 8 if row.backward else 4
    assert row.bytes >= arrays * row.batch * row.tokens * row.k_heads * row.size * 2
    plan = measure.plan_of_products(row.guess_us(), row.bytes, L2)
    assert plan.sets >= 2 and plan.sets * row.bytes >= 3 * L2
    assert plan.launches % plan.sets == 0 and plan.launches * row.guess_us() >= 2000
    assert plan.warm_launches >= 1 and plan.warm_launches * row.guess_us() < 2000 + row.guess_us()
    # Outputs of every peer are kept, too.
    assert plan.sets * row.bytes * (1 + len(row.peers) / 2) < 16 << 30


def test_shrunk_rows_keep_what_rows_are_about():
    for row, small in zip(attention.rows(), attention.rows(32), strict=True):
        assert small.heads // small.k_heads == row.heads // row.k_heads and small.name == row.name
        assert (small.left is None) == (row.left is None) and small.tokens < row.tokens


# ---- sets in graphs --------------------------------------------------------------------------------------------------
class Host:
    """Launches at once, and says that a launch takes ``us``."""

    name, l2_bytes, graph_us, burst_us = "host", L2, 1500.0, 4000.0

    def __init__(self, us=100.0):
        self.us, self.capturing, self.bursts = us, False, []

    def synchronize(self):
        pass

    def capture(self, enqueue):
        self.capturing = True
        enqueue()
        self.capturing = False
        return enqueue

    def burst(self, replay, launches, replays, settle=0):
        self.bursts.append((launches, replays, settle))
        return lambda: self.us


def test_launches_rotate_over_sets_and_repeat_one_when_warm():
    device, launched = Host(), []
    plan = measure.Plan(sets=3, launches=6, replays=1, warm_launches=4, rounds=9)
    replay, bursts = measure.rotated(device, plan, launched.append, 6000.0)
    assert launched == [0, 1, 2, 0, 1, 2] + [0] * 4 and set(bursts) == {"burst", "warm"}
    # 6 launches of 100 us are a tenth of 6 ms; 4 of them about an eighth of 3 ms.
    assert device.bursts == [(6, 1, 0), (6, 10, 0), (4, 1, 0), (4, 8, 0)]
    launched.clear()
    replay()
    assert launched == [0, 1, 2, 0, 1, 2]
    slow = Host(us=5000.0)
    measure.rotated(slow, plan, launched.append, 6000.0)
    assert slow.bursts[1] == (6, 1, 0), "at least one replay"


def test_bursts_settle_for_a_stated_time():
    device, plan = Host(), measure.Plan(sets=3, launches=6, replays=1, warm_launches=4, rounds=9)
    measure.rotated(device, plan, lambda i: None, 6000.0, 50000.0)
    # 50 ms hold 83.3 replays of 600 us and 125 of 400 us.
    assert device.bursts == [(6, 1, 0), (6, 10, 84), (4, 1, 0), (4, 8, 125)]
    slow = Host(us=50000.0)
    measure.rotated(slow, plan, lambda i: None, 6000.0, 50000.0)
    assert slow.bursts[1] == (6, 1, 1)


def test_rows_settle_where_products_decide():
    for row in attention.rows():
        small = row.group == "small"
        assert row.lasting == ((6e3, 0.0) if small else (25e3, 100e3))
        plan = measure.plan_of_products(row.guess_us(), row.bytes, L2)
        # Even of a peer twice as fast as expected, the GPU's queue of a thousand holds all.
        assert small or sum(row.lasting) / (plan.launches * row.guess_us() / 2) < 200
    assert (decode.Bench.burst_us, decode.Bench.settle_us) == (4000.0, 0.0), "memory decides"


# ---- errors ----------------------------------------------------------------------------------------------------------
def test_gate():
    gate = beside.Gate({"a", "b"}, {"kiln", "kiln-int4"}, {"kiln-int4"})
    errors = {"a": 3e-4, "b": 2e-4, "math": 1e-4, "kiln": 1e-5}
    assert gate.allowed("kiln", errors) == pytest.approx(3e-4)
    assert gate.allowed("a", errors) == gate.allowed("math", errors) == pytest.approx(4e-4)
    assert gate.allowed("kiln-int4", errors) == gate.allowed("kiln", {"math": 1e-4}) == beside.ALONE
    assert gate.allowed("kiln", {"a": math.inf}) == gate.allowed("kiln", {"a": 1.0}) == beside.ALONE


class Fake(beside.Bench):
    """Results are errors."""

    gate = beside.Gate({"peer", "rough"}, {"kiln", "worse", "lazy", "nan", "other", "kiln-tuned"})
    burst_us, settle_us = 100.0, 40.0

    def __init__(self, us=10.0):
        self.device = Host(us)
        self.plan = measure.Plan(2, 2, 1, 1, 3)
        self.out = [math.nan] * 2
        self.errors, self.kept = {}, []

    def poison(self, i):
        self.out[i] = math.nan

    def error(self, out, i, exact):
        return out

    def writes(self, error, captured=True, **more):
        def launch(i):
            if captured or not (self.device.capturing or self.launched[i] > 1):
                self.out[i] = error
            self.launched[i] += 1

        self.launched = [0, 0]
        return beside.Peer(launch, lambda i: self.out[i], **more)

    def peer(self):
        return self.writes(2e-4)

    def rough(self):
        return self.writes(4.1e-4)

    def kiln(self):
        return self.writes(2.9e-4)

    def worse(self):
        return self.writes(3.1e-4)

    def nan(self):
        return self.writes(math.nan)

    def lazy(self):
        return self.writes(2e-4, captured=False)

    def other(self):
        return self.writes(1.0, exact=None)

    def absent(self):
        raise ImportError("no module")

    def unable(self):
        raise Unavailable("not here")

    def broken(self):
        raise RuntimeError("first line\nsecond")


def test_peers_are_checked_before_and_in_their_graphs():
    names = ("kiln", "worse", "lazy", "nan", "other", "peer", "rough", "absent", "unable", "broken")
    found = Fake().run(names, 3)
    assert tuple(found) == names
    assert {name: peer["status"] for name, peer in found.items()} == {
        "kiln": "ok", "worse": "wrong", "lazy": "wrong", "nan": "wrong", "other": "ok", "peer": "ok", "rough": "wrong",
        "absent": "unavailable", "unable": "unavailable", "broken": "failed"}  # fmt: skip
    assert found["kiln"]["times"] == found["kiln"]["warm_times"] == [10.0] * 3
    assert found["lazy"]["note"].startswith("replayed: ") and "times" not in found["lazy"]
    assert found["broken"]["note"] == "RuntimeError: first line"
    assert found["other"]["error"] == "" and found["kiln"]["allowed"] == pytest.approx(3e-4)


def test_peers_settle_as_their_bench_asks():
    bench = Fake()
    bench.run(("kiln",), 3)
    assert bench.device.bursts == [(2, 1, 0), (2, 5, 2), (1, 1, 0), (1, 5, 4)]


def test_a_lost_device_is_no_peers_result():
    bench = Fake()

    def lost():
        raise RuntimeError("illegal address")

    bench.device.synchronize = lost
    with pytest.raises(RuntimeError, match="illegal address"):
        bench.run(("kiln",), 3)


# ---- tuning ----------------------------------------------------------------------------------------------------------
def test_the_fastest_right_candidate_wins(tmp_path):
    bench, tried = Fake(), []
    bench.errors = {"peer": 2e-4}

    def candidate(name, us, error=2e-4):
        def make():
            tried.append(name)
            peer = bench.writes(error)

            def launch(i):
                bench.device.us = us
                peer.launch(i)

            return peer._replace(launch=launch)

        return make

    # A burst takes as long as what was captured before it; unless the clock settles, the best seems to be second.
    def burst(replay, launches, replays, settle=0):
        us = bench.device.us
        settled.append(settle)
        return lambda: us if settle else {9.0: 11.0, 12.0: 8.0}.get(us, us)

    bench.device.burst, settled = burst, []
    variants = {"default": candidate("default", 12.0), "wrong": candidate("wrong", 1.0, 1e-3),
                "best": candidate("best", 9.0), "slow": candidate("slow", 20.0)}  # fmt: skip
    variants["none"] = lambda: (_ for _ in ()).throw(ValueError("does not fit"))
    winners = Tuned(tmp_path / "t.json")
    assert bench.tuned("row", winners, variants).note == "best" and any(settled)
    assert json.loads((tmp_path / "t.json").read_text()) == {"row": "best"}
    tried.clear()
    assert bench.tuned("row", winners, variants).note == "best" and tried == ["best"]
    with pytest.raises(Unavailable, match="does not fit"):
        bench.tuned("row 2", winners, {"none": variants["none"]})


def plans():
    from kiln.kernels.attention import configs, decode_configs
    from kiln.kernels.machine import CPU, DEFAULT_GPU

    for machine in (DEFAULT_GPU, CPU):
        for row in attention.rows():
            if "kiln-tuned" in row.peers:
                heads = row.batch * row.heads, row.heads // row.k_heads
                shape = row.tokens, row.tokens, (row.size, row.size), 2
                found = configs.candidates(*shape, row.causal, machine, *heads)
                yield found, configs.prefill_plan(
                    *shape, True, row.causal, machine, heads=heads[0], share=heads[1]
                )  # fmt: skip
        for row, paged in itertools.product(decode.rows(), (False, True)):
            shape = row.batch, row.k_heads, row.heads // row.k_heads, 1, 128, 2, row.tokens, machine
            yield decode_configs.candidates(*shape, paged), decode_configs.decode_plan(*shape, paged=paged)


def test_candidates_begin_with_the_default():
    for found, default in plans():
        assert found[0] == default and len(set(found)) == len(found) and 2 <= len(found) <= 32


def test_candidates_of_attention_cover_the_tiles():
    from kiln.kernels.attention import configs
    from kiln.kernels.machine import DEFAULT_GPU

    found = configs.candidates(4096, 4096, (64, 64), 2, True, DEFAULT_GPU, 128)
    assert {(p.m, p.consumers) for p in found} == {(64, 1), (128, 2), (192, 3)}
    assert {p.n for p in found if p.m == 128} == set(range(64, 177, 16))
    assert {p.stages for p in found} == {2, 3, 4} and len({(p.together, p.around) for p in found}) >= 3
    wide = configs.candidates(4096, 4096, (128, 128), 2, False, DEFAULT_GPU, 64)
    assert max(p.n for p in wide if p.consumers == 3) == 80


@pytest.mark.slow
@pytest.mark.parametrize(("size", "causal", "m", "n"), [
    (64, True, 192, 128), (64, False, 128, 176), (64, True, 64, 160), (128, True, 192, 80), (128, False, 128, 176),
    (128, True, 64, 160),
])  # fmt: skip
def test_the_largest_candidates_keep_their_schedule_and_do_not_spill(size, causal, m, n):
    import numpy as np
    from kiln.kernels.attention import attention as run
    from kiln.kernels.attention import configs
    from kiln.kernels.launches import launches_of
    from kiln.kernels.machine import of_target

    machine = of_target("sm_90a")
    found = configs.candidates(1024, 1024, (size, size), 2, causal, machine, 8)
    (plan,) = [plan for plan in found if (plan.m, plan.n, plan.stages) == (m, n, 4)]
    q = np.empty((1, 1024, 8, size), np.float16)
    (launch,) = launches_of(lambda: run(q, q, q, causal=causal, plan=plan, out=np.empty_like(q)), machine)
    about = json.loads(launch.compile("sm_90a").metadata)["cuda"]
    if about.get("usage") is None:
        pytest.skip("no ptxas")
    assert about["roles"] and about["usage"]["spill_stores"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "warps", "stages"), [(8, 4, 6), (16, 8, 3), (16, 2, 3), (16, 4, 6)])
def test_the_largest_candidates_of_decode_compile(rows, warps, stages):
    import numpy as np
    from kiln.kernels.attention import decode_attention, decode_configs
    from kiln.kernels.launches import launches_of
    from kiln.kernels.machine import of_target

    machine = of_target("sm_90a")
    found = decode_configs.candidates(1, 8, 4, 1, 128, 2, 4096, machine)
    plan = next(p for p in found if (p.rows, p.num_warps, p.stages) == (rows, warps, stages))
    q, k, n = np.empty((1, 32, 128), np.float16), np.empty((1, 4096, 8, 128), np.float16), np.empty(1, np.int32)
    (launch,) = launches_of(lambda: decode_attention(q, k, k, n, plan=plan), machine)
    about = json.loads(launch.compile("sm_90a").metadata)["cuda"]
    assert about["shared_bytes"] <= 227 << 10
    if about.get("usage") is not None:
        assert about["usage"]["spill_stores"] == 0


# ---- files and reports -----------------------------------------------------------------------------------------------
def timed(us, error=2e-4, warm=None):
    found = {"status": "ok", "note": "", "error": error, "allowed": 3e-4, "times": [us] * 3}
    return found if warm is None else found | {"warm_times": [warm] * 3}


def write(path, module, when="2026-01-01", method="", **rows_of):
    """Writes rows, by names with _ for spaces, of one run."""
    every = {row.name.replace(" ", "_"): row for row in module.rows()}
    about = {"gpu": "G", "commit": "abc", "date": when, "method": method}
    for name, peers in rows_of.items():
        measure.append(str(path), beside.COLUMNS, module.lines(every[name], peers, about, 5))
    return str(path)


def test_lines():
    (row,) = [row for row in attention.rows() if row.name == "attention D=64 full 4096"]
    found = {"kiln": timed(1000.0, warm=900.0), "kiln-tuned": timed(950.0), "cudnn": timed(1100.0),
             "flash": {"status": "wrong", "note": "error", "error": 1.0, "allowed": 4e-4}}  # fmt: skip
    by = {line["provider"]: line for line in attention.lines(row, found, {"gpu": "G", "other": 1}, 2)}
    assert all(tuple(line) == beside.COLUMNS for line in by.values())
    assert by["kiln"]["over_best_peer"] == "1.100" and by["kiln-tuned"]["over_kiln"] == "1.053"
    assert by["kiln"]["warm_us"] == "900.000" and by["cudnn"]["warm_us"] == "" and by["flash"]["median_us"] == ""
    assert (
        by["kiln"]["tflops"] == f"{4 * 4 * 32 * 4096**2 * 64 / 1e9:.1f}" and by["flash"]["allowed_error"] == "4.00e-04"
    )
    assert by["kiln"]["sets"] == 2 and by["kiln"]["bytes"] == 4 * 4 * 4096 * 32 * 64 * 2 and by["kiln"]["gpu"] == "G"
    (flex,) = [row for row in attention.rows() if row.name == "flex_window D=64 causal 4096"]
    found = {"kiln": timed(10.0), "kiln-flex": timed(11.0), "kiln-causal": timed(20.0), "flex": timed(16.5)}
    by = {line["provider"]: line for line in attention.lines(flex, found, {}, 2)}
    assert by["kiln-flex"]["over_best_peer"] == "1.500" and by["kiln-flex"]["over_kiln"] == "0.909"
    assert by["kiln-causal"]["over_best_peer"] == ""
    assert "kiln-flex" in attention.told(flex, list(by.values()))


def said(text, what):
    (line,) = [line for line in text if what in line]
    return line


def test_report_of_attention(tmp_path):
    path = tmp_path / "a.csv"
    names = [row.name.replace(" ", "_") for row in attention.rows() if row.group == "forward"]
    rows_of = {name: {"kiln": timed(10.0), "cudnn": timed(10.6), "cute": timed(12.0)} for name in names}
    write(path, attention, **rows_of)
    text = attention.report([str(path)])
    assert text[0] == "G, 2026-01-01, commit abc"
    line = said(text, "forward over the best peer")
    assert (
        line.startswith("holds")
        and "12 of 12 rows, geometric mean 1.060 (asked 1.05), least 1.060 (asked 0.97)" in line
    )
    assert said(text, "grouped heads").startswith("missing") and said(text, "flex: window over torch").startswith(
        "missing"
    )

    # One row measured again, now slower than the best peer; and its tuned plan in a third file, without peers.
    again = write(tmp_path / "b.csv", attention, "2026-01-02", **{names[0]: rows_of[names[0]] | {"cute": timed(9.6)}})
    tuned = write(tmp_path / "c.csv", attention, "2026-01-03",
                  **{names[0]: {"kiln": timed(10.0, 4e-4), "kiln-tuned": timed(9.4)}})  # fmt: skip
    text = attention.report([str(path), again, tuned])
    assert not any(line.startswith("mixed") for line in text)
    line = said(text, "forward over the best peer")
    assert line.startswith("FALLS SHORT") and f"least 0.960 (asked 0.97): {names[0].replace('_', ' ')} (cute)" in line
    line = said(text, "default over tuned")
    assert line.startswith("FALLS SHORT") and "1 of 42 rows" in line and "least 0.940 (asked 0.95)" in line
    assert said(text, "errors: at most 1.00").startswith("holds"), "without peers nothing is said about errors"

    both = [write(tmp_path / f"{name}.csv", attention, method=f"graph-replay attention {name}: …",
                  **{names[0]: rows_of[names[0]]}) for name in ("v1", "v2")]  # fmt: skip
    mixed = "mixed       not comparable: graph-replay attention v1, graph-replay attention v2"
    assert attention.report(both)[1] == mixed and mixed not in attention.report(both[1:])


def test_report_of_backward_and_flex(tmp_path):
    backward = {"kiln": timed(10.5), "atomics": timed(9.0), "cudnn": timed(10.0), "flash-ordered": timed(21.0)}
    window = {"kiln": timed(10.0), "kiln-flex": timed(12.0), "kiln-causal": timed(30.0), "flex": timed(18.0, 1e-4)}
    alibi = {"kiln": timed(10.0), "kiln-flex": timed(10.0), "kiln-causal": timed(9.5), "flex": timed(12.0)}
    small = {"kiln": timed(10.0), "cudnn": timed(14.0), "math": timed(11.0), "triton": timed(9.0)}
    path = write(tmp_path / "a.csv", attention, **{
        "attention_backward_D=64_full_4096": backward, "flex_window_D=64_causal_4096": window,
        "flex_alibi_D=64_causal_4096": alibi, "attention_1x2/2_D=64_full_512": small})  # fmt: skip
    text = attention.report([path])
    assert "geometric mean 1.111" in said(text, "atomics, over the best peer")
    assert said(text, "atomics, over the best peer").startswith("incomplete")
    assert "geometric mean 0.952" in said(text, "deterministic, over the best peer:")
    assert said(text, "deterministic, over the best peer:").startswith("FALLS SHORT"), "of the mean, 1.03"
    assert "2.000" in said(text, "repeats its bits")
    assert "1.500" in said(text, "window over torch") and "0.833" in said(text, "window over attention(window")
    assert said(text, "window over attention(window").startswith("FALLS SHORT")
    assert "1.200" in said(text, "ALiBi over torch") and "0.950" in said(text, "ALiBi over plain causal")
    assert "1.100 (asked 1.2)" in said(text, "best of torch's SDPA"), "math counts, Triton does not"
    assert "0.900" in said(text, "small rows over the best peer")
    assert said(text, "errors: at most 2.00").startswith("FALLS SHORT") and "flex_window" in said(text, "errors:")


def test_report_of_decode(tmp_path):
    rows_of = {}
    for row in decode.rows():
        peers = {"kiln": timed(10.0), "kiln-paged": timed(10.2), "kiln-int8": timed(5.5), "kiln-int4": timed(3.4, 1e-3),
                 "cudnn": timed(12.0), "flashinfer": timed(11.5), "kiln-tuned": timed(9.9)}  # fmt: skip
        rows_of[row.name.replace(" ", "_")] = peers | ({"math": timed(11.0)} if row.group == "mha" else {})
    rows_of["decode_B=1_4096_32/8"]["kiln"] = timed(7.2)
    rows_of["decode_B=64_4096_32/8"]["kiln-int4"] = timed(3.2, 1e-3)
    rows_of["decode_B=1_512_32/8"]["kiln-int8"] = timed(10.1)
    rows_of["decode_B=1_512_32/8"]["flash"] = {"status": "wrong", "note": "error 1", "error": 1.0}
    text = decode.report([write(tmp_path / "d.csv", decode, **rows_of)])
    assert said(text, "decode over the best peer").startswith("holds") and "8 of 8 rows" in said(text, "decode over")
    assert said(text, "7.20 µs (asked 7.3)").startswith("holds")
    assert said(text, "paged over").startswith("FALLS SHORT") and "least 0.706" in said(text, "paged over")
    assert "2 of 2 rows" in said(text, "INT8 over f16, long") and said(text, "INT8 over f16, long").startswith("holds")
    assert "least 2.941 (asked 3)" in said(text, "INT4 over f16, long")
    assert said(text, "INT4 over f16, long").startswith("FALLS SHORT")
    assert "least 0.990 (asked 1): decode B=1 512 32/8" in said(text, "INT8 over f16, all")
    assert "1.100 (asked 1.2)" in said(text, "best of torch's SDPA") and "(math)" in said(text, "best of torch's SDPA")
    assert said(text, "default over tuned").startswith("holds") and "11 of 11 rows" in said(text, "default over tuned")
    assert said(text, "errors: at most 1.00").startswith("holds"), "four bits have no peer"
    assert said(text, "B=1 512 32/8 flash wrong: error 1")


def test_recorded_files_can_be_read():
    assert "12 of 12 rows" in said(
        attention.report([str(RESULTS / "h200_attention.csv")]), "forward over the best peer"
    )
    assert "8 of 8 rows" in said(decode.report([str(RESULTS / "h200_decode.csv")]), "decode over the best peer")


# ---- runs ------------------------------------------------------------------------------------------------------------
def test_rows_that_are_there_are_skipped_and_late_ones_left(tmp_path, monkeypatch, capsys):
    clock, measured = [0.0], []

    class Row:
        bench = "kiln", "kiln-tuned", "math"

        def __init__(self, name):
            self.name, self.peers, self.group, self.size_text = name, self.bench, "g", "1"

        def bytes_of(self, peer):
            return 1000

        def flops_of(self, peer):
            return 0.0

    class Bench:
        plan = measure.Plan(2, 2, 1, 1, 3)

        def __init__(self, row):
            self.row = row

        def run(self, names, rounds):
            clock[0] += 100
            measured.append((self.row.name, tuple(names)))
            return {name: timed(10.0) | {"status": "ok"} for name in names}

    fake = types.ModuleType("device")
    fake.make_device = lambda name: types.SimpleNamespace(name=name)
    fake.environment = lambda device: {"gpu": "G", "date": "d"}
    monkeypatch.setitem(sys.modules, "device", fake)
    monkeypatch.setattr(beside.time, "monotonic", lambda: clock[0])
    path = tmp_path / "r.csv"

    def run(*more):
        parser = beside.make_parser("A benchmark.", Row.bench)
        beside.add_tuning(parser, tmp_path / "t.json")
        options = parser.parse_args(["--csv", str(path), "--device", "cpu", *more])
        rows, peers = beside.choose(parser, options, [Row("a 1"), Row("b 1"), Row("c 2")], Row.bench)
        lines = lambda row, found, about, sets: beside.lines("f", row, found, about, sets, ("kiln",))  # noqa: E731
        return beside.race_rows(rows, peers, options, "m", beside.COLUMNS, lambda row, device: Bench(row), lines,
                                lambda row, table: row.name, lambda name: True)  # fmt: skip

    assert run("--limit", "150") == 0
    assert measured == [("a 1", ("kiln", "math")), ("b 1", ("kiln", "math"))]
    assert "1 rows left after 150 s: c 2" in capsys.readouterr().err
    measured.clear()
    assert run("--tune", "--peers", "kiln,kiln-tuned") == 0 and measured == [("c 2", ("kiln", "kiln-tuned"))]
    measured.clear()
    assert run("--rows", "a; g 2") == 0 and measured == []
    with pytest.raises(SystemExit):
        run("--rows", "nothing")
    path.write_text("family,kernel\n")
    with pytest.raises(SystemExit, match="name a new file"):
        run()


def test_lists_need_no_gpu(capsys):
    assert attention.main(["--list", "--rows", "small 2048 causal"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert decode.main(["--list", "--rows", "mha; B=64"]) == 0 and len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize("words", ["1x4/4 causal 512", "flex_window D=64 4096", "flex_alibi D=64 4096", "2x32/8",
                                   "attention_backward D=64 causal 4096"])  # fmt: skip
def test_attention_is_measured_on_torch_tensors_of_the_cpu(tmp_path, words):
    pytest.importorskip("torch")
    path = tmp_path / "rows.csv"
    arguments = ["--device", "cpu", "--shrink", "64", "--rounds", "3", "--csv", str(path), "--rows", words,
                 "--tuned", str(tmp_path / "t.json")]  # fmt: skip
    assert attention.main(arguments) == 0
    with open(path, newline="", encoding="utf-8") as file:
        by = {line["provider"]: line for line in csv.DictReader(file)}
    for line in by.values():
        assert line["status"] in ("ok", "unavailable"), line
        if line["status"] == "ok":
            assert float(line["warm_us"]) > 0 and int(line["sets"]) >= 2
    ours = "kiln-flex" if words.startswith("flex") else "kiln"
    assert float(by[ours]["error"]) <= float(by[ours]["allowed_error"]) < 1e-3


def test_decoding_is_measured_on_torch_tensors_of_the_cpu(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "rows.csv"
    arguments = ["--device", "cpu", "--shrink", "16", "--rounds", "3", "--csv", str(path), "--rows", "32 8/8",
                 "--tune", "--tuned", str(tmp_path / "t.json")]  # fmt: skip
    assert decode.main(arguments) == 0
    with open(path, newline="", encoding="utf-8") as file:
        by = {line["provider"]: line for line in csv.DictReader(file)}
    assert {name for name, line in by.items() if line["status"] == "ok"} >= set(decode.OURS) | {"flash", "math"}
    assert by["kiln-tuned"]["note"].startswith("DecodePlan(") and float(by["kiln"]["warm_us"]) > 0
