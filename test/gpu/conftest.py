"""Tests that need an NVIDIA GPU: all of this folder is marked `gpu` and skipped, with the reason, where there is none.

`python test/gpu/run.py` (or `make test-gpu`) runs these and every other test that can run on a device.
"""

import ctypes
import functools
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent


@functools.cache
def reason_to_skip() -> str:
    """Why no GPU can be used, or an empty string."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "the driver library libcuda.so.1 is not there"
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return "the driver does not start"
    return "" if count.value else "the driver finds no device"


def pytest_collection_modifyitems(items):
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        item.add_marker(pytest.mark.gpu)
        if reason_to_skip():
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason_to_skip()}"))


@pytest.fixture(scope="session")
def torch():
    """torch with a device, or a skipped test."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    return module
