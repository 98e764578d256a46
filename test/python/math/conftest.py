"""Compiles each group of functions once per target and shape."""

from __future__ import annotations

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

    def make(group: str, functions: list[Function], target: str, shape: str = "16") -> Library:
        key = (group, target, shape)
        if key not in made:
            made[key] = Library(functions, target, tmp_path_factory.mktemp(group), shape)
        return made[key]

    return make
