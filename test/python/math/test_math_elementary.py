"""Elementary functions of f32 and f64 against 80-bit references: 2 ulp, special values and signs of zero included."""

from __future__ import annotations

import numpy as np
import pytest
from math_harness import Function, host_targets, ulp_error
from math_references import BINARY, EXACT, SINGLE, UNARY
from math_samples import real

TARGETS = host_targets()
TYPES = ("f32", "f64")
BOUND = 2.0  # ulp; README.md of the pass lists what was measured

FUNCTIONS = [
    Function(f"{name}_{t}", (t,), (t,), f"%r = math.{name} %a0 : VEC({t})") for t in TYPES for name in (*UNARY, *EXACT)
]
FUNCTIONS += [
    Function(f"{name}_{t}", (t, t), (t,), f"%r = math.{name} %a0, %a1 : VEC({t})") for t in TYPES for name in BINARY
]
for _t in TYPES:
    FUNCTIONS += [
        Function(f"remf_{_t}", (_t, _t), (_t,), f"%r = arith.remf %a0, %a1 : VEC({_t})"),
        Function(f"fma_{_t}", (_t, _t, _t), (_t,), f"%r = math.fma %a0, %a1, %a2 : VEC({_t})"),
        Function(f"clampf_{_t}", (_t, _t, _t), (_t,), f"%r = math.clampf %a0 to [%a1, %a2] : VEC({_t})"),
        Function(f"sincos_{_t}", (_t,), (_t, _t), f"%r0, %r1 = math.sincos %a0 : VEC({_t})"),
        *(
            Function(f"{name}_{_t}", (_t,), ("i1",), f"%r = math.{name} %a0 : VEC({_t})")
            for name in ("isnan", "isinf", "isfinite", "isnormal")
        ),
        *(
            Function(f"{name}_{_t}", (_t, _t), (_t,), f"%r = arith.{name} %a0, %a1 : VEC({_t})")
            for name in ("maximumf", "minimumf", "maxnumf", "minnumf")
        ),
        *(
            Function(f"fpowi_{_t}_{i}", (_t, i), (_t,), f"%r = math.fpowi %a0, %a1 : VEC({_t}), VEC({i})")
            for i in ("i32", "i64")
        ),
    ]


def amount(t: str, target: str) -> int:
    """How many samples: many where the widest vectors make them cheap, fewer for comparing the other targets."""
    full = 1_000_000 if t == "f32" else 150_000
    return full if target == TARGETS[0] else full // 10


def check(result: np.ndarray, exact: np.ndarray, bound: float, *arguments: np.ndarray) -> None:
    error = ulp_error(result, exact)
    worst = int(np.argmax(error))
    where = tuple(a[worst] for a in arguments)
    assert error[worst] <= bound, f"{error[worst]} ulp at {where}: got {result[worst]!r}, expected {exact[worst]!r}"
    zero = (result == 0) & (exact == 0) & (np.signbit(result) != np.signbit(exact))
    assert not zero.any(), f"sign of zero at {tuple(a[zero][:3] for a in arguments)}"


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


@pytest.fixture
def library(compiled, target):
    return compiled("elementary", FUNCTIONS, target)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", [*UNARY, *EXACT])
def test_unary_functions_are_within_two_ulp(library, target, name, t):
    x = real(t, amount(t, target))
    # For f32 a double is precise enough where numpy has no fast 80-bit function.
    fast = SINGLE.get(name) if t == "f32" else None
    exact = fast(x) if fast else {**UNARY, **EXACT}[name](x.astype(np.longdouble))
    check(library(f"{name}_{t}", x), exact, 0 if name in EXACT else BOUND, x)


def pairs(t: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, y = real(t, count // 2, 3), real(t, count // 2, 4)
    rng.shuffle(x)
    rng.shuffle(y)
    n = count // 4
    some_x, some_y = rng.uniform(0, 50, n), rng.uniform(-50, 50, n)
    whole_x, whole_y = rng.uniform(-3, 3, n), rng.integers(-40, 40, n)
    ends = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, np.inf, -np.inf, np.nan])
    grid_x, grid_y = (g.ravel() for g in np.meshgrid(ends, ends))
    x, y = x[: len(y)], y[: len(x)]
    return (
        np.concatenate([x, some_x, whole_x, grid_x]).astype(x.dtype),
        np.concatenate([y, some_y, whole_y, grid_y]).astype(x.dtype),
    )


