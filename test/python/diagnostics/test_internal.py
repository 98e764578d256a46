"""An internal error says so, saves the IR, and gives a command that reproduces it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import broken_kernel
import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import _kiln, compiler
from kiln.errors import InternalError

KILN_OPT = Path(_kiln.__file__).parents[2] / "compiler" / "tools" / "kiln-opt"
PYTHON_PATH = str(Path(kiln.__file__).parents[1])


def hand_edited(stage: str) -> str:
    """The text of a stage of a valid kernel, with an op inserted that is not allowed at that stage."""
    compiled = broken_kernel.scale.warmup(kl.float32, 100, BLOCK=64, TYPE=kl.float32, grid=(1,))
    text = compiled.asm[stage]
    broken, count = re.subn(r"( +)return( loc\(.*\))?\n", r"\1%broken = tile.program_id x : i32\2\n\g<0>", text)
    assert count == 1, text
    return broken


def test_the_saved_ir_and_command_reproduce_a_failed_pass(tmp_path):
    with kiln.knobs.scope(crash_dir=str(tmp_path)), pytest.raises(InternalError) as caught:
        compiler.compile_text(hand_edited("cpu"), "cpu")
    error = caught.value
    said = str(error)
    assert said.startswith("internal error: ") and "a fault of Kiln, not of your program" in said
    assert error.ir_path is not None and "tile.program_id" in Path(error.ir_path).read_text()
    assert Path(error.ir_path).parent == tmp_path
    assert error.reproduce is not None and f"reproduce with: {error.reproduce}" in said

    command, *arguments = shlex.split(error.reproduce)
    assert command == "kiln-opt"
    again = subprocess.run([str(KILN_OPT), *arguments], capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "tile.program_id" in again.stderr and "error:" in again.stderr
    # Without the broken line the same command succeeds: it reproduces this fault and no other.
    mended = [line for line in Path(error.ir_path).read_text().splitlines() if "tile.program_id" not in line]
    Path(error.ir_path).write_text("\n".join(mended))
    assert subprocess.run([str(KILN_OPT), *arguments], capture_output=True, check=False).returncode == 0


BREAK = """
import sys
from kiln.language.semantic import shape

def broken(*arguments):
    raise IndexError("broken on purpose")

shape.flip = broken
"""


def test_a_front_end_fault_names_the_line_and_a_reproducing_command(tmp_path, monkeypatch):
    from kiln.language.semantic import shape

    def broken(*arguments):
        raise IndexError("broken on purpose")

    monkeypatch.setattr(shape, "flip", broken)
    x = np.zeros(64, np.float32)
    with kiln.knobs.scope(crash_dir=str(tmp_path)), pytest.raises(InternalError) as caught:
        broken_kernel.scale[(1,)](x, 60, BLOCK=64, TYPE=kl.float16)
    error = caught.value
    assert error.message == "IndexError: broken on purpose"
    source = Path(broken_kernel.__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(source, 1) if "kl.flip" in text)
    assert error.location is not None and f"broken_kernel.py:{line}:" in error.location
    assert error.ir_path is not None and "tile.load" in Path(error.ir_path).read_text(), "what was emitted so far"

    # Run the command with a compiler that is broken in the same way, and with one that is not.
    assert error.reproduce is not None
    command, *arguments = shlex.split(error.reproduce)
    assert command == "kiln"
    for prelude, worked in ((BREAK, False), ("", True)):
        main = f"{prelude}\nfrom kiln.cli import main\nraise SystemExit(main({arguments!r}))"
        run = subprocess.run(
            [sys.executable, "-c", main], capture_output=True, text=True, check=False, cwd=tmp_path,
            env={"PYTHONPATH": PYTHON_PATH, "KILN_CRASH_DIR": str(tmp_path), "PATH": ""},
        )  # fmt: skip
        assert (run.returncode == 0) == worked, run.stderr
        assert ("IndexError: broken on purpose" in run.stderr) != worked
