"""bench/gemm.py without a GPU: its rows, the size of a burst, and the files and reports it writes."""

import csv
import itertools
import json
import math
import types

import gemm
import measure
import pytest


def timed(us):
    return {"status": "ok", "note": "", "error": 1e-4, "times": [us, us, us]}


def test_rows():
    every = gemm.rows()
    assert len({row.name for row in every}) == len(every) == 14 * 4 + 5 * 4 * 2 + 2 * 2 * 4
    count = {group: sum(row.group == group for row in every) for group in gemm.ASKED}
    assert count == {"decode": 28, "prefill": 28, "square": 40, "fp8": 8, "fp8-f32": 8}
    (row,) = gemm.select(every, "linear gate_up 512")
    assert (row.m, row.n, row.k, row.flops) == (512, 28672, 4096, 2 * 512 * 28672 * 4096)
    assert row.bytes == 2 * (512 * 4096 + 28672 * 4096 + 512 * 28672)
    (square,) = gemm.select(every, "square 512 alpha=2 f16")
    assert square.bytes == 2 * 4 * 512 * 512 and not square.b_rows
    (fp8,) = gemm.select(every, "fp8 qkv 16")
    assert fp8.bytes == (16 + 6144) * 4096 + 2 * 16 * 6144
    assert not [row for row in gemm.rows("bfloat16") if row.accumulator == "f16"]


def test_select():
    every = gemm.rows()
    assert [row.name for row in gemm.select(every, "linear o 16; linear o 64")] == ["linear o 16", "linear o 64"]
    assert len(gemm.select(every, "decode")) == 28 and gemm.select(every, "nothing") == []
    assert gemm.select(every, "") == every


def test_rows_that_quack_is_tuned_on():
    assert [row.name for row in gemm.select(gemm.rows(), gemm.QUACK_ROWS)] == [
        "linear gate_up 16", "linear o 2048", "linear qkv 4096", "linear gate_up 8192"]  # fmt: skip


@pytest.mark.parametrize("row", gemm.rows(), ids=lambda row: row.name)
def test_plans_of_bursts(row):
    found = gemm.plan(row, 60 << 20, 9)
    assert found.launches % found.sets == 0 and found.sets >= 2
    assert found.sets * row.bytes >= 3 * (60 << 20) or found.sets == 512
    burst = found.launches * found.replays * row.guess_us()
    assert (4e3 if row.of_memory else 25e3) <= burst <= 60e3
    assert found.sets * row.bytes < 8 << 30, "memory"
    settle = gemm.settle(row, found.launches)
    assert settle == 0 if row.of_memory else 100e3 <= settle * found.launches * row.guess_us() <= 125e3
    assert settle + found.replays < 200, "the GPU's queue"


def test_bursts_settle_as_the_row_asks():
    class Bench(gemm.Bench):
        def __init__(self):
            self.plan, self.settle, self.allowed = measure.Plan(2, 8, 5, 0, 9), 7, None
            self.device = types.SimpleNamespace(burst=lambda *given: given)

        def error(self, function):
            return 0.0

        def launch(self, function, i):
            pass

        def replay(self, function, launches):
            return "replay"

    assert Bench().build("kiln", lambda: ("", None))["burst"] == ("replay", 8, 5, 7)


