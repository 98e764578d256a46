"""Recorded results read back from CSV files, and files that are not such results."""

import csv
import json
import pathlib

import outputs
import pytest
import recorded
import report
import suite
import verdict

H200 = pathlib.Path(report.__file__).with_name("results") / "h200.csv"


def lines(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_csv_files_round_trip(results, tmp_path, capsys):
    results.save(tmp_path / "r.json")
    outputs.write(results, csv=str(tmp_path / "r.csv"))
    tables = []
    for name in ("r.json", "r.csv"):
        again = report.Results.load(tmp_path / name)
        outputs.write(again, csv=str(tmp_path / "again.csv"))
        assert lines(tmp_path / "again.csv") == lines(tmp_path / "r.csv")
        report.show(again)
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1] and "2 of 3 rows as asked" in tables[0]


def test_the_recorded_figures_give_table_page_and_picture(tmp_path, capsys):
    words = ["--from", str(H200), "--html", str(tmp_path / "r.html"), "--csv", str(tmp_path / "r.csv")]
    assert suite.main([*words, "--plot", str(tmp_path / "p.png")]) in (0, 1)
    rows = {(line["kernel"], line["size"]) for line in lines(H200)}
    shown, page = capsys.readouterr().out, (tmp_path / "r.html").read_text()
    for kernel, size in rows:
        assert f"{kernel} {size}" in shown and f"{kernel} {size}" in page
    assert lines(H200)[0]["gpu"] in page and f"of {len(rows)} rows as asked" in shown
    by_row = lambda line: (line["kernel"], line["size"], line["provider"])  # noqa: E731
    for old, new in zip(sorted(lines(H200), key=by_row), sorted(lines(tmp_path / "r.csv"), key=by_row), strict=True):
        # Ratios are computed again, from rounded medians.
        ratios = {"over_best_peer", "of_ceiling", "as_asked"}
        assert {k: v for k, v in new.items() if k not in ratios} == {k: v for k, v in old.items() if k not in ratios}
        if old["over_best_peer"]:
            assert float(new["over_best_peer"]) == pytest.approx(float(old["over_best_peer"]), abs=2e-3)
    pytest.importorskip("matplotlib")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_row_in_several_files_counts_from_the_last(results, make_record, tmp_path):
    outputs.write(results, csv=str(tmp_path / "old.csv"))
    newer = report.Results({"gpu": "G2", "commit": "def"})
    newer.add(make_record("softmax 4096×4096", kiln=16.0, inductor=18.0))
    outputs.write(newer, csv=str(tmp_path / "new.csv"))
    joined = tmp_path / "joined.csv"  # as made by `cat old.csv new.csv`
    joined.write_text((tmp_path / "old.csv").read_text() + (tmp_path / "new.csv").read_text())
    for files in ("old.csv", "new.csv"), ("joined.csv",):
        found = report.Results()
        for name in files:
            found.merge(report.Results.load(tmp_path / name))
        assert [record["case"]["name"] for record in found.ordered()] == [
            "rms_norm 1×4096", "rms_norm 2048×4096", "softmax 4096×4096",
        ]  # fmt: skip
        softmax = found.ordered()[2]
        assert set(softmax["peers"]) == {"kiln", "inductor"} and softmax["environment"]["gpu"] == "G2"
        assert verdict.microseconds(softmax, "kiln") == 16.0
        assert found.ordered()[0]["environment"]["gpu"] == "G"


def test_a_row_that_the_suite_no_longer_has(tmp_path):
    head = ",".join(recorded.NEEDED)
    (tmp_path / "r.csv").write_text(f"{head}\nrope,rope,7×32×128,float16,kiln,ok,2.0,3.0,6000000\n")
    (record,) = report.Results.load(tmp_path / "r.csv").records
    assert record["case"]["name"] == "rope 7×32×128" and record["case"]["shape"] == [7, 32, 128]
    assert report.speed(record, "kiln") == "3.00" and verdict.judge(record).tbs == 3.0
    outputs.write(report.Results.load(tmp_path / "r.csv"), html=str(tmp_path / "r.html"))


def test_only_the_rows_that_are_asked_for(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs.write(results, csv="r.csv")
    assert suite.main(["softmax", "--from", "r.csv", "--json"]) == 0
    (record,) = json.loads((tmp_path / "bench-softmax.json").read_text())["records"]
    assert record["case"]["family"] == "softmax"
    assert suite.main(["--only", "rms_norm 1x", "--from", "r.csv"]) == 0
    shown = capsys.readouterr().out
    assert "rms_norm 1×4096" in shown and "rms_norm 2048×4096" not in shown
    assert suite.main(["rope", "--from", "r.csv"]) == 2


@pytest.mark.parametrize(
    "text, said",
    [
        ("a,b\n1,2\n", "expected what `kiln bench --json` or `--csv` wrote (because .* has no column family, kernel"),
        ("\x00\x01\x02", "expected what `kiln bench --json` or `--csv` wrote"),
        ("", "expected what `kiln bench --json` or `--csv` wrote"),
        ('{"format": 1', "expected a result file, got JSON that breaks off"),
        ("[1, 2]", "expected a result file of format 1, got a list"),
        (
            "HEAD\nrope,rope,8×8,float16,kiln,ok,fast,3,60\n",
            "line 2: median_us: expected a number or nothing, got 'fast'",
        ),
        (
            "HEAD\nrope,rope,8×8,float16,kiln,ok,,3,60\n",
            "line 2: median_us: expected a number (because the status is ok",
        ),
        ("HEAD\ngemm,rope,8×8,float16,kiln,ok,1,3,60\n", "line 2: family: expected one of norm, softmax"),
        ("HEAD\nrope,rope\n", "line 2: "),
    ],
    ids=range(9),
)
def test_an_unknown_file_format_is_reported(text, said, tmp_path, capsys):
    import re

    path = tmp_path / "r.csv"
    path.write_text(text.replace("HEAD", ",".join(recorded.NEEDED)))
    assert suite.main(["--from", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"kiln bench: {path}") and error.count("\n") == 1
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), error), error


def test_a_file_that_is_not_there(capsys):
    assert suite.main(["--from", "nowhere.csv"]) == 2
    assert capsys.readouterr().err == "kiln bench: nowhere.csv: No such file or directory\n"