@pytest.mark.parametrize("t", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_are_within_two_ulp(library, target, name, t):
    x, y = pairs(t, amount(t, target) // 2)
    check(library(f"{name}_{t}", x, y), BINARY[name](x.astype(np.longdouble), y.astype(np.longdouble)), BOUND, x, y)


@pytest.mark.parametrize("t", TYPES)
def test_remainder_is_exact(library, target, t):
    x, y = pairs(t, amount(t, target) // 5)
    check(library(f"remf_{t}", x, y), np.fmod(x.astype(np.longdouble), y.astype(np.longdouble)), 0, x, y)


@pytest.mark.parametrize("i", ["i32", "i64"])
@pytest.mark.parametrize("t", TYPES)
def test_power_with_an_integer_exponent(library, t, i):
    rng = np.random.default_rng(6)
    x = rng.uniform(-4, 4, 60_000).astype(f"f{4 if t == 'f32' else 8}")
    n = rng.integers(-60, 60, len(x)).astype(f"i{4 if i == 'i32' else 8}")
    x[:6], n[:6] = [0.0, -0.0, np.inf, -np.inf, -0.0, np.nan], [3, 3, -2, 3, -3, 0]
    check(library(f"fpowi_{t}_{i}", x, n), x.astype(np.longdouble) ** n, BOUND, x, n)


def test_large_odd_exponent_keeps_the_sign(library):
    n = np.full(16, 2**60 + 1, np.int64)
    assert (library("fpowi_f64_i64", np.full(16, -1.0), n) == -1).all()


@pytest.mark.parametrize("t", TYPES)
def test_sincos_equals_sin_and_cos(library, t):
    x = real(t, 30_000)
    sine, cosine = library(f"sincos_{t}", x)
    np.testing.assert_array_equal(sine, library(f"sin_{t}", x))
    np.testing.assert_array_equal(cosine, library(f"cos_{t}", x))


@pytest.mark.parametrize("t", TYPES)
def test_classification(library, t):
    x = real(t, 30_000)
    tiny = np.finfo(x.dtype).tiny
    expected = {
        "isnan": np.isnan(x),
        "isinf": np.isinf(x),
        "isfinite": np.isfinite(x),
        "isnormal": np.isfinite(x) & (np.abs(x) >= tiny),
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(library(f"{name}_{t}", x), value, name)


@pytest.mark.parametrize("t", TYPES)
def test_maximum_and_minimum_with_nan(library, t):
    x, y = pairs(t, 20_000)
    for name, reference in (
        ("maximumf", np.maximum),
        ("minimumf", np.minimum),
        ("maxnumf", np.fmax),
        ("minnumf", np.fmin),
    ):
        np.testing.assert_array_equal(library(f"{name}_{t}", x, y), reference(x, y), name)
    low, high = np.minimum(x, y), np.maximum(x, y)
    z = np.flip(x).copy()
    np.testing.assert_array_equal(library(f"clampf_{t}", z, low, high), np.minimum(np.maximum(z, low), high))


@pytest.mark.parametrize("t", TYPES)
def test_fused_multiply_add_rounds_once(library, t):
    from fractions import Fraction

    rng = np.random.default_rng(7)
    dtype = np.dtype(np.float32 if t == "f32" else np.float64)
    a, b, c = (rng.normal(size=6000).astype(dtype) for _ in range(3))
    c[::3] = -(a[::3] * b[::3])  # nearly all of the product cancels
    c[1::3] *= dtype.type(2) ** rng.integers(-60, 60, len(c[1::3])).astype(dtype)
    result = library(f"fma_{t}", a, b, c)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), result, strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        neighbours = [Fraction(float(np.nextafter(r, dtype.type(s)))) for s in (-np.inf, np.inf)]
        distance = abs(Fraction(float(r)) - exact)
        assert all(distance <= abs(n - exact) for n in neighbours), (x, y, z, r)
    ends = np.array([np.inf, 1, 0, np.inf, np.nan, -np.inf], dtype)
    zeros, ones = np.zeros_like(ends), np.ones_like(ends)
    np.testing.assert_array_equal(library(f"fma_{t}", ends, ones, ones), ends + 1)
    np.testing.assert_array_equal(library(f"fma_{t}", ends, zeros, ones), ends * 0 + 1)


@pytest.mark.parametrize("shape", ["", "4x4", "3", "32"])
def test_every_shape_gives_the_same_bits(compiled, shape):
    wide = compiled("elementary", FUNCTIONS, TARGETS[0])
    other = compiled("elementary", FUNCTIONS, TARGETS[0], shape)
    for function in FUNCTIONS:
        if any(t.startswith("i") for t in function.operands) or len(function.results) > 1:
            continue
        arguments = [real(t, 3000, seed) for seed, t in enumerate(function.operands)]
        np.testing.assert_array_equal(other(function.name, *arguments), wide(function.name, *arguments), function.name)
