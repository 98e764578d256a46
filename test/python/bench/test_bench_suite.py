"""The parent process: time limits, children that die, arguments. The children here are small scripts."""

import argparse
import json
import pathlib
import sys
import time

import cases
import pytest
import suite

WORKER = """
import json, os, sys, time
job = json.loads(sys.argv[1])
print(json.dumps({"event": "environment", "facts": {"gpu": "fake"}}), flush=True)
print("a library says hello", flush=True)
for name in job["cases"]:
    print(json.dumps({"event": "start", "case": name}), flush=True)
    if name == HANGS:
        time.sleep(100)
    if name == DIES:
        os._exit(139)
    if name == LOSES:
        print(json.dumps({"event": "failed", "case": name, "message": "sticky"}), flush=True)
        os._exit(4)
    print(json.dumps({"event": "result", "case": name, "record": {"of": name}}), flush=True)
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    def make(hangs="", dies="", loses=""):
        text = WORKER
        for word, value in (("HANGS", hangs), ("DIES", dies), ("LOSES", loses)):
            text = text.replace(word, repr(value))
        (tmp_path / "worker.py").write_text(text)
        monkeypatch.setattr(suite, "HERE", tmp_path)

    return make


def options(**values):
    found = suite.parser().parse_args([])
    return argparse.Namespace(**{**vars(found), "peers": ["kiln"], **values})


def events(rows, **values):
    found = list(suite.measure_rows(options(**values), rows, sys.stderr, lambda *_: None))
    return [event for event in found if event["event"] != "environment"]


ROPE = cases.select(["rope"])
NAMES = [case.name for case in ROPE]


def test_all_rows(worker):
    worker()
    assert [event["record"]["of"] for event in events(ROPE)] == NAMES


def test_a_row_that_hangs_is_ended_and_the_others_run(worker, monkeypatch):
    worker(hangs=NAMES[1])
    start = time.monotonic()
    found = events(ROPE, timeout=1.0)
    assert time.monotonic() - start < 30
    assert [event["event"] for event in found] == ["result", "failed", "result", "result", "result"]
    assert found[1]["case"] == NAMES[1] and "no answer within 1 s" in found[1]["message"]


def test_a_row_whose_process_dies(worker):
    worker(dies=NAMES[0])
    found = events(ROPE)
    assert [event["event"] for event in found] == ["failed"] + ["result"] * 4
    assert found[0]["message"] == "the process ended with code 139"


def test_a_lost_device_costs_one_row(worker):
    worker(loses=NAMES[2])
    assert [event["event"] for event in events(ROPE)] == ["result", "result", "failed", "result", "result"]


def test_a_process_per_family(worker):
    worker(dies="rope 512×32×128")
    rows = cases.select(["rope", "softmax"])
    found = events(rows)
    assert sum(event["event"] == "result" for event in found) == len(rows) - 1


def test_without_torch_nothing_is_started(worker, monkeypatch, capsys):
    worker()
    monkeypatch.setattr(suite.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(suite, "Child", None)
    assert suite.main(["rope"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("kiln bench: expected an interpreter with torch (because ")
    assert f"got {sys.executable} without it" in said and "BENCH_PYTHON=python3" in said
    assert said.count("\n") == 1  # reported once, not for each row


@pytest.mark.parametrize("ahead", [[], ["--no-prepare"]])
def test_a_machine_that_cannot_be_used_is_said_once(tmp_path, monkeypatch, capsys, ahead):
    (tmp_path / "worker.py").write_text('print(\'{"event": "unusable", "message": "no CUDA device"}\')\nexit(5)')
    monkeypatch.setattr(suite, "HERE", tmp_path)
    monkeypatch.setattr(suite, "needs_torch", lambda: None)
    assert suite.main(["rope", "softmax", *ahead]) == 2
    assert [line for line in capsys.readouterr().err.splitlines() if line] == ["kiln bench: no CUDA device"]


def test_a_worker_without_a_device_says_why(tmp_path):
    """With a torch that finds no device, as on most machines."""
    import subprocess

    (tmp_path / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    job = {**suite.job_of(options(), ROPE, prepare=False), "device": "cuda"}
    path = str(tmp_path) + suite.os.pathsep + suite.os.environ.get("PYTHONPATH", "")
    found = subprocess.run(
        [sys.executable, str(pathlib.Path(suite.__file__).with_name("worker.py")), json.dumps(job)],
        env={**suite.os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 5, found.stderr
    assert json.loads(found.stdout)["event"] == "unusable" and "torch sees no CUDA device" in found.stdout


def test_list(capsys):
    assert suite.main(["softmax", "--list", "--peers", "kiln,torch"]) == 0
    out = capsys.readouterr().out
    assert "softmax 8192×32768" in out and "3 rows, about" in out


@pytest.mark.parametrize("arguments", [["gemm"], ["--peers", "kiln,cublas"], ["--only", "nothing"]])
def test_wrong_usage(arguments, capsys):
    assert suite.main(arguments) == 2
    assert "kiln bench: " in capsys.readouterr().err


def test_report_on_recorded_results(make_record, tmp_path, capsys):
    import report

    for name, kiln in (("softmax 4096×4096", 18.0), ("rms_norm 2048×4096", 12.0)):
        found = report.Results({"gpu": "G"})
        found.add(make_record(name, kiln=kiln, torch=11.0, ceiling=9.0))
        found.save(tmp_path / f"{kiln}.json")
    recorded = [str(tmp_path / "18.0.json"), str(tmp_path / "12.0.json")]
    assert suite.main(["--from", *recorded, "--json", str(tmp_path / "both.json")]) == 0
    assert suite.main(["--from", *recorded, "--strict"]) == 1
    assert len(json.loads((tmp_path / "both.json").read_text())["records"]) == 2
    assert "0 of 2 rows as asked" in capsys.readouterr().out


def files_of(monkeypatch, tmp_path, *words):
    """Exit status, and the families, peers and file names that these command-line arguments select."""
    found = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(suite, "_measure", lambda options, cases, results: found.append((options, cases)))
    status = suite.main(words)
    if not found:
        return status, None, None, {}
    options, rows = found[0]
    files = {kind: getattr(options, kind) for kind in suite.ENDINGS}
    return status, {case.family for case in rows}, options.peers, {kind: f for kind, f in files.items() if f}


def test_the_command_that_was_asked_for(monkeypatch, tmp_path, capsys):
    words = "norm --peers torch,inductor,triton,quack,cuda --csv --json --plot"
    status, families, peers, files = files_of(monkeypatch, tmp_path, *words.split())
    assert (status, families) == (0, {"norm"})
    assert peers == ["kiln", "torch", "inductor", "triton", "quack", "cuda"]  # Kiln is measured along with them
    assert files == {"csv": "bench-norm.csv", "json": "bench-norm.json", "plot": "bench-norm.png"}
    assert (tmp_path / "bench-norm.csv").exists() and json.loads((tmp_path / "bench-norm.json").read_text())
    assert "wrote bench-norm.json, bench-norm.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, families, files",
    [
        ("--csv", "all", {"csv": "bench.csv"}),
        ("--csv --html --peers torch", "all", {"csv": "bench.csv", "html": "bench.html"}),
        # A family's name means the family, wherever it appears.
        ("--csv norm", "norm", {"csv": "bench-norm.csv"}),
        ("--csv softmax norm", "norm softmax", {"csv": "bench-norm-softmax.csv"}),
        ("norm --json softmax --csv", "norm softmax", {n: f"bench-norm-softmax.{n}" for n in ("csv", "json")}),
        ("norm --csv a.csv softmax", "norm softmax", {"csv": "a.csv"}),
        ("norm --csv=softmax.csv", "norm", {"csv": "softmax.csv"}),
        ("norm --csv ./softmax --html b/c.html", "norm", {"csv": "./softmax", "html": "b/c.html"}),
    ],
)
def test_files_without_a_name(monkeypatch, tmp_path, words, families, files):
    status, found, _, names = files_of(monkeypatch, tmp_path, *words.split())
    assert status == 0
    assert found == set(cases.FAMILIES if families == "all" else families.split())
    assert names == files
    assert all((tmp_path / name).exists() for name in names.values())


def test_a_misspelt_family_is_not_taken_for_a_file(monkeypatch, tmp_path, capsys):
    assert files_of(monkeypatch, tmp_path, "--csv", "nrom")[0] == 2
    assert "--csv: expected a file name with an ending or a folder (because " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_says_which_files(capsys):
    with pytest.raises(SystemExit):
        suite.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    for kind, ending in suite.ENDINGS.items():
        assert f"--{kind} [F]" in text and f"(without F: bench-FAMILY.{ending} here" in text


def test_the_verb_of_the_command_line(capsys):
    from kiln.cli import bench, main

    assert main(["bench", "rope", "--list"]) == 0
    assert "rope 8192×32×128" in capsys.readouterr().out
    assert bench.folder() == pathlib.Path(__file__).resolve().parents[3] / "bench"
