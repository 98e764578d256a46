"""Compiles each group of functions once per target and shape."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import math_harness
import pytest
from math_harness import Function, Library

TOOLS = ("mlir-opt", "mlir-translate", "clang", "llvm-nm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Checks math expansions with LLVM's own tools, which an installed Kiln does not need."""
    missing = [name for name in TOOLS if math_harness.find_tool(name) is None]
    here = Path(__file__).parent
    for item in items:
        if missing and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(missing)} of LLVM 22"))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Library]:
    made: dict[tuple[str, str, str], Library] = {}
    # Workers have folders of their own in the one of the run.
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared

    def make(group: str, functions: list[Function], target: str, shape: str = "16") -> Library:
        key = (group, target, shape)
        if key not in made:
            folder = shared / f"math-{group}"
            folder.mkdir(exist_ok=True)
            with open(folder / f"{target}-{shape or 'scalar'}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                made[key] = Library(functions, target, folder, shape)
        return made[key]

    return make
