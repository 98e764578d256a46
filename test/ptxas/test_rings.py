"""Kernels in kgpu IR with rings of slots: what ptxas makes of them, and that their loops are lean."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from kiln import compiler, toolchain

INPUTS = pathlib.Path(__file__).parents[1] / "compiler" / "kgpu_to_nvvm" / "Inputs"
# Two groups of 64 rows with 232 registers and four warps that copy with 40: 64512 in all, 168 for each of 384.
REGISTERS = 168
FENCES = r"MEMBAR|CCTL|ERRBAR|FENCE|\bBAR\.|WARPSYNC|BSYNC|VOTE|SHFL"


def assembled(name: str, folder: pathlib.Path) -> tuple[str, str]:
    """The output of ptxas for `name`.kgpu.mlir, and the SASS without encodings."""
    text = (INPUTS / f"{name}.kgpu.mlir").read_text()
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(compiler.compile_text(text, "kgpu", {"target": "sm_90a", "to": "ptx"}).output)
    command = [toolchain.ptxas().path, "-arch=sm_90a", "-v", source, "-o", cubin]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    return said.stdout + said.stderr, toolchain.disassemble(cubin.read_bytes())


def loops(sass: str) -> list[str]:
    """The text between a label and a branch back to it; innermost loops only, without those that only wait."""
    found = []
    for start in re.finditer(r"^(\.L_x_\d+):", sass, re.MULTILINE):
        end = re.search(rf"BRA\S* `\({re.escape(start[1])}\)", sass[start.end() :])
        if end:
            found.append(sass[start.end() : start.end() + end.end()])
    inner = [text for text in found if not any(other in text and other != text for other in found)]
    return [text for text in inner if re.search("UTMALDG|HGMMA", text)]


@pytest.mark.parametrize("name", ["product", "product-cluster"])
def test_registers_are_reallocated_and_nothing_spills(name: str, tmp_path: pathlib.Path):
    said, sass = assembled(name, tmp_path)
    assert f"Used {REGISTERS} registers" in said
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    # Notes: setmaxnreg ignored, products serialised.
    assert not re.search(r"\(C7\d+\)|warning", said), said
    assert len(re.findall(r"USETMAXREG\.DEALLOC\S* 0x28", sass)) == 1
    assert len(re.findall(r"USETMAXREG\.TRY_ALLOC\S* UP\d, 0xe8", sass)) == 1
    assert not re.search(r"\bLDL|\bSTL", sass)


@pytest.mark.parametrize("name", ["product", "product-cluster"])
def test_loops_are_lean(name: str, tmp_path: pathlib.Path):
    """One wait and one arrival per step on either side, no fence; copies are issued once, with no loop over lanes."""
    _, sass = assembled(name, tmp_path)
    producer, consumer = loops(sass)
    for loop in (producer, consumer):
        assert len(re.findall("SYNCS.PHASECHK", loop)) == 1
        assert len(re.findall("SYNCS.ARRIVE", loop)) == 1
        assert not re.search(FENCES, loop), loop
    copies = re.findall(r"UTMALDG\.2D\S*", producer)
    assert copies == ["UTMALDG.2D", "UTMALDG.2D.MULTICAST" if name == "product-cluster" else "UTMALDG.2D"]
    assert len(re.findall(r"HGMMA\.64x256x16\.F32", consumer)) == 4
    assert len(re.findall("WARPGROUP.DEPBAR", consumer)) == 1
    # Counters, slots and descriptors are uniform: only the parity and the loop condition may not be.
    assert len(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@\S+ )?R2UR", producer + consumer, re.MULTILINE)) <= 1
