"""Tests of machine code for GPUs without a GPU: ptxas assembles, nvdisasm disassembles.

The pinned packages of the environment are used if installed, so that results are the same everywhere; otherwise the
tools that `kiln info` shows. Without ptxas everything here is skipped for that reason.
"""

import pathlib
import site
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def _packaged(name: str) -> str:
    for folder in site.getsitepackages():
        path = pathlib.Path(folder, "nvidia", "cu13", "bin", name)
        if path.exists():
            return str(path)
    return ""


def pytest_configure(config):
    from kiln import knobs

    for tool in ("ptxas", "nvdisasm"):
        if _packaged(tool) and not getattr(knobs, tool):
            setattr(knobs, tool, _packaged(tool))


def pytest_collection_modifyitems(items):
    from kiln import toolchain

    if toolchain.ptxas() is None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no ptxas (package nvidia-cuda-nvcc)"))
