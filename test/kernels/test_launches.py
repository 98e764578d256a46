"""Launches are planned without a device, and the library's calls cover every kernel in it."""

import importlib

import numpy as np
import pytest
from kiln.kernels import FAMILIES, machine
from kiln.kernels.launches import launches_of, library_calls
from kiln.kernels.machine import CPU, DEFAULT_GPU
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm
from kiln.kernels.reduce import sum_all
from kiln.kernels.rows import RowPlan
from kiln.kernels.softmax import softmax
from kiln.runtime.jit import JITFunction

# Plans are made from host arrays.
pytestmark = pytest.mark.host


def kernels_of(module):
    return {name for name, value in vars(module).items() if isinstance(value, JITFunction) and name.endswith("_kernel")}


def test_library_calls_reach_every_kernel():
    modules = [importlib.import_module(f"kiln.kernels.{family}.kernel") for family in FAMILIES]
    others = ("append", "decode", "flex", "quantized")
    modules += [importlib.import_module(f"kiln.kernels.attention.{name}") for name in others]
    every = set().union(*map(kernels_of, modules))
    reached, names = set(), []
    for name, call in library_calls():
        launches = launches_of(call)
        assert launches, name
        reached |= {launch.kernel.__name__ for launch in launches}
        names.append(name)
    assert reached == every
    assert len(set(names)) == len(names)


def test_a_launch_is_specialised_as_a_real_one_would_be():
    x, weight = np.empty((2048, 4096), np.float16), np.empty(4096, np.float16)
    (launch,) = launches_of(lambda: rms_norm(x, weight), DEFAULT_GPU)
    kinds = {p.name: p for p in launch.parameters}
    assert launch.grid == (2048,) and launch.options == {"num_warps": 8} and launch.disjoint == (True, True, True)
    of_x, plan = ({item.name.partition(".")[2]: item for item in kinds[name].items} for name in ("x", "PLAN"))
    assert of_x["data"].type == "*fp16" and of_x["data"].divisible and of_x["stride"].divisible
    assert of_x["step"].value == 1 and plan["BLOCK"].value == 4096 and plan["FULL"].value is True
    (launch,) = launches_of(lambda: rms_norm(x, weight), CPU)
    assert launch.options == {}


def test_nothing_is_run():
    x = np.ones(10000, np.float32)
    first, second = launches_of(lambda: sum_all(x))
    assert [first.kernel.__name__, second.kernel.__name__] == ["sum_partial_kernel", "sum_final_kernel"]
    assert float(sum_all(x)) == 10000


def test_a_launch_compiles_to_a_stage():
    x = np.empty(4096, np.float32)
    launch = launches_of(lambda: sum_all(x), CPU)[0]
    assert "tile.reduce" in launch.compile("cpu", "opt").output


def test_launch_options_reach_the_code():
    x, weight = np.empty((64, 32768), np.float16), np.empty(32768, np.float16)
    plan = RowPlan(32768, num_warps=16, cluster=2, registers=48)
    with machine.launch_options(pdl=True):
        (launch,) = launches_of(lambda: rms_norm(x, weight, plan=plan))
    ptx = launch.compile("sm_90a", "ptx").output
    for line in (".maxnreg 48", ".reqntid 512", ".reqnctapercluster 2", "griddepcontrol.wait"):
        assert line in ptx


@pytest.mark.parametrize("call", [lambda x: rms_norm(x, x[0]), lambda x: residual_rms_norm(x, x, x[0]),
                                  lambda x: layer_norm(x, x[0], x[0]), softmax],
                         ids=["rms_norm", "residual_rms_norm", "layer_norm", "softmax"])  # fmt: skip
@pytest.mark.parametrize("rows, n, first", [
    (1, 4096, "trigger"), (66, 4096, "trigger"), (133, 4096, "read"), (16, 131072, "trigger"), (17, 131072, "read"),
])  # fmt: skip
def test_a_dependent_launch_begins_at_once_beside_few_programs(call, rows, n, first):
    x = np.empty((rows, n), np.float16)
    with machine.launch_options(pdl=True):
        (launch,) = launches_of(lambda: call(x))
    ptx = str(launch.compile("sm_90a", "ptx").output)
    places = {"trigger": ptx.index("griddepcontrol.launch_dependents"), "read": ptx.index("ld.global")}
    assert min(places, key=places.__getitem__) == first
    assert ptx.count("griddepcontrol") == 2
    (plain,) = launches_of(lambda: call(x))
    assert "griddepcontrol" not in str(plain.compile("sm_90a", "ptx").output)
