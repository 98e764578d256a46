"""Softmax: rows of any length, any strides, large values, infinities."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random, strided
from kiln.kernels.softmax import reference, softmax

SHAPES = [(1, 1), (1, 7), (3, 16), (5, 127), (4, 896), (2, 1000), (3, 4096), (2, 5003), (2, 3, 33), (0, 8), (4, 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(rng, shape, dtype):
    x = random(rng, shape, dtype, scale=4)
    if shape[-1] == 0:
        assert softmax(x).shape == shape
    else:
        # Few roundings per element; the error of exp grows with the size of its argument.
        assert_close(softmax(x), reference.softmax(x), length=shape[-1])


def test_views(rng):
    x = random(rng, (6, 40))
    assert_close(softmax(strided(x)), reference.softmax(x), length=40)
    assert_close(softmax(x.T), reference.softmax(x.T), length=6)
    out = strided(np.zeros_like(x))
    assert_close(softmax(x, out=out), reference.softmax(x), length=40)


def test_large_values_do_not_overflow(rng):
    x = random(rng, (4, 100)) * 1000
    assert_close(softmax(x), reference.softmax(x), length=100)


def test_infinities():
    x = np.array([[0.0, -np.inf, 1.0], [-np.inf, 2.0, -np.inf]], np.float32)
    assert_close(softmax(x), reference.softmax(x), length=3)
    assert np.isnan(softmax(np.full((1, 3), -np.inf, np.float32))).all()


def test_rows_sum_to_one_and_are_the_same_every_time(rng):
    x = random(rng, (16, 3000))
    first = softmax(x)
    assert np.abs(first.sum(axis=-1) - 1).max() < 1e-5
    assert all((softmax(x) == first).all() for _ in range(5))
