"""Runs every program of programs/, written as users of Triton write them: each checks itself with numpy, none knows
Kiln."""

import pathlib
import subprocess
import sys

import pytest

PROGRAMS = sorted(pathlib.Path(__file__).with_name("programs").glob("*.py"))


def test_programs_import_only_triton():
    assert len(PROGRAMS) >= 9
    for path in PROGRAMS:
        text = path.read_text()
        assert "import triton" in text and "kiln" not in text.lower(), path


@pytest.mark.cpu
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path):
    done = subprocess.run(
        [sys.executable, "-m", "kiln.cli", "run", "--as-triton", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
