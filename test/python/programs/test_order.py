"""Sorting, selecting and scanning rows of all types and lengths, with NaN and duplicates, against numpy."""

from __future__ import annotations

from pathlib import Path

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(11)
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
# Shorter than a vector; one vector; powers of two with few and with many merges; odd; odd multiples of vectors.
SIDES = [1, 2, 4, 8, 16, 64, 512, 4096, 5, 29, 76, 96, 1536]


def samples(dtype, shape):
    """Values with many duplicates; the extremes of integers; for floats both zeros, and infinities and NaN of both
    signs."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
        x = np.where(RNG.random(shape) < 0.3, RNG.integers(0, 5, shape).astype(dtype), x)
        edges = np.array([info.min, info.max], dtype)
    else:
        x = np.where(RNG.random(shape) < 0.3, RNG.integers(-2, 3, shape), 8 * RNG.standard_normal(shape)).astype(dtype)
        edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], np.float64).astype(dtype)
    return np.where(RNG.random(shape) < 0.1, RNG.choice(edges, shape), x)


def machine_runs(target):
    return {"cpu-avx2": "avx2", "cpu-sse": "sse4_2"}[target] in Path("/proc/cpuinfo").read_text().split()


def in_order(x, descending):
    """A row sorted: in float64 or its own type, with NaN last in ascending order."""
    wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
    wide = np.sort(wide, axis=-1)
    return wide[..., ::-1] if descending else wide


def assert_same_rows(got, want):
    np.testing.assert_array_equal(got if got.dtype.kind in "iu" else got.astype(np.float64), want)


@kiln.jit
def sort_kernel(x, y, M: kl.constexpr, N: kl.constexpr, DESCENDING: kl.constexpr):
    at = kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :]
    kl.store(y + at, kl.sort(kl.load(x + at), descending=DESCENDING))


@kiln.jit
def topk_kernel(x, y, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr, DESCENDING: kl.constexpr):
    row = kl.arange(0, M)[:, None]
    best = kl.topk(kl.load(x + row * N + kl.arange(0, N)[None, :]), K, descending=DESCENDING)
    kl.store(y + row * K + kl.arange(0, K)[None, :], best)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("side", [16, 76, 512])
def test_every_type_sorts(dtype, side):
    x = samples(dtype, (3, side))
    for descending in (False, True):
        y = np.empty_like(x)
        sort_kernel[(1,)](x, y, 3, side, descending)
        assert_same_rows(y, in_order(x, descending))


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8])
@pytest.mark.parametrize("side", SIDES)
def test_every_length_sorts(dtype, side):
    x = samples(dtype, (2, side))
    for descending in (False, True):
        y = np.empty_like(x)
        sort_kernel[(1,)](x, y, 2, side, descending)
        assert_same_rows(y, in_order(x, descending))


def test_booleans_sort():
    x = RNG.random((2, 96)) < 0.4
    for descending in (False, True):
        y = np.empty_like(x)
        sort_kernel[(1,)](x, y, 2, 96, descending)
        np.testing.assert_array_equal(y, in_order(x.astype(np.int8), descending).astype(bool))


def test_sorting_keeps_every_element():
    """As many zeros of each sign and NaNs of each payload as before, in whatever order."""
    x = samples(np.float32, (1, 256))
    y = np.empty_like(x)
    sort_kernel[(1,)](x, y, 1, 256, False)
    kept = lambda v: np.sort(np.where(np.isnan(v), v.view(np.uint32) & 0x7FFFFFFF, v.view(np.uint32)))  # noqa: E731
    np.testing.assert_array_equal(kept(x), kept(y))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
@pytest.mark.parametrize("count", [8, 32])
def test_every_type_is_selected_from(dtype, count):
    x = samples(dtype, (3, 512))
    for descending in (False, True):
        y = np.empty((3, count), dtype)
        topk_kernel[(1,)](x, y, 3, 512, count, descending)
        assert_same_rows(y, in_order(x, descending)[:, :count])


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize(
    "side, count",
    [(1, 1), (2, 1), (16, 1), (64, 2), (64, 3), (64, 64), (64, 40), (76, 5), (1536, 8), (1536, 9), (1536, 100),
     (4096, 1), (4096, 16), (4096, 256), (4096, 992), (4864, 34)],
)  # fmt: skip
def test_any_number_of_any_length(dtype, side, count):
    x = samples(dtype, (2, side))
    for descending in (False, True):
        y = np.empty((2, count), dtype)
        topk_kernel[(1,)](x, y, 2, side, count, descending)
        assert_same_rows(y, in_order(x, descending)[:, :count])


@pytest.mark.cpu
@pytest.mark.parametrize("target", ["cpu-avx2", "cpu-sse"])
def test_narrow_vectors_sort_select_and_scan(target):
    if not machine_runs(target):
        pytest.skip(f"this machine cannot run {target}")
    with kiln.knobs.scope(target=target):
        for dtype in (np.uint8, np.float16, np.float32, np.uint64):
            x = samples(dtype, (2, 512))
            y = np.empty_like(x)
            sort_kernel[(1,)](x, y, 2, 512, False)
            assert_same_rows(y, in_order(x, False))
            for count in (4, 64):
                y = np.empty((2, count), dtype)
                topk_kernel[(1,)](x, y, 2, 512, count, True)
                assert_same_rows(y, in_order(x, True)[:, :count])
        x = RNG.integers(0, 9, 512).astype(np.int32)
        y = np.empty_like(x)
        cumsum_kernel[(1,)](x, y, 512, False)
        np.testing.assert_array_equal(y, np.cumsum(x))


@kiln.jit
def later(a, b):
    """Associative, not commutative: the later of two values unless it is zero."""
    return kl.where(b != 0, b, a)


@kiln.jit
def compose(a1, b1, a2, b2):
    """First x → a1 x + b1, then x → a2 x + b2."""
    return a1 * a2, b1 * a2 + b2


@kiln.jit
def later_kernel(x, y, M: kl.constexpr, N: kl.constexpr, REVERSE: kl.constexpr):
    at = kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :]
    kl.store(y + at, kl.associative_scan(kl.load(x + at), 1, later, reverse=REVERSE))


@kiln.jit
def compose_kernel(x, y, N: kl.constexpr, REVERSE: kl.constexpr):
    at = kl.arange(0, N)
    a, b = kl.associative_scan((kl.load(x + at), kl.load(x + N + at)), 0, compose, reverse=REVERSE)
    kl.store(y + at, a)
    kl.store(y + N + at, b)


@kiln.jit
def cumsum_kernel(x, y, N: kl.constexpr, REVERSE: kl.constexpr):
    at = kl.arange(0, N)
    kl.store(y + at, kl.cumsum(kl.load(x + at), 0, reverse=REVERSE))


def one_by_one(function, x, reverse):
    """The scan by its definition, along the last axis of (tuple, ..., n)."""
    x = x[..., ::-1] if reverse else x
    y = x.copy()
    for i in range(1, x.shape[-1]):
        y[..., i] = function(y[..., i - 1], x[..., i])
    return y[..., ::-1] if reverse else y


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float32])
@pytest.mark.parametrize("side", [4, 8, 16, 24, 76, 96, 4096])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_a_scan_is_kept(dtype, side, reverse):
    x = np.where(RNG.random((3, side)) < 0.8, 0, RNG.integers(1, 99, (3, side))).astype(dtype)
    y = np.full_like(x, -1)
    later_kernel[(1,)](x, y, 3, side, reverse)
    np.testing.assert_array_equal(y, one_by_one(lambda a, b: np.where(b != 0, b, a), x, reverse))


@pytest.mark.parametrize("side", [4, 16, 76, 512])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_functions_composes_them_in_order(side, reverse):
    x = RNG.integers(-1000, 1000, (2, side)).astype(np.int32) | 1
    y = np.empty_like(x)
    compose_kernel[(1,)](x, y, side, reverse)
    with np.errstate(over="ignore"):
        want = one_by_one(lambda f, g: np.stack([f[0] * g[0], f[1] * g[0] + g[1]]), x, reverse)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_floats_are_close_and_reproducible(reverse):
    x = RNG.standard_normal(4096).astype(np.float32)
    first, second = np.empty_like(x), np.empty_like(x)
    cumsum_kernel[(1,)](x, first, 4096, reverse)
    cumsum_kernel[(1,)](x, second, 4096, reverse)
    want = np.cumsum(x[::-1].astype(np.float64))[::-1] if reverse else np.cumsum(x.astype(np.float64))
    np.testing.assert_allclose(first, want, atol=2e-4)
    np.testing.assert_array_equal(first, second)


def test_a_running_sum_starts_without_a_zero():
    """Nothing is added before the first element: a row of -0.0 stays -0.0."""
    x = np.full(64, -0.0, np.float32)
    y = np.empty_like(x)
    cumsum_kernel[(1,)](x, y, 64, False)
    assert np.signbit(y).all()
