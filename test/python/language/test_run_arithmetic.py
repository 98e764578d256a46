"""Arithmetic on the CPU against numpy: every type, C's division, shifts, comparisons, conversions, functions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kiln import knobs
from kiln.runtime import placement
from running import NUMPY, evaluate, numpy_type

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
N = 48
ON_GPU = placement.names_gpu(knobs.target)


def sample(kind: str, seed: int = 0, nonzero: bool = False) -> np.ndarray:
    """Values over the whole range, the extremes among them."""
    rng = np.random.default_rng(seed)
    ty = numpy_type(kind)
    if kind == "int1":
        return rng.integers(0, 2, N).astype(bool)
    if kind in SIGNED + UNSIGNED:
        info = np.iinfo(ty)
        values = rng.integers(info.min, info.max, N, dtype=ty, endpoint=True)
        values[:6] = [info.min, info.max, 0, 1, 2, 3]
        return np.where(values == 0, 1, values).astype(ty) if nonzero else values
    values = rng.standard_normal(N) * 8
    values[:3] = [0.0, -0.0, 1.0]
    return np.where(values == 0, 1, values).astype(ty) if nonzero else values.astype(ty)


def truncated_division(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact quotient and remainder, as in C."""
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    quotients = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    remainders = [a - q * b for (a, b), q in zip(pairs, quotients, strict=True)]
    return np.array(quotients, x.dtype), np.array(remainders, x.dtype)


@pytest.mark.parametrize("kind", SIGNED + UNSIGNED)
def test_integer_operators(kind):
    x, y = sample(kind, 1), sample(kind, 2)
    with np.errstate(over="ignore"):
        expected = {"x + y": x + y, "x - y": x - y, "x * y": x * y, "x & y": x & y, "x | y": x | y, "x ^ y": x ^ y}
        expected |= {"~x": ~x, "-x": (0 - x).astype(x.dtype)}
    for expression, value in expected.items():
        np.testing.assert_array_equal(evaluate(expression, ((N,), x.dtype), x=x, y=y), value, expression)
    for op in ("<", "<=", ">", ">=", "==", "!="):
        got = evaluate(f"x {op} y", ((N,), np.bool_), x=x, y=y)
        np.testing.assert_array_equal(got, eval(f"x {op} y"), op)


