"""Tests run on whatever the switches say: with KILN_TARGET=cuda KILN_STAGE_ARRAYS=1 those of the language run on a GPU.

What is about the CPU target alone (its stages, checks, threads, vectors) is marked `cpu` and skipped there.
"""

import os
import shutil
import tempfile

import pytest


def pytest_configure(config):
    """What is kept between processes (times of tuned kernels) is kept for this run alone, by all of its workers."""
    if "XDG_CACHE_HOME" not in os.environ:
        os.environ["XDG_CACHE_HOME"] = folder = tempfile.mkdtemp(prefix="kiln-test-cache-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items):
    from kiln import knobs
    from kiln.runtime import placement

    if placement.names_gpu(knobs.target):
        for item in items:
            if item.get_closest_marker("cpu"):
                item.add_marker(pytest.mark.skip(reason="about the CPU target"))


# The test in which this process lost its device: what comes after it says nothing about itself.
_lost_in = ""


def pytest_runtest_makereport(item, call):
    global _lost_in
    if call.excinfo is not None and call.excinfo.errisinstance(_lost()) and not _lost_in:
        _lost_in = item.nodeid


def pytest_runtest_setup(item):
    if _lost_in:
        pytest.skip(f"the device was lost in {_lost_in}")


def _lost() -> type[BaseException]:
    from kiln import errors

    return errors.DeviceLostError
