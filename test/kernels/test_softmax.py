"""Softmax: rows of any length, any strides, large values, infinities."""

import ml_dtypes
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


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [5, 4096])
def test_rows_at_the_limits_of_a_type(dtype, end, n):
    """Masks often use the lowest number: a fully masked row has equal weights."""
    value = getattr(ml_dtypes.finfo(dtype), end)
    x = np.full((3, n), value, dtype)
    x[1, 1:] = 0.0
    x[2, ::2] = np.nextafter(value, np.zeros((), dtype))
    assert_close(softmax(x), reference.softmax(x), length=n)


def test_small_differences_of_large_numbers(rng):
    x = (1500 + rng.integers(-3, 4, (4, 1000))).astype(np.float16)
    assert_close(softmax(x), reference.softmax(x), length=1000)


def test_infinities():
    x = np.array([[0.0, -np.inf, 1.0], [-np.inf, 2.0, -np.inf]], np.float32)
    assert_close(softmax(x), reference.softmax(x), length=3)
    assert np.isnan(softmax(np.full((1, 3), -np.inf, np.float32))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_parts_without_weight(rng, dtype):
    """A row is reduced in parts; some contain only -inf, or differ by more than the range of exp2."""
    x = random(rng, (6, 4096), dtype)
    x[0, :3000] = -np.inf
    x[1, 5:] = -np.inf
    x[2, 1024:2048] = -20000.0
    x[3, ::512] = 30000.0
    x[4, 77] = np.inf
    x[5, 4095] = np.nan
    assert_close(softmax(x[:4]), reference.softmax(x[:4]), length=4096)
    assert np.isnan(softmax(x[4:]).astype(np.float32)).all()


def test_rows_sum_to_one_and_are_the_same_every_time(rng):
    x = random(rng, (16, 3000))
    first = softmax(x)
    assert np.abs(first.sum(axis=-1) - 1).max() < 1e-5
    assert all((softmax(x) == first).all() for _ in range(5))
