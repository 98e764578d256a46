"""Tests of the emulator, and of Kiln on it: these are skipped without its plugin (`make check-emulated` loads it)."""

import pathlib
import sys

import numpy as np
import pytest

ORDERS = (1, -1, 2)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "kernels"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))


@pytest.fixture
def launched(request):
    """Runs the test in one order of warps and in the opposite; it must have launched something in each."""
    if not request.config.pluginmanager.hasplugin("emulator.plugin"):
        pytest.skip("not under `-p emulator.plugin`")
    emulator = request.getfixturevalue("emulated")

    def both_orders(function):
        results = []
        for emulator.order in (1, -1):
            before = emulator.launches
            results.append(function())
            assert emulator.launches > before, "nothing ran on the emulator"
        emulator.order = 1
        return results

    return both_orders


@pytest.fixture
def in_orders(request):
    """Runs in every order, and checks that each launch used the expected instructions."""
    if not request.config.pluginmanager.hasplugin("emulator.plugin"):
        pytest.skip("not under `-p emulator.plugin`")
    emulator = request.getfixturevalue("emulated")

    def run(function, used):
        results = []
        for emulator.order in ORDERS:
            emulator.used.clear()
            results.append(function())
            assert emulator.used >= used, f"expected {sorted(used)}, got {sorted(emulator.used)}"
        return results

    yield run
    emulator.order = 1


@pytest.fixture
def rng(request):
    return np.random.default_rng(list(request.node.name.encode()))