@pytest.mark.parametrize("a", [-7, 7, -8, 0, 1])
@pytest.mark.parametrize("b", [2, -2, 3, -1])
def test_division_has_one_rule_for_signs(a, b):
    """For tiles, for constants that fold, for a 1 that is part of the key, and for numbers known at compile time."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    for expression, expected in (("//", quotient), ("%", a - quotient * b)):
        ran = evaluate(f"x {expression} n", ((4,), np.int32), x=np.full(4, a, np.int32), n=b)
        known = evaluate(f"n {expression} ({b})", ((), np.int32), n=a)
        folded = evaluate(f"kl.full([4], {a}, kl.int32) {expression} ({b})", ((4,), np.int32))
        python = evaluate(f"({a}) {expression} ({b})", ((), np.int32))
        assert (ran == expected).all() and (folded == expected).all() and known == python == expected
    assert evaluate(f"({a}.0) % ({b}.0)", ((), np.float32)) == np.fmod(float(a), float(b))


@pytest.mark.parametrize("kind", SIGNED + UNSIGNED)
def test_integer_division_truncates(kind):
    x, y = sample(kind, 3), sample(kind, 4, nonzero=True)
    if kind in SIGNED:
        y = np.where(y == -1, 3, y).astype(x.dtype)  # min // -1 overflows
    quotient, remainder = truncated_division(x, y)
    np.testing.assert_array_equal(evaluate("x // y", ((N,), x.dtype), x=x, y=y), quotient)
    np.testing.assert_array_equal(evaluate("x % y", ((N,), x.dtype), x=x, y=y), remainder)


@pytest.mark.parametrize("kind", SIGNED + UNSIGNED)
def test_shifts_keep_the_sign_of_signed_integers(kind):
    x = sample(kind, 5)
    y = (np.arange(N) % (x.dtype.itemsize * 8)).astype(x.dtype)
    np.testing.assert_array_equal(evaluate("x >> y", ((N,), x.dtype), x=x, y=y), x >> y)
    np.testing.assert_array_equal(evaluate("x << y", ((N,), x.dtype), x=x, y=y), x << y)


@pytest.mark.parametrize("kind", FLOATS)
def test_float_operators(kind):
    x, y = sample(kind, 6), sample(kind, 7, nonzero=True)
    ty = x.dtype
    for op in ("+", "-", "*"):
        np.testing.assert_array_equal(evaluate(f"x {op} y", ((N,), ty), x=x, y=y), eval(f"x {op} y"), op)
    # 16-bit floats divide in fp32 and return it.
    wide = np.float64 if kind == "float64" else np.float32
    quotient = x.astype(wide) / y.astype(wide)
    # On a GPU it is one instruction, accurate to 2 ulp.
    np.testing.assert_array_max_ulp(evaluate("x / y", ((N,), wide), x=x, y=y), quotient, maxulp=2 if ON_GPU else 0)
    np.testing.assert_array_equal(evaluate("kl.div_rn(x, y)", ((N,), ty), x=x, y=y), (x.astype(wide) / y).astype(ty))
    np.testing.assert_array_equal(evaluate("x % y", ((N,), wide), x=x, y=y), np.fmod(x.astype(wide), y.astype(wide)))
    for op in ("<", "<=", ">", ">=", "==", "!="):
        np.testing.assert_array_equal(evaluate(f"x {op} y", ((N,), np.bool_), x=x, y=y), eval(f"x {op} y"), op)
    np.testing.assert_array_equal(
        np.signbit(evaluate("-x", ((N,), ty), x=x).astype(np.float64)), ~np.signbit(x.astype(np.float64))
    )


@pytest.mark.parametrize("kind", ["float8e4nv", "float8e5"])
def test_fp8_arithmetic_goes_through_wider_floats(kind):
    x, y = sample(kind, 8), sample(kind, 9)
    wide = (x.astype(np.float32) + y.astype(np.float32)).astype(x.dtype)
    got = evaluate("x + y", ((N,), x.dtype), x=x, y=y)
    np.testing.assert_array_equal(got.astype(np.float32), wide.astype(np.float32))
    got = evaluate("x.to(kl.float16) * 2", ((N,), np.float16), x=x)
    np.testing.assert_array_equal(got, x.astype(np.float16) * 2)


def test_comparisons_with_nan():
    x = np.array([1.0, np.nan, 3.0, np.nan], np.float32)
    y = np.array([1.0, 1.0, np.nan, np.nan], np.float32)
    for op in ("<", "<=", ">", ">=", "==", "!="):
        np.testing.assert_array_equal(evaluate(f"x {op} y", ((4,), np.bool_), x=x, y=y), eval(f"x {op} y"), op)


def test_mixed_signedness_and_width():
    x, y = sample("int32", 10), sample("uint8", 11)
    np.testing.assert_array_equal(evaluate("x + y", ((N,), np.int32), x=x, y=y), x + y.astype(np.int32))
    u = sample("uint32", 12)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(evaluate("x + u", ((N,), np.uint32), x=x, u=u), x.astype(np.uint32) + u)
    np.testing.assert_array_equal(evaluate("x < u", ((N,), np.bool_), x=x, u=u), x.astype(np.uint32) < u)


INTEGERS = ["int1", *SIGNED, *UNSIGNED]


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_conversions(source):
    x = sample(source, 13)
    for target in [*NUMPY, "bfloat16"]:
        ty = numpy_type(target)
        values = x
        if source in FLOATS and target in SIGNED + UNSIGNED:
            values = np.abs(x) if target in UNSIGNED else x
        with np.errstate(all="ignore"):
            middle = values.astype(np.float32) if source in ("float16", "bfloat16") else values
            expected = middle != 0 if target == "int1" else middle.astype(ty)
        if target == "bfloat16" and source in ("int64", "uint64", "int32", "uint32", "float64"):
            continue  # numpy rounds these twice
        got = evaluate(f"x.to(kl.{target})", ((N,), ty), x=values)
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64), f"{source} to {target}")


EDGES = [
    0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 100.7, 127.0, 127.9, 128.0, -128.0, -128.9, -129.0, 255.0, 256.0, -1.0, 32767.0,
    32768.0, -32768.0, -40000.0, 65504.0, 70000.0, 2147483520.0, 2147483647.0, 2.0**31, -(2.0**31), -(2.0**31) - 256,
    2.0**32 - 256, 2.0**32, 2.0**62, 2.0**63 - 1024, 2.0**63, -(2.0**63), -(2.0**63) - 2048, 2.0**64 - 2048, 2.0**64,
    1e20, -1e20, 1e300, -1e300, 1e-40, -1e-40, float("inf"), -float("inf"), float("nan"),
]  # fmt: skip


def to_integer(value: float, target: str) -> int:
    """The rule: round towards zero, saturate out of range, 0 for NaN."""
    limits = np.iinfo(target)
    if value != value:
        return 0
    if abs(value) == float("inf"):
        return limits.max if value > 0 else limits.min
    return min(max(int(value), limits.min), limits.max)


@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_floats_out_of_range_become_the_nearest_integer(source, target):
    with np.errstate(over="ignore"):
        x = np.array(EDGES + [0.0] * (64 - len(EDGES))).astype(numpy_type(source))
    expected = np.array([to_integer(float(v), target) for v in x], target)
    result = evaluate(f"x.to(kl.{target})", ((64,), target), x=x)
    np.testing.assert_array_equal(result, expected)
    scalar = evaluate(f"kl.load(x_ptr + {EDGES.index(1e20)}).to(kl.{target})", ((), target), x=x)
    assert scalar == expected[EDGES.index(1e20)]


@pytest.mark.parametrize("target", [*SIGNED, *UNSIGNED])
@pytest.mark.parametrize("value", [1e20, -1e20, 300.5, -300.5, 1e300, "inf", "-inf", "nan"])
def test_folded_conversions_equal_run_time_ones(value, target):
    expected = to_integer(float(value), target)
    text = f'float("{value}")'
    assert evaluate(f"kl.cast({text}, kl.{target})", ((), target)) == expected
    for source in ("float32", "float64"):
        with np.errstate(over="ignore"):
            seen = to_integer(float(np.array(float(value)).astype(source)), target)
        folded = evaluate(f"kl.full([16], {text}, kl.{source}).to(kl.{target})", ((16,), target))
        assert (folded == seen).all()
    if isinstance(value, float):
        assert (evaluate(f"kl.full([16], {text}, kl.{target})", ((16,), target)) == expected).all()


def test_sigmoid_keeps_subnormals():
    x = np.array(
        [-80, -87.5, -88.5, -90, -95, -100, -103, -110, -1000, 0, 1, 90, 1000, np.inf, -np.inf, np.nan], np.float32
    )
    small = np.exp(-np.abs(x.astype(np.float64)))
    exact = np.where(x < 0, small, 1) / (1 + small)
    result = evaluate("kl.sigmoid(x)", ((16,), "float32"), x=x)
    np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1.5e-45)
    assert (result[:7] > 0).all()
    wide = evaluate("kl.sigmoid(x)", ((2,), "float64"), x=np.array([-720.0, -740.0]))
    np.testing.assert_allclose(wide, np.exp([-720.0, -740.0]), rtol=1e-9, atol=5e-324)


def test_narrowing_toward_zero():
    x = (np.random.default_rng(14).standard_normal(N) * 100).astype(np.float32)
    got = evaluate("x.to(kl.float16, fp_downcast_rounding='rtz')", ((N,), np.float16), x=x)
    assert np.all(np.abs(got.astype(np.float64)) <= np.abs(x))
    assert np.all(np.abs(np.nextafter(got, np.copysign(np.float16(np.inf), got)).astype(np.float64)) > np.abs(x))


def test_rounding_modes_are_accepted_where_nothing_rounds():
    """As in kernels written for several types: a rounding mode is accepted where nothing is rounded."""
    x = sample("float32")
    for rounding in ("rtne", "rtz"):
        got = evaluate(f"x.to(kl.float32, fp_downcast_rounding='{rounding}')", ((N,), np.float32), x=x)
        np.testing.assert_array_equal(got, x)


def test_bitcasts_keep_the_bits():
    x = sample("float32", 15)
    np.testing.assert_array_equal(evaluate("x.to(kl.int32, bitcast=True)", ((N,), np.int32), x=x), x.view(np.int32))
    h = sample("float16", 16)
    np.testing.assert_array_equal(evaluate("h.to(kl.uint16, bitcast=True)", ((N,), np.uint16), h=h), h.view(np.uint16))


def test_where_minimum_maximum_and_clamp():
    x, y = sample("float32", 17), sample("float32", 18)
    x[5], y[6] = np.nan, np.nan
    out = ((N,), np.float32)
    np.testing.assert_array_equal(evaluate("kl.where(x > y, x, y)", out, x=x, y=y), np.where(x > y, x, y))
    np.testing.assert_array_equal(evaluate("kl.maximum(x, y)", out, x=x, y=y), np.fmax(x, y))
    np.testing.assert_array_equal(evaluate("kl.minimum(x, y)", out, x=x, y=y), np.fmin(x, y))
    every = "propagate_nan=kl.PropagateNan.ALL"
    np.testing.assert_array_equal(evaluate(f"kl.maximum(x, y, {every})", out, x=x, y=y), np.maximum(x, y))
    got = evaluate("kl.clamp(x, -1.0, 1.0)", out, x=x)
    np.testing.assert_array_equal(got, np.fmin(np.fmax(x, -1), 1))
    got = evaluate(f"kl.clamp(x, -1.0, 1.0, {every})", out, x=x)
    np.testing.assert_array_equal(got, np.clip(x, -1, 1))
    u, v = sample("uint8", 19), sample("uint8", 20)
    np.testing.assert_array_equal(evaluate("kl.maximum(u, v)", ((N,), np.uint8), u=u, v=v), np.maximum(u, v))


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "sqrt_rn": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "abs": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_functions(name, kind):
    x = np.linspace(0.01, 12, N).astype(kind)
    exact = FUNCTIONS[name](x.astype(np.float64))
    # 4 ulp of the type; the tests of the math expansion check the exact accuracy.
    got = evaluate(f"kl.{name}(x)", ((N,), x.dtype), x=x)
    np.testing.assert_allclose(got, exact, rtol=4 * np.finfo(kind).eps, atol=4 * np.finfo(kind).eps)


def test_fma_is_rounded_once():
    x = np.full(16, 1 + 2.0**-12, np.float32)
    got = evaluate("kl.fma(x, x, -1.0)", ((16,), np.float32), x=x)
    np.testing.assert_array_equal(got, (x.astype(np.float64) ** 2 - 1).astype(np.float32))


@pytest.mark.parametrize(
    "kind, a, b, c, expected",
    [
        # Cases of double rounding: in f32 the sum falls on a midpoint of the narrow type, and from there rounds to
        # even.
        (np.float16, 0.0273284912109375, 9984, 0.0273284912109375, 272.75),
        (np.float16, 1 + 2.0**-10, 1 + 2.0**-1, -(2.0**-24), 1.5 + 2.0**-10),
        (ml_dtypes.bfloat16, 7, 37, -(2.0**-30), 258),
        (ml_dtypes.bfloat16, 7, 37, 2.0**-30, 260),
        (ml_dtypes.bfloat16, 7, 37 * 2.0**110, -(2.0**-120), 258 * 2.0**110),
        # Infinities and NaN.
        (np.float16, np.inf, 2, -np.inf, np.nan),
        (np.float16, np.inf, 2, 1, np.inf),
        (ml_dtypes.bfloat16, 2.0**127, 2, 0, np.inf),
    ],
)
def test_fma_of_narrow_floats_is_rounded_once(kind, a, b, c, expected):
    x, y, z = (np.full(16, value, kind) for value in (a, b, c))
    got = evaluate("kl.fma(x, y, z)", ((16,), x.dtype), x=x, y=y, z=z)
    np.testing.assert_array_equal(got.astype(np.float64), np.full(16, expected))


def test_umulhi():
    x, y = sample("uint32", 21), sample("uint32", 22)
    high = (x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    np.testing.assert_array_equal(evaluate("kl.umulhi(x, y)", ((N,), np.uint32), x=x, y=y), high)


def test_logic_of_conditions():
    x, y = sample("int32", 23), sample("int32", 24)
    out = ((N,), np.bool_)
    np.testing.assert_array_equal(evaluate("(x > 0) & (y > 0)", out, x=x, y=y), (x > 0) & (y > 0))
    np.testing.assert_array_equal(evaluate("~(x > 0) | (y < 5)", out, x=x, y=y), ~(x > 0) | (y < 5))
    np.testing.assert_array_equal(evaluate("(x > 0) ^ (y > 0)", out, x=x, y=y), (x > 0) ^ (y > 0))


def test_scalars_and_chained_comparison():
    assert evaluate("kl.cdiv(n, 4) * 10 + n % 4", ((), np.int32), n=11) == 33
    assert evaluate("-n // 4", ((), np.int32), n=11) == -2
    assert evaluate("0 < n < 12", ((), np.bool_), n=11)
    assert evaluate("n / 4", ((), np.float32), n=11) == 2.75
