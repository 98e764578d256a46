"""The sweep over sizes: its cells, the order in which it compiles and measures, resuming from a file, and its report.
Compiles are replaced by a script that answers at once; the meter has a fixed time for each peer."""

import csv
import dataclasses
import math
import time

import ahead
import cells
import pytest
import suite
import sweep

COMPILER = """
import json, os, sys
for line in sys.stdin:
    task = json.loads(line)
    if task["cell"] == DIES:
        os._exit(1)
    with open(LOG, "a") as log:
        print(task["cell"], *task["peers"], task.get("tuned"), sep=",", file=log)
    note = "" if task.get("tuned", True) else UNTUNED
    answer = {peer: {"status": "ok", "note": note if peer == "inductor" else ""} for peer in task["peers"]}
    print(json.dumps(answer), flush=True)
"""
FEW = ["--kernels", "rms_norm", "bias_gelu", "--rows", "44", "--widths", "5120", "100", "--peers", "inductor",
       "--dtypes", "bfloat16", "--jobs", "2", "--batch", "1"]  # fmt: skip


class Meter:
    """Fixed times for each peer, slower with dependent launch where the test asks for it."""

    device = type("Device", (), {"synchronize": staticmethod(lambda: None)})

    def __init__(self, fails, slow, inductor, tuned):
        self.fails, self.slow, self.inductor, self.tuned = fails, slow, inductor, tuned

    def measure(self, case, answers, hangs):
        if case.name == self.fails:
            raise RuntimeError("no memory")
        inductor = self.inductor if answers.get("inductor", {}).get("note") else self.tuned
        times = {"inductor": inductor, "kiln": 8.0, "kiln+pdl": 16.0 if case.name == self.slow else 5.0}
        if "quack" in answers:
            times["quack"] = 9.0
        peers = {}
        for peer, us in times.items():
            cold = dict.fromkeys(("median", "p25", "p75", "least", "most"), us) | {"rounds": 5, "tbs": case.tbs(us)}
            answer = answers.get(peer, {"status": "ok", "note": ""})
            peers[peer] = {"peer": peer, "error": 1e-4, "cold": cold, **answer}
            if answer["status"] != "ok":
                del peers[peer]["cold"]
        return {"case": dataclasses.asdict(case) | {"name": case.name}, "peers": peers}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(*words, fails=…, slow=…, dies=…) → exit code and printed lines; all runs share a file."""
    monkeypatch.setattr(sweep, "HERE", tmp_path)
    monkeypatch.setattr(suite, "needs_torch", lambda: None)
    log = tmp_path / "compiled"

    def run(*words, fails="", slow="", dies="", inductor=10.0, tuned=None, gpu="G"):
        log.write_text("")
        script = COMPILER.replace("DIES", repr(dies)).replace("UNTUNED", repr(ahead.UNTUNED))
        (tmp_path / "ahead.py").write_text(script.replace("LOG", repr(str(log))))
        facts = {"gpu": gpu, "commit": "abc"}
        monkeypatch.setattr(sweep, "start", lambda *_: (Meter(fails, slow, inductor, tuned or inductor), facts))
        code = sweep.main([*FEW, "--csv", str(tmp_path / "sweep.csv"), *words])
        return code, capsys.readouterr().out.splitlines()

    run.compiled = lambda: [line.split(",") for line in log.read_text().splitlines()]
    return run


def test_every_cell_occurs_once_and_every_prefix_is_a_sample():
    every = cells.cells()
    names = [case.name for case in every]
    assert len(set(names)) == len(names) == 6 * 5 * 20 * 2
    first = every[:60]
    assert {case.kernel for case in first} == set(cells.KERNELS)
    assert {case.shape[0] for case in first} == set(cells.ROWS)
    assert len({case.shape[1] for case in first}) == len(cells.WIDTHS)
    assert {case.dtype for case in first} == set(cells.TYPES)
    assert all(cells.named(case.name) == case for case in every)


@pytest.mark.parametrize("kernel, moved", [
    ("rms_norm", 2 * 44 * 5120 + 5120), ("residual_rms_norm", 4 * 44 * 5120 + 5120),
    ("layer_norm", 2 * 44 * 5120 + 2 * 5120), ("softmax", 2 * 44 * 5120), ("swiglu", 3 * 44 * 5120),
    ("bias_gelu", 2 * 44 * 5120 + 5120),
])  # fmt: skip
def test_bytes_of_a_cell(kernel, moved):
    case = cells.case_of(kernel, 44, 5120, "bfloat16")
    assert case.traffic == 2 * moved and case.dtype == "bfloat16" and case.most_us is None


def test_a_run_resumes_where_the_last_one_ended(run):
    code, said = run("--limit", "3")
    assert code == 0 and len([line for line in said if "kiln+pdl 5.000" in line]) == 3
    code, left = run("--list")
    assert len(left) == 1
    _, said = run()
    assert said[0].startswith(f"   1 {left[0]}: inductor 10.000, kiln 8.000")
    assert run("--list")[1] == [""]
    assert run("--strict")[0] == 0


def test_an_added_peer_is_measured_wherever_possible(run):
    run()
    left = run("--list", "--peers", "inductor,quack")[1]
    assert sorted(left) == ["rms_norm 44×100 bf16", "rms_norm 44×5120 bf16"]
    _, said = run("--peers", "inductor,quack")
    assert len([line for line in said if "quack 9.000" in line]) == 2
    assert run("--list", "--peers", "inductor,quack")[1] == [""]


def test_code_of_quack_is_compiled_once_for_all_rows(run):
    _, said = run("--peers", "inductor,quack", "--rows", "1", "44", "130")
    asked = [peers for _, *peers, _ in run.compiled()]
    assert asked.count(["quack"]) == 2 and asked.count(["inductor", "kiln", "kiln+pdl"]) == 12
    assert len([line for line in said if "quack 9.000" in line]) == 6


def test_inductor_is_tuned_fully_if_it_is_close(run):
    run()
    assert {line[-1] for line in run.compiled()} == {"False"}
    assert run("--list")[1] == [""]
    _, said = run("--rows", "1", inductor=8.5)
    assert len([line for line in said if ": inductor 8.500" in line]) == 8
    assert [line[-1] for line in run.compiled()].count("True") == 4
    assert run("--list", "--rows", "1")[1] == [""]
    run("--rows", "130", "--close", "inf")
    assert {line[-1] for line in run.compiled()} == {"True"}


@pytest.mark.parametrize("tuned, counts", [(8.3, "8.300"), (8.8, "8.500")])
def test_the_better_of_inductors_times_counts(tuned, counts, run, tmp_path):
    run(inductor=8.5, tuned=tuned)
    for lines in sweep.read(str(tmp_path / "sweep.csv")).values():
        assert lines["inductor"]["median_us"] == counts
        assert lines["inductor"]["note"] == ("" if tuned < 8.5 else sweep.SLOWER)
    assert run("--list")[1] == [""]


def test_a_cell_with_unfinished_tuning_is_missing(run, tmp_path):
    run(inductor=8.5)
    path = tmp_path / "sweep.csv"
    with open(path, newline="") as file:
        untuned = [line for line in csv.DictReader(file) if line["note"] or line["provider"] != "inductor"]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, sweep.COLUMNS)
        writer.writeheader()
        writer.writerows(untuned)
    assert len(run("--list")[1]) == 4
    assert run("--list", "--close", "1.05")[1] == [""]


def test_a_compiler_that_ends_is_replaced_and_its_cell_fails(run):
    dies = "rms_norm 44×100 bf16"
    code, said = run("--strict", dies=dies)
    assert code == 1 and len([line for line in said if "kiln+pdl 5.000" in line]) == 3
    assert f"{dies}: kiln failed: the process that compiles ended" in said


def test_a_close_verdict_asks_for_more_rounds():
    assert cells.is_near({"inductor": 9.4, "kiln": 10.0})
    assert cells.is_near({"inductor": 9.7, "kiln": 10.0})
    assert cells.is_near({"inductor": 20.0, "kiln": 10.0, "kiln+pdl": 10.1})
    assert cells.is_near({"inductor": 20.0, "quack": 9.5, "kiln": 10.0, "kiln+pdl": 8.0})
    assert not cells.is_near({"inductor": 10.0, "kiln": 10.0, "kiln+pdl": 9.0})
    assert not cells.is_near({"inductor": 9.0, "kiln": 10.0, "kiln+pdl": 12.0})
    assert not cells.is_near({"inductor": 9.0})


@pytest.mark.parametrize("rows, width", [(1, 512), (44, 5120), (4096, 32768)])
def test_the_sets_of_a_cell_exceed_the_cache_or_are_used_once(rows, width):
    l2, case = 60 << 20, cells.case_of("swiglu", rows, width, "float16")
    cell = object.__new__(cells.CellRunner)
    cell.case, cell._sets, cell.settings = case, None, cells.settings(["kiln"])
    cell.device = type("Device", (), {"graph_us": 600.0, "l2_bytes": l2})
    plan = cell.make_plan()
    assert plan.launches % plan.sets == 0 and plan.sets >= 2
    assert plan.launches == plan.sets or plan.sets * case.footprint >= 3 * l2
    # The arrays allocated up front are large enough for them.
    grain = cells.Slices.elements(rows, width) * 2 * plan.sets
    assert sweep.elements([case], l2, 2) >= grain
    assert math.isclose(plan.launches * (1.5 + case.traffic / 4e6), 600, rel_tol=0.3) or rows != 44


class Answering(ahead.Process):
    """A process that answers after a while, and records its tasks."""

    asked: list = []

    def __init__(self, command, log):
        self.number = command.pop()

    def ask(self, task):
        time.sleep(0.02)
        self.asked.append((self.number, task["cell"]))
        return {}

    def end(self):
        pass


def test_a_third_of_the_processes_begins_with_quack(monkeypatch):
    monkeypatch.setattr(ahead, "Process", Answering)
    monkeypatch.setattr(Answering, "asked", [])
    with ahead.Pool(3, [2, 1, 0], None) as pool:
        for i in range(4):
            pool.ask({"cell": f"q{i}", "peers": ["quack"]})
            pool.ask({"cell": f"k{i}", "peers": ["kiln"]})
        pool.ask({"cell": "soon", "peers": ["kiln"]}, soon=True)
        end = time.monotonic() + 20
        done = []
        while pool.open and time.monotonic() < end:
            done += [task["cell"] for task, _ in pool.get(1.0)]
    assert sorted(done) == sorted(["soon", *(f"{x}{i}" for x in "qk" for i in range(4))])
    takers = {number for number, cell in Answering.asked if cell.startswith("q")}
    assert takers == {0}


def test_the_report_names_slow_cells_and_losses_with_dependent_launch(run):
    slow = "bias_gelu 44×5120 bf16"
    code, said = run("--strict", slow=slow)
    assert code == 1
    assert "kiln: 4 cells, geometric mean 1.250, 0 under 0.95" in said
    mean = (2.0**3 * 0.625) ** 0.25
    assert f"kiln+pdl: 4 cells, geometric mean {mean:.3f}, 1 under 0.95" in said
    assert f"  0.625 of inductor: {slow}" in said
    assert said[-3:-1] == ["slower with dependent launch than without by more than 2%: 1 cells", f"  0.500: {slow}"]
    assert said[-1].endswith("0 cells (--stale measures them again); plan not known: 4")


H200 = "NVIDIA H200"


def change(path, **columns):
    """Writes these columns into the lines of Kiln's variants for RMSNorm 44×5120; None removes a column."""
    with open(path, newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        if line["kernel"] == "rms_norm" and line["width"] == "5120" and line["provider"] in cells.VARIANTS:
            line.update({name: value for name, value in columns.items() if value is not None})
    names = [name for name in lines[0] if columns.get(name, "") is not None]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)


