"""Undocumented behaviour of ptxas that Kiln relies on: no read of a tile moves across pmevent (CodeBuilder::hold)."""

import pathlib
import re
import subprocess
import tempfile

import pytest
from kiln import _kiln, toolchain
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import of_target
from kiln.kernels.norm.cases import calls

pytestmark = pytest.mark.skipif("toolchain.nvdisasm() is None", reason="no nvdisasm (package nvidia-cuda-nvdisasm)")

ROWS = [row["name"] for row in _kiln.targets() if row["kind"] == "cuda"]
SHAPES = ("2048×896", "2048×3584", "16384×4096")
# Each target has its own scheduler in ptxas; one is tested with all shapes and types to show how it may reorder.
THOROUGH = "sm_90a"
_READ_OR_MARK = re.compile(r"^\s*(?:@!?%p\d+\s+)?(ld\.global|pmevent)", re.MULTILINE)
_IN_SASS = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?(LDG|PMTRIG)\b", re.MULTILINE)


def before_mark(kinds: list[str], mark: str) -> tuple[int, int]:
    """How many reads come before the mark and how many after it."""
    at = kinds.index(mark)
    return at, len(kinds) - at - 1


def assemble(ptx: str, row: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "kernel.ptx"), pathlib.Path(folder, "kernel.cubin")
        source.write_text(ptx)
        tool = toolchain.ptxas()
        assert tool is not None
        subprocess.run([tool.path, f"-arch={row}", "-O3", str(source), "-o", str(cubin)], check=True)
        return cubin.read_bytes()


@pytest.mark.parametrize("row", ROWS)
def test_reads_stay_before_pmevent(row: str):
    checked, shapes = 0, SHAPES if row == THOROUGH else SHAPES[1:2]
    for name, run in calls():
        if not any(shape in name for shape in shapes) or (row != THOROUGH and "float16" not in name.split()):
            continue
        for launch in launches_of(run, of_target(row)):
            kinds = _READ_OR_MARK.findall(launch.compile(row, to="ptx").output)
            if kinds.count("pmevent") != 1:
                continue
            sass = _IN_SASS.findall(toolchain.disassemble(launch.compile(row).output))
            assert sass.count("PMTRIG") == 1, f"{name} for {row}: pmevent is gone"
            asked, later = before_mark(kinds, "pmevent")
            assert asked > 1, f"{name} for {row}: nothing to hold"
            assert before_mark(sass, "PMTRIG") == (asked, later), f"{name} for {row}: reads moved across"
            checked += 1
    assert checked >= 3 * len(shapes)


@pytest.mark.parametrize("row", [THOROUGH])
def test_without_pmevent_reads_move(row: str):
    """The reason for pmevent, and proof that the test above can detect a moved read: it passes a shuffle of the
    reduction."""
    moved = 0
    for name, run in calls():
        if SHAPES[1] not in name:
            continue
        for launch in launches_of(run, of_target(row)):
            ptx = launch.compile(row, to="ptx").output
            if ptx.count("pmevent") != 1:
                continue
            bare = re.sub(r"^.*pmevent 0;.*$", "", ptx, flags=re.MULTILINE)
            sass = toolchain.disassemble(assemble(bare, row))
            kinds = re.findall(r"\b(LDG|SHFL)\b", sass)
            moved += "LDG" in kinds[kinds.index("SHFL") :] if "SHFL" in kinds else 0
    assert moved
