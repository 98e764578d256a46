"""Compiles each group of functions once per target and shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from math_harness import Function, Library


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Library]:
    made: dict[tuple[str, str, str], Library] = {}

    def make(group: str, functions: list[Function], target: str, shape: str = "16") -> Library:
        key = (group, target, shape)
        if key not in made:
            made[key] = Library(functions, target, tmp_path_factory.mktemp(group), shape)
        return made[key]

    return make
