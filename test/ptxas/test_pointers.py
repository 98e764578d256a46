"""Products in kernels written with pointers: with `describe_pointers` they get the machine code of descriptors."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
from kiln import compiler, frontend, toolchain
from kiln.cli.signature import parse_signature

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from pointers import by_pointers

ARRAYS = "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, M=i32:16, N=i32:16, K=i32:16"
ROWS = "stride_am=i32:16, stride_ak=1, stride_bk=i32:16, stride_bn=1, stride_cm=i32:16, stride_cn=1"
COLUMNS = "stride_am=i32:16, stride_ak=1, stride_bk=1, stride_bn=i32:16, stride_cm=i32:16, stride_cn=1"


def tutorial(target, strides=ROWS, tile=(128, 128, 64), **options):
    sides = ", ".join(f"{name}={side}" for name, side in zip(("BM", "BN", "BK"), tile, strict=True))
    parameters = parse_signature(f"{ARRAYS}, {strides}, {sides}, GROUP=8", by_pointers)
    module = frontend.emit(by_pointers, parameters, "tutorial", disjoint=[True] * 3)
    return compiler.compile(module, {"target": target, "to": "cubin", **options})


def unspilt(artifact):
    cuda = json.loads(artifact.metadata)["cuda"]
    assert cuda["usage"]["spill_stores"] + cuda["usage"]["spill_loads"] == 0, cuda["usage"]
    return cuda


@pytest.mark.parametrize("strides", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_the_tutorial_is_fetched_by_the_copy_engine(strides):
    artifact = tutorial("sm_90a", strides, (128, 256, 64), num_warps=8, describe_pointers=True)
    told = [d["message"] for d in artifact.diagnostics if d["severity"] == "remark"]
    assert [text.split(" through")[0] for text in told] == [
        "loads from 'a_ptr'", "loads from 'b_ptr'", "stores to 'c_ptr'",
    ]  # fmt: skip
    cuda = unspilt(artifact)
    assert cuda["roles"] and cuda["bounded"] and len(cuda["tensor_maps"]) == 3
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    sass = toolchain.disassemble(artifact.output)
    assert set(re.findall(r"\bHGMMA\.\w+", sass)) == {"HGMMA.64x256x16"}
    assert "UTMALDG.2D" in sass and "UTMASTG.2D" in sass and not re.search(r"\bLDL|\bSTL|\bLDGSTS", sass)


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_machines_without_products_of_groups(target):
    assert unspilt(tutorial(target, tile=(128, 128, 32), describe_pointers=True))["bounded"]


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_machines_without_a_copy_engine(target):
    """Bounded counts alone: folded rows are known to be contiguous, so threads copy them ahead."""
    artifact = tutorial(target, tile=(128, 128, 32), describe_pointers=True)
    cuda = unspilt(artifact)
    assert cuda["bounded"] and "tensor_maps" not in cuda
    assert not [d for d in artifact.diagnostics if d["message"].startswith("no schedule")]
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    assert set(re.findall(r"LDGSTS\S*", toolchain.disassemble(artifact.output))) == {"LDGSTS.E.BYPASS.LTC128B.128"}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_nothing_changes_unless_asked(target):
    left = tutorial(target, tile=(64, 64, 32))
    assert left.output == tutorial(target, tile=(64, 64, 32), describe_pointers=False).output
    assert "bounded" not in json.loads(left.metadata)["cuda"]
