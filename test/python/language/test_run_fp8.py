"""fp8 saturates: in conversions and arithmetic, and the same way in constants and run-time values."""

from __future__ import annotations

import numpy as np
import pytest
from running import evaluate, launch, numpy_type

LARGEST = {"float8e4nv": 448.0, "float8e5": 57344.0}


def fp8(x, kind):
    """x in an fp8 type, saturated: a clamp, then numpy's rounding."""
    wide = np.asarray(x, np.float64)
    assert np.array_equal(wide.astype(np.float32), wide, equal_nan=True)  # so that numpy rounds it once
    return np.clip(wide, -LARGEST[kind], LARGEST[kind]).astype(np.float32).astype(numpy_type(kind))


def same_bits(got, expected):
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    np.testing.assert_array_equal(got.view(np.uint8)[~nan], expected.view(np.uint8)[~nan])


def values_of(source):
    """Every value of a 16-bit type; for a wider type, fp8's numbers, midpoints of neighbours and values close to both,
    and random bits."""
    ty = np.dtype(numpy_type(source))
    if ty.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(ty)
    parts = [np.array([np.inf, -np.inf, np.nan, 464, 480, 61440, 65536, 2.0**100, -(2.0**100), 0.0, -0.0], ty)]
    for kind in LARGEST:
        numbers = np.arange(256, dtype=np.uint8).view(numpy_type(kind)).astype(ty)
        numbers = np.sort(numbers[np.isfinite(numbers)])
        exact = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2])
        near = np.finfo(np.float32).eps * np.abs(exact)  # representable in f32, so that the reference rounds once
        parts += [exact, (exact + near).astype(np.float32).astype(ty), (exact - near).astype(np.float32).astype(ty)]
    bits = np.random.default_rng(21).integers(0, 1 << 32, 40_000, np.uint32).view(np.float32)
    values = np.concatenate([*parts, bits.astype(ty)])
    return np.concatenate([values, np.zeros(-len(values) % 1024, ty)])


