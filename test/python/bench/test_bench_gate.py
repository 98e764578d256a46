"""The gate: which rows it measures, alternating turns of both libraries, more rounds for a row that seems to lose."""

import csv

import gate
import measure
import pytest


class Library:
    """A process that answers with given times per burst."""

    def __init__(self, us, name="", calls=None, status="ok"):
        self.us, self.name, self.status = iter(us), name, status
        self.calls = [] if calls is None else calls

    def ask(self, task):
        if task["do"] == "build":
            return {"kiln": {"status": self.status, "note": "why"}, "kiln+pdl": {"status": "unavailable", "note": ""}}
        self.calls.append(self.name)
        us = next(self.us, None)
        return None if us is None else {"us": us}


def test_rows_are_those_that_are_recorded():
    rows = gate.rows_of(measure.RESULTS / "h200.csv", "")
    assert len(rows) == len(set(rows)) == 50
    assert gate.rows_of(measure.RESULTS / "h200.csv", "rms_norm 2048x896") == ["rms_norm 2048×896"]


def test_libraries_take_turns_and_a_good_row_is_done():
    calls = []
    processes = {"old": Library([8.0] * 9, "old", calls), "new": Library([8.05] * 9, "new", calls)}
    [(variant, times)] = gate.measured(processes, "row", 3)
    assert variant == "kiln" and times == {"old": [8.0] * 3, "new": [8.05] * 3}
    assert calls == ["old", "new", "new", "old", "new", "old"]


def test_a_row_that_seems_to_lose_is_remeasured():
    processes = {"old": Library([8.0] * 12), "new": Library([9.0] * 3 + [8.0] * 9)}
    [(_, times)] = gate.measured(processes, "row", 3)
    assert gate.over(times) == 1.0 and len(times["new"]) == 9
    processes = {"old": Library([8.0] * 12), "new": Library([9.0] * 12)}
    [(_, times)] = gate.measured(processes, "row", 3)
    assert gate.over(times) < gate.LEAST


@pytest.mark.parametrize("old, new, says", [
    (Library([]), Library([], status="wrong"), "new: wrong: why"),
    (Library([], status="failed"), Library([]), "old: failed: why"),
])  # fmt: skip
def test_a_library_that_fails_is_named(old, new, says):
    assert list(gate.measured({"old": old, "new": new}, "row", 3)) == [("kiln", says)]


@pytest.mark.parametrize("us, code, lost", [(8.0, 0, False), (8.2, 1, True)])
def test_the_verdict(us, code, lost, tmp_path, monkeypatch, capsys):
    """The verdict on one row; the file has its figures."""
    (tmp_path / "kiln").mkdir()

    class Answers(Library):
        def __init__(self, command, log, environment):
            old = environment["PYTHONPATH"].startswith(str(tmp_path))
            super().__init__([8.0 if old else us] * 99)

        def ask(self, task):
            return {"gpu": "G"} if task["do"] == "facts" else super().ask(task)

        def end(self):
            pass

    monkeypatch.setattr(gate, "Process", Answers)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    out = tmp_path / "gate.csv"
    words = ["--old", str(tmp_path), "--rows", "rms_norm 2048x896", "--csv", str(out)]
    assert gate.main(words) == code
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{8 / us:.3f}  rms_norm 2048×896 kiln: 8.000 -> {us:.3f} us"
    assert (f"  {8 / us:.3f}  rms_norm 2048×896 kiln" in said) == lost
    with open(out, newline="") as file:
        [line] = csv.DictReader(file)
    assert line["old_us"] == "8.000" and line["new_us"] == f"{us:.3f}" and line["gpu"] == "G"


def test_unreached_rows_are_not_a_success(tmp_path, monkeypatch, capsys):
    (tmp_path / "kiln").mkdir()

    class Answers(Library):
        def __init__(self, *_):
            super().__init__([])

        def ask(self, task):
            return {"gpu": "G"}

        def end(self):
            pass

    monkeypatch.setattr(gate, "Process", Answers)
    assert gate.main(["--old", str(tmp_path), "--rows", "adamw", "--seconds", "-1"]) == 1
    assert capsys.readouterr().out.splitlines()[0].startswith("4 rows were not reached")


def test_paths_without_a_library_are_rejected(tmp_path):
    with pytest.raises(SystemExit, match="expected a wheel or a folder that holds kiln"):
        gate.main(["--old", str(tmp_path)])


def test_rows_by_another_method_are_not_added_to(tmp_path):
    path = tmp_path / "gate.csv"
    measure.append(str(path), gate.COLUMNS, [dict.fromkeys(gate.COLUMNS, "") | {"method": "graph-replay v1: earlier"}])
    with pytest.raises(SystemExit, match="expected rows by graph-replay v2, got others"):
        gate.main(["--old", str(tmp_path), "--csv", str(path)])
