"""Kernel tests: every library function against float64, tolerance by harness.py's rule.

`--device cuda` runs the same tests on torch tensors of the GPU; `--plans gpu` runs them on the CPU in the forms (rows
per program, blocks, groups of heads) that are planned for a GPU.
"""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu", help="where the kernel library runs")
    parser.addoption("--plans", choices=("own", "gpu"), default="own", help="launch in the forms of this machine")


def pytest_configure(config):
    config.addinivalue_line("markers", "host: about host arrays or plans; not run with --device cuda nor --plans gpu")
    import on_device

    if config.getoption("--device") == "cuda" and not on_device.reason_to_skip():
        on_device.install()


def pytest_collection_modifyitems(config, items):
    if config.getoption("--device") != "cuda":
        return
    import on_device

    reason = on_device.reason_to_skip()
    for item in items:
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))
        elif item.get_closest_marker("host"):
            item.add_marker(pytest.mark.skip(reason="about host arrays"))


@pytest.fixture(autouse=True)
def _plans(request):
    if request.config.getoption("--plans") == "own" or request.node.get_closest_marker("host"):
        yield
        return
    from kiln.kernels.machine import DEFAULT_GPU, planning_for

    with planning_for(DEFAULT_GPU):
        yield


@pytest.fixture
def rng(request):
    """Seeded by the test's name, so that a failing test also fails when run alone."""
    return np.random.default_rng(list(request.node.name.encode()))
