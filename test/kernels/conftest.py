"""Kernel tests: every library function against float64, tolerance by harness.py's rule."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def rng(request):
    """Seeded by the test's name, so that a failing test fails again alone."""
    return np.random.default_rng(list(request.node.name.encode()))