def test_a_row_is_printed_and_written(tmp_path):
    (row,) = gemm.select(gemm.rows(), "linear o 16")
    found = {"torch": timed(14.0), "kiln": timed(10.0), "cublaslt": timed(12.0), "ceiling": timed(8.0),
             "quack": {"status": "unavailable", "note": "no quack", "error": ""},
             "triton": {"status": "failed", "note": "RuntimeError: no", "error": ""}}  # fmt: skip
    found["kiln"]["energy"] = {"joules": 0.005, "watts": 400.0, "sm_mhz": 1980}
    table = list(gemm.lines(row, found, {"gpu": "G", "commit": "abc", "other": 1}, 5, 4e-4))
    by = {line["provider"]: line for line in table}
    assert all(tuple(line) == gemm.COLUMNS for line in table)
    assert by["kiln"]["over_best_peer"] == "1.200" and by["kiln"]["of_ceiling"] == "0.800"
    assert by["kiln"]["joules"] == "0.005" and by["kiln"]["gpu"] == "G" and by["torch"]["over_best_peer"] == ""
    assert float(by["kiln"]["tflops"]) == pytest.approx(2 * 16 * 4096 * 4096 / 10e6, abs=0.1)
    assert float(by["kiln"]["tb_per_s"]) == pytest.approx(row.bytes / 10e6, abs=1e-3) and by["ceiling"]["tflops"] == ""
    text = gemm.told(row, table)
    assert "kiln 10.0 µs" in text and "triton failed: RuntimeError: no" in text and "quack" not in text
    assert text.endswith("1.200×")


def test_report(tmp_path):
    every = {row.name: row for row in gemm.rows()}
    about = {"method": measure.method_of("gemm")}

    def write(name, **rows_of):
        path = tmp_path / name
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, gemm.COLUMNS)
            writer.writeheader()
            for row, peers in rows_of.items():
                writer.writerows(gemm.lines(every[row.replace("_", " ")], peers, about, 5, None))
        return str(path)

    one = {"torch": timed(12.0), "kiln": timed(10.0), "kiln-tuned": timed(9.0), "kiln-cut": timed(8.0),
           "ceiling": timed(8.0)}  # fmt: skip
    two = {"torch": timed(9.0), "kiln": timed(10.0), "triton": {"status": "wrong", "note": "", "error": ""}}
    one["torch"]["energy"], one["kiln"]["energy"] = {"joules": 2.0}, {"joules": 1.5}
    text = "\n".join(gemm.report([write("a.csv", linear_o_16=one, linear_qkv_1=two)]))
    assert f"decode kiln: 2 rows, geometric mean {math.sqrt(1.2 * 0.9):.3f} (asked 1.1), least 0.900" in text
    assert "(asked 0.97): linear qkv 1" in text and "decode: wrong or failed: linear qkv 1 triton" in text
    assert "o, M ≤ 16: 0.800 to 0.800 of the read ceiling (asked 0.72)" in text
    assert "default over tuned plan: 0.900 over 1 rows" in text
    assert "default over cut tiles: 0.800 over 1 rows; these are faster in 1" in text
    assert "decode kiln-cut: 1 rows, geometric mean 1.500" in text, "no peer that others are measured by"
    assert "joules of an operation over the thriftiest peer's: 0.750 over 1 rows" in text
    # If two files contain the same row, the later one counts.
    later = write("b.csv", linear_qkv_1={"torch": timed(20.0), "kiln": timed(10.0)})
    text = "\n".join(gemm.report([str(tmp_path / "a.csv"), later]))
    assert "least 1.200" in text and "wrong" not in text and "mixed" not in text
    about["method"] = "graph-replay gemm v0: as it was"
    old = write("c.csv", linear_o_16=one)
    text = gemm.report([later, old])
    assert text[0] == "mixed       not comparable: graph-replay gemm v0, graph-replay gemm v2"


def test_power_is_measured_between_counter_updates(monkeypatch):
    """A counter that moves every 0.2 s would show 400 to 800 W instead of 600 over 0.3 s, depending on when that
    begins."""
    for begin in (0.0, 0.05, 0.11, 0.19):
        now = [begin]
        monkeypatch.setattr(gemm.time, "perf_counter", lambda now=now: now[0])
        monkeypatch.setattr(gemm.time, "sleep", lambda seconds, now=now: now.__setitem__(0, now[0] + seconds))
        meter = gemm.Meter()
        monkeypatch.setattr(meter, "joules", lambda now=now: 1000 + 600 * (int(now[0] / 0.2) * 0.2))
        assert meter.watts(lambda now=now, begin=begin: now[0] < begin + 0.5) == pytest.approx(600, rel=0.02)
        assert meter.watts(lambda now=now, end=now[0] + 0.1: now[0] < end) is None


