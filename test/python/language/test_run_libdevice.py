"""The device library's names on the CPU: as ops, as expressions, as runtime functions."""

from __future__ import annotations

import math
from fractions import Fraction

import kiln
import kiln.language as kl
import numpy as np
import pytest
from running import evaluate

F32 = np.float32
X = np.linspace(0.1, 0.9, 16).astype(F32)
vector = np.vectorize

# name: (the function in float64, an input in its domain)
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


# Results of functions, from tables: name, operands, result.
VALUES = [
    ("cyl_bessel_i0", (1.0,), 1.2660658777520084), ("cyl_bessel_i0", (-20.0,), 43558282.559553534),
    ("cyl_bessel_i1", (1.0,), 0.5651591039924851), ("cyl_bessel_i1", (-1.0,), -0.5651591039924851),
    ("erfcinv", (1e-10,), 4.572824967389486), ("erfcinv", (1.5,), -0.4769362762044699),
    ("erfcinv", (0.0,), np.inf), ("erfcinv", (3.0,), np.nan), ("erfinv", (0.5,), 0.4769362762044699),
    ("erfinv", (1e-30,), 8.862269254527580e-31), ("erfinv", (-1.0,), -np.inf), ("erfinv", (0.0,), 0.0),
    ("erfcx", (10.0,), 0.05614099274382259), ("erfcx", (100.0,), 0.005641613782989433),
    ("erfcx", (-2.0,), 108.94090438997797), ("j0", (1.0,), 0.7651976865579666), ("j1", (1.0,), 0.44005058574493355),
    ("y0", (1.0,), 0.08825696421567698), ("y1", (1.0,), -0.7812128213002887), ("y0", (-1.0,), np.nan),
    ("lgamma", (0.5,), 0.5723649429247001), ("lgamma", (-1.0,), np.inf), ("tgamma", (5.0,), 24.0),
    ("tgamma", (-2.0,), np.nan), ("tgamma", (-0.5,), -3.5449077018110318), ("logb", (0.15,), -3.0),
    ("normcdf", (1.0,), 0.8413447460685429), ("normcdf", (-10.0,), 7.619853024160527e-24),
    ("normcdfinv", (0.975,), 1.959963984540054), ("sinpi", (0.25,), 0.7071067811865476), ("sinpi", (1e9 + 0.5,), 1.0),
    ("sinpi", (7.0,), 0.0), ("cospi", (0.5,), 0.0), ("cospi", (1.0,), -1.0), ("cospi", (1 / 3,), 0.5),
    ("norm3d", (2.0, 3.0, 6.0), 7.0), ("norm3d", (np.inf, np.nan, 1.0), np.inf), ("norm4d", (1.0, 1.0, 1.0, 1.0), 2.0),
    ("rnorm3d", (2.0, 3.0, 6.0), 1 / 7), ("rnorm4d", (1.0, 1.0, 1.0, 1.0), 0.5), ("rhypot", (3.0, 4.0), 0.2),
    ("rhypot", (0.0, 0.0), np.inf), ("remainder", (5.0, 3.0), -1.0), ("remainder", (7.5, 5.0), -2.5),
]  # fmt: skip


@pytest.mark.cpu
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name, operands, expected", VALUES, ids=[f"{name}{given}" for name, given, _ in VALUES])
def test_special_functions(name, operands, expected, kind):
    operands = [np.full(8, value, kind) for value in operands]
    if kind == np.float32 and any(abs(x[0]) == 1e9 + 0.5 for x in operands):
        pytest.skip("no number of fp32")
    names = "xyzw"[: len(operands)]
    call = f"kl.extra.libdevice.{name}({', '.join(names)})"
    got = evaluate(call, ((8,), kind), **dict(zip(names, operands, strict=True)))
    # The operands are those of the table rounded to fp32; how much that changes the result depends on the slope.
    np.testing.assert_allclose(got, np.full(8, expected), rtol=4e-15 if kind == np.float64 else 3e-6, atol=1e-7 if
                               kind == np.float32 else 1e-15)  # fmt: skip


def at(x, kind):
    return np.full(8, x, kind)


@pytest.mark.cpu
def test_functions_with_integers():
    n, x = at(2, np.int32), at(1.0, F32)
    for name, expected in (("jn", 0.1149034849319005), ("yn", -1.6506826068162546)):
        got = evaluate(f"kl.extra.libdevice.{name}(n, x)", ((8,), F32), n=n, x=x)
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    x = np.array([1, 0.15, 1e-45, 0, np.inf, -np.inf, np.nan, -1024], F32)
    got = evaluate("kl.extra.libdevice.ilogb(x)", ((8,), np.int32), x=x)
    least, most = -(2**31), 2**31 - 1
    assert got.tolist() == [0, -3, -149, least, most, most, least, 10]
    x, y = np.array([1, -1, 0, 3e38, 1, 1, np.inf, 0], F32), np.array([2, 0, -1, np.inf, 1, np.nan, 0, 0], F32)
    got = evaluate("kl.extra.libdevice.nextafter(x, y)", ((8,), F32), x=x, y=y)
    np.testing.assert_array_equal(got, np.nextafter(x, y))


OPERATIONS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


def rounds(got, exact, mode, kind):
    """Whether a float is the neighbour of an exact value that a rounding mode selects."""
    lower, upper = np.nextafter(got, kind(-np.inf)), np.nextafter(got, kind(np.inf))
    lower, here, upper = (Fraction(float(v)) for v in (lower, got, upper))
    down, up = here <= exact < upper, lower < exact <= here
    if mode == "rn":
        return abs(exact - here) <= min(abs(exact - lower), abs(exact - upper))
    return {"rd": down, "ru": up, "rz": down if exact > 0 else up}[mode]


