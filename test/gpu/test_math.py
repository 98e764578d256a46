"""Elementary functions, quotients and conversions on the device against references of more precision.

The same samples as for the CPU: every binade, intervals, neighbours of multiples of pi/2, infinities, NaN, denormals.
`python test/gpu/test_math.py` prints the largest error of each function, for the table of the expansion's README.
"""

from __future__ import annotations

import pathlib
import sys

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest
from kiln import knobs
from kiln.language.extra import libdevice

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "math"))
import math_references as references
from math_harness import ulp_error
from math_samples import every, real, rounding

BLOCK = 1024
TWO = 2.0  # ulp, for both types
# Functions that are a single instruction, with that instruction's error bound.
BOUNDS = {("exp", "f32"): 2.5, ("rsqrt", "f32"): 2.2, ("exp2", "f32"): 2.2, ("tanh", "f32"): 2.5}
UNARY = {
    name: getattr(kl, name, None) if name in ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "rsqrt") else function
    for name, function in {
        **{n: getattr(libdevice, n) for n in references.UNARY if n != "sqrt"},
        "sqrt": kl.sqrt_rn, "floor": kl.floor, "ceil": kl.ceil, "trunc": libdevice.trunc, "roundeven": libdevice.rint,
        "round": libdevice.round,
    }.items()
}  # fmt: skip
EXACT = ("sqrt", "floor", "ceil", "trunc", "roundeven", "round")


@kiln.jit
def unary_kernel(x, out, n, FUNCTION: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0).to(kl.int64) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, FUNCTION(kl.load(x + i, mask=i < n)), mask=i < n)


@kiln.jit
def binary_kernel(x, y, out, n, FUNCTION: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0).to(kl.int64) * BLOCK + kl.arange(0, BLOCK)
    mask = i < n
    kl.store(out + i, FUNCTION(kl.load(x + i, mask=mask), kl.load(y + i, mask=mask)), mask=mask)


@kiln.jit
def divide(x, y):
    return x / y


@kiln.jit
def convert_kernel(x, out, n, TYPE: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0).to(kl.int64) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + i, mask=i < n).to(TYPE), mask=i < n)


@kiln.jit
def erf_to_narrow_kernel(x, out, n, TYPE: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, kl.erf(kl.load(x + i, mask=i < n)).to(TYPE), mask=i < n)


