"""`import triton` finds Kiln during a test."""

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


@pytest.fixture
def tl(triton):
    import triton.language as tl

    return tl


@pytest.fixture
def runtime(triton):
    with triton.knobs.runtime.scope():
        yield triton.knobs.runtime
