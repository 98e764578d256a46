"""bench/tune.py on the CPU target: tuning, checking, reporting, and its command-line arguments."""

import json

import pytest
import tune


def test_both_rows_are_tuned_in_separate_processes(capsys, tmp_path):
    path = tmp_path / "tune.json"
    assert tune.main(["--device", "cpu", "--by", "kiln", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert [row["row"] for row in found] == ["matmul", "attention"]
    for row in found:
        assert row["configs"] >= 2 and row["seconds"] > 0 and row["error"] < 2e-2 and row["winner"].startswith("BM")
    said = capsys.readouterr().out
    assert "cores" in said and "s for 2 configurations" in said


def test_configurations_are_those_of_the_tutorials():
    module = tune.kernels_for("kiln")
    matmul, attention = module.matmul_configs(), module.attention_configs()
    assert len(matmul) == 16 and len(attention) == 21
    assert len(set(matmul)) == 16 and len(set(attention)) == 21


def test_the_goals_are_reported():
    kiln = {"row": "matmul", "by": "kiln", "seconds": 3.0, "configs": 16, "winner": "BM: 128"}
    triton = {"row": "matmul", "by": "triton", "seconds": 20.0, "configs": 16, "winner": "BM: 64"}
    both = {"triton": triton, "kiln": kiln}
    assert "0.15 of Triton's (asked 0.20: yes)" in tune.describe(kiln, both)
    assert "0.25 of Triton's (asked 0.20: NO)" in tune.describe({**kiln, "seconds": 5.0}, both)
    assert "Triton's" not in tune.describe(triton, both) and "Triton's" not in tune.describe(kiln, {"kiln": kiln})
    sustained = {"a": 103.0, "b": 100.0, "c": 102.0, "d": 140.0}
    raced = {**kiln, "winner_us": 103.0, "fastest_us": 100.0, "behind": 0.03, "place": 3, "raced": 4,
             "sustained_us": sustained}  # fmt: skip
    said = tune.describe(raced, both)
    assert "in bursts 103.0 us, +3.0 % (asked 2 %: NO), place 3 of 4" in said
    assert [line.split()[-1] for line in said.splitlines()[1:]] == ["b", "c", "a", "d"]
    assert tune.describe({"row": "matmul", "by": "triton", "note": "no module"}, {}).endswith("no module")
    with pytest.raises(SystemExit):
        tune.main(["--rows", "softmax"])