@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_conversion_to_fp8_saturates(source, kind):
    with np.errstate(all="ignore"):
        x = values_of(source)
        out = np.zeros(len(x), numpy_type(kind))
        body = "i = kl.program_id(0) * 1024 + kl.arange(0, 1024)"
        launch(
            f"def convert(x, out):\n    {body}\n    kl.store(out + i, kl.load(x + i).to(kl.{kind}))",
            x, out, grid=(len(x) // 1024,),
        )  # fmt: skip
        same_bits(out, fp8(x, kind))
        beyond = np.abs(x.astype(np.float64)) > LARGEST[kind]
    assert beyond.sum() > 50 and np.all(np.abs(out[beyond].astype(np.float64)) == LARGEST[kind])


EXTREMES = [1e6, -1e6, float("inf"), float("-inf"), float("nan"), 449.0, 464.0, 465.0, 57345.0, 61440.0, 0.3, -0.0]


@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("value", EXTREMES)
def test_fp8_constants_are_what_a_conversion_gives(value, kind):
    """Literals, folded conversions, and conversions at run time give the same bits."""
    ty = numpy_type(kind)
    x = np.full(4, value, np.float32)
    same_bits(evaluate(f"x.to(kl.{kind})", ((4,), ty), x=x), fp8(x, kind))
    text = f"float('{value}')"
    for constant in (
        f"kl.full((4,), {text}, kl.{kind})",
        f"kl.full((4,), {text}, kl.float32).to(kl.{kind})",
        f"kl.full((4,), {text}, kl.float64).to(kl.{kind})",
        f"kl.zeros((4,), kl.{kind}) + kl.cast({text}, kl.{kind})",
        f"kl.where(kl.arange(0, 4) < 4, {text}, kl.zeros((4,), kl.{kind}))",
        f"(kl.full((4,), {text}, kl.float32) * 1.0).to(kl.{kind})",
    ):
        expected = fp8(x, kind)
        if "zeros" in constant and "+" in constant:
            expected = fp8(expected.astype(np.float32) + 0, kind)  # -0 + 0
        same_bits(evaluate(constant, ((4,), ty)), expected)


@pytest.mark.parametrize("kind", LARGEST)
def test_integers_become_fp8_saturated(kind):
    for ty in (np.int16, np.int32, np.int64, np.uint64):
        x = np.array([0, 1, 17, 448, 464, 465, 30000, np.iinfo(ty).max, np.iinfo(ty).min, 9], ty)[:8]
        wide = np.clip(x.astype(np.float64), -LARGEST[kind], LARGEST[kind])
        same_bits(evaluate(f"x.to(kl.{kind})", ((8,), numpy_type(kind)), x=x), fp8(wide, kind))
        known = evaluate(f"kl.full((8,), {int(x[-1])}, kl.{kind})", ((8,), numpy_type(kind)))
        same_bits(known, fp8(np.full(8, wide[-1]), kind))


OPERATIONS = {
    "a + b": np.add, "a - b": np.subtract, "a * b": np.multiply, "kl.fdiv(a, b)": np.divide,
    "kl.fma(a, b, a)": lambda a, b: a * b + a,
}  # fmt: skip


@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_fp8_arithmetic_saturates_in_constants_too(kind, operation):
    ty, largest = numpy_type(kind), LARGEST[kind]
    for p, q in ((largest, largest), (-largest, 2.0), (largest, -largest), (3.0, 0.25), (1.0, 0.0), (0.0, 0.0)):
        with np.errstate(all="ignore"):
            a, b = np.full(4, p, np.float32), np.full(4, q, np.float32)
            expected = fp8(OPERATIONS[operation](a, b), kind)
        same_bits(evaluate(operation, ((4,), ty), a=a.astype(ty), b=b.astype(ty)), expected)
        folded = f"a = kl.full((4,), {p}, kl.{kind})\nb = kl.full((4,), {q}, kl.{kind})"
        same_bits(evaluate(operation, ((4,), ty), before=folded), expected)


def test_an_infinity_of_fp8_stays_until_it_is_converted():
    ty = numpy_type("float8e5")
    x = np.array([np.inf, -np.inf, 1, np.nan], ty)
    for kept, expected in (
        ("x", x), ("-x", -x), ("kl.abs(x)", np.abs(x)), ("kl.maximum(x, x)", x), ("kl.where(x == x, x, x)", x),
        ("x.to(kl.float32).to(kl.float8e5)", fp8(x.astype(np.float32), "float8e5")),  # must not be folded away
        ("x.to(kl.float8e4nv).to(kl.float8e5)", np.array([448, -448, 1, np.nan], ty)),
    ):  # fmt: skip
        same_bits(evaluate(kept, ((4,), ty), x=x), expected)


@pytest.mark.parametrize("kind", LARGEST)
def test_fp8_toward_zero_saturates(kind):
    x = np.array([np.inf, -np.inf, np.nan, 1e30, 460, 61000, 1.9, -1e9], np.float32)
    got = evaluate(f"x.to(kl.{kind}, fp_downcast_rounding='rtz')", ((8,), numpy_type(kind)), x=x)
    most = LARGEST[kind]
    expected = [most, -most, np.nan, most, 448.0, min(most, 57344.0), 1.875 if most == 448 else 1.75, -most]
    np.testing.assert_array_equal(got.astype(np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize("kind,short", [("float8e4nv", "fp8e4nv"), ("float8e5", "fp8e5")])
@pytest.mark.parametrize("value", [1e6, float("-inf"), 0.3, float("nan")])
def test_a_scalar_argument_is_converted_alike(kind, short, value):
    out = np.zeros(1, numpy_type(kind))
    launch(f'def keep(out, x: "{short}"):\n    kl.store(out, x)', out, value)
    same_bits(out, fp8(np.full(1, value, np.float32), kind))
