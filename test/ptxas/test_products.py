"""Products of the library that go through rings: the instructions of their machine code, with nothing spilt."""

from __future__ import annotations

import json
import re

import pytest
from kiln import toolchain
from kiln.kernels.gemm import configs
from kiln.kernels.launches import Launch, launches_of
from kiln.kernels.machine import of_target

# By the type of the factors: the instruction, and how many of them it multiplies along K.
INSTRUCTIONS = {"*fp16": ("HGMMA", 16), "*fp8e4nv": ("QGMMA", 32), "*i8": ("IGMMA", 32), "*fp32": ("HGMMA", 8)}


def rings() -> dict[str, Launch]:
    """Those launches of the library's products that have a schedule."""
    found = {}
    for name, run in configs.calls():
        for launch in launches_of(run, of_target("sm_90a")):
            if launch.options.get("schedule") == "cooperative":
                found[f"{name}-{len(found)}"] = launch
    return found


RINGS = rings()


def test_every_type_has_one():
    assert {launch.parameters[0].items[0].type for launch in RINGS.values()} == set(INSTRUCTIONS)


@pytest.mark.parametrize("name", RINGS)
def test_machine_code(name: str):
    launch = RINGS[name]
    artifact = launch.compile("sm_90a")
    cuda = json.loads(artifact.metadata)["cuda"]
    assert cuda["usage"]["spill_loads"] + cuda["usage"]["spill_stores"] == 0
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    sass = toolchain.disassemble(artifact.output)
    assert not re.search(r"\bLDL|\bSTL", sass)
    (plan,) = (given.value for given in launch.parameters if given.name == "PLAN")
    kind, step = INSTRUCTIONS[launch.parameters[0].items[0].type]
    # A tile of fewer than 64 rows has its columns there.
    width = plan.m if plan.m // plan.cluster < 64 else plan.n
    shapes = re.findall(r"\b([HQI]GMMA\.\w+)", sass)
    assert set(shapes) == {f"{kind}.64x{width}x{step}"}
    # Once in the loop, however long: rows of a group by 64, K of a step by the instruction's.
    rows = (plan.n if width == plan.m else plan.m) // plan.cluster // plan.consumers
    assert len(shapes) == rows // 64 * (plan.k // step)
    assert len(re.findall(r"UTMALDG\.[23]D", sass)) >= 2
    if plan.consumers > 1:
        assert "USETMAXREG.DEALLOC" in sass and "USETMAXREG.TRY_ALLOC" in sass
