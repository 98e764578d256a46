"""Matrix products: odd shapes, strides, types, splits."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random, strided
from kiln.kernels.gemm import matmul, matmul_split_k, reference

SHAPES = [(1, 1, 1), (7, 5, 3), (16, 16, 16), (64, 64, 64), (65, 130, 257), (127, 31, 100), (1, 300, 500), (300, 1, 40)]
EMPTY = [(0, 4, 4), (4, 0, 4), (4, 4, 0)]


def operands(rng, shape, dtype):
    m, n, k = shape
    return random(rng, (m, k), dtype), random(rng, (k, n), dtype)


def check(out, a, b):
    """Each element is a random walk over K products: partial sums are of the size of the root of the sum of squares."""
    scale = np.sqrt((np.asarray(a, np.float64) ** 2) @ (np.asarray(b, np.float64) ** 2))
    assert_close(out, reference.matmul(a, b), length=max(1, a.shape[1]), scale=scale + 1e-30)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + EMPTY, ids=str)
def test_matmul(rng, shape, dtype):
    a, b = operands(rng, shape, dtype)
    check(matmul(a, b), a, b)


@pytest.mark.parametrize("splits", [None, 1, 3, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 65, 300), (16, 128, 1000), (4, 4, 0)], ids=str)
def test_split_k(rng, shape, dtype, splits):
    a, b = operands(rng, shape, dtype)
    out = matmul_split_k(a, b, splits)
    check(out, a, b)
    assert (matmul_split_k(a, b, splits) == out).all()


def test_strides(rng):
    a, b = random(rng, (70, 50)), random(rng, (90, 50))
    check(matmul(a, b.T), a, b.T)
    check(matmul(np.asfortranarray(a), b.T), a, b.T)
    check(matmul(strided(a), strided(b).T), a, b.T)
    out = strided(np.zeros((70, 90), np.float32))
    check(matmul(a, b.T, out=out), a, b.T)


def test_errors(rng):
    with pytest.raises(ValueError, match=r"expected shape \(5, n\)"):
        matmul(random(rng, (3, 5)), random(rng, (4, 3)))
    with pytest.raises(ValueError, match=r"expected dtype (torch\.)?float32"):
        matmul(random(rng, (3, 5)), random(rng, (5, 3), "float16"))
