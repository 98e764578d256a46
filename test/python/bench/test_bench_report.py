"""Tables and files made from recorded results."""

import csv
import re

import outputs
import pytest
import report


@pytest.fixture
def results(results):
    results.environment["gpu"] = "GPU <1>"
    results.failures["rope 512×32×128"] = "no answer within 120 s"
    return results


def test_round_trip(results, tmp_path):
    path = tmp_path / "new" / "r.json"
    results.save(path)
    again = report.Results.load(path)
    assert (again.environment, again.records, again.failures) == (
        results.environment,
        results.records,
        results.failures,
    )
    assert list(path.parent.iterdir()) == [path]
    path.write_text('{"format": 7}')
    with pytest.raises(ValueError, match="format 1"):
        report.Results.load(path)


def test_merge_replaces_rows_and_forgets_old_failures(results, make_record):
    newer = report.Results({"gpu": "other"})
    newer.add(make_record("rope 512×32×128", kiln=4.0, torch=5.0))
    newer.add(make_record("softmax 4096×4096", kiln=17.0, torch=40.0))
    results.merge(newer)
    assert results.failures == {}
    assert [record["case"]["name"] for record in results.ordered()] == [
        "rms_norm 1×4096", "rms_norm 2048×4096", "softmax 4096×4096", "rope 512×32×128",
    ]  # fmt: skip
    assert results.environment["gpu"] == "GPU <1>"
    softmax = results.ordered()[2]
    assert softmax["peers"]["kiln"]["cold"]["median"] == 17.0
    assert softmax["environment"]["gpu"] == "other"  # a row keeps the machine that it was measured on


def test_rows_by_several_methods_are_no_secret(results, make_record):
    assert not any(line.startswith("mixed") for line in report.summary(results))
    newer = report.Results({"method": "graph-replay v2: …"})
    newer.add(make_record("softmax 4096×4096", kiln=17.0, torch=40.0))
    results.merge(newer)
    assert report.summary(results)[0] == "mixed       not comparable: graph-replay v2, m"


def test_broken_and_missed(results, make_record):
    assert results.broken() == ["rope 512×32×128"]  # quack's failure is not Kiln's
    assert results.missed() == ["rms_norm 2048×4096"]
    results.add(make_record("swiglu 2048×4096", failed=["kiln"], torch=1.0))
    assert results.broken() == ["swiglu 2048×4096", "rope 512×32×128"]


def test_csv(results, tmp_path):
    outputs.write(results, csv=str(tmp_path / "r.csv"))
    lines = list(csv.DictReader((tmp_path / "r.csv").open()))
    assert len(lines) == 4 + 5 + 3
    row = {(line["size"], line["provider"]): line for line in lines}[("2048×4096", "kiln")]
    assert float(row["median_us"]) == 12.0 and float(row["tb_per_s"]) == pytest.approx(2.797, abs=1e-3)
    assert row["p25_us"] == "11.76" and row["rounds"] == "9" and row["sets"] == "5"
    assert row["as_asked"] == "0.92 of torch" and row["gpu"] == "GPU <1>" and row["sm_mhz"] == "1980"
    failed = {(line["size"], line["provider"]): line for line in lines}[("2048×4096", "quack")]
    assert failed["status"] == "failed" and failed["median_us"] == "" and "RuntimeError" in failed["note"]


def test_terminal(results, capsys):
    report.show(results)
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if line.startswith("rms_norm 2048×4096"))
    assert re.search(r"2\.80.*3\.36.*3\.05.*failed", line), line
    assert line.split()[-2:] == ["no:", "torch"]
    assert "1.50 µs" in text and "1.62 µs" in text
    assert "Kiln: 2 of 3 rows as asked" in text and "rope 512×32×128: no answer" in text
    assert "Kiln with dependent launch: 2 of 2 rows as asked" in text


def test_html_is_one_file(results, tmp_path):
    outputs.write(results, html=str(tmp_path / "r.html"))
    page = (tmp_path / "r.html").read_text()
    assert "GPU &lt;1&gt;" in page and "rms_norm 2048×4096" in page
    assert not re.search(r"""(src|href)=(?!["']?data:)|<script|https?://""", page)
    assert "Correctness first" in page  # the method is reported with the figures


def test_picture(results, tmp_path):
    pytest.importorskip("matplotlib")
    import plots

    # One size does not make a curve: it goes to the kernel's panel of sizes.
    assert set(plots.panels(results)) == {"softmax", "one row of 4096", "rms_norm"}
    image = plots.png(results)
    assert image.startswith(b"\x89PNG")
    outputs.write(results, plot=str(tmp_path / "p.png"), html=str(tmp_path / "r.html"))
    assert (tmp_path / "p.png").read_bytes() == image
    assert "data:image/png;base64," in (tmp_path / "r.html").read_text()
    assert plots.png(report.Results()) is None
