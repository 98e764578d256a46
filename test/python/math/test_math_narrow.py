"""f16, bf16, f8E4M3FN, f8E5M2: all 256 or 65536 values against ml_dtypes; conversions round exactly once."""

from __future__ import annotations

import numpy as np
import pytest
from math_harness import DTYPES, NARROW, Function, host_targets
from math_references import narrowed, toward_zero
from math_samples import BITS, every, integers, rounding

TARGETS = host_targets()
FLOATS = ("f64", "f32", *NARROW)
INTEGERS = ("i8", "i16", "i32", "i64")
EXTENSIONS = [(a, b) for a in NARROW for b in FLOATS if BITS[a] < BITS[b]]
TRUNCATIONS = [(a, b) for a in FLOATS for b in FLOATS if BITS[a] > BITS[b]]
ARITHMETIC = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "remf": np.fmod,
    "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
}  # fmt: skip
COMPARISONS = {
    "oeq": lambda a, b: a == b, "olt": lambda a, b: a < b, "oge": lambda a, b: a >= b,
    "une": lambda a, b: a != b, "ult": lambda a, b: ~(a >= b), "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip

FUNCTIONS = [
    Function(f"extf_{a}_{b}", (a,), (b,), f"%r = arith.extf %a0 : VEC({a}) to VEC({b})") for a, b in EXTENSIONS
]
for _a, _b in TRUNCATIONS:
    FUNCTIONS += [
        Function(f"truncf_{_a}_{_b}", (_a,), (_b,), f"%r = arith.truncf %a0 : VEC({_a}) to VEC({_b})"),
        Function(f"zero_{_a}_{_b}", (_a,), (_b,), f"%r = arith.truncf %a0 toward_zero : VEC({_a}) to VEC({_b})"),
    ]
for _t in NARROW:
    FUNCTIONS += [Function(f"{op}_{_t}", (_t, _t), (_t,), f"%r = arith.{op} %a0, %a1 : VEC({_t})") for op in ARITHMETIC]
    FUNCTIONS += [
        Function(f"cmpf_{p}_{_t}", (_t, _t), ("i1",), f"%r = arith.cmpf {p}, %a0, %a1 : VEC({_t})") for p in COMPARISONS
    ]
    FUNCTIONS += [
        Function(f"negf_{_t}", (_t,), (_t,), f"%r = arith.negf %a0 : VEC({_t})"),
        Function(f"absf_{_t}", (_t,), (_t,), f"%r = math.absf %a0 : VEC({_t})"),
        Function(f"copysign_{_t}", (_t, _t), (_t,), f"%r = math.copysign %a0, %a1 : VEC({_t})"),
        Function(f"exp_{_t}", (_t,), (_t,), f"%r = math.exp %a0 : VEC({_t})"),
        Function(f"select_{_t}", ("i1", _t, _t), (_t,), f"%r = arith.select %a0, %a1, %a2 : VEC(i1), VEC({_t})"),
        Function(
            f"constant_{_t}",
            (_t,),
            (_t,),
            f"%c = arith.constant SPLAT(1.5) : VEC({_t})\n    %r = arith.addf %a0, %c : VEC({_t})",
        ),
    ]
for _t in FLOATS:
    for _i in INTEGERS:
        FUNCTIONS += [
            Function(f"{op}_{_i}_{_t}", (_i,), (_t,), f"%r = arith.{op} %a0 : VEC({_i}) to VEC({_t})")
            for op in ("sitofp", "uitofp")
        ]
        FUNCTIONS += [
            Function(f"{op}_{_t}_{_i}", (_t,), (_i,), f"%r = arith.{op} %a0 : VEC({_t}) to VEC({_i})")
            for op in ("fptosi", "fptoui")
        ]


@pytest.fixture(params=[(t, s) for t in TARGETS for s in ("16", "")], ids=lambda p: f"{p[0]}-{p[1] or 'scalar'}")
def library(compiled, request):
    target, shape = request.param
    return compiled("narrow", FUNCTIONS, target, shape)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def check(result: np.ndarray, expected: np.ndarray, *arguments: np.ndarray) -> None:
    """The same number, sign of zero included; all NaNs are equal."""
    assert result.dtype == expected.dtype
    r, e = (a.astype(np.float64) for a in (result, expected))
    same = (np.isnan(r) & np.isnan(e)) | ((r == e) & (np.signbit(r) == np.signbit(e)))
    bad = np.flatnonzero(~same)
    assert not len(bad), f"{len(bad)} wrong, first {[a[bad[0]] for a in arguments]}: {r[bad[0]]}, expected {e[bad[0]]}"


def operands(t: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of an 8-bit type, many pairs of a 16-bit type."""
    values = every(t)
    if BITS[t] == 8:
        a, b = np.meshgrid(values.view(np.uint8), values.view(np.uint8))
        return a.ravel().view(DTYPES[t]), b.ravel().view(DTYPES[t])
    rng = np.random.default_rng(8)
    return tuple(rng.integers(0, 65536, 100_000, np.uint16).view(DTYPES[t]) for _ in range(2))


@pytest.mark.parametrize("a,b", EXTENSIONS)
def test_extension_of_every_value(library, a, b):
    x = every(a)
    check(library(f"extf_{a}_{b}", x), x.astype(DTYPES[b]), x)


@pytest.mark.parametrize("a,b", TRUNCATIONS)
def test_truncation_rounds_to_nearest_even(library, a, b):
    x = rounding(a)
    check(library(f"truncf_{a}_{b}", x), narrowed(x, b), x)


@pytest.mark.parametrize("a", ("f64", "f32", "f16", "bf16"))
@pytest.mark.parametrize("b,largest", [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_truncation_to_8_bits_saturates(library, a, b, largest):
    """Checked without the reference: whatever is beyond the largest number becomes the largest number."""
    x = rounding(a)
    wide = x.astype(np.float64)
    beyond = np.abs(wide) > largest
    for name in ("truncf", "zero"):
        y = library(f"{name}_{a}_{b}", x).astype(np.float64)
        np.testing.assert_array_equal(y[beyond], np.copysign(largest, wide[beyond]))
        np.testing.assert_array_equal(np.isnan(y), np.isnan(wide))
        assert np.isinf(wide).sum() >= 2 and np.isfinite(wide[beyond]).any()


@pytest.mark.parametrize("a,b", TRUNCATIONS)
def test_truncation_toward_zero(library, a, b):
    x = rounding(a)
    check(library(f"zero_{a}_{b}", x), toward_zero(x, b), x)


@pytest.mark.parametrize("t", NARROW)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_is_that_of_f32_rounded(library, op, t):
    a, b = operands(t)
    result = library(f"{op}_{t}", a, b)
    expected = ARITHMETIC[op](a.astype(np.float32), b.astype(np.float32))
    # The maximum of two numbers is not rounded: infinity stays in f8E5M2.
    expected = expected.astype(DTYPES[t]) if op.startswith("m") and op != "mulf" else narrowed(expected, t)
    if op in ("maximumf", "minimumf", "maxnumf", "minnumf"):  # numpy leaves open which of two zeros it returns
        zero = (a.astype(np.float32) == 0) & (b.astype(np.float32) == 0)
        result, expected = (
            np.where(zero, np.abs(k.astype(np.float32)), k.astype(np.float32)) for k in (result, expected)
        )
    check(result, expected, a, b)


@pytest.mark.parametrize("t", NARROW)
def test_comparisons(library, t):
    a, b = operands(t)
    for predicate, reference in COMPARISONS.items():
        expected = reference(a.astype(np.float32), b.astype(np.float32))
        np.testing.assert_array_equal(library(f"cmpf_{predicate}_{t}", a, b), expected, predicate)


@pytest.mark.parametrize("t", NARROW)
def test_signs_selection_and_constants(library, t):
    x = every(t)
    y = x[::-1].copy()
    wide, other = x.astype(np.float32), y.astype(np.float32)
    check(library(f"negf_{t}", x), (-wide).astype(x.dtype), x)
    check(library(f"absf_{t}", x), np.abs(wide).astype(x.dtype), x)
    check(library(f"copysign_{t}", x, y), np.copysign(wide, other).astype(x.dtype), x, y)
    which = np.arange(len(x)) % 3 == 0
    check(library(f"select_{t}", which, x, y), np.where(which, x, y), x, y)
    check(library(f"constant_{t}", x), narrowed(wide + np.float32(1.5), t), x)


@pytest.mark.parametrize("t", NARROW)
def test_functions_are_computed_in_f32(library, t):
    x = every(t)
    result = library(f"exp_{t}", x).astype(np.float64)
    exact = np.exp(x.astype(np.float64))
    nearest = narrowed(exact.astype(np.float32), t).astype(np.float64)
    # Where f32's own error crosses a midpoint, the neighbour is also accepted.
    off = ~((result == nearest) | (np.isnan(result) & np.isnan(nearest)))
    assert off.mean() < 1e-3
    assert (np.abs(result[off] - exact[off]) <= np.abs(nearest[off] - exact[off]) * (1 + 1e-3)).all()


@pytest.mark.parametrize("op", ["sitofp", "uitofp"])
@pytest.mark.parametrize("i", INTEGERS)
@pytest.mark.parametrize("t", FLOATS)
def test_integer_to_float_rounds_once(library, op, i, t):
    x = integers(i)
    value = x if op == "sitofp" else x.view(f"u{x.dtype.itemsize}")
    check(library(f"{op}_{i}_{t}", x), narrowed(value, t), x)


@pytest.mark.parametrize("op", ["fptosi", "fptoui"])
@pytest.mark.parametrize("i", INTEGERS)
@pytest.mark.parametrize("t", FLOATS)
def test_float_to_integer_in_range(library, op, i, t):
    x = rounding(t) if t in ("f32", "f64") else every(t)
    width = DTYPES[i].itemsize * 8
    whole = np.trunc(x.astype(np.float64))
    low, high = (-(2.0 ** (width - 1)), 2.0 ** (width - 1)) if op == "fptosi" else (0.0, 2.0**width)
    fits = (whole >= low) & (whole < high)
    target = DTYPES[i] if op == "fptosi" else np.dtype(f"u{width // 8}")
    np.testing.assert_array_equal(library(f"{op}_{t}_{i}", x[fits]), whole[fits].astype(target).view(DTYPES[i]))
