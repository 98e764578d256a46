"""Tests of the emulator, and of Kiln on it: these are skipped without its plugin (`make check-emulated` loads it)."""

import pathlib
import sys

import pytest

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
