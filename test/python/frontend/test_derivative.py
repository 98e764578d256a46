"""Derivatives of jit functions, op by op, checked against finite differences in float64; and ops that have none."""

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.errors import CompilationError
from kiln.frontend import derivative
from kiln.frontend.derivative import with_derivative
from kiln.kernels.fast import exp2_flushed, reciprocal
from kiln.language.extra import libdevice


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
    return (wide.T * wide.T).T.reshape(64) + y * x[:, None].reshape(64)


@kiln.jit
def through_another(x, y):
    return arithmetic(choices(x, y) + 4.0, y) * x


@kiln.jit
def library(x, y):
    near = libdevice.pow(x, y) + libdevice.atan2(x, y) - libdevice.atan2(y, x) * libdevice.cbrt(x)
    return near + libdevice.tanh(x * y) + libdevice.pow(kl.full((64,), 2.0, kl.float64), x)


@kiln.jit
def quiet(x, y):
    """Extrema that propagate NaN."""
    return kl.maximum(x, y, propagate_nan=kl.PropagateNan.ALL) * kl.minimum(
        x * 0.5, y + 1.0, propagate_nan=kl.PropagateNan.ALL
    )


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
def spread_kernel(x, y, slope, FUNCTION: kl.constexpr):
    """Derivatives with respect to a scalar and to a column, both of which the function broadcasts."""
    at = kl.arange(0, 8)
    _, by_number = with_derivative(FUNCTION, kl.load(x), kl.load(y + at))
    kl.store(slope + at, by_number)
    _, by_column = with_derivative(FUNCTION, kl.load(x + at)[:, None], kl.load(y + at)[None, :])
    kl.store(slope + 8 + at[:, None] * 8 + at[None, :], by_column)


@kiln.jit
def plain(x, y, value, FUNCTION: kl.constexpr):
    at = kl.arange(0, 64)
    kl.store(value + at, FUNCTION(kl.load(x + at), kl.load(y + at)))


DIFFERENTIATED = [arithmetic, functions, choices, shaped, through_another, library, quiet, constant]


@pytest.mark.parametrize("function", DIFFERENTIATED)
def test_slopes_match_finite_differences(function):
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
def converted(x, y):
    return (x.to(kl.float32) * 3.0).to(kl.float64)


@kiln.jit
def ties(x, y):
    return kl.maximum(x * 2.0, y) + kl.minimum(x * 5.0, y) + kl.abs(x)


@kiln.jit
def by_instructions(x, y):
    return (exp2_flushed(x.to(kl.float32)) + reciprocal(x.to(kl.float32))).to(kl.float64)


def run(function, x, y):
    value, slope = np.full(64, np.nan), np.full(64, np.nan)
    kernel[(1,)](x, y, value, slope, FUNCTION=function)
    return slope


def test_slopes_in_float32_are_exact():
    """Checks float32 against exact derivatives, as finite differences in float32 would be too coarse."""
    x, y = np.linspace(0.5, 2.0, 64), np.zeros(64)
    exact = np.log(2.0) * np.exp2(x) - 1 / x**2
    np.testing.assert_allclose(run(by_instructions, x, y), exact, rtol=1e-5, atol=1e-6)
    assert (run(converted, x, y) == 3.0).all()


@kiln.jit
def product(x, y):
    return x * y


def spread_slopes():
    slope = np.full((9, 8), np.nan)
    spread_kernel[(1,)](np.linspace(1.0, 2.0, 8), np.arange(8.0), slope, FUNCTION=product)
    return slope


def test_broadcast_values_have_a_slope_per_element():
    assert (spread_slopes() == np.arange(8.0)).all()


def test_ties_take_the_first_slope_and_abs_has_slope_0_at_0():
    x = np.zeros(64)
    assert (run(ties, x, x) == 2.0 + 5.0 + 0.0).all()


def test_every_rule_is_tried(monkeypatch):
    """Except hints, which do not apply to floats, and ops on tiles, which no elementwise function contains."""
    used, plain_rule = set(), derivative.rule_of

    def rule_of(step):
        used.add(step.name)
        return plain_rule(step)

    monkeypatch.setattr(derivative, "rule_of", rule_of)
    kernel.unload(), spread_kernel.unload()
    for function in [*DIFFERENTIATED, converted]:
        run(function, np.ones(64), np.ones(64))
    spread_slopes()
    assert set(derivative._RULES) - used == {"tile.hint", "tile.unsplat"}


@kiln.jit
def looped(x, y):
    for _ in range(0, 3):
        x = x * y
    return x


@kiln.jit
def summed(x, y):
    return y * kl.sum(x, axis=0)


@kiln.jit
def wrapped(x, y):
    return y % x


@kiln.jit
def whole(x, y):
    return (x * 3.0).to(kl.int32)


@pytest.mark.parametrize(
    ("function", "message"),
    [(looped, "operations of single elements .*got scf.for"),
     (summed, "operations of single elements .*got tile.reduce"),
     (wrapped, "a divisor that does not depend on what is differentiated"), (whole, "a function that returns floats")],
)  # fmt: skip
def test_ops_without_a_derivative_are_named(function, message):
    arrays = (np.ones(64) for _ in range(4))
    with pytest.raises(CompilationError, match=message):
        kernel[(1,)](*arrays, FUNCTION=function)