@kiln.jit
def gelu_kernel(x, out, n, TYPE: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    v = kl.load(x + i, mask=i < n)
    kl.store(out + i, (0.5 * v * (1 + kl.erf(v * 0.7071067811865476))).to(TYPE), mask=i < n)


@kiln.jit
def narrow_kernel(x, y, out, n, OP: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    a = kl.load(x + i, mask=i < n)
    b = kl.load(y + i, mask=i < n)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "max":
        r = kl.maximum(a, b)
    else:
        r = kl.where(a < b, a, b)
    kl.store(out + i, r, mask=i < n)


@pytest.fixture(autouse=True)
def on_the_device():
    with knobs.scope(target="cuda", stage_arrays=True), np.errstate(all="ignore"):
        yield


def run(kernel, arrays, out, *constants):
    n = out.size
    kernel[(-(-n // BLOCK),)](*arrays, out, n, *constants, BLOCK)
    kiln.synchronize()
    return out


def amount(t: str) -> int:
    return 1_000_000 if t == "f32" else 150_000


def exact_of(name: str, t: str, x: np.ndarray) -> np.ndarray:
    fast = references.SINGLE.get(name) if t == "f32" else None
    if name == "round":
        return np.trunc(x.astype(np.longdouble) + np.copysign(np.longdouble(0.5), x))
    return fast(x) if fast else {**references.UNARY, **references.EXACT}[name](x.astype(np.longdouble))


def unary_error(name: str, t: str) -> tuple[float, str]:
    x = real(t, amount(t))
    result = run(unary_kernel, (x,), np.empty_like(x), UNARY[name])
    exact = exact_of(name, t, x)
    error = ulp_error(result, exact)
    worst = int(np.argmax(error))
    zero = (result == 0) & (exact == 0) & (np.signbit(result) != np.signbit(exact))
    assert not zero.any(), f"sign of zero at {x[zero][:3]}"
    return float(error[worst]), f"at {x[worst]!r}: got {result[worst]!r}, expected {exact[worst]!r}"


@pytest.mark.parametrize("t", ("f32", "f64"))
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name, t):
    error, where = unary_error(name, t)
    bound = (0.5 if name == "sqrt" else 0) if name in EXACT else BOUNDS.get((name, t), TWO)
    assert error <= bound, f"{error} ulp {where}"


def test_quotients_and_roots():
    """`/` and kl.sqrt within 2 ulp, div_rn and sqrt_rn exact; infinities, zeros and NaN as in IEEE 754."""
    rng = np.random.default_rng(5)
    x, y = rng.permutation(real("f32", 600_000)), rng.permutation(real("f32", 600_000))
    exact = x.astype(np.float64) / y.astype(np.float64)
    correct = run(binary_kernel, (x, y), np.empty_like(x), kl.div_rn)
    np.testing.assert_array_equal(correct, exact.astype(np.float32))
    result = run(binary_kernel, (x, y), np.empty_like(x), divide)
    error = ulp_error(result, exact)
    assert error.max() <= 2, f"{error.max()} ulp at {x[error.argmax()]} / {y[error.argmax()]}"
    root = run(unary_kernel, (np.abs(x),), np.empty_like(x), kl.sqrt)
    error = ulp_error(root, np.sqrt(np.abs(x).astype(np.float64)))
    assert error.max() <= 2, f"{error.max()} ulp"


def test_binary_functions():
    rng = np.random.default_rng(6)
    for t in ("f32", "f64"):
        x, y = rng.permutation(real(t, amount(t) // 3)), rng.permutation(real(t, amount(t) // 3))
        for name, function in (("powf", libdevice.pow), ("atan2", libdevice.atan2), ("remf", libdevice.fmod)):
            result = run(binary_kernel, (x, y), np.empty_like(x), function)
            if name == "remf":
                np.testing.assert_array_equal(result, np.fmod(x, y))
                continue
            exact = references.BINARY[name](x.astype(np.longdouble), y.astype(np.longdouble))
            error = ulp_error(result, exact)
            assert error.max() <= 2, f"{name} of {t}: {error.max()} ulp at {x[error.argmax()]}, {y[error.argmax()]}"


@pytest.mark.parametrize("name", ("float16", "bfloat16"))
def test_erf_that_ends_narrow(name):
    """Its own error bound, 2^-19 absolute and 2^-16 relative, then one rounding; the same for GELU, which uses it."""
    dtype = np.dtype(np.float16) if name == "float16" else np.dtype(ml_dtypes.bfloat16)
    ty = kl.float16 if name == "float16" else kl.bfloat16
    x = np.concatenate(
        [np.linspace(-6, 6, 500_001), np.geomspace(1e-8, 1, 100_000), [0, -0.0, np.inf, -np.inf, np.nan]]
    )
    x = x.astype(np.float32)
    info = ml_dtypes.finfo(dtype)
    half_ulp = 2.0 ** (-info.nmant - 1)

    def check(kernel, exact, absolute, relative):
        result = run(kernel, (x,), np.empty(x.shape, dtype), ty).astype(np.float64)
        nan = np.isnan(exact)
        np.testing.assert_array_equal(np.isnan(result), nan)
        allowed = absolute + np.abs(exact) * (relative + half_ulp) + float(info.smallest_subnormal) / 2
        excess = np.where(nan | np.isinf(exact), 0, np.abs(result - exact) - allowed)
        assert excess.max() <= 0, f"{excess.max()} too far at {x[excess.argmax()]}: {result[excess.argmax()]}"

    erf = np.asarray(references.SINGLE["erf"](x), np.float64)
    check(erf_to_narrow_kernel, erf, 0.0, 2.0**-16)
    v = x.astype(np.float64)
    gelu = 0.5 * v * np.asarray(references.SINGLE["erfc"](-v * np.sqrt(0.5)), np.float64)
    gelu = np.where(np.isneginf(v), np.nan, gelu)  # infinity times zero
    check(gelu_kernel, gelu, 0.0, 2.0**-12.5 + np.abs(v) * 2.0**-20 / np.maximum(np.abs(gelu), 1e-30))


CONVERSIONS = {
    "f16": (kl.float16, np.float16), "bf16": (kl.bfloat16, ml_dtypes.bfloat16), "f32": (kl.float32, np.float32),
    "f8E4M3FN": (kl.float8e4nv, ml_dtypes.float8_e4m3fn), "f8E5M2": (kl.float8e5, ml_dtypes.float8_e5m2),
}  # fmt: skip


@pytest.mark.parametrize("source", ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"))
@pytest.mark.parametrize("target", CONVERSIONS)
def test_conversions_round_once(source, target):
    ty, dtype = CONVERSIONS[target]
    x = rounding(source)
    result = run(convert_kernel, (x,), np.empty(x.shape, dtype), ty)
    wide = x.astype(np.float64)
    if target.startswith("f8") and source != target:
        largest = float(ml_dtypes.finfo(dtype).max)
        wide = np.clip(wide, -largest, largest)  # saturates, infinities too
    # One rounding from double: ml_dtypes goes through f32, which is exact for these inputs.
    expected = round_once(wide, np.dtype(dtype))
    same = (result.astype(np.float64) == expected) | (np.isnan(result.astype(np.float64)) & np.isnan(expected))
    assert same.all(), f"{x[~same][:5]} became {result[~same][:5]}, expected {expected[~same][:5]}"


def round_once(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x` rounded to nearest even in a format, computed in doubles."""
    if dtype == np.float32:
        return x.astype(np.float32).astype(np.float64)
    info = ml_dtypes.finfo(dtype)
    exponent = np.frexp(x)[1]
    step = np.maximum(exponent - 1 - int(info.nmant), int(np.log2(float(info.smallest_subnormal))))
    rounded = np.where(np.isfinite(x), np.ldexp(np.rint(np.ldexp(x, -step)), step), x)
    over = np.abs(rounded) > float(info.max)
    return np.where(over & np.isfinite(x), np.copysign(np.inf, x), rounded)


@pytest.mark.parametrize("name", ("f16", "bf16"))
@pytest.mark.parametrize("op", ("add", "sub", "mul", "max", "min"))
def test_narrow_arithmetic_is_that_of_the_cpu(name, op):
    rng = np.random.default_rng(7)
    x, y = (rng.permutation(np.tile(every(name), 4)) for _ in range(2))
    out = run(narrow_kernel, (x, y), np.empty_like(x), op)
    with knobs.scope(target="cpu", stage_arrays=False):
        expected = np.empty_like(x)
        narrow_kernel[(-(-x.size // BLOCK),)](x, y, expected, x.size, op, BLOCK)
    wide, wanted = out.astype(np.float64), expected.astype(np.float64)
    same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
    assert same.all(), f"{x[~same][:3]} {op} {y[~same][:3]}: {out[~same][:3]}, not {expected[~same][:3]}"


if __name__ == "__main__":
    with knobs.scope(target="cuda", stage_arrays=True), np.errstate(all="ignore"):
        for function in UNARY:
            errors = ", ".join(f"{t} {unary_error(function, t)[0]:.2f} ulp" for t in ("f32", "f64"))
            print(f"{function:12} {errors}", flush=True)
