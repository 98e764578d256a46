"""Vector add: exact up to one rounding."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.elementwise import add, reference


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7,), (4096,), (4097,), (3, 5, 7), (100003,), (0,), ()])
def test_add(rng, shape, dtype):
    x, y = random(rng, shape, dtype), random(rng, shape, dtype)
    assert_close(add(x, y), reference.add(x, y))


def test_add_in_place(rng):
    x, y = random(rng, 5000), random(rng, 5000)
    exact = reference.add(x, y)
    assert add(x, y, out=x) is x
    assert_close(x, exact)


def test_add_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    y = np.array([-np.inf, 1.0, 1.0, -0.0, -0.0], np.float32)
    assert_close(add(x, y), reference.add(x, y))


def test_add_refuses_other_shapes(rng):
    with pytest.raises(ValueError, match="add does not broadcast"):
        add(random(rng, 4), random(rng, 5))
