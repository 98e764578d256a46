"""SwiGLU in its three layouts, bias + GELU exact and tanh."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random, strided
from kiln.kernels.activation import bias_gelu, reference, swiglu
from kiln.kernels.flat import FlatPlan

SHAPES = [(1, 1), (1, 7), (3, 2048), (5, 2049), (2, 5003), (2, 3, 33), (0, 8), (4, 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_swiglu(rng, shape, dtype):
    gate, up = random(rng, shape, dtype, scale=3), random(rng, shape, dtype)
    assert_close(swiglu(gate, up), reference.swiglu(gate, up))


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2), (3, 14), (2, 4096), (2, 4098), (2, 3, 66)], ids=str)
def test_swiglu_of_one_tensor(rng, shape, dtype, layout):
    both = random(rng, shape, dtype, scale=3)
    assert_close(swiglu(both, layout=layout), reference.swiglu(both, layout=layout))
    assert_close(swiglu(strided(both), layout=layout), reference.swiglu(both, layout=layout))


def test_swiglu_of_large_gates():
    gate = np.array([[-1e4, -100.0, -88.0, 88.0, 1e4, np.inf]], np.float32)
    assert_close(swiglu(gate, np.ones_like(gate)), reference.swiglu(gate, np.ones_like(gate)), scale=1)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bias_gelu(rng, shape, dtype, approximate):
    x, bias = random(rng, shape, dtype, scale=3), random(rng, shape[-1], dtype)
    assert_close(bias_gelu(x, bias, approximate=approximate), reference.bias_gelu(x, bias, approximate))


@pytest.mark.parametrize("rows,n", [(8, 64), (7, 64), (8, 50), (7, 50)])
def test_programs_of_several_rows(rng, rows, n):
    """Rows that fill the last program and rows that do not; the same for columns."""
    x, bias, plan = random(rng, (rows, n), scale=3), random(rng, n), FlatPlan(64, rows=4)
    assert_close(bias_gelu(x, bias, plan=plan), reference.bias_gelu(x, bias, "none"))
    both = random(rng, (rows, 2 * n), scale=3)
    assert_close(swiglu(both, plan=plan), reference.swiglu(both, layout="halves"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gelu_of_every_16_bit_number(dtype):
    """One rounding, plus a fortieth of a float16 rounding for the formula; the smallest results to one step."""
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[dtype])
    out = np.asarray(bias_gelu(x), np.float64)
    wide = np.asarray(x, np.float64)
    finite = np.isfinite(wide)
    exact = reference.bias_gelu(np.where(finite, wide, 0.0))
    unit, step = (2.0**-11, 2.0**-24) if dtype == "float16" else (2.0**-8, 1e-9)
    bound = (unit + 2.0**-16) * np.abs(exact) + step
    assert (np.abs(out - exact) <= bound)[finite].all()
    assert out[wide == np.inf] == np.inf and np.isnan(out[np.isnan(wide)]).all()


def test_gelu_without_bias_and_errors(rng):
    x = random(rng, (2, 100))
    assert_close(bias_gelu(x), reference.bias_gelu(x))
    with pytest.raises(ValueError, match="approximate"):
        bias_gelu(x, approximate="sigmoid")
    with pytest.raises(ValueError, match="even number of columns"):
        swiglu(x[:, :3])