@pytest.mark.cpu
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["rd", "rn", "ru", "rz"])
@pytest.mark.parametrize("name", [*OPERATIONS, "sqrt"])
def test_arithmetic_with_a_direction(name, mode, kind):
    rng = np.random.default_rng(7)
    x, y, z = ((rng.standard_normal(32) * 10.0 ** rng.integers(-3, 3, 32)).astype(kind) for _ in range(3))
    if name == "sqrt":
        x = abs(x)
    names = "xyz"[: OPERATIONS[name].__code__.co_argcount] if name != "sqrt" else "x"
    given = dict(zip("xyz", (x, y, z), strict=True))
    got = evaluate(
        f"kl.extra.libdevice.{name}_{mode}({', '.join(names)})", ((32,), kind), **{n: given[n] for n in names}
    )
    inexact = 0
    for i in range(32):
        operands = [Fraction(float(given[n][i])) for n in names]
        if name == "sqrt":
            # The square of a neighbour is on the other side of x.
            here, exact = Fraction(float(got[i])), operands[0]
            lower, upper = (Fraction(float(np.nextafter(got[i], kind(s)))) for s in (-np.inf, np.inf))
            down, up = here**2 <= exact < upper**2, lower**2 < exact <= here**2
            assert {"rd": down, "ru": up, "rz": down, "rn": down or up}[mode]
            inexact += here**2 != exact
            continue
        exact = OPERATIONS[name](*operands)
        assert rounds(got[i], exact, mode, kind), (i, operands)
        inexact += Fraction(float(got[i])) != exact
    assert inexact > 20


@pytest.mark.cpu
@pytest.mark.parametrize("mode", ["rd", "ru", "rz"])
@pytest.mark.parametrize(
    "name, kind, target",
    [("double2float", np.float64, F32), ("int2float", np.int32, F32), ("uint2float", np.uint32, F32),
     ("ll2float", np.int64, F32), ("ull2float", np.uint64, F32), ("ll2double", np.int64, np.float64),
     ("ull2double", np.uint64, np.float64)],
)  # fmt: skip
def test_conversions_with_a_direction(name, kind, target, mode):
    rng = np.random.default_rng(3)
    if kind == np.float64:
        x = rng.standard_normal(32)
    else:
        x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, 32, dtype=kind, endpoint=True)
    got = evaluate(f"kl.extra.libdevice.{name}_{mode}(x)", ((32,), target), x=x)
    for value, result in zip(x, got, strict=True):
        exact = Fraction(float(value)) if kind == np.float64 else Fraction(int(value))
        assert rounds(result, exact, mode, target), (value, result)


def test_words():
    x = np.array([5, -7, 2**31 - 1, -(2**31), 0x7FFFFF, -1, 123456789, 0], np.int32)
    y = np.array([3, 9, 2**31 - 1, 2**31 - 1, 0x7FFFFF, -2, -987654321, 1], np.int32)
    z = np.arange(8, dtype=np.int32)
    wide, other = x.astype(np.int64), y.astype(np.int64)

    def low24(v):
        return ((v & 0xFFFFFF) ^ 0x800000) - 0x800000

    cases = {
        "mul24(x, y)": low24(wide) * low24(other), "sad(x, y, z)": abs(wide - other) + z,
        "hadd(x, y)": (wide + other) >> 1, "rhadd(x, y)": (wide + other + 1) >> 1,
        "double2hiint(libdevice.hiloint2double(x, y))": wide, "double2loint(libdevice.hiloint2double(x, y))": other,
    }  # fmt: skip
    for call, expected in cases.items():
        text = f"libdevice.{call}".replace("libdevice", "kl.extra.libdevice")
        got = evaluate(text, ((8,), np.int32), x=x, y=y, z=z)
        np.testing.assert_array_equal(got, expected.astype(np.uint64).astype(np.uint32).view(np.int32), call)
    s = np.array([0x3210, 0x7654, 0x0000, 0x4321, 0x0F1E, 0x5140, 0xFFFF, 0x6420], np.int32)
    got = evaluate("kl.extra.libdevice.byte_perm(x, y, s)", ((8,), np.int32), x=x, y=y, s=s)
    for a, b, choice, result in zip(x, y, s, got, strict=True):
        bytes_ = a.tobytes() + b.tobytes()
        assert result.tobytes() == bytes(bytes_[int(choice) >> 4 * i & 7] for i in range(4))
    x = np.array([3.0, -0.1, 1e300, 7.0, 1.0, 2.0, -5.0, 1e-5])
    got = evaluate("kl.extra.libdevice.rcp64h(x)", ((8,), np.float64), x=x)
    np.testing.assert_allclose(got, 1 / x, rtol=2e-6)
    assert not (got.view(np.uint64) & 0xFFFFFFFF).any()


@pytest.mark.cpu
def test_another_library_is_refused_by_name():
    @kiln.jit
    def kernel(x):
        i = kl.arange(0, 16)
        kl.store(x + i, kl.extern_elementwise("lib", "lib.bc", [kl.load(x + i)], NAMES, True))

    with pytest.raises(kiln.errors.CompilationError, match=r"expected a .*libdevice.* got 'mine'"):
        kernel[1](X.copy())


NAMES = kl.constexpr({(kl.float32,): ("mine", kl.float32)})
