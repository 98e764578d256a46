"""`import triton` finds Kiln for the length of a test."""

import pytest
from kiln import as_triton


@pytest.fixture
def layer():
    as_triton.install()
    yield as_triton
    as_triton.uninstall()


@pytest.fixture
def triton(layer):
    import triton

    return triton
