"""Every wrong program of `corpus/` gives exactly the message beside it, and every message keeps to the house rules.

`corpus/TOPIC/NAME.py` is a program with one mistake, `NAME.txt` what a user reads. KILN_UPDATE_GOLDEN=1 (an environment
variable of this test, not a switch of Kiln's) rewrites the messages; read each one that changed.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest

import kiln
from kiln.errors import InternalError, KilnError

CORPUS = Path(__file__).parent / "corpus"
PROGRAMS = sorted(CORPUS.glob("*/*.py"))
UPDATE = os.environ.get("UPDATE_GOLDEN", "") not in ("", "0")

# One worker, so that the first failing program instance is the same one each time.
SWITCHES = {"num_threads": 1}


def name_of(path: Path) -> str:
    return str(path.relative_to(CORPUS).with_suffix(""))


def message_of(path: Path) -> str:
    """What the program raises, with paths cut to the file's name and addresses made alike."""
    with kiln.knobs.scope(**SWITCHES):
        try:
            runpy.run_path(str(path), run_name="wrong_program")
        except KilnError as error:
            text = str(error)
            assert not isinstance(error, InternalError), text
        else:
            pytest.fail(f"{name_of(path)} raised nothing")
    text = text.replace(f"{path.parent}{os.sep}", "")
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text) + "\n"


@pytest.mark.parametrize("path", PROGRAMS, ids=name_of)
def test_message(path: Path) -> None:
    golden = path.with_suffix(".txt")
    message = message_of(path)
    if UPDATE:
        golden.write_text(message, encoding="utf-8")
    assert golden.exists(), f"no golden message; the program raised:\n{message}"
    assert message == golden.read_text(encoding="utf-8")