def test_the_plan_of_a_cell_is_what_the_library_launches():
    case = cells.case_of("layer_norm", 4096, 18944, "bfloat16")
    plain = cells.plan_of(case, "kiln", H200)
    kernel, *facts = plain.split()
    assert kernel == "layer_norm_ahead_kernel" and {"grid=132", "BLOCK=20480", "num_warps=16", "streaming"} <= set(
        facts
    )
    other = cells.case_of("rms_norm", 44, 5120, "float16")
    assert cells.plan_of(other, "kiln+pdl", H200) == cells.plan_of(other, "kiln", H200) + " single_wave pdl"
    swiglu = cells.plan_of(cells.case_of("swiglu", 4096, 512, "float16"), "kiln", H200)
    assert swiglu.startswith("swiglu_kernel grid=2048 BLOCK=1024 NUMBERING=one row FULL ")
    # Peers have no plan, and nothing is known of a GPU that is neither here nor in the table.
    assert cells.plan_of(case, "quack", H200) == cells.plan_of(case, "kiln", "another") == ""


def test_cells_with_another_plan_are_named_and_measured_again(run, tmp_path):
    path, name = tmp_path / "sweep.csv", "rms_norm 44×5120 bf16"
    _, said = run("--strict", gpu=H200)
    assert said[-1] == ("measured with another plan than the library chooses now: 0 cells (--stale measures them "
                        "again); plan not known: 0")  # fmt: skip
    recorded = {
        line["provider"]: line["plan"] for line in sweep.read(str(path))["rms_norm", 44, 5120, "bfloat16"].values()
    }
    case = cells.named(name)
    assert recorded == {"inductor": "", **{each: cells.plan_of(case, each, H200) for each in cells.VARIANTS}}
    assert run("--list", "--stale")[1] == [""]
    change(path, method="graph-replay v2: …")
    assert not any(line.startswith("mixed") for line in run("--report")[1])
    with open(path) as file:
        text = file.read()
    path.write_text(text.replace("graph-replay v2", "graph-replay v3", 1))
    assert run("--report")[1][1] == "mixed       not comparable: graph-replay v2, graph-replay v3"
    path.write_text(text)
    change(path, plan="rms_norm_kernel grid=44 BLOCK=8192 num_warps=32")
    code, said = run("--report", "--strict")
    assert code == 1 and said[-2:] == [said[-2], f"  {name}"] and ": 1 cells" in said[-2]
    assert run("--list")[1] == [""] and run("--list", "--stale")[1] == [name]
    _, said = run("--stale", gpu=H200)
    assert said[0].startswith(f"   1 {name}: inductor 10.000") and ": 0 cells" in said[-1]
    assert run("--list", "--stale")[1] == [""] and run("--report", "--strict")[0] == 0


