"""RMSNorm, LayerNorm, residual + RMSNorm: shapes, strides, points of rounding."""

import pydoc

import numpy as np
import pytest
from harness import DTYPES, assert_close, random, strided
from kiln.kernels.norm import layer_norm, reference, residual_rms_norm, rms_norm
from kiln.kernels.rows import RowPlan

SHAPES = [(1, 1), (1, 7), (3, 16), (5, 127), (4, 896), (3, 4096), (2, 5003), (2, 3, 33), (0, 8), (4, 0)]


@pytest.mark.parametrize("cast", ["before", "after"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rms_norm(rng, shape, dtype, cast):
    x, weight = random(rng, shape, dtype), random(rng, shape[-1], dtype)
    out = rms_norm(x, weight, cast=cast)
    if x.size:
        assert_close(out, reference.rms_norm(x, weight), length=shape[-1], roundings=cast == "before")
    assert out.dtype == x.dtype and out.shape == shape


@pytest.mark.parametrize("round_sum", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_residual_rms_norm(rng, shape, dtype, round_sum):
    x, residual, weight = random(rng, shape, dtype), random(rng, shape, dtype), random(rng, shape[-1], dtype)
    y, total = residual_rms_norm(x, residual, weight, round_sum=round_sum)
    assert y.shape == total.shape == shape
    if x.size:
        exact_y, exact_total = reference.residual_rms_norm(x, residual, weight, round_sum=round_sum)
        assert_close(total, exact_total)
        assert_close(y, exact_y, length=shape[-1])


def test_round_sum_is_what_the_norm_sees(rng):
    """In bfloat16 the two choices differ visibly; each agrees with its own reference."""
    x, residual = random(rng, (4, 512), "bfloat16"), random(rng, (4, 512), "bfloat16", scale=100)
    weight = np.ones(512, np.float32)
    out = (np.empty((4, 512), np.float32), np.empty_like(residual))
    results = {}
    for round_sum in (True, False):
        results[round_sum] = residual_rms_norm(x, residual, weight, round_sum=round_sum, out=out)[0].copy()
        exact = reference.residual_rms_norm(x, residual, weight, round_sum=round_sum)[0]
        assert_close(results[round_sum], exact, length=512)
    assert (results[True] != results[False]).any()


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_norm(rng, shape, dtype, biased):
    x, weight = random(rng, shape, dtype), random(rng, shape[-1], dtype)
    bias = random(rng, shape[-1], dtype) if biased else None
    out = layer_norm(x, weight, bias)
    if x.size:
        assert_close(out, reference.layer_norm(x, weight, bias), length=shape[-1])
    assert out.shape == shape


@pytest.mark.parametrize("cast", ["before", "after"])
@pytest.mark.parametrize("n,block", [(96, 96), (90, 96)])
@pytest.mark.parametrize("rows", [1, 4, 5, 11])
def test_layer_norm_whose_programs_take_rows_in_turns(rng, rows, n, block, cast):
    """Also in place, and with a row that is no numbers between others."""
    plan = RowPlan(block, programs=5)
    x, weight, bias = random(rng, (rows, n), "float16"), *(random(rng, n, "float16") for _ in "wb")
    x[rows // 2] = np.nan
    exact = layer_norm(x, weight, bias, cast=cast)
    out = layer_norm(x, weight, bias, cast=cast, plan=plan)
    assert out.tobytes() == exact.tobytes() and np.isnan(out).sum() == n
    layer_norm(x, weight, bias, cast=cast, plan=plan, out=x)
    assert x.tobytes() == exact.tobytes()


def test_other_kernels_and_types_ignore_programs(rng):
    plan = RowPlan(96, programs=2)
    x, weight = random(rng, (5, 96), "float32"), random(rng, 96, "float32")
    np.testing.assert_array_equal(layer_norm(x, weight, plan=plan), layer_norm(x, weight))
    np.testing.assert_array_equal(rms_norm(x, weight, plan=plan), rms_norm(x, weight))


def test_layer_norm_of_a_large_mean(rng):
    """The variance is computed from centred values: a mean 1000 times the spread costs digits of x, not of the
    variance."""
    x = random(rng, (4, 1024)) + np.float32(1000)
    weight = np.ones(1024, np.float32)
    assert_close(layer_norm(x, weight), reference.layer_norm(x, weight), length=1024, scale=1000)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [5, 896, 8192])
def test_layer_norm_of_16_bits_with_outliers(rng, n, dtype):
    """Distances from the mean of four elements: large means, outliers among the four, constant rows."""
    x = random(rng, (6, n), "float32")
    x[0] += 1000
    x[1, 0] = 3e4
    x[2, [0, n // 2]] = 3e4, -2e4
    x[3, [0, n // 4, n // 2, n - 1]] = 3e4, 2e4, 2.5e4, 1.5e4
    x[4] = 7
    x[5] *= 1e-3
    x = x.astype(random(rng, (1,), dtype).dtype)
    weight = np.ones(n, np.float32)
    assert_close(layer_norm(x, weight), reference.layer_norm(x, weight), length=n)


@pytest.mark.parametrize("n", [33, 70000])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_layer_norm_without_statistics(rng, n, dtype, odd):
    """A row with an infinity has no mean: all of it is NaN, also where the variance is a difference."""
    x = random(rng, (3, n), dtype)
    x[1, n // 3] = odd
    out = np.asarray(layer_norm(x, np.ones(n, np.float32)), np.float32)
    assert np.isnan(out[1]).all() and np.isfinite(out[[0, 2]]).all()


def test_views(rng):
    x, weight = random(rng, (6, 40)), random(rng, 40)
    exact = reference.rms_norm(x, weight)
    assert_close(rms_norm(strided(x), weight), exact, length=40)
    assert_close(rms_norm(x, strided(weight[None])[0]), exact, length=40)
    assert_close(rms_norm(np.asfortranarray(x), weight), exact, length=40)
    with pytest.raises(ValueError, match="leading dimensions that collapse"):
        rms_norm(np.swapaxes(random(rng, (4, 5, 40)), 0, 1), weight)


def test_specs_and_errors(rng):
    x, weight = random(rng, (2, 3, 64), "float16"), random(rng, 64)
    (spec,) = rms_norm.output_specs(x, weight, eps=1e-5)
    assert spec.shape == (2, 3, 64) and spec.dtype == np.float16 and rms_norm.mutates == ()
    with pytest.raises(ValueError, match=r"weight: expected shape \(64,\)"):
        rms_norm(x, weight[:5])
    with pytest.raises(ValueError, match="cast"):
        rms_norm(x, weight, cast="never")


def test_eps_by_position_and_help(rng):
    x, weight, bias = rng.normal(size=(4, 64)), rng.normal(size=64), rng.normal(size=64)
    x, weight, bias = (a.astype(np.float32) for a in (x, weight, bias))
    np.testing.assert_array_equal(rms_norm(x, weight, 0.5), rms_norm(x, weight, eps=0.5))
    np.testing.assert_array_equal(layer_norm(x, weight, bias, 0.5), layer_norm(x, weight, bias, eps=0.5))
    both = residual_rms_norm(x, x, weight, 0.5), residual_rms_norm(x, x, weight, eps=0.5)
    np.testing.assert_array_equal(both[0][0], both[1][0])
    assert rms_norm.output_specs(x, weight, 0.5)[0].shape == x.shape
    assert len(residual_rms_norm.output_specs(x, x, weight, 0.5)) == 2
    for function in (rms_norm, layer_norm, residual_rms_norm):
        assert pydoc.plain(pydoc.render_doc(function)).splitlines()[2].startswith(f"{function.__name__}(x")
