"""Tests run on whatever the switches say: with KILN_TARGET=cuda KILN_STAGE_ARRAYS=1 those of the language run on a GPU.

What is about the CPU target alone (its stages, checks, threads, vectors) is marked `cpu` and skipped there.
"""

import pytest


def pytest_collection_modifyitems(items):
    from kiln import knobs
    from kiln.runtime import placement

    if placement.names_gpu(knobs.target):
        for item in items:
            if item.get_closest_marker("cpu"):
                item.add_marker(pytest.mark.skip(reason="about the CPU target"))
