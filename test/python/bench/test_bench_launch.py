"""bench/launch.py and its arithmetic, on the CPU target."""

import json

import launch
import pytest


def test_rows_of_the_cpu_target(capsys, tmp_path):
    """Every row runs, and so does the row that it is compared with."""
    path = tmp_path / "launch.json"
    assert launch.main(["--rounds", "1", "--burst", "5", "--json", str(path), "--no-peers"]) == 0
    found = {row["name"]: row for row in json.loads(path.read_text())["rows"]}
    assert {"driver", "prepared", "ten", "nineteen", "descriptors", "tuned", "structs", "rms_norm out"} <= set(found)
    assert all(row["calls"] == 5 and 0 < row["least"] <= row["median"] <= row["p99"] for row in found.values())
    for row in found.values():
        if row["base"] in found:
            assert row["over"] == pytest.approx(row["median"] - found[row["base"]]["median"])
    first = json.loads(path.read_text())["first"]
    assert 0 < first["lookup"] < first["launch"] and first["load"] < first["launch"] and first["import"] > 0
    said = capsys.readouterr().out
    assert said.startswith("first launch of cached code in a new process") and "(asked 3: " in said
    assert "99th percentile" in said and "over driver, asked +0.8" in said


def test_some_rows(capsys):
    launch.main(["--rounds", "1", "--burst", "2", "--rows", "tuned"])
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]} == {"options", "tuned"}
    with pytest.raises(SystemExit):
        launch.main(["--rows", "twelve"])


def test_figures():
    """Medians and percentiles of alternating bursts."""
    turns = []

    def burst(name, ns):
        def timed(count):
            turns.append(name)
            return [ns] * (count - 1) + [100 * ns]

        return timed

    arrays = type("Arrays", (), {"wait": lambda self: turns.append("wait")})()
    rows = [launch.Row("a", "", None, burst=burst("a", 1000)), launch.Row("b", "", None, "a", 0.5, burst("b", 3000))]
    first, second = launch.measure_rows(rows, arrays, 2, 10)
    assert [turn for turn in turns if turn != "wait"] == ["a", "b", "b", "a"]
    assert (first.median, second.median, second.over, second.calls) == (1.0, 3.0, 2.0, 20)
    assert second.p99 == 300.0 and second.least == 3.0
    assert "NO" in launch.show([first, second]) and "yes" not in launch.show([first, second])
