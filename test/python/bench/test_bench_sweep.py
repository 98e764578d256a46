"""The sweep over sizes: its cells, runs in pieces that go on from a file, and its report. Its child is a script."""

import csv
import pathlib

import pytest
import suite
import sweep

WORKER = """
import json, sys
sys.path.insert(0, BENCH)
import dataclasses, sweep
job = json.loads(sys.argv[1])
print(json.dumps({"event": "environment", "facts": {"gpu": "G", "commit": "abc"}}), flush=True)
for name in job["cases"]:
    case = sweep.named(name)
    peers = {}
    for peer, us in (("torch", 20.0), ("inductor", 10.0), ("kiln", 8.0), ("kiln+pdl", 16.0 if name == SLOW else 5.0)):
        times = dict.fromkeys(("median", "p25", "p75", "least", "most"), us) | {"rounds": 5, "tbs": case.tbs(us)}
        peers[peer] = {"peer": peer, "status": "ok", "note": "", "error": 1e-4, "cold": times}
    if name == FAILS:
        print(json.dumps({"event": "failed", "case": name, "message": "no memory"}), flush=True)
        continue
    record = {"case": dataclasses.asdict(case) | {"name": name}, "peers": peers}
    print(json.dumps({"event": "result", "case": name, "record": record}), flush=True)
"""
FEW = ["--kernels", "rms_norm", "bias_gelu", "--rows", "44", "--widths", "5120", "100", "--peers", "inductor",
       "--no-prepare", "--dtypes", "bfloat16"]  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(*words, fails=…, slow=…) → exit code and the lines it printed; all runs share a file."""
    monkeypatch.setattr(suite, "HERE", tmp_path)
    monkeypatch.setattr(suite, "needs_torch", lambda: None)
    bench = repr(str(pathlib.Path(sweep.__file__).parent))

    def run(*words, fails="", slow=""):
        text = WORKER.replace("BENCH", bench).replace("FAILS", repr(fails)).replace("SLOW", repr(slow))
        (tmp_path / "worker.py").write_text(text)
        code = sweep.main([*FEW, "--csv", str(tmp_path / "sweep.csv"), *words])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_every_cell_is_there_once_and_every_beginning_is_a_sample():
    every = sweep.cells()
    names = [case.name for case in every]
    assert len(set(names)) == len(names) == 6 * 5 * 20 * 2
    first = every[:60]
    assert {case.kernel for case in first} == set(sweep.KERNELS)
    assert {case.shape[0] for case in first} == set(sweep.ROWS)
    assert len({case.shape[1] for case in first}) == len(sweep.WIDTHS)
    assert {case.dtype for case in first} == set(sweep.TYPES)
    assert all(sweep.named(case.name) == case for case in every)


@pytest.mark.parametrize("kernel, moved", [
    ("rms_norm", 2 * 44 * 5120 + 5120), ("residual_rms_norm", 4 * 44 * 5120 + 5120),
    ("layer_norm", 2 * 44 * 5120 + 2 * 5120), ("softmax", 2 * 44 * 5120), ("swiglu", 3 * 44 * 5120),
    ("bias_gelu", 2 * 44 * 5120 + 5120),
])  # fmt: skip
def test_bytes_of_a_cell(kernel, moved):
    case = sweep.case_of(kernel, 44, 5120, "bfloat16")
    assert case.traffic == 2 * moved and case.dtype == "bfloat16" and case.most_us is None


def test_a_run_goes_on_where_the_one_before_ended(run):
    code, said = run("--limit", "3", "--piece", "2")
    assert code == 0 and len([line for line in said if "kiln+pdl 5.000" in line]) == 3
    code, left = run("--list")
    assert len(left) == 1
    _, said = run()
    assert said[0].startswith(f"   1 {left[0]}: torch 20.000, inductor 10.000, kiln 8.000")
    assert run("--list")[1] == [""]
    assert run("--strict")[0] == 0


def test_a_peer_that_joins_is_measured_everywhere(run):
    run()
    assert len(run("--list", "--peers", "inductor,quack")[1]) == 4


def test_the_report_names_slow_cells_and_losses_with_dependent_launch(run):
    slow = "bias_gelu 44×5120 bf16"
    code, said = run("--strict", slow=slow)
    assert code == 1
    assert "kiln: 4 cells, geometric mean 1.250, 0 under 0.95" in said
    mean = (2.0**3 * 0.625) ** 0.25
    assert f"kiln+pdl: 4 cells, geometric mean {mean:.3f}, 1 under 0.95" in said
    assert f"  0.625 of inductor: {slow}" in said
    assert said[-2:] == ["slower with dependent launch than without by more than 2%: 1 cells", f"  0.500: {slow}"]


def test_a_cell_that_fails_is_recorded_and_named(run, tmp_path):
    code, said = run("--strict", fails="rms_norm 44×100 bf16")
    assert code == 1 and "rms_norm 44×100 bf16: kiln failed: no memory" in said
    with open(tmp_path / "sweep.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["width"] == "100" and line["kernel"] == "rms_norm"]
    assert {line["provider"]: line["status"] for line in lines} == dict.fromkeys(
        ("kiln", "kiln+pdl", "inductor"), "failed"
    )
    assert run("--list")[1] == [""]


def test_time_that_is_over_ends_a_run(run):
    _, said = run("--seconds", "0")
    assert sum(line.startswith("   ") and "kiln" in line for line in said) <= 1
    assert len(run("--list")[1]) == 3


def test_ratios_are_of_what_was_measured():
    lines = {"kiln": {"status": "ok", "median_us": "4"}, "quack": {"status": "unavailable", "median_us": ""},
             "inductor": {"status": "ok", "median_us": "6"}}  # fmt: skip
    assert sweep.ratios(lines, "kiln", ["inductor", "quack"]) == {"inductor": 1.5}
    assert sweep.ratios(lines, "kiln+pdl", ["inductor", "quack"]) == {}
    text, good = sweep.report({}, sweep.cells(["softmax"], [1], [512], ["float16"]), ["inductor"])
    assert not good and text[0].startswith("0 of 1 cells measured")
