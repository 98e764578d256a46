"""kl.target_info: a kernel knows its target, whatever path leads to the compile."""

from __future__ import annotations

import subprocess
import sys

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs


@kiln.jit
def which(out):
    if kl.target_info.is_cuda():
        if kl.target_info.cuda_capability_geq(9, 0):
            kl.store(out, 90)
        elif kl.target_info.cuda_capability_geq(8):
            kl.store(out, 80)
    elif kl.target_info.is_cpu():
        kl.store(out, 1)
    kl.static_assert(not kl.target_info.is_hip() and not kl.target_info.is_hip_cdna3())


@pytest.mark.cpu
def test_on_the_cpu():
    out = np.zeros(1, np.int32)
    which[1](out)
    assert out[0] == 1
    assert kl.target_info.is_cpu() and not kl.target_info.is_cuda()


@pytest.mark.cpu
@pytest.mark.parametrize("row, value", [("sm_80", 80), ("sm_86", 80), ("sm_90a", 90), ("sm_120a", 90)])
def test_rows_of_gpus(row, value):
    with knobs.scope(target=row):
        text = which.warmup(kl.int32).asm["tile"]
        assert kl.target_info.current_target() == (row, "cuda", int(row[3:].rstrip("a")), 32)
    assert f"arith.constant {value} : i32" in text and text.count("tile.store") == 1


def test_capabilities_are_compared_as_pairs():
    with knobs.scope(target="sm_89"):
        known = kl.target_info.cuda_capability_geq
        assert known(8, 9) and known(8) and known(7, 10) and not known(9) and not known(8, 10)
    with knobs.scope(target="cpu"):
        assert not kl.target_info.cuda_capability_geq(0)


def test_the_command_line_compiles_for_its_target(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import kiln\nimport kiln.language as kl\n\n@kiln.jit\ndef which(out):\n"
        "    kl.store(out, kl.target_info.current_target().arch if kl.target_info.is_cuda() else 1)\n"
    )
    command = [sys.executable, "-m", "kiln.cli", "compile", f"{path}::which", "--signature", "out=*i32", "--to", "tile"]
    result = subprocess.run([*command, "--target", "sm_90a"], capture_output=True, text=True, check=True)
    assert "arith.constant 90 : i32" in result.stdout
