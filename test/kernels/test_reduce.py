"""Sum of everything and top-k."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.reduce import reference, sum_all, topk


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7,), (4096,), (4097,), (100, 997), (0,), (1 << 21,)], ids=str)
def test_sum_all(rng, shape, dtype):
    x = random(rng, shape, dtype)
    magnitude = np.abs(np.asarray(x, np.float64)).sum()
    size = max(1, x.size)
    out = sum_all(x)
    # A random walk over all terms: scale is the typical partial sum, not the sum of magnitudes.
    assert_close(out, reference.sum_all(x), length=size, scale=magnitude / size)
    assert out.tobytes() == sum_all(x).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape,k", [((1, 1), 1), ((3, 7), 3), ((2, 7), 7), ((4, 1000), 10), ((2, 3, 64), 64), ((0, 5), 2)]
)
def test_topk(rng, shape, k, dtype):
    x = random(rng, shape, dtype)
    values, indices = topk(x, k)
    want_values, want_indices = reference.topk(x, k)
    assert (indices == want_indices).all()
    assert (np.asarray(values, np.float64) == want_values).all()


def test_topk_ties_nan_and_infinities():
    x = np.array([[1.0, np.nan, 1.0, np.inf, -np.inf, 0.0, -0.0, 1.0]], np.float32)
    values, indices = topk(x, 8)
    assert indices.tolist() == [[1, 3, 0, 2, 7, 5, 6, 4]]
    assert np.isnan(values[0, 0]) and values[0, 1] == np.inf


def test_topk_errors():
    with pytest.raises(ValueError, match="from 1 to 4"):
        topk(np.zeros((2, 4), np.float32), 5)
