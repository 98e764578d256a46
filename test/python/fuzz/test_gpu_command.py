"""How test/gpu/run.py judges the random programs: fewer than requested is not a success."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

COMMAND = pathlib.Path(__file__).resolve().parents[2] / "gpu" / "run.py"

# Runs the command with the fuzzer replaced by a part that prints a line and exits with a given status.
SCRIPT = """
import dataclasses, sys
sys.path.insert(0, sys.argv[1])
import run
line, status, summary = sys.argv[2:]
(part,) = [part for part in run.parts(1) if part.name == "fuzz"]
told = [sys.executable, "-c", f"print({line!r}); raise SystemExit({status})"]
run.parts = lambda jobs: [dataclasses.replace(part, command=told, missing="")]
sys.argv = ["run.py", "--summary", summary]
sys.exit(run.main())
"""


@pytest.mark.parametrize(
    "status, line, verdict",
    [
        (0, "10000 programs of seed 0 ran, 0 failed (312 refused, 0 without a meaning)", "ok"),
        (1, "10000 programs of seed 0 ran, 2 failed (312 refused, 0 without a meaning)", "FAILED"),
        (3, "812 of 10000 programs of seed 0 ran, 0 failed (9 refused, 0 without a meaning): time is up", "SHORT"),
    ],
)
def test_missing_programs_are_not_a_success(tmp_path, status, line, verdict):
    summary = tmp_path / "summary.txt"
    command = [sys.executable, "-c", SCRIPT, str(COMMAND.parent), line, str(status), str(summary)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == (0 if verdict == "ok" else 1), found.stderr
    name, said, _, _, about = summary.read_text().strip().split(maxsplit=4)
    assert (name, said, about) == ("fuzz", verdict, line)
