"""The library on a GPU in a process without torch: DeviceArray, and the demo."""

import subprocess
import sys

import numpy as np
import pytest
from kiln.kernels.device_array import DeviceArray
from kiln.kernels.norm import reference, rms_norm
from kiln.kernels.optimizer import adamw
from kiln.kernels.optimizer import reference as optimizer


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 4, 5)], ids=str)
def test_arrays_come_back(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    assert (DeviceArray.of(x).numpy() == x).all()
    assert (DeviceArray.of(x.T).numpy() == x.T).all()


def test_functions_take_and_make_them():
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((300, 5003), dtype=np.float32), rng.standard_normal(5003, dtype=np.float32)
    out = rms_norm(DeviceArray.of(x), DeviceArray.of(weight))
    assert isinstance(out, DeviceArray) and out.shape == x.shape
    assert np.allclose(out.numpy(), reference.rms_norm(x, weight), rtol=1e-5, atol=1e-6)


def test_lists_of_them():
    rng = np.random.default_rng(0)
    host = [[rng.random(n, dtype=np.float32) for n in (7, 2048, 5000)] for _ in range(4)]
    there = [[DeviceArray.of(x) for x in arrays] for arrays in host]
    adamw(*there, 3)
    for i, arrays in enumerate(zip(*host, strict=True)):
        for role, want in zip((0, 2, 3), optimizer.adamw(*arrays, 3), strict=True):
            assert np.allclose(there[role][i].numpy(), want, rtol=1e-5, atol=1e-6)


def test_the_demo_runs_there():
    run = subprocess.run([sys.executable, "-m", "kiln.demo", "--only", "norm"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "(sm_" in run.stdout and "NO" not in run.stdout and "residual_rms_norm" in run.stdout
