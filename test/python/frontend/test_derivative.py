"""Derivatives of jit functions, op by op: against differences of float64, and what has none."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.errors import CompilationError
from kiln.frontend.derivative import with_derivative
from kiln.kernels.fast import reciprocal


@kiln.jit
def arithmetic(x, y):
    return (x * y - 3.0 / x) / (y + x * x) + (-x) % 2.5 + kl.fma(x, x, y)


@kiln.jit
def functions(x, y):
    low = kl.exp(-x) + kl.exp2(x) * kl.log(x) - kl.log2(x) + kl.sqrt(x) * kl.rsqrt(x + 1.0)
    return low + kl.sin(x) * kl.cos(x * y) + kl.erf(x) - reciprocal(x) + kl.exp(kl.floor(x))


@kiln.jit
def choices(x, y):
    return (
        kl.where(y > 0.0, kl.maximum(x, y * 2.0) * x, kl.abs(x - 1.5)) + kl.minimum(x, 2.0) + kl.clamp(x * y, -0.5, 1.0)
    )


@kiln.jit
def shaped(x, y):
    wide = x.reshape(4, 16) * kl.arange(0, 16).to(kl.float64)[None, :]
    return (wide.T * wide.T).T.reshape(64) + y


@kiln.jit
def through_another(x, y):
    return arithmetic(choices(x, y) + 4.0, y) * x


@kiln.jit
def constant(x, y):
    return y * 2.0


@kiln.jit
def kernel(x, y, value, slope, FUNCTION: kl.constexpr):
    at = kl.arange(0, 64)
    found, by_x = with_derivative(FUNCTION, kl.load(x + at), kl.load(y + at))
    kl.store(value + at, found)
    kl.store(slope + at, by_x)


@kiln.jit
def plain(x, y, value, FUNCTION: kl.constexpr):
    at = kl.arange(0, 64)
    kl.store(value + at, FUNCTION(kl.load(x + at), kl.load(y + at)))


@pytest.mark.parametrize("function", [arithmetic, functions, choices, shaped, through_another, constant])
def test_slopes_are_those_of_differences(function):
    rng = np.random.default_rng(7)
    x, y = rng.uniform(0.3, 3.0, 64), rng.uniform(-2.0, 2.0, 64)
    value, slope, expected, above, below = (np.full(64, np.nan) for _ in range(5))
    kernel[(1,)](x, y, value, slope, FUNCTION=function)
    plain[(1,)](x, y, expected, FUNCTION=function)
    step = 1e-6
    plain[(1,)](x + step, y, above, FUNCTION=function)
    plain[(1,)](x - step, y, below, FUNCTION=function)
    assert (value == expected).all()
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-6, atol=1e-6)


@kiln.jit
def looped(x, y):
    for _ in range(0, 3):
        x = x * y
    return x


@kiln.jit
def summed(x, y):
    return y * kl.sum(x, axis=0)


@kiln.jit
def whole(x, y):
    return (x * 3.0).to(kl.int32)


@pytest.mark.parametrize(
    ("function", "message"),
    [(looped, "operations of single elements .*got scf.for"),
     (summed, "operations of single elements .*got tile.reduce"), (whole, "a function that returns floats")],
)  # fmt: skip
def test_what_has_no_derivative_is_named(function, message):
    arrays = (np.ones(64) for _ in range(4))
    with pytest.raises(CompilationError, match=message):
        kernel[(1,)](*arrays, FUNCTION=function)
