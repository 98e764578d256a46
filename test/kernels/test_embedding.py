"""Embedding: exact copies; an index outside the table is an error."""

import numpy as np
import pytest
from harness import DTYPES, random
from kiln import errors
from kiln.kernels.embedding import embedding


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (0,), ()], ids=str)
@pytest.mark.parametrize("columns", [1, 31, 2048, 3001])
def test_embedding(rng, shape, columns, dtype):
    table = random(rng, (97, columns), dtype)
    ids = rng.integers(0, 97, shape)
    assert (embedding(np.asarray(ids), table) == table[ids]).all()


def test_strided_ids_and_table(rng):
    table, ids = random(rng, (50, 64)), rng.integers(0, 50, (8, 2)).astype(np.int32)
    assert (embedding(ids[:, 1], table) == table[ids[:, 1]]).all()
    assert (embedding(ids[:, 0], table[:, ::2]) == table[ids[:, 0]][:, ::2]).all()


@pytest.mark.parametrize("bad", [-1, 50])
def test_index_outside(rng, bad):
    with pytest.raises(errors.DeviceAssertError, match="index outside the table"):
        embedding(np.array([3, bad]), random(rng, (50, 64)))
