"""The device library's names on the CPU: what has an op or an expression runs; the rest is refused by name."""

from __future__ import annotations

import math

import kiln
import numpy as np
import pytest
from kiln.language.extra import libdevice
from running import evaluate

F32 = np.float32
X = np.linspace(0.1, 0.9, 16).astype(F32)
vector = np.vectorize

# name: (what it computes in float64, an input in its domain)
FUNCTIONS = {
    "acos": (np.arccos, X), "asin": (np.arcsin, X), "atan": (np.arctan, X), "cosh": (np.cosh, X), "sinh": (np.sinh, X),
    "acosh": (np.arccosh, X + 1), "asinh": (np.arcsinh, X), "atanh": (np.arctanh, X),
    "cbrt": (np.cbrt, X), "erf": (vector(math.erf), X), "erfc": (vector(math.erfc), X), "expm1": (np.expm1, X),
    "log10": (np.log10, X), "log1p": (np.log1p, X), "tan": (np.tan, X), "tanh": (np.tanh, X),
    "exp10": (lambda x: 10**x, X), "rcbrt": (lambda x: 1 / np.cbrt(x), X), "rcp_rn": (lambda x: 1 / x, X),
    "fast_expf": (np.exp, X), "fast_tanhf": (np.tanh, X), "fast_logf": (np.log, X), "fast_sinf": (np.sin, X),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(name):
    function, x = FUNCTIONS[name]
    got = evaluate(f"kl.extra.libdevice.{name}(x)", ((16,), F32), x=x)
    np.testing.assert_allclose(got, function(x.astype(np.float64)), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name, function",
    [("rint", np.rint), ("nearbyint", np.rint), ("trunc", np.trunc), ("floor", np.floor), ("ceil", np.ceil),
     ("round", lambda x: np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)), ("fabs", np.abs),
     ("saturatef", lambda x: np.clip(np.nan_to_num(x, nan=0, posinf=1, neginf=0), 0, 1))],
)  # fmt: skip
def test_rounding(name, function):
    x = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 3.49, 1e9, np.inf, -np.inf, 0.49999997], F32)
    got = evaluate(f"kl.extra.libdevice.{name}(x)", ((12,), F32), x=x)
    np.testing.assert_array_equal(got, function(x))


@pytest.mark.parametrize(
    "name, function",
    [("pow", np.power), ("atan2", np.arctan2), ("fmod", np.fmod), ("copysign", np.copysign), ("hypot", np.hypot),
     ("fdim", lambda x, y: np.maximum(x - y, 0)), ("fmax", np.fmax), ("fmin", np.fmin),
     ("fast_dividef", np.divide), ("div_rn", np.divide)],
)  # fmt: skip
def test_functions_of_two(name, function):
    y = X[::-1].copy() * 3
    got = evaluate(f"kl.extra.libdevice.{name}(x, y)", ((16,), F32), x=X, y=y)
    np.testing.assert_allclose(got, function(X.astype(np.float64), y.astype(np.float64)), rtol=1e-6)


def test_hypot_does_not_overflow():
    x, y = np.array([3e38, np.inf, 0, 1e-40], F32), np.array([1e38, np.nan, 0, 1e-40], F32)
    got = evaluate("kl.extra.libdevice.hypot(x, y)", ((4,), F32), x=x, y=y)
    np.testing.assert_allclose(got, np.hypot(x.astype(np.float64), y.astype(np.float64)), rtol=1e-5)


def test_classification():
    x = np.array([1, np.nan, np.inf, -np.inf, -0.0, -1, 1e-40, 0], F32)
    for name, expected in (
        ("isnan", np.isnan(x)),
        ("isinf", np.isinf(x)),
        ("finitef", np.isfinite(x)),
        ("signbit", np.signbit(x)),
    ):
        got = evaluate(f"kl.extra.libdevice.{name}(x)", ((8,), np.int32), x=x)
        np.testing.assert_array_equal(got, expected.astype(np.int32), name)


def test_ldexp_over_the_whole_range():
    x = np.array([1, -1.5, 1.9999999, 3, 1, 1e-40, 1e38, 0], F32)
    n = np.array([-149, 127, -148, -300, 300, 200, -200, 5], np.int32)
    got = evaluate("kl.extra.libdevice.ldexp(x, n)", ((8,), F32), x=x, n=n)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.ldexp(x.astype(np.float64), n).astype(F32))


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64])
def test_bits(kind):
    bits = np.dtype(kind).itemsize * 8
    x = np.array([0, 1, 2, 255, 1 << (bits - 2), 12345678], kind)
    x = np.concatenate([x, ~x])[:8]
    words = [int(v) & ((1 << bits) - 1) for v in x]
    expected = {
        "popc": [w.bit_count() for w in words],
        "clz": [bits - w.bit_length() for w in words],
        "ffs": [(w & -w).bit_length() for w in words],
        "brev": [int(f"{w:0{bits}b}"[::-1], 2) for w in words],
    }
    for name, values in expected.items():
        out = kind if name == "brev" else np.int32
        got = evaluate(f"kl.extra.libdevice.{name}(x)", ((8,), out), x=x)
        assert [int(v) & ((1 << bits) - 1) if name == "brev" else int(v) for v in got] == values, name


def test_mulhi_of_signed_integers():
    x, y = np.array([-(2**31), 2**31 - 1, -5, 7], np.int32), np.array([3, 2**31 - 1, 2**30, -9], np.int32)
    got = evaluate("kl.extra.libdevice.mulhi(x, y)", ((4,), np.int32), x=x, y=y)
    np.testing.assert_array_equal(got, (x.astype(np.int64) * y >> 32).astype(np.int32))


def test_conversions_round_as_they_say():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7, -2.7], F32)
    for mode, function in (("rn", np.rint), ("rd", np.floor), ("ru", np.ceil), ("rz", np.trunc)):
        got = evaluate(f"kl.extra.libdevice.float2int_{mode}(x)", ((8,), np.int32), x=x)
        np.testing.assert_array_equal(got, function(x).astype(np.int32), mode)
    np.testing.assert_array_equal(
        evaluate("kl.extra.libdevice.float_as_int(x)", ((8,), np.int32), x=x), x.view(np.int32)
    )


@pytest.mark.cpu
@pytest.mark.parametrize("name", ["lgamma", "j0", "add_rd", "erfinv"])
def test_what_only_a_gpu_has_is_refused_by_name(name):
    assert hasattr(libdevice, name)
    with pytest.raises(kiln.errors.KilnError, match=f"__nv_.*{name.split('_')[0]}"):
        operands = "x, x" if name == "add_rd" else "x"
        evaluate(f"kl.extra.libdevice.{name}({operands})", ((16,), F32), x=X)