def test_winning_plans_are_kept(tmp_path):
    path = tmp_path / "folder" / "tuned.json"
    kept = gemm.Tuned(path)
    assert kept.get("row | peer 1") is None
    kept.put("row | peer 1", "a")
    assert gemm.Tuned(path).get("row | peer 1") == "a" and json.loads(path.read_text()) == {"row | peer 1": "a"}


def test_cublaslt_algorithms_are_read_back():
    cublaslt = pytest.importorskip("baselines.cublaslt")
    algorithm = cublaslt.Algorithm((1, 2**63, 0, 0, 0, 0, 0, 5), 64 << 20)
    assert cublaslt.Algorithm.parse(str(algorithm)) == algorithm
    import ctypes

    assert ctypes.sizeof(cublaslt.Heuristic) == 96, "as in cublasLt.h"


def test_the_kernel_that_only_reads_compiles():
    cuda = pytest.importorskip("kiln.cuda")
    from baselines import cuda_kernels
    from kiln import errors

    try:
        cuda.nvrtc_version()
    except errors.UserError as error:
        pytest.skip(str(error).splitlines()[0])
    for unroll, hint in itertools.product((1, 8), (0, 1)):
        options = cuda_kernels.options(UNROLL=unroll, THREADS=256, HINT=hint)
        assert cuda.compile(cuda_kernels.source("read.cu"), "read", options, target="sm_90a").cubin[:4] == b"\x7fELF"


def test_lists_and_models_need_no_gpu(capsys):
    assert gemm.main(["--list", "--rows", "fp8 16"]) == 0
    assert capsys.readouterr().out.split() == ["fp8", "fp8", "qkv", "16", "fp8", "fp8", "o", "16",
                                               "fp8", "fp8", "gate_up", "16", "fp8", "fp8", "down", "16"]  # fmt: skip
    assert gemm.main(["--model", "--rows", "linear o 1; linear o 4096"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "'direct'" in first and "TFLOPS" in second and "GemmPlan(128, 256, 64" in second
    (row,) = gemm.select(gemm.rows(), "fp8 o 16")
    assert gemm.about(row) == {"accumulator": "fast", "streams": False, "addends": 0, "replaced": False}
    (row,) = gemm.select(gemm.rows(), "square 4096 alpha=1 beta=1 f32")
    assert gemm.about(row)["replaced"] and gemm.about(row)["addends"] == 1
    for wrong in (["--rows", "nothing"], ["--peers", "cudnn"]):
        with pytest.raises(SystemExit):
            gemm.main(wrong)


@pytest.mark.parametrize("words", ["linear o 2", "square 1024 alpha=0.5 f16"])
def test_rows_are_measured_on_torch_tensors_of_the_cpu(tmp_path, words):
    pytest.importorskip("torch")
    path = tmp_path / "rows.csv"
    arguments = ["--device", "cpu", "--shrink", "64", "--rounds", "3", "--tune", "--tuned", str(tmp_path / "t.json"),
                 "--csv", str(path), "--rows", words]  # fmt: skip
    assert gemm.main(arguments) == 0
    with open(path, newline="", encoding="utf-8") as file:
        by = {line["provider"]: line for line in csv.DictReader(file)}
    assert by["kiln"]["status"] == by["kiln-tuned"]["status"] == "ok" and by["cublaslt"]["status"] == "unavailable"
    assert float(by["kiln"]["error"]) <= float(by["kiln"]["allowed_error"])
    assert by["kiln-tuned"]["note"].startswith("GemmPlan(")
    size = path.stat().st_size
    assert gemm.main(arguments) == 0 and path.stat().st_size == size, "rows that are there are left out"
