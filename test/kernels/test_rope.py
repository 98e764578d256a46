"""RoPE: both pairings, positions, partial rotation, unequal heads, fused views, table types, in place."""

import contextlib

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.machine import DEFAULT_GPU, planning_for
from kiln.kernels.rope import reference, rope, rope_tables


def check(q, k, cos, sin, **kwargs):
    """Checks the form for this machine and the form for a GPU."""
    exact = reference.rope(q, k, cos, sin, **kwargs)
    for form in (contextlib.nullcontext(), planning_for(DEFAULT_GPU)):
        with form:
            outs = rope(q, k, cos, sin, **kwargs)
        for out, want in zip(outs, exact, strict=True):
            assert_close(out, want)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (7, 1), (1, 1)])
@pytest.mark.parametrize("size", [2, 16, 64, 128])
def test_rope(rng, size, heads, dtype, interleaved):
    q, k = random(rng, (2, 5, heads[0], size), dtype), random(rng, (2, 5, heads[1], size), dtype)
    check(q, k, *rope_tables(64, size), offset=3, interleaved=interleaved)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotated", [8, 24, 40])
def test_partial_rotation(rng, rotated, interleaved):
    q, k = random(rng, (1, 3, 4, 40)), random(rng, (1, 3, 2, 40))
    check(q, k, *rope_tables(16, rotated), interleaved=interleaved)


def test_positions(rng):
    q, k = random(rng, (2, 6, 4, 32)), random(rng, (2, 6, 2, 32))
    tables = rope_tables(1000, 32)
    check(q, k, *tables, positions=rng.integers(0, 1000, (2, 6)))
    check(q, k, *tables, positions=rng.integers(0, 1000, 6).astype(np.int32))
    check(q, k, *tables, offset=np.array([17], np.int32))


def test_fused_qkv_in_place(rng):
    qkv = random(rng, (2, 5, 8 + 2 + 2, 64), "float16")
    before = qkv.copy()
    tables = rope_tables(8, 64)
    q, k = qkv[:, :, :8], qkv[:, :, 8:10]
    exact = reference.rope(q, k, *tables)
    rope(q, k, *tables, out=(q, k))
    assert_close(qkv[:, :, :8], exact[0])
    assert_close(qkv[:, :, 8:10], exact[1])
    assert (qkv[:, :, 10:] == before[:, :, 10:]).all()


def test_half_precision_tables_and_q_alone(rng):
    q = random(rng, (1, 4, 2, 64))
    tables = rope_tables(8, 64, dtype=np.float16)
    (want, _), (out, none) = reference.rope(q, None, *tables), rope(q, None, *tables)
    assert none is None
    assert_close(out, want)


def test_empty(rng):
    q, k = random(rng, (1, 0, 4, 32)), random(rng, (1, 0, 2, 32))
    assert [x.shape for x in rope(q, k, *rope_tables(4, 32))] == [q.shape, k.shape]
