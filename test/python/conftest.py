"""The tests run under whatever switches are set: with KILN_TARGET=cuda KILN_STAGE_ARRAYS=1 the language tests run on a
GPU.

Tests of the CPU target alone (its stages, checks, threads, vectors) are marked `cpu` and skipped there.
"""

import os
import shutil
import tempfile

import pytest


def pytest_configure(config):
    """Data kept between processes (times of tuned kernels) is kept for this run only, and shared by all its workers."""
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


# The test in which this process lost its device; results of later tests mean nothing.
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