def test_a_file_without_plans_is_continued(run, tmp_path):
    path = tmp_path / "sweep.csv"
    run("--limit", "3", gpu=H200)
    change(path, plan=None)
    assert "plan" not in path.read_text().splitlines()[0].split(",")
    assert run("--report")[1][-1].endswith("0 cells (--stale measures them again); plan not known: 3")
    assert run("--list", "--stale")[1] == [""]
    _, said = run(gpu=H200)
    assert said[-1].endswith("plan not known: 3")
    found = [line for lines in sweep.read(str(path)).values() for line in lines.values()]
    assert {line["gpu"] for line in found} == {H200} and len([line for line in found if line["plan"]]) == 2


def test_a_cell_that_fails_is_recorded_and_named(run, tmp_path):
    code, said = run("--strict", fails="rms_norm 44×100 bf16")
    assert code == 1 and "rms_norm 44×100 bf16: kiln failed: RuntimeError: no memory" in said
    with open(tmp_path / "sweep.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["width"] == "100" and line["kernel"] == "rms_norm"]
    assert {line["provider"]: line["status"] for line in lines} == dict.fromkeys(
        ("kiln", "kiln+pdl", "inductor"), "failed"
    )
    assert run("--list")[1] == [""]


def test_a_run_ends_when_its_time_is_up(run):
    _, said = run("--seconds", "0")
    assert not [line for line in said if "kiln+pdl 5.000" in line]
    assert len(run("--list")[1]) == 4


def test_ratios_are_of_what_was_measured():
    lines = {"kiln": {"status": "ok", "median_us": "4"}, "quack": {"status": "unavailable", "median_us": ""},
             "inductor": {"status": "ok", "median_us": "6"}}  # fmt: skip
    assert sweep.ratios(lines, "kiln", ["inductor", "quack"]) == {"inductor": 1.5}
    assert sweep.ratios(lines, "kiln+pdl", ["inductor", "quack"]) == {}
    text, good = sweep.report({}, cells.cells(["softmax"], [1], [512], ["float16"]), ["inductor"])
    assert not good and text[0].startswith("0 of 1 cells measured")
